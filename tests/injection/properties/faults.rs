//! Eight faults that every property is checked for.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::adapter::{self, Result as Outcome, STAMP};
use super::cases::{container, holds, main_container, one, policy};
use super::generator::policies::files;
use super::generator::pools::{GPU, TRIGGER};

/// Fault 1: keys of computed look-ups were not scanned for what an expression reads.
#[test]
fn a_computed_key_is_read() {
    let rules = json!([{
        "name": "r", "when": "${pod.metadata.?labels[?podNamespace].orValue('no') == 'no'}",
        "container": {"env": [{"name": "A", "value": "1"}]},
    }]);
    let mut pod = one(&json!({}));
    pod["metadata"]["labels"] = json!({"default": "launcher"});
    let injection = holds(&rules, &pod);
    assert!(main_container(&injection)["env"].is_null(), "the rule does not hold: {injection:?}");
}

/// Fault 2: a container that a rule reaches two ways had its variables twice in the patch.
#[test]
fn a_container_that_is_reached_two_ways_gets_each_field_once() {
    let rules = json!([{
        "name": "r",
        "container": {"env": [{"name": "A", "value": "1"}]},
        "pod": {"spec": {"containers": [{"name": "main", "env": [{"name": "B", "value": "1"}]}]}},
    }]);
    let injection = holds(&rules, &one(&json!({})));
    let names: Vec<&Value> =
        main_container(&injection)["env"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["A", "B"]);
}

/// Fault 3: expressions that give a whole list or map loaded and added nothing.
#[test]
fn an_expression_for_a_whole_value_gives_that_value() {
    for (field, expression, value) in [
        (
            "securityContext",
            "${{'capabilities': {'add': ['IPC_LOCK']}}}",
            json!({"capabilities": {"add": ["IPC_LOCK"]}}),
        ),
        ("args", "${['--a', '--b']}", json!(["--a", "--b"])),
    ] {
        let rules = json!([{"name": "r", "container": {field: expression}}]);
        let injection = holds(&rules, &one(&json!({})));
        assert_eq!(main_container(&injection)[field], value, "{field}");
    }
    let rules = json!([{"name": "r", "container": {"resources": "${{'limits': {'rdma/hca': 2}}}"}}]);
    let injection = holds(&rules, &one(&json!({})));
    assert_eq!(
        adapter::compare_amounts(&main_container(&injection)["resources"]["limits"]["rdma/hca"], &json!(2)),
        Some(std::cmp::Ordering::Equal)
    );
}

/// Fault 4: a request for huge pages came without its limit, and a second pass changed the pod again.
#[test]
fn huge_pages_come_with_the_memory_that_they_need() {
    let amounts = json!({"hugepages-2Mi": "512Mi", "memory": "8Gi"});
    for resources in [
        json!({"limits": amounts, "requests": amounts}),
        json!({"limits": amounts}),
        json!({"requests": amounts, "limits": amounts}),
    ] {
        let rules = json!([{"name": "r", "container": {"resources": resources}}]);
        holds(&rules, &one(&json!({})));
    }
    let rules = json!([
        {"name": "pages", "container": {"resources": {"limits": {"hugepages-2Mi": "512Mi"}}}},
        {"name": "memory", "container": {"resources": {"limits": {"memory": "8Gi"}}}},
    ]);
    holds(&rules, &one(&json!({})));
}

/// Fault 5: a port was added again once the API server had set its protocol.
#[test]
fn a_port_is_added_once() {
    let rules = json!([{"name": "r", "container": {"ports": [{"containerPort": 9000}]}}]);
    for ports in
        [json!([]), json!([{"containerPort": 9000, "protocol": "TCP"}]), json!([{"containerPort": 9000}])]
    {
        let injection = holds(&rules, &one(&json!({"ports": ports})));
        assert_eq!(main_container(&injection)["ports"].as_array().unwrap().len(), 1);
    }
}

/// Fault 6: a pod that another policy stamped was reported as mutated by this one, and kept the other stamp.
#[test]
fn the_stamp_in_the_pod_is_the_one_that_is_reported() {
    let rules = json!([{"name": "r", "container": {"env": [{"name": "A", "value": "1"}]}}]);
    for stamp in ["other@000000000000", "generated@000000000000", "x"] {
        let mut pod = one(&json!({}));
        pod["metadata"]["annotations"][STAMP] = json!(stamp);
        holds(&rules, &pod);
    }
}

/// Fault 7: a policy with limits only took the pod's smaller request for its limit, and did not say so.
#[test]
fn a_limit_other_than_the_policys_is_reported() {
    let rules = json!([{"name": "r", "container": {"resources": {"limits": {"rdma/hca": 4}}}}]);
    let pod = one(&json!({"resources": {"limits": {GPU: 1}, "requests": {"rdma/hca": 1}}}));
    let injection = holds(&rules, &pod);
    let limit = &main_container(&injection)["resources"]["limits"]["rdma/hca"];
    let wanted = adapter::compare_amounts(limit, &json!(4)) == Some(std::cmp::Ordering::Equal);
    let said = injection.warnings.iter().any(|warning| warning.path.contains("rdma/hca"));
    assert!(wanted || said, "{injection:?}");
}

/// Fault 8: mpi-operator makes the launcher of an `MPIJob` as a `Job`, so that the webhook sees a `Job` as its owner.
#[test]
fn the_launcher_of_an_mpi_job_is_owned_by_a_job() {
    let template = json!({"metadata": {"annotations": {TRIGGER: "true"}}, "spec": {"containers": [container("main", &json!({}))]}});
    let job = json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "j"},
        "spec": {"mpiReplicaSpecs": {"Launcher": {"template": template}, "Worker": {"template": template}}},
    });
    for (kind, injected) in [("MPIJob", "Worker"), ("Job", "Launcher")] {
        let rules = json!([{"name": "r", "container": {"env": [{"name": "A", "value": "1"}]}}]);
        let mut document = policy(&rules);
        document["spec"]["match"]["ownerKinds"] = json!([kind]);
        let policies = adapter::load(&files(&document), false, &BTreeMap::new()).unwrap();
        let (_, templates) = adapter::command(&policies, &job.to_string());
        let mutated: Vec<&str> = templates
            .iter()
            .filter(|(_, injection)| matches!(injection.outcome, Outcome::Mutated { .. }))
            .map(|(pointer, _)| pointer.split('/').nth(3).unwrap())
            .collect();
        assert_eq!(mutated, [injected], "for pods owned by a {kind}");
    }
}
