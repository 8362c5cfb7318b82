//! What `check` looks at: the objects of the installation, and the pod that it tries.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabric_engine::policy_set::{PolicySet, mutate};
use fabric_engine::{SKIPPED, Warning};
use fabric_injector::builtin::POLICIES;
use fabric_policy::nodes::Nodes;
use fabric_policy::{Definition, PodContext};
use fabric_tools::inspection::{Facts, Probe, Release, Status, inspect, is_restricted};
use serde_json::{Value, json};

use crate::helpers::{policy, set};

use super::{NAME, aws, dry_run, forbidden, healthy, list, namespace, registered, reported, without};

#[test]
fn an_installation_is_found_by_the_name_of_its_release_or_of_its_objects() {
    let facts = healthy();
    for wanted in [None, Some("fabric-injector")] {
        let release = Release::find(&facts.webhooks, &facts.deployments, wanted);
        assert!(release.webhook.is_some() && release.deployment.is_some());
        assert_eq!((release.name(), release.namespace()), (Some(NAME), Some(NAME)));
        assert_eq!(release.secret(), Some("fabric-injector-tls"));
        let values = release.volume("/etc/fabric-injector/values/values.yaml").unwrap();
        assert_eq!(values["configMap"]["name"], "fabric-injector-values");
        assert!(release.volume("/etc/fabric-injector/value").is_none());
    }
    let none = Release::find(&facts.webhooks, &facts.deployments, Some("other"));
    assert!(none.webhook.is_none() && none.deployment.is_none() && none.name().is_none());
}

#[test]
fn the_pod_is_made_in_a_namespace_whose_pods_the_webhook_gets() {
    let chosen = |namespaces: &[Value], policies: PolicySet| {
        let facts = Facts { namespaces: Ok(list(namespaces)), ..healthy() };
        let release = Release::find(&facts.webhooks, &facts.deployments, None);
        Probe::default().namespace(&release, &facts.namespaces, &policies)
    };
    let some = |name: &str| Some(name.to_owned());
    let all = ["b", "a", "default", "kube-system"].map(|name| namespace(name, &[]));
    assert_eq!(chosen(&all, aws()), some("default"));
    assert_eq!(chosen(&all[..2], aws()), some("a"));
    assert_eq!(chosen(&all[3..], aws()), None);
    // Its level may refuse what a policy adds.
    let level = ("pod-security.kubernetes.io/enforce", "restricted");
    let refusing = namespace("default", &[level]);
    assert_eq!(chosen(&[refusing.clone(), all[0].clone()], aws()), some("b"));
    assert_eq!(chosen(&[refusing, namespace("b", &[level])], aws()), some("default"));
    let matcher = "anyAnnotation: {lab/fabric: 'true'}\n    namespaces: [b]";
    assert_eq!(
        chosen(&all, set(vec![policy("lab", matcher, "  rules: [{name: a, env: {A: b}}]")])),
        some("b")
    );
}

/// The pods that are tried without nodes.
fn pods(probe: &Probe, policies: &PolicySet) -> Vec<Value> {
    probe.pods(policies, "default", false, None)
}

#[test]
fn the_pod_is_one_that_a_policy_injects_unless_the_user_says_otherwise() {
    let policies = aws();
    let pod = |probe: &Probe| pods(probe, &policies).remove(0);
    let usual = pod(&Probe::default());
    let limits = &usual["spec"]["containers"][0]["resources"]["limits"];
    assert_eq!(usual["metadata"]["annotations"].as_object().unwrap().len(), 1);
    assert_eq!(limits["nvidia.com/gpu"], 8);
    assert_eq!(usual["spec"]["nodeSelector"], json!({"node.kubernetes.io/instance-type": "p5.48xlarge"}));
    let pair = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
    let chosen = pod(&Probe {
        annotations: pair("a", "b"),
        gpu_resource: Some("lab/gpu".to_owned()),
        node_selector: pair("pool", "x"),
        ..Probe::default()
    });
    assert_eq!(chosen["metadata"]["annotations"], json!({"a": "b"}));
    assert_eq!(chosen["spec"]["nodeSelector"], json!({"pool": "x"}));
    assert_eq!(chosen["spec"]["containers"][0]["resources"]["limits"], json!({"lab/gpu": "8"}));
    let annotated = pod(&Probe { annotations: pair("a", "b"), ..Probe::default() });
    assert_eq!(annotated["spec"]["nodeSelector"], json!({}));
    let selecting = pod(&Probe { node_selector: pair("pool", "x"), ..Probe::default() });
    assert_eq!(selecting["spec"]["nodeSelector"], json!({"pool": "x"}));
    assert_eq!(selecting["metadata"]["annotations"], usual["metadata"]["annotations"]);

    let rule = "  rules: [{name: a, env: {A: b}}]";
    let of = |matcher: &str| pods(&Probe::default(), &set(vec![policy("lab", matcher, rule)]));
    let owned = "anyAnnotation: {lab/fabric: 'true'}\n    ownerKinds: [Job]";
    assert_eq!(of(owned), [] as [Value; 0], "the pod has no owner");
    assert_eq!(of("labels: {fabric: 'on'}")[0]["metadata"]["labels"], json!({"fabric": "on"}));
}

#[test]
fn a_pod_of_a_restricted_namespace_complies_with_its_level_and_any_other_runs_as_root() {
    let contexts = |hardened: bool| {
        let pod = Probe::default().pods(&aws(), "default", hardened, None).remove(0);
        (pod["spec"]["securityContext"].clone(), pod["spec"]["containers"][0]["securityContext"].clone())
    };
    assert_eq!(contexts(false), (Value::Null, Value::Null));
    let (of_pod, of_container) = contexts(true);
    assert_eq!(of_pod, json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}));
    assert_eq!(of_container["allowPrivilegeEscalation"], false);
    let level = |level: &str| namespace("jobs", &[("pod-security.kubernetes.io/enforce", level)]);
    let restricted = |namespaces: &[Value]| is_restricted(&Ok(list(namespaces)), "jobs");
    assert!(restricted(&[namespace("default", &[]), level("restricted")]));
    assert!(!restricted(&[level("baseline")]) && !restricted(&[namespace("jobs", &[])]));
    assert!(!is_restricted(&Err(forbidden()), "jobs"));
}

/// Each provider of the built-in policies, with them.
fn providers() -> BTreeMap<String, Vec<Definition>> {
    let mut providers: BTreeMap<String, Vec<Definition>> = BTreeMap::new();
    for built_in in POLICIES {
        let definition = built_in.definition().unwrap();
        providers.entry(definition.provider.clone()).or_default().push(definition);
    }
    providers
}

#[test]
fn the_pod_of_each_built_in_provider_is_injected_without_a_warning_that_asks_for_action() {
    let about = PodContext { namespace: Some("default".to_owned()), ..PodContext::default() };
    for (provider, policies) in providers() {
        let policies = set(policies);
        let pods = pods(&Probe::default(), &policies);
        assert_eq!(pods.len(), 1, "{provider}");
        let mutation = mutate(&policies, pods[0].clone(), &about);
        assert!(mutation.outcome.changed().is_some_and(|changed| changed.stamp.contains('@')), "{provider}");
        // Nodes have the names of Google's networks, and there are none here.
        let asks = |warning: &&Warning| warning.asks_for_action() && warning.code() != "networks_assumed";
        let asking: Vec<_> = mutation.warnings.iter().filter(asks).collect();
        assert!(asking.is_empty(), "{provider}: {asking:?}");
    }
}

/// A node of a cloud, with its GPUs and devices.
fn node(name: &str, provider_id: &str, labels: &Value, resources: &Value, taint: Option<&str>) -> Value {
    let mut labels = labels.clone();
    labels["kubernetes.io/hostname"] = json!(name);
    let taints: Vec<Value> =
        taint.map(|key| json!({"key": key, "effect": "NoSchedule"})).into_iter().collect();
    json!({"metadata": {"name": name, "labels": labels}, "spec": {"providerID": provider_id, "taints": taints},
        "status": {"capacity": resources, "conditions": [{"type": "Ready", "status": "True"}]}})
}

const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

fn all_built_in() -> PolicySet {
    let all = providers().into_values().flatten().map(|definition| (definition, BTreeMap::new()));
    PolicySet::by_nodes(all.collect()).unwrap()
}

#[test]
fn with_two_clouds_there_is_a_pod_for_the_nodes_of_each_and_its_nodes_choose_it() {
    let aws = |name: &str, machine: &str, efa: u32| {
        let resources = json!({"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": efa.to_string()});
        node(name, "aws:///us-east-1a/i-1", &json!({INSTANCE_TYPE: machine}), &resources, None)
    };
    let azure = node(
        "nd",
        "azure:///subscriptions/a",
        &json!({INSTANCE_TYPE: "Standard_ND96isr_H100_v5"}),
        &json!({"nvidia.com/gpu": "8", "rdma/ib": "8"}),
        Some("sku"),
    );
    let own = node(
        "own",
        "",
        &json!({"nvidia.com/gpu.product": "NVIDIA-H200"}),
        &json!({"nvidia.com/gpu": "8", "rdma/ib": "63"}),
        Some("sku"),
    );
    let nodes = json!({"items": [aws("a", "p5.48xlarge", 32), aws("b", "p4d.24xlarge", 4), aws("c", "p4d.24xlarge", 4),
        azure, own, node("plain", "aws:///us-east-1a/i-2", &json!({}), &json!({}), None)]});
    let nodes = Arc::new(Nodes::read(&nodes).unwrap());
    let policies = all_built_in();
    let pods = Probe::default().pods(&policies, "default", false, Some(&nodes));
    let selected: Vec<&Value> = pods.iter().map(|pod| &pod["spec"]["nodeSelector"][INSTANCE_TYPE]).collect();
    // Of the pools of a cloud, that with most nodes.
    assert_eq!(selected[..2], ["p4d.24xlarge", "Standard_ND96isr_H100_v5"]);
    // An instance type tells the provider; the nodes of another cluster have to be fitted.
    let tolerations: Vec<_> = pods.iter().map(|pod| pod["spec"].get("tolerations").cloned()).collect();
    assert_eq!(tolerations, [None, None, Some(json!([{"operator": "Exists"}]))]);
    let about = PodContext { nodes: Some(nodes), ..PodContext::default() };
    for (pod, policy) in pods.into_iter().zip(["aws-efa", "azure-infiniband", "onprem-rdma"]) {
        let mutation = mutate(&policies, pod, &about);
        assert_eq!(mutation.policy.as_deref(), Some(policy), "{:?}", mutation.outcome);
    }
}

#[test]
fn the_pod_has_the_gpus_that_its_nodes_have() {
    let resources = json!({"nvidia.com/gpu": "4", "vpc.amazonaws.com/efa": "1"});
    let labels = json!({INSTANCE_TYPE: "g6.24xlarge"});
    let nodes = json!({"items": [node("a", "aws:///us-east-1a/i-1", &labels, &resources, None)]});
    let nodes = Arc::new(Nodes::read(&nodes).unwrap());
    let pods = Probe::default().pods(&aws(), "default", false, Some(&nodes));
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0]["spec"]["containers"][0]["resources"]["limits"], json!({"nvidia.com/gpu": 4}));
    assert_eq!(pods[0]["spec"]["nodeSelector"][INSTANCE_TYPE], "g6.24xlarge");
}

#[test]
fn where_no_node_has_gpus_the_pod_names_the_provider_of_the_others() {
    let provider = |pod: &Value| pod["metadata"]["annotations"]["fabric-injector.io/provider"].clone();
    let policies = all_built_in();
    for (provider_ids, wanted) in [
        (&["azure:///subscriptions/a"][..], &["azure"][..]),
        (&["aws:///a", "gce://b"], &["aws", "gcp"]),
        (&["unknown://a"], &["onprem"]),
        (&[], &["aws"]),
    ] {
        let nodes = provider_ids.iter().map(|id| node(id, id, &json!({}), &json!({}), None));
        let nodes = Nodes::read(&json!({"items": nodes.collect::<Vec<_>>()})).unwrap();
        let pods = Probe::default().pods(&policies, "default", false, Some(&Arc::new(nodes)));
        assert_eq!(pods.iter().map(provider).collect::<Vec<_>>(), wanted);
    }
    // Nodes that may not be read.
    assert_eq!(provider(&pods(&Probe::default(), &policies)[0]), "aws");
    let one = set(providers().remove("azure").unwrap());
    assert_eq!(provider(&pods(&Probe::default(), &one)[0]), Value::Null);
}

#[test]
fn there_is_a_line_for_each_pod() {
    let mut facts = healthy();
    let mut second = dry_run(Ok(json!({"metadata": {}})), &["fabric-injector: no GPU"]).unwrap();
    second[0].asked["metadata"] = json!({"annotations": {"fabric-injector.io/provider": "azure"}});
    facts.dry_runs.as_mut().unwrap().append(&mut second);
    let lines = inspect(&facts, None, &Probe::default());
    let seen: Vec<_> = lines
        .iter()
        .filter(|line| line.check == "pod")
        .map(|line| (line.status, line.seen.as_str()))
        .collect();
    let with = "the pod of a dry run in the namespace `default` (`nvidia.com/gpu: 8`, \
                `node.kubernetes.io/instance-type: p5.48xlarge`";
    assert_eq!(seen[0], (Status::Ok, format!("{with}) is injected by aws-efa@0").as_str()));
    let azure =
        format!("{with}, `fabric-injector.io/provider: azure`) is not injected: it has no annotation");
    assert!(seen.len() == 2 && seen[1].0 == Status::Fail && seen[1].1.starts_with(&azure), "{seen:?}");
}

#[test]
fn a_pod_for_nodes_that_the_cluster_does_not_have_is_an_example() {
    let example = "`node.kubernetes.io/instance-type: p5.48xlarge`), an example, because the cluster has no such node, is injected";
    reported("pod", Status::Ok, example, &["nodes"], |facts| {
        facts.nodes = Ok(Arc::new(Nodes::read(&json!({"items": [{"metadata": {"name": "b"}}]})).unwrap()));
    });
}

#[test]
fn a_pod_that_would_not_be_injected_is_reported_with_the_cause() {
    use Status::{Fail, Ok as Passed, Warn};
    let plain = || Ok(json!({"metadata": {}}));
    let as_answered = |check: Status, wanted: &str, result: Result<Value, &str>, warnings: &[&str]| {
        reported("pod", check, wanted, &[], |facts| facts.dry_runs = dry_run(result.clone(), warnings));
    };
    as_answered(Fail, "failed calling webhook", Err("failed calling webhook"), &[]);
    let no_right = r#"pods is forbidden: User "jane" cannot create resource "pods" in API group "" in the namespace "jobs""#;
    as_answered(Warn, "grant this right", Err(no_right), &[]);
    let gone = "namespaces \"default\" not found";
    as_answered(Warn, "not checked: namespaces \"default\" not found", Err(gone), &[]);
    as_answered(Fail, "the pod does not meet the conditions", plain(), &[]);
    reported(
        "pod",
        Fail,
        "is not injected: another webhook removes `lab/fabric`\ncorrect the webhook",
        &[],
        |facts| {
            let mut dry_runs = dry_run(plain(), &[]).unwrap();
            dry_runs[0].asked["metadata"]["annotations"] = json!({"lab/fabric": "true"});
            facts.dry_runs = Ok(dry_runs);
        },
    );
    as_answered(Fail, "fabric-injector: no GPU", plain(), &["fabric-injector: no GPU", "another"]);
    as_answered(Fail, "is left alone", Ok(json!({"metadata": {"annotations": {SKIPPED: "aws-efa@0"}}})), &[]);
    let audited = "fabric-injector: audit mode, the pod is unchanged: it would be injected by aws-efa@0";
    as_answered(Fail, "use `--audit`", plain(), &[audited]);
    reported("pod", Fail, "correct what `webhook` reports", &["webhook"], |facts| {
        facts.dry_runs = dry_run(plain(), &[]);
        registered(facts, "/webhooks/0/failurePolicy", json!("Ignore"));
    });
    reported("pod", Fail, "a failed call was ignored", &[], |facts| {
        facts.dry_runs = dry_run(plain(), &[]);
        registered(facts, "/webhooks/0/failurePolicy", json!("Ignore"));
        without(facts, "--on-error");
    });
    reported("pod", Fail, "excludes the namespace `default`", &[], |facts| {
        facts.dry_runs = dry_run(plain(), &[]);
        let selector = json!({"matchLabels": {"inject": "true"}});
        registered(facts, "/webhooks/0/namespaceSelector", selector.clone());
        facts.advice.as_mut().unwrap()["webhooks"][0]["namespaceSelector"] = selector.clone();
        facts.guard[0].as_mut().unwrap()["spec"]["matchConstraints"]["namespaceSelector"] = selector;
    });
    let expecting = |facts: &Facts| {
        let lines = inspect(facts, None, &Probe { audit: true, ..Probe::default() });
        lines.into_iter().find(|line| line.check == "pod").unwrap()
    };
    let line = expecting(&healthy());
    assert!(line.status == Fail && line.seen.contains("not in audit mode"), "{line:?}");
    let line = expecting(&Facts { dry_runs: dry_run(plain(), &[audited]), ..healthy() });
    assert!(line.status == Passed && line.seen.contains("would be injected by aws-efa@0"), "{line:?}");
}
