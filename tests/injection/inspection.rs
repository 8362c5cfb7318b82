//! What `check` makes of what it reads: a healthy installation, and each fault in it.

mod probe;
mod registration;
mod rights;
mod servers;
mod workloads;

use std::sync::Arc;
use std::time::Duration;

use fabric_engine::STAMP;
use fabric_engine::policy_set::PolicySet;
use fabric_policy::nodes::Nodes;
use fabric_policy::{Definition, Override};
use fabric_tools::inspection::{
    Certificate, DryRun, Facts, Line, Probe, Refused, Server, Status, Unread, inspect,
};
use fabric_yaml as yaml;
use serde_json::{Value, json};

use crate::helpers::{policy, root, set};

const NAME: &str = "fabric-injector";
const DAY: Duration = Duration::from_hours(24);

/// The checks that need the policies of the servers.
const NEED_POLICIES: [&str; 8] =
    ["conditions", "guard", "nodes", "installers", "pod-security", "workloads", "not-injected", "objects"];

fn forbidden() -> Unread {
    let message = r#"things is forbidden: User "jane" cannot list resource "things" in API group "" at the cluster scope"#;
    Unread::Forbidden(message.to_owned())
}

/// An object of the rendered chart, with its keys in the order of an API server.
fn rendered(kind: &str, name: &str) -> Value {
    let text = std::fs::read_to_string(root().join("deploy/manifests/fabric-injector.yaml")).unwrap();
    let mut objects = text.split("\n---\n").filter_map(|text| yaml::read_value(text).unwrap().root);
    let is_it = |object: &Value| object["kind"] == kind && object["metadata"]["name"] == name;
    let mut object = objects.find(is_it).unwrap();
    object.sort_all_objects();
    object
}

fn list(items: &[Value]) -> Value {
    json!({"items": items})
}

fn namespace(name: &str, labels: &[(&str, &str)]) -> Value {
    let mut all = json!({"kubernetes.io/metadata.name": name});
    for (key, value) in labels {
        all[key] = json!(value);
    }
    json!({"metadata": {"name": name, "labels": all}})
}

/// A policy that matches the same pods as those of the rendered chart, and takes less time to load.
fn aws() -> PolicySet {
    let text = r#"
apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: aws-efa}
spec:
  provider: aws
  description: For a test
  gpus:
    resources:
      [nvidia.com/gpu, aws.amazon.com/neuron, aws.amazon.com/neurondevice, aws.amazon.com/neuroncore,
       deviceclass.resource.kubernetes.io/neuron.aws.com, deviceclass.resource.kubernetes.io/gpu.nvidia.com,
       gpu.nvidia.com/gpu, neuron.aws.com/device, amd.com/gpu, gpu.amd.com/amdgpu,
       deviceclass.resource.kubernetes.io/gpu.amd.com]
  match:
    anyAnnotation:
      nmp.nvidia.com/enable-multi-node-networking: "true"
      nhx.nvidia.com/enable-multi-node-networking: "true"
    exceptAnnotation: {disable-rdma-injection: "true"}
  parameters:
    devices:
      type: integer
      description: For a test
      default: 1
  machines: {node.kubernetes.io/instance-type: {p5.48xlarge: {devices: 4}}}
  rules:
    - name: a
      container:
        resources: {limits: {vpc.amazonaws.com/efa: "${gpus * devices}"}}
        securityContext: {capabilities: {add: [IPC_LOCK]}}
        volumeMounts: [{name: efa, mountPath: /opt/efa, readOnly: true}]
      pod: {spec: {volumes: [{name: efa, hostPath: {path: /opt/efa}}]}}
"#;
    set(vec![Definition::read("aws-efa.yaml", text).unwrap()])
}

fn webhook() -> Value {
    let mut webhook = rendered("MutatingWebhookConfiguration", NAME);
    webhook["webhooks"][0]["clientConfig"]["caBundle"] = json!("Y2E=");
    webhook
}

fn nodes(instance_type: &str) -> Arc<Nodes> {
    let node = json!({"metadata": {"name": "a", "labels": {"node.kubernetes.io/instance-type": instance_type}},
        "status": {"capacity": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"},
            "conditions": [{"type": "Ready", "status": "True"}]}});
    let list = json!({"items": [node, {"metadata": {"name": "b"}}]});
    Arc::new(Nodes::read(&list).unwrap())
}

/// An installation that is as it should be.
fn healthy() -> Facts {
    let mut deployment = rendered("Deployment", NAME);
    deployment["status"] = json!({"readyReplicas": 2, "updatedReplicas": 2});
    let policies = aws();
    let digest = policies.policies()[0].digest().to_owned();
    let admission_policy = |name: &str| {
        ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"].map(|kind| Ok(rendered(kind, name)))
    };
    Facts {
        version: Ok(json!({"major": "1", "minor": "33+", "gitVersion": "v1.33.1-eks"})),
        webhooks: Ok(list(&[webhook()])),
        advice: Ok(rendered("ValidatingWebhookConfiguration", NAME)),
        deployments: Ok(list(&[deployment])),
        pods: Ok(list(&[])),
        pod_events: Ok(list(&[])),
        events: Ok(list(&[])),
        namespaces: Ok(list(&[namespace("default", &[]), namespace("kube-system", &[])])),
        endpoints: Ok(list(&[endpoint_slice("10.0.0.1")])),
        certificate: Ok(Certificate {
            secret: "fabric-injector-tls".to_owned(),
            accepted: Ok(()),
            accepted_for_advice: Ok(()),
            expires: "2026-12-22T00:00:00Z".to_owned(),
            left: 29 * DAY,
            duration: 30 * DAY,
        }),
        policies: Ok(policies),
        guard: admission_policy("fabric-injector-guard"),
        token: admission_policy("fabric-injector-token"),
        nodes: Ok(nodes("p5.48xlarge")),
        daemon_sets: Ok(list(&[])),
        servers: ["server-0", "server-1"].map(|name| server(name, &digest)).into(),
        workloads: Ok(Refused { asking: 3, ..Refused::default() }),
        dry_runs: dry_run(Ok(json!({"metadata": {"annotations": {STAMP: "aws-efa@0"}}})), &[]),
    }
}

/// One of the slices of a Service, with two servers, of which the second one is not ready.
fn endpoint_slice(address: &str) -> Value {
    let endpoint = |number: u32, ready: bool| {
        json!({"addresses": [address], "conditions": {"ready": ready},
            "targetRef": {"kind": "Pod", "name": format!("server-{number}")}})
    };
    json!({"ports": [{"name": "webhook", "port": 8443}, {"name": "admin", "port": 8081}],
        "endpoints": [endpoint(0, true), endpoint(1, true), endpoint(2, false)]})
}

/// What a server says that is as it should be.
fn server(name: &str, digest: &str) -> Server {
    Server {
        name: name.to_owned(),
        is_ready: true,
        ready: Ok("[+]certificate: valid\n[+]policies: 1 in use\nready\n".to_owned()),
        in_use: Ok(json!({"mode": "inject", "policies": [{"name": "aws-efa", "digest": digest}]})),
    }
}

fn lines(facts: &Facts) -> Vec<Line> {
    inspect(facts, None, &Probe::default())
}

/// Makes a fault in a healthy installation, and expects the line of one check to report it. The other lines are those of
/// a healthy installation, except for `also`.
#[track_caller]
fn reported(check: &str, status: Status, wanted: &str, also: &[&str], fault: impl Fn(&mut Facts)) {
    let mut facts = healthy();
    fault(&mut facts);
    let lines = lines(&facts);
    let line = lines.iter().find(|line| line.check == check).unwrap_or_else(|| panic!("{check}: {lines:?}"));
    let text = format!("{}\n{}", line.seen, line.remedy);
    assert!(line.status == status && text.contains(wanted), "{line:?}");
    let others = lines.iter().filter(|line| line.check != check && !also.contains(&line.check));
    let others: Vec<&Line> = others.filter(|line| line.status != Status::Ok).collect();
    assert!(others.is_empty(), "{others:?}");
}

/// A change of the webhook configuration.
fn registered(facts: &mut Facts, pointer: &str, value: Value) {
    *facts.webhooks.as_mut().unwrap()["items"][0].pointer_mut(pointer).unwrap() = value;
}

#[allow(clippy::unnecessary_wraps, reason = "in the form of the facts")]
fn dry_run(result: Result<Value, &str>, warnings: &[&str]) -> Result<Vec<DryRun>, Unread> {
    Ok(vec![DryRun {
        namespace: "default".to_owned(),
        asked: json!({"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 8, "memory": "1Gi"}}}],
            "nodeSelector": {"node.kubernetes.io/instance-type": "p5.48xlarge"}}}),
        result: result.map_err(str::to_owned),
        warnings: warnings.iter().map(|warning| (*warning).to_owned()).collect(),
    }])
}

#[test]
fn a_healthy_installation_passes_every_check() {
    let lines = lines(&healthy());
    let checks: Vec<&str> = lines.iter().map(|line| line.check).collect();
    assert_eq!(
        checks,
        [
            "kubernetes",
            "release",
            "version",
            "webhook",
            "endpoints",
            "certificate",
            "advice",
            "conditions",
            "guard",
            "token",
            "policies",
            "servers",
            "nodes",
            "installers",
            "pod-security",
            "other-webhooks",
            "workloads",
            "not-injected",
            "objects",
            "pod",
            "rights",
        ]
    );
    assert!(checks.iter().copied().eq(fabric_tools::inspection::checks()));
    assert!(lines.iter().all(|line| line.status == Status::Ok && line.remedy.is_empty()), "{lines:#?}");
}

#[test]
fn faults_of_the_release_are_reported() {
    use Status::{Fail, Warn};
    reported("kubernetes", Fail, "upgrade the cluster to 1.30", &[], |facts| {
        facts.version = Ok(json!({"minor": "29", "gitVersion": "v1.29.0"}));
    });
    reported("release", Fail, "0 of 2 replicas", &[], |facts| {
        facts.deployments.as_mut().unwrap()["items"][0]["status"] = json!({});
    });
    reported("release", Fail, "is scaled to 0: no server runs\n`kubectl scale deployment", &[], |facts| {
        facts.deployments.as_mut().unwrap()["items"][0]["spec"]["replicas"] = json!(0);
    });
    reported("release", Warn, "1 of 2 replicas", &[], |facts| {
        facts.deployments.as_mut().unwrap()["items"][0]["status"]["readyReplicas"] = json!(1);
    });
    reported("version", Warn, "version 9.9.9 is installed", &[], |facts| {
        facts.deployments.as_mut().unwrap()["items"][0]["metadata"]["labels"]["app.kubernetes.io/version"] =
            json!("9.9.9");
    });
    // Why its pods do not run.
    let pod = |name: &str, status: Value| json!({"metadata": {"name": name, "uid": name}, "status": status});
    let waits = |reason: &str, message: &str| {
        json!({"phase": "Pending", "containerStatuses": [{"started": false,
            "state": {"waiting": {"reason": reason, "message": message}}}]})
    };
    let unscheduled = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
        "message": "0/9 nodes are available"}]});
    let reasons = "0 of 2 replicas ready\nexceeded quota: pods\n`a`: ImagePullBackOff: Back-off pulling image\n\
                   `b`: CrashLoopBackOff: back-off 10s\n`c`: 0/9 nodes are available\n\
                   `d`: FailedMount: secret \"tls\" not found\nsee `kubectl describe";
    reported("release", Fail, reasons, &[], |facts| {
        facts.deployments.as_mut().unwrap()["items"][0]["status"] = json!({"conditions": [
            {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: pods"},
        ]});
        facts.pods = Ok(list(&[
            pod("a", waits("ImagePullBackOff", "Back-off pulling image")),
            pod("b", waits("CrashLoopBackOff", "back-off 10s")),
            pod("c", unscheduled.clone()),
            pod("d", waits("ContainerCreating", "")),
            pod(
                "e",
                json!({"phase": "Running", "containerStatuses": [{"started": true, "state": {"running": {}}}]}),
            ),
        ]));
        let event = |uid: &str, message: &str| json!({"involvedObject": {"uid": uid}, "reason": "FailedMount", "message": message});
        facts.pod_events =
            Ok(list(&[event("d", "old"), event("d", "secret \"tls\" not found"), event("e", "old")]));
    });
    // Without the Deployment, the program does not know where certificate and policies are.
    reported(
        "release",
        Fail,
        "no Deployment with the label",
        &[
            "version",
            "certificate",
            "advice",
            "conditions",
            "guard",
            "token",
            "policies",
            "nodes",
            "installers",
            "pod-security",
            "workloads",
            "not-injected",
            "objects",
            "rights",
        ],
        |facts| {
            facts.deployments = Ok(list(&[]));
            facts.certificate = Err("unknown".into());
        },
    );
}

#[test]
fn a_short_validity_is_not_reported_as_soon_as_it_begins() {
    let mut facts = healthy();
    let certificate = facts.certificate.as_mut().unwrap();
    (certificate.left, certificate.duration) = (DAY, 2 * DAY);
    assert!(lines(&facts).iter().all(|line| line.status == Status::Ok));
}

#[test]
fn a_guard_without_effect_is_reported() {
    use Status::{Fail, Ok as Passed, Warn};
    reported("guard", Fail, "no ValidatingAdmissionPolicy `fabric-injector-guard`", &[], |facts| {
        facts.guard[0] = Ok(Value::Null);
    });
    reported("guard", Fail, "`fabric-injector-guard` has no binding", &[], |facts| {
        facts.guard[1] = Ok(Value::Null);
    });
    reported("guard", Fail, "is of the policy \"other\"", &[], |facts| {
        facts.guard[1].as_mut().unwrap()["spec"]["policyName"] = json!("other");
    });
    reported("guard", Fail, "the condition `requests-gpus` of `fabric-injector-guard`", &[], |facts| {
        facts.guard[0].as_mut().unwrap()["spec"]["matchConditions"][2]["expression"] = json!("false");
    });
    reported("guard", Warn, "neither warns nor denies", &[], |facts| {
        facts.guard[1].as_mut().unwrap()["spec"]["validationActions"] = json!(["Audit"]);
    });
    reported("guard", Warn, "if `guard.enabled` is not `false`, it was deleted", &[], |facts| {
        facts.guard = [Ok(Value::Null), Ok(Value::Null)];
    });
    reported("guard", Passed, "in audit mode", &["servers"], |facts| {
        facts.guard = [Ok(Value::Null), Ok(Value::Null)];
        let arguments = &mut facts.deployments.as_mut().unwrap()["items"][0]["spec"]["template"]["spec"]["containers"]
            [0]["args"];
        arguments.as_array_mut().unwrap().push(json!("--mode=audit"));
        arguments.as_array_mut().unwrap().retain(|argument| argument != "--mode=inject");
    });
}

/// Takes an option from the arguments of the server.
fn without(facts: &mut Facts, option: &str) {
    arguments(facts).retain(|one| !one.as_str().unwrap().starts_with(option));
}

fn arguments(facts: &mut Facts) -> &mut Vec<Value> {
    let deployment = &mut facts.deployments.as_mut().unwrap()["items"][0];
    deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array_mut().unwrap()
}

#[test]
fn a_policy_that_does_not_restrict_the_account_of_the_servers_is_reported() {
    use Status::{Fail, Ok as Passed, Warn};
    let open = "no ValidatingAdmissionPolicy keeps the account of the servers";
    reported("token", Warn, open, &[], |facts| facts.token = [Ok(Value::Null), Ok(Value::Null)]);
    reported("token", Fail, open, &[], |facts| {
        facts.token[1].as_mut().unwrap()["spec"]["validationActions"] = json!(["Audit"]);
    });
    reported("token", Fail, open, &[], |facts| {
        facts.token[0].as_mut().unwrap()["spec"]["failurePolicy"] = json!("Ignore");
    });
    reported("token", Fail, "`fabric-injector-token` has no binding", &[], |facts| {
        facts.token[1] = Ok(Value::Null);
    });
    reported("token", Passed, "the servers manage no certificate", &[], |facts| {
        facts.token = [Ok(Value::Null), Ok(Value::Null)];
        without(facts, "--manage-webhook");
    });
}

#[test]
fn nodes_whose_pods_do_not_get_what_they_offer_are_reported() {
    use Status::{Ok as Passed, Warn};
    reported("nodes", Passed, "2 nodes; 1 with GPUs get aws-efa", &[], |_| ());
    let problem = "1 with GPUs get aws-efa; 1 problem\n`fabric-injector nodes` shows";
    reported("nodes", Warn, problem, &[], |facts| facts.nodes = Ok(nodes("p9.48xlarge")));
    reported("nodes", Passed, "get aws-efa; not watched: resource-claims,gke-networks", &[], |facts| {
        arguments(facts).push(json!("--unwatched=resource-claims,gke-networks"));
    });
    reported("nodes", Passed, "the servers do not watch nodes", &[], |facts| {
        facts.nodes = Ok(nodes("p9.48xlarge"));
        without(facts, "--watch-nodes");
    });
}

#[test]
fn policies_that_do_not_load_or_are_not_in_use_are_reported() {
    use Status::{Fail, Warn};
    reported("policies", Fail, "cannot be loaded: unknown key", &NEED_POLICIES, |facts| {
        facts.policies = Err("unknown key".into());
    });
    let old = "the ConfigMaps have `aws-efa@";
    reported("policies", Warn, old, &[], |facts| {
        facts.servers[1].in_use =
            Ok(json!({"mode": "inject", "policies": [{"name": "aws-efa", "digest": "old"}]}));
    });
}

#[test]
fn namespaces_that_refuse_what_a_policy_adds_are_reported() {
    let level = |level| namespace("jobs", &[("pod-security.kubernetes.io/enforce", level)]);
    let refused =
        "refuses what `aws-efa` adds: the capability `IPC_LOCK`, the host path \"/opt/efa\", in `jobs`";
    for name in ["baseline", "restricted"] {
        reported("pod-security", Status::Warn, &format!("`{name}` {refused}"), &[], |facts| {
            facts.namespaces = Ok(list(&[namespace("default", &[]), level(name)]));
        });
    }
    reported("pod-security", Status::Ok, "no namespace", &[], |facts| {
        // The webhook does not get the pods of `kube-system`.
        let system = namespace("kube-system", &[("pod-security.kubernetes.io/enforce", "baseline")]);
        facts.namespaces = Ok(list(&[level("privileged"), system]));
    });
    let also = ["policies", "conditions", "guard", "nodes"];
    reported("pod-security", Status::Ok, "no namespace", &also, |facts| {
        let matcher = "anyAnnotation: {lab/fabric: 'true'}\n    namespaces: [research]";
        let rule = "  rules: [{name: a, container: {securityContext: {capabilities: {add: [IPC_LOCK]}}}}]";
        facts.policies = Ok(set(vec![policy("lab", matcher, rule)]));
        facts.namespaces = Ok(list(&[level("baseline")]));
    });
}

#[test]
fn a_parameter_of_another_release_than_a_daemon_set_installs_is_reported() {
    let text = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: a}\nspec:\n  provider: gcp\n  \
                description: For a test\n  gpus: {resources: [nvidia.com/gpu]}\n  match: {anyAnnotation: {a.example/b: \"true\"}}\n  \
                parameters: {tcpxoPlugin: {description: For a test, default: v1.0.15}}\n  rules:\n  - {name: r, env: {A: \
                \"${tcpxoPlugin}\"}}\n";
    let line = |image: &str, value: Option<&str>, is_readable: bool| {
        let of_pod =
            json!({"initContainers": [{"name": "install", "image": image}], "containers": [{"name": "a"}]});
        let set = json!({"metadata": {"name": "installer", "namespace": "kube-system"}, "spec": {"template": {"spec": of_pod}}});
        let daemon_sets = if is_readable { Ok(list(&[set])) } else { Err(forbidden()) };
        let values = value.map(|value| ("tcpxoPlugin".to_owned(), Override::Value(value.into())));
        let policies =
            PolicySet::new(vec![(Definition::read("a.yaml", text).unwrap(), values.into_iter().collect())])
                .unwrap();
        let facts = Facts { policies: Ok(policies), daemon_sets, ..healthy() };
        lines(&facts).into_iter().find(|line| line.check == "installers").unwrap()
    };
    let image = |tag: &str| format!("registry.example/tcpxo/nccl-plugin-gpudirecttcpx-dev:{tag}");
    for (image, value, status) in [
        (image("v1.0.15"), None, Status::Ok),
        (image("v1.0.17"), None, Status::Warn),
        (image("v1.0.17@sha256:0"), Some("v1.0.17"), Status::Ok),
        (image("v1.0.15"), Some("v1.0.17"), Status::Warn),
        ("registry.example/other:v1".to_owned(), None, Status::Ok),
    ] {
        let line = line(&image, value, true);
        assert_eq!(line.status, status, "{image}: {line:?}");
        if status == Status::Warn {
            assert!(line.seen.contains("DaemonSet `kube-system/installer` installs `v1.0.1"), "{line:?}");
            assert!(line.remedy.starts_with("set `tcpxoPlugin` to `v1.0.1"), "{line:?}");
        }
    }
    assert_eq!(line("", None, false).status, Status::Warn);
}
