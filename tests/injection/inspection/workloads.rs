//! The running workloads whose pods would be refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabric_engine::policy_set::PolicySet;
use fabric_policy::PodContext;
use fabric_policy::nodes::Nodes;
use fabric_policy::objects::{KnownObjects, NamedObject, ObjectKind};
use fabric_tools::inspection::{Facts, Refused, Release, Status, Workloads, of_absent, other_selectors};
use serde_json::{Value, json};

use crate::helpers::{policy, set};

use super::{healthy, list, namespace, reported};

/// A policy that refuses pods with a label, and adds a claim to the others.
fn refusing() -> PolicySet {
    let rest = r#"  checks:
    - name: too_old
      when: pod.metadata.?labels[?'age'].orValue('') == 'old'
      action: refuse
      message: the pod is too old; remove the label
  devices: {add: [{name: nic, when: "pod.metadata.?labels[?'age'].orValue('') != 'old'", claims: {nic: nics}}]}
  rules:
    - name: a
      env: {A: b}
"#;
    set(vec![policy("lab", "anyAnnotation: {lab/fabric: 'true'}", rest)])
}

/// A running pod of an owner, which asks for the fabric.
fn pod(name: &str, owner: Option<(&str, &str)>, change: impl Fn(&mut Value)) -> Value {
    let owners: Vec<Value> = owner
        .map(|(kind, name)| json!({"apiVersion": "v1", "kind": kind, "name": name, "controller": true}))
        .into_iter()
        .collect();
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "team", "annotations": {"lab/fabric": "true"},
            "labels": {"age": "old"}, "ownerReferences": owners},
        "spec": {"nodeName": "a", "containers": [{"name": "main", "image": "train",
            "resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
        "status": {"phase": "Running"},
    });
    change(&mut pod);
    pod
}

fn tried(policies: &PolicySet, namespaces: &[Value], pages: &[&[Value]]) -> Refused {
    tried_in(PodContext::default(), policies, namespaces, pages)
}

fn tried_in(cluster: PodContext, policies: &PolicySet, namespaces: &[Value], pages: &[&[Value]]) -> Refused {
    tried_by(&Facts { namespaces: Ok(list(namespaces)), ..healthy() }, cluster, policies, pages)
}

fn tried_by(facts: &Facts, cluster: PodContext, policies: &PolicySet, pages: &[&[Value]]) -> Refused {
    let release = Release::find(&facts.webhooks, &facts.deployments, None);
    let others = other_selectors(&facts.advice, &facts.guard[0]);
    let mut workloads = Workloads::new(policies, cluster, &release, &facts.namespaces, &others);
    for page in pages {
        workloads.page(list(page));
    }
    workloads.finish()
}

#[test]
fn running_pods_without_the_stamp_are_named_with_their_owners() {
    let young = |pod: &mut Value| pod["metadata"]["labels"] = json!({});
    let injected = |pod: &mut Value| {
        young(pod);
        pod["metadata"]["annotations"]["fabric-injector.io/injected"] = json!("lab@0");
        pod["metadata"]["creationTimestamp"] = json!("2026-11-26T12:00:00Z");
    };
    let mistaken = |pod: &mut Value| {
        young(pod);
        pod["metadata"]["annotations"] = json!({"lab/fabric": "yes"});
    };
    let off = |pod: &mut Value| {
        young(pod);
        pod["metadata"]["annotations"] = json!({"lab/fabric": "false"});
    };
    let pods = [
        pod("a-0", Some(("Job", "a")), young),
        pod("a-1", Some(("Job", "a")), young),
        pod("b-0", Some(("Job", "b")), injected),
        pod("c-0", Some(("Job", "c")), mistaken),
        pod("d-0", Some(("Job", "d")), off),
        pod("old", Some(("Job", "old")), |_| ()),
        // An earlier version of the policy did not refuse it.
        pod("before", Some(("Job", "before")), |pod| {
            pod["metadata"]["annotations"]["fabric-injector.io/injected"] = json!("lab@0");
        }),
        pod("without", Some(("Job", "e")), |pod| {
            young(pod);
            pod["spec"]["containers"][0]["resources"] = json!({});
        }),
    ];
    let policies = refusing();
    let event = |name: &str, at: &str, message: &str| {
        json!({"involvedObject": {"kind": "Job", "namespace": "team", "name": name}, "lastTimestamp": at,
            "reason": "FailedCreate", "message": message})
    };
    let denied = "Error creating: admission webhook \"pods.fabric-injector.io\" denied the request: fabric-injector: why";
    // Of what policies add.
    let quota = "exceeded quota: nics, requested: requests.vpc.amazonaws.com/efa=32, used: 0, limited: 0";
    let security = "violates PodSecurity \"baseline:latest\": non-default capabilities (container \"main\" must not \
                    include \"IPC_LOCK\" in securityContext.capabilities.add)";
    let events = [
        event("f", "2026-11-26T12:00:01Z", denied),
        // An earlier one of the same workload.
        event("f", "2026-11-26T12:00:00Z", "Error creating: fabric-injector did not inject it"),
        // It was refused before its pods were injected.
        event("b", "2026-11-26T11:59:00Z", denied),
        event("g", "2026-11-26T12:00:01Z", "exceeded quota: gpus, requested: requests.nvidia.com/gpu=8"),
        event("h", "2026-11-26T12:00:01Z", quota),
        event("i", "2026-11-26T12:00:01Z", security),
    ];
    let fault = |facts: &mut Facts| {
        facts.workloads = Ok(tried(&policies, &[namespace("team", &[])], &[&pods]));
        facts.events = Ok(list(&events));
    };
    let wanted = format!(
        "4 running pods requested the fabric and are not injected: `Job team/a`, `Job team/c`, `Job team/old`\n\
         `Job team/c`: the annotation `lab/fabric` is `yes`, but only `true` requests the fabric\n\
         `Job team/old`: the pod is too old; remove the label\n\
         new pods of `Job team/h` are refused: {quota}\n\
         new pods of `Job team/i` are refused: {security}\n\
         new pods of `Job team/f` are refused: {denied}\nraise the quota, or see `pod-security`, for what the policy adds; \
         correct what a line names"
    );
    reported("not-injected", Status::Fail, &wanted, &["workloads"], fault);
    // The example of the page.
    let mut facts = healthy();
    let alone =
        [pod("train-0", Some(("Job", "train")), young), pod("train-1", Some(("Job", "train")), young)];
    let alone = alone.map(|mut pod| {
        pod["metadata"]["namespace"] = json!("default");
        pod
    });
    facts.workloads = Ok(tried(&policies, &[namespace("default", &[])], &[&alone]));
    let line = super::lines(&facts).into_iter().find(|line| line.check == "not-injected").unwrap();
    let page = std::fs::read_to_string(crate::helpers::root().join("docs/check-installation.md")).unwrap();
    let example = format!("fail  not-injected    {}\n{:22}remedy: {}\n", line.seen, "", line.remedy);
    assert!(page.contains(&example), "{example}");
    let audited = "4 running pods requested the fabric and are not injected, in audit mode";
    reported("not-injected", Status::Ok, audited, &["workloads", "servers", "guard"], |facts| {
        fault(facts);
        super::without(facts, "--mode");
        let arguments = "/items/0/spec/template/spec/containers/0/args";
        let arguments = facts.deployments.as_mut().unwrap().pointer_mut(arguments).unwrap();
        arguments.as_array_mut().unwrap().push(json!("--mode=audit"));
    });
}

#[test]
fn objects_that_injected_pods_name_and_the_cluster_lacks_are_named_with_the_workloads() {
    let naming = |template: &'static str, stamp: &'static str| {
        move |pod: &mut Value| {
            pod["metadata"]["labels"] = json!({});
            pod["metadata"]["annotations"][stamp] = json!("lab@0");
            pod["spec"]["resourceClaims"] = json!([{"name": "nic", "resourceClaimTemplateName": template}]);
        }
    };
    let injected = |template| naming(template, "fabric-injector.io/injected");
    let pods = [
        pod("a-0", Some(("Job", "a")), injected("nics")),
        pod("a-1", Some(("Job", "a")), injected("nics")),
        pod("b-0", Some(("Job", "b")), injected("nics")),
        pod("c-0", Some(("Job", "c")), injected("there")),
        // It names the object itself, and nobody injected it.
        pod("d-0", Some(("Job", "d")), naming("nics", "fabric-injector.io/other")),
        pod("e-0", None, injected("nics-1")),
        pod("e-1", None, injected("nics-2")),
        pod("e-2", None, injected("nics-3")),
    ];
    let there = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "there", "namespace": "team"}, "spec": {"spec": {"devices": {}}}});
    let policies = refusing();
    let tried = |whole: &[ObjectKind], pods: &[Value]| {
        let mut known: KnownObjects = [NamedObject::read(&there, "team").unwrap()].into_iter().collect();
        known.whole = whole.iter().copied().collect();
        let cluster = PodContext { objects: Some(Arc::new(known)), ..PodContext::default() };
        tried_in(cluster, &policies, &[namespace("team", &[])], &[pods])
    };
    let all: Vec<ObjectKind> = ObjectKind::all().collect();
    let line = |name: &str, workloads: &str| {
        format!("\nthe ResourceClaimTemplate `{name}` in the namespace `team`: {workloads}")
    };
    let begin = "injected pods do not start without";
    let remedy = "create them by hand or by GitOps, or correct the names: `kubectl get \
                  resourceclaimtemplates.resource.k8s.io -n team nics`";
    let of_jobs = line("nics", "`Job team/a`, `Job team/b`");
    let said = |pods: &[Value]| of_absent(&tried(&all, pods));
    assert_eq!(
        said(&pods[..5]),
        Some((format!("{begin} 1 object that the cluster lacks{of_jobs}"), remedy.to_owned()))
    );
    let more = [line("nics-1", "`Pod team/e-0`"), line("nics-2", "`Pod team/e-1`")].concat();
    assert_eq!(
        said(&pods),
        Some((
            format!("{begin} 4 objects that the cluster lacks{of_jobs}{more}\nand 1 more"),
            remedy.to_owned()
        ))
    );
    // Nothing is said where not all objects of a kind are known.
    assert_eq!(of_absent(&tried(&[ObjectKind::Class], &pods)), None);
    let absent = |facts: &mut Facts| {
        let Refused { absent, .. } = tried(&all, &pods[..1]);
        facts.workloads = Ok(Refused { absent, ..Refused::default() });
    };
    reported("objects", Status::Warn, &line("nics", "`Job team/a`\ncreate them"), &[], absent);
}

fn found(refused: &Refused) -> Vec<(&str, Vec<&str>)> {
    let all = refused.workloads.iter();
    all.map(|(reason, names)| (reason.as_str(), names.iter().map(String::as_str).collect())).collect()
}

#[test]
fn each_workload_whose_pods_would_be_refused_is_named_once_with_the_reason() {
    let deployed = |pod: &mut Value| pod["metadata"]["labels"]["pod-template-hash"] = json!("5d8f");
    let first = [
        pod("a-0", Some(("Job", "a")), |_| ()),
        pod("a-1", Some(("Job", "a")), |_| ()),
        pod("young", Some(("Job", "young")), |pod| pod["metadata"]["labels"] = json!({})),
        pod("plain", Some(("Job", "plain")), |pod| pod["metadata"]["annotations"] = json!({})),
    ];
    let second = [
        pod("a-2", Some(("Job", "a")), |_| ()),
        pod("web", Some(("ReplicaSet", "web-5d8f")), deployed),
        pod("bare", None, |_| ()),
        pod("done", Some(("Job", "done")), |pod| pod["status"]["phase"] = json!("Succeeded")),
        pod("going", Some(("Job", "going")), |pod| pod["metadata"]["deletionTimestamp"] = json!("now")),
        pod("away", Some(("Job", "away")), |pod| pod["metadata"]["namespace"] = json!("kube-system")),
    ];
    let namespaces = ["team", "kube-system"].map(|name| namespace(name, &[]));
    let refused = tried(&refusing(), &namespaces, &[&first, &second]);
    assert_eq!(refused.asking, 6);
    let wanted = ["Deployment team/web", "Job team/a", "Pod team/bare"];
    assert_eq!(found(&refused), [("the pod is too old; remove the label", wanted.to_vec())]);
}

#[test]
fn pods_are_decided_again_without_what_the_earlier_decision_left() {
    // The policy that injected the pod had another value, which is not the pod's own.
    let injected = |pod: &mut Value| {
        pod["metadata"]["labels"] = json!({});
        pod["spec"]["resourceClaims"] = json!([{"name": "nic", "resourceClaimTemplateName": "before"}]);
        pod["metadata"]["annotations"]["fabric-injector.io/injected"] = json!("lab@0");
    };
    let own = |pod: &mut Value| {
        injected(pod);
        pod["metadata"]["annotations"] = json!({"lab/fabric": "true"});
    };
    let pods = [pod("injected", Some(("Job", "injected")), injected), pod("own", Some(("Job", "own")), own)];
    let refused = tried(&refusing(), &[namespace("team", &[])], &[&pods]);
    let [(reason, names)] = &found(&refused)[..] else { panic!("{refused:?}") };
    assert!(reason.contains("rule `nic` requires") && names[..] == ["Job team/own"], "{refused:?}");

    // The annotation of the nodes, that of the earlier policy, and the node decide no longer.
    let condition = "anyAnnotation: {lab/fabric: 'true'}\n    when: \"node[?'pool'].orValue('') == 'x'\"";
    let rest = "  checks: [{name: wrong, when: totalGpus > 0, action: refuse, message: the pod is for pool x}]\n  rules: [{name: a, env: {A: b}}]";
    let policies = set(vec![policy("lab", condition, rest)]);
    let bound = |pod: &mut Value| {
        let annotations = json!({"lab/fabric": "true", "fabric-injector.io/skipped": "lab@0",
            "fabric-injector.io/nodes": "[{\"labels\":{\"pool\":\"x\"},\"gpus\":8,\"resources\":{}}]"});
        pod["metadata"]["annotations"] = annotations;
        pod["spec"]["nodeName"] = json!("of-pool-x");
    };
    let on = |selector: Value| {
        let node = |name: &str, pool: &str| {
            json!({"metadata": {"name": name, "labels": {"pool": pool}},
                "status": {"capacity": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}})
        };
        let nodes = json!({"items": [node("of-pool-x", "x"), node("other", "y")]});
        let facts = healthy();
        let release = Release::find(&facts.webhooks, &facts.deployments, None);
        let nodes = Arc::new(Nodes::read(&nodes).unwrap());
        let cluster = PodContext { nodes: Some(nodes), ..PodContext::default() };
        let all = Ok(list(&[namespace("team", &[])]));
        let mut workloads = Workloads::new(&policies, cluster, &release, &all, &[]);
        let change = |pod: &mut Value| {
            bound(pod);
            pod["spec"]["nodeSelector"] = selector.clone();
        };
        workloads.page(list(&[pod("a", None, change)]));
        workloads.finish().workloads.len()
    };
    assert_eq!((on(json!({"pool": "x"})), on(json!({"pool": "y"}))), (1, 0));
}

/// Where no pod gets through, those that missed the fabric are named, and their templates are not to blame.
#[test]
fn an_edited_registration_hides_no_pod_and_comes_first_in_the_remedy() {
    let policies = refusing();
    let excluded = json!([{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["team"]}]);
    let pods = [pod("a-0", Some(("Job", "a")), |pod| pod["metadata"]["labels"] = json!({}))];
    let fault = |facts: &mut Facts| {
        super::registered(facts, "/webhooks/0/namespaceSelector", json!({"matchExpressions": excluded}));
        facts.namespaces = Ok(list(&[namespace("default", &[]), namespace("team", &[])]));
        facts.workloads = Ok(tried_by(facts, PodContext::default(), &policies, &[&pods]));
        facts.dry_runs = super::dry_run(Ok(json!({"metadata": {}})), &[]);
    };
    let wanted = "1 running pod requested the fabric and is not injected: `Job team/a`\ncorrect what `webhook` reports, then";
    let also = ["webhook", "pod", "not-injected"];
    reported("not-injected", Status::Fail, wanted, &also, fault);
    reported("pod", Status::Fail, "\ncorrect what `webhook` reports", &also, fault);
}

#[test]
fn the_line_names_the_first_workloads_of_each_reason_and_their_number() {
    use Status::{Ok as Passed, Warn};
    reported(
        "workloads",
        Passed,
        "none of 3 running pods that a policy decides about would be refused now",
        &[],
        |_| (),
    );
    let names = (0..7).map(|number| format!("Job team/{number}")).collect();
    let workloads =
        BTreeMap::from([("the nodes are of two providers: select those of one".to_owned(), names)]);
    reported("workloads", Passed, "no policy decides about a running pod", &[], |facts| {
        facts.workloads = Ok(Refused::default());
    });
    let wanted = "new pods of 7 workloads would be refused now, with 9 running pods that a policy decides about\n`Job team/0`, `Job team/1`, \
                  `Job team/2`, `Job team/3`, `Job team/4` and 2 more: the nodes are of two providers: select those of \
                  one\ncorrect these workloads, before an upgrade";
    reported("workloads", Warn, wanted, &[], |facts| {
        facts.workloads = Ok(Refused { asking: 9, workloads: workloads.clone(), ..Refused::default() });
    });
}
