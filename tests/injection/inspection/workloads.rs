//! The running workloads whose pods would be refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabric_engine::policy_set::PolicySet;
use fabric_policy::nodes::Nodes;
use fabric_tools::inspection::{Facts, Refused, Release, Status, Workloads};
use serde_json::{Value, json};

use crate::helpers::{policy, set};

use super::{healthy, list, namespace, reported};

/// A policy that refuses pods with a label, and insists on a variable.
fn refusing() -> PolicySet {
    let rest = r"  checks:
    - code: too_old
      when: pod.metadata.?labels[?'age'].orValue('') == 'old'
      refuse: the pod is too old; remove the label
  rules:
    - name: a
      onConflict: refuse
      env: {A: b}
";
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
    let facts = Facts { namespaces: Ok(list(namespaces)), ..healthy() };
    let release = Release::find(&facts.webhooks, &facts.deployments, None);
    let mut workloads = Workloads::new(policies, None, &release, &facts.namespaces);
    for page in pages {
        workloads.page(list(page));
    }
    workloads.finish()
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
        pod["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "before"}]);
        pod["metadata"]["annotations"]["fabric-injector.io/injected"] = json!("lab@0");
    };
    let own = |pod: &mut Value| {
        injected(pod);
        pod["metadata"]["annotations"] = json!({"lab/fabric": "true"});
    };
    let pods = [pod("injected", Some(("Job", "injected")), injected), pod("own", Some(("Job", "own")), own)];
    let refused = tried(&refusing(), &[namespace("team", &[])], &[&pods]);
    let [(reason, names)] = &found(&refused)[..] else { panic!("{refused:?}") };
    assert!(reason.contains("requires `b`") && names[..] == ["Job team/own"], "{refused:?}");

    // The annotation of the nodes, that of the earlier policy, and the node decide no longer.
    let condition = "anyAnnotation: {lab/fabric: 'true'}\n    when: \"node[?'pool'].orValue('') == 'x'\"";
    let rest = "  checks: [{code: wrong, when: totalGpus > 0, refuse: the pod is for pool x}]\n  rules: [{name: a, env: {A: b}}]";
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
        let all = Ok(list(&[namespace("team", &[])]));
        let mut workloads = Workloads::new(&policies, Some(nodes), &release, &all);
        let change = |pod: &mut Value| {
            bound(pod);
            pod["spec"]["nodeSelector"] = selector.clone();
        };
        workloads.page(list(&[pod("a", None, change)]));
        workloads.finish().workloads.len()
    };
    assert_eq!((on(json!({"pool": "x"})), on(json!({"pool": "y"}))), (1, 0));
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
        facts.workloads = Ok(Refused { asking: 9, workloads: workloads.clone() });
    });
}
