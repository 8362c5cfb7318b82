//! A second call: the API server may call a webhook again for the pod that it changed.
//!
//! The samples of loading have no container with a name of five letters, so these policies load. A call then runs
//! again by itself, and has the outcome that a second call would have.

use std::collections::BTreeSet;

use fabric_engine::policy_set::{PolicySet, mutate_traced};
use fabric_engine::{Mutation, Outcome, Warning};
use fabric_policy::PodContext;
use serde_json::{Value, json};

use super::helpers::{gpu_container, inject, policy, reason, set, with};

/// A policy with this body.
fn lab(body: &str) -> PolicySet {
    set(vec![policy("test", "labels: {fabric: fast}", body)])
}

fn pod() -> Value {
    json!({
        "metadata": {"name": "train", "labels": {"fabric": "fast"}},
        "spec": {"containers": [gpu_container("train", 8)]},
    })
}

fn codes(mutation: &Mutation) -> BTreeSet<&str> {
    mutation.warnings.iter().map(Warning::code).collect()
}

/// The outcome of a call, which a second one does not change, and which is the same with a trace.
#[track_caller]
fn of_each_call(policies: &PolicySet) -> Mutation {
    of_each_call_with(policies, &pod())
}

#[track_caller]
fn of_each_call_with(policies: &PolicySet, pod: &Value) -> Mutation {
    let first = inject(policies, pod.clone());
    let (traced, _) = mutate_traced(policies, pod.clone(), &PodContext::default());
    assert_eq!(traced.outcome, first.outcome);
    assert_eq!(traced.warnings, first.warnings);
    if let Outcome::Mutated(mutated) = &first.outcome {
        let second = inject(policies, mutated.pod.clone());
        assert!(matches!(second.outcome, Outcome::Unchanged { .. }), "{:?}", second.outcome);
        assert!(codes(&second).is_subset(&codes(&first)), "{:?}", second.warnings);
    }
    first
}

/// A rule that applies to the pod only, and the check of what it writes.
fn check_of_own_write(action: &str) -> PolicySet {
    lab(&format!(
        "  checks:\n    - {{name: own, when: 'pod.spec.?hostIPC.orValue(false)', action: {action}, message: m}}\n  rules:\n    \
         - {{name: ipc, containers: \"size(container.name) == 5\", pod: {{spec: {{hostIPC: true}}}}}}\n"
    ))
}

#[test]
fn a_check_of_what_a_rule_writes_decides_at_once() {
    for (action, wanted) in [("refuse", "own"), ("skip", "own"), ("warn", "mutated")] {
        let mutation = of_each_call(&check_of_own_write(action));
        assert_eq!(reason(&mutation), wanted, "{action}");
        assert_eq!(codes(&mutation).contains("own"), action == "warn", "{:?}", mutation.warnings);
    }
}

#[test]
fn a_check_of_a_variable_is_about_the_value_that_it_has_in_the_end() {
    let policies = lab(
        "  checks:\n    - {name: own, env: A, when: \"value == 'b:a'\", message: m}\n  rules:\n    \
         - {name: all, containers: gpus > 0, env: {A: a}}\n    \
         - {name: edits, pod: {spec: {containers: [{name: train, image: nemo, env: [{name: A, value: 'b:$(A)'}]}]}}}\n",
    );
    let mutation = of_each_call(&policies);
    assert_eq!((reason(&mutation), codes(&mutation)), ("mutated", BTreeSet::from(["own"])));
}

#[test]
fn a_check_of_containers_is_about_those_that_a_rule_adds() {
    let policies = lab(
        "  checks:\n    - {name: no_gpus, containers: 'gpus == 0', action: refuse, message: m}\n  rules:\n    \
         - {name: side, containers: \"size(container.name) == 5\", pod: {spec: {containers: [{name: side, image: s}]}}}\n",
    );
    assert_eq!(reason(&of_each_call(&policies)), "no_gpus");
}

/// A rule applies before the pod has a label, and another one after it.
#[test]
fn a_rule_that_no_longer_applies_changes_nothing_more() {
    let policies = lab(
        "  rules:\n    - {name: label, containers: \"size(container.name) == 5\", pod: {metadata: {labels: {x: z}}}}\n    \
         - {name: before, when: \"!pod.metadata.?labels[?'x'].hasValue()\", containers: gpus > 8, env: {MODE: first}}\n    \
         - {name: after, when: \"pod.metadata.?labels[?'x'].hasValue()\", containers: \"size(container.name) == 5\", env: {MODE: second}}\n",
    );
    let mutation = of_each_call(&policies);
    let Outcome::Mutated(mutated) = mutation.outcome else { panic!("{:?}", mutation.outcome) };
    assert_eq!(mutated.pod["spec"]["containers"][0]["env"], json!([{"name": "MODE", "value": "second"}]));
}

#[test]
fn the_annotations_of_the_engine_are_read_as_in_a_second_call() {
    let policies = lab(
        "  variables:\n    again: \"${pod.metadata.?annotations[?'fabric-injector.io/injected'].hasValue()}\"\n  \
         rules:\n    - {name: first, env: {A: a}}\n    \
         - {name: again, when: again, containers: \"size(container.name) == 5\", env: {B: b}}\n",
    );
    let mutation = of_each_call(&policies);
    let Outcome::Mutated(mutated) = mutation.outcome else { panic!("{:?}", mutation.outcome) };
    assert_eq!(mutated.pod["spec"]["containers"][0]["env"].as_array().map(Vec::len), Some(2));
}

/// What the pod has and what the rules set, in one call and in the next one.
#[test]
fn a_later_call_tells_what_the_first_one_told() {
    let rules = |rules: &str| format!("  rules:\n{rules}");
    let rows = [
        // Two rules set one handler each.
        (
            rules(
                "    - {name: a, container: {lifecycle: {postStart: {exec: {command: [a]}}}}}\n    \
                 - {name: b, container: {lifecycle: {preStop: {exec: {command: [b]}}}}}\n",
            ),
            json!({}),
            BTreeSet::new(),
        ),
        (
            rules("    - {name: a, container: {lifecycle: {postStart: {exec: {command: [a]}}}}}\n"),
            json!({"lifecycle": {"preStop": {"exec": {"command": ["own"]}}}}),
            BTreeSet::new(),
        ),
        // The request of a device is its limit.
        (
            rules(
                "    - {name: a, container: {resources: {limits: {example.com/nic: 4}}}}\n    \
                 - {name: b, onConflict: replace, container: {resources: {requests: {example.com/nic: 0}}}}\n",
            ),
            json!({}),
            BTreeSet::new(),
        ),
        // The API server derives the request from the limit.
        (
            rules(
                "    - {name: a, container: {resources: {limits: {memory: 2Gi}}}}\n    \
                 - {name: b, container: {resources: {requests: {memory: 8Gi}}}}\n",
            ),
            json!({}),
            BTreeSet::from(["kept_device"]),
        ),
        // What the pod has stays, also where another value of the rule excludes it.
        (
            rules("    - {name: a, container: {securityContext: {runAsUser: 0, runAsNonRoot: true}}}\n"),
            json!({"securityContext": {"runAsUser": 1000}}),
            BTreeSet::from(["kept_field"]),
        ),
        (
            rules(
                "    - {name: a, container: {ports: [{containerPort: 22, name: metrics}]}}\n    \
                 - {name: b, container: {ports: [{containerPort: 8080, name: metrics}]}}\n",
            ),
            json!({"ports": [{"containerPort": 22}]}),
            BTreeSet::from(["kept_field"]),
        ),
        // What is there already is not excluded by what came after it.
        (
            rules(
                "    - {name: a, pod: {spec: {hostIPC: true}}}\n    \
                 - {name: b, pod: {spec: {securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: '1'}]}}}}\n",
            ),
            json!({}),
            BTreeSet::new(),
        ),
        // A value that one rule keeps and another one replaces.
        (
            rules(
                "    - {name: a, pod: {metadata: {annotations: {'lab/list[i]': \"${[{'i': 'x', 'net': 'a'}]}\"}}}}\n    \
                 - {name: b, onConflict: replace, pod: {metadata: {annotations: {'lab/list[i]': \"${[{'i': 'x', 'net': 'b'}]}\"}}}}\n",
            ),
            json!({}),
            BTreeSet::from(["kept_annotation", "replaced"]),
        ),
    ];
    for (body, fields, wanted) in rows {
        let mut pod = pod();
        pod["spec"]["containers"][0] = with(gpu_container("train", 8), &fields);
        let mutation = of_each_call_with(&lab(&body), &pod);
        assert_eq!((reason(&mutation), codes(&mutation)), ("mutated", wanted), "{body}");
    }
}

/// Rules by the name of a container serve pods without GPUs, too.
#[test]
fn a_pod_without_gpus_keeps_the_stamp_of_a_rule_that_no_longer_applies() {
    let policies = lab("  rules:\n    - {name: label, when: \"!pod.metadata.?labels[?'x'].hasValue()\", \
         containers: \"container.name == 'train'\", pod: {metadata: {labels: {x: z}}}}\n");
    let mut pod = pod();
    pod["spec"]["containers"][0]["resources"] = json!({});
    assert_eq!(reason(&of_each_call_with(&policies, &pod)), "mutated");
}

/// Two checks, of which the first one skips a pod with the annotation of an earlier injection.
#[test]
fn an_annotation_that_is_set_aside_is_not_read() {
    let policies = lab("  checks:\n    - {name: stamped, action: skip, message: m, \
         when: \"size(pod.spec.containers[0].name) == 5 && pod.metadata.?annotations[?'fabric-injector.io/injected'].hasValue()\"}\n    \
         - {name: any, action: skip, message: any, when: size(pod.spec.containers) == 1}\n  \
         rules:\n    - {name: a, env: {A: a}}\n");
    let mut pod = pod();
    pod["metadata"]["annotations"] = json!({"fabric-injector.io/injected": "test@000000000000"});
    let first = inject(&policies, pod);
    let Outcome::Skipped { marked, .. } = &first.outcome else { panic!("{:?}", first.outcome) };
    assert_eq!((reason(&first), reason(&inject(&policies, marked.pod.clone()))), ("any", "any"));
}
