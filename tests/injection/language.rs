//! The policy language, each part by a small policy of its own.

#![allow(clippy::needless_pass_by_value, reason = "pods are written where they are used")]

use std::collections::BTreeMap;

use fabric_engine::policy_set::PolicySet;
use fabric_engine::policy_set::mutate;
use fabric_engine::{Mutation, Outcome, STAMP};
use fabric_policy::{Definition, PodContext};
use serde_json::{Value, json};

use crate::helpers::{inject, lab, policy, reason, set};

fn rule(body: &str) -> PolicySet {
    set(vec![policy("test", "labels: {fabric: fast}", &format!("  rules:\n{body}"))])
}

fn pod(spec: Value) -> Value {
    json!({"metadata": {"labels": {"fabric": "fast"}}, "spec": spec})
}

fn gpu_pod() -> Value {
    pod(json!({"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 4}}}]}))
}

fn served(policies: &PolicySet, pod: Value) -> Value {
    match inject(policies, pod).outcome {
        Outcome::Mutated(mutated) => mutated.pod,
        other => panic!("{other:?}"),
    }
}

/// Nothing was done to a pod but to say that it was looked after; the next time, nothing at all is.
#[track_caller]
fn assert_only_stamped(mutation: &Mutation, pod: &Value) {
    let Outcome::Mutated(mutated) = &mutation.outcome else { panic!("{mutation:?}") };
    let mut expected = pod.clone();
    expected["metadata"]["annotations"][STAMP] = json!(mutated.stamp);
    assert_eq!(mutated.pod, expected);
}

const ENV: &str = "    - {name: r, env: {A: policy}}\n";

#[test]
fn every_part_of_match_has_to_hold() {
    let matcher = "labels: {fabric: fast}\n    namespaces: [team]\n    ownerKinds: [Job]";
    let policies = set(vec![policy("test", matcher, &format!("  rules:\n{ENV}"))]);
    let request = |namespace: &str, owner: &str| PodContext {
        namespace: Some(namespace.to_owned()),
        owner_kinds: vec![owner.to_owned()],
        ..PodContext::default()
    };
    let outcome = |pod: Value, request: PodContext| reason(&mutate(&policies, pod, &request)).to_owned();
    assert_eq!(outcome(gpu_pod(), request("team", "Job")), "mutated");
    assert_eq!(outcome(gpu_pod(), request("other", "Job")), "no_policy_matches");
    assert_eq!(outcome(gpu_pod(), request("team", "ReplicaSet")), "no_policy_matches");
    let mut unlabelled = gpu_pod();
    unlabelled["metadata"]["labels"] = json!({"fabric": "slow"});
    assert_eq!(outcome(unlabelled, request("team", "Job")), "no_policy_matches");
}

#[test]
fn a_pod_that_two_policies_match_is_refused_and_both_are_named() {
    let body = format!("  rules:\n{ENV}");
    let policies = set(vec![
        policy("first", "labels: {fabric: fast}", &body),
        policy("second", "labels: {fabric: fast}", &body),
    ]);
    let Outcome::Refused { reason } = inject(&policies, gpu_pod()).outcome else { panic!("not refused") };
    assert!(reason.to_string().contains("`first`, `second`"), "{reason}");
}

#[test]
fn a_refusal_by_a_check_names_the_container_or_the_variable() {
    for (about, path) in
        [("containers: gpus > 0", "spec.containers[a]"), ("env: FAST", "spec.containers[a].env[FAST]")]
    {
        let check =
            format!("    - {{name: slow, {about}, when: 'true', action: refuse, message: it is slow}}\n");
        let policies =
            set(vec![policy("one", "labels: {fabric: fast}", &format!("  checks:\n{check}  rules:\n{ENV}"))]);
        let mut pod = gpu_pod();
        pod["spec"]["containers"][0]["env"] = json!([{"name": "FAST", "value": "0"}]);
        let Outcome::Refused { reason } = inject(&policies, pod).outcome else { panic!("not refused") };
        assert_eq!(reason.to_string(), format!("`{path}`: it is slow"));
    }
}

#[test]
fn policies_of_two_providers_do_not_go_together() {
    let body = format!("  rules:\n{ENV}");
    let first = policy("first", "labels: {fabric: fast}", &body);
    let text = first.sources[0]
        .text
        .replace("provider: lab", "provider: other")
        .replace("name: first", "name: second");
    let second = Definition::read("second.yaml", &text).unwrap();
    let error = PolicySet::new(vec![(first, BTreeMap::new()), (second, BTreeMap::new())]).unwrap_err();
    assert!(error.to_string().contains("one provider at a time"), "{error}");
}

#[test]
fn a_conflict_is_settled_as_the_rule_says() {
    let with = |on_conflict: &str| {
        rule(&format!("    - {{name: r, onConflict: {on_conflict}, env: {{A: policy}}}}\n"))
    };
    let mut own = gpu_pod();
    own["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "pod"}]);
    let kept = inject(&with("keep"), own.clone());
    assert_eq!(kept.warnings[0].code(), "kept_env");
    assert_eq!(kept.warnings[0].path, "spec.containers[a].env[A]");
    assert_only_stamped(&kept, &own);
    let replaced = served(&with("replace"), own);
    assert_eq!(replaced["spec"]["containers"][0]["env"], json!([{"name": "A", "value": "policy"}]));
}

#[test]
fn a_container_of_the_pod_with_another_image_is_another_program() {
    let helper = |on_conflict: &str| {
        let body = "    - name: helper\n      when: totalGpus > 0\n      ";
        let overlay = "pod: {spec: {initContainers: [{name: helper, image: 'fabric:2', restartPolicy: Always, \
                       securityContext: {privileged: true}}]}}\n";
        rule(&format!("{body}{on_conflict}{overlay}"))
    };
    let with = |list: &str, container: Value| {
        let mut pod = gpu_pod();
        match &mut pod["spec"][list] {
            Value::Array(containers) => containers.push(container),
            none => *none = json!([container]),
        }
        pod
    };
    let own = json!({"name": "helper", "image": "ours:1", "command": ["x"]});
    for list in ["initContainers", "containers"] {
        let mutation = inject(&helper(""), with(list, own.clone()));
        let codes: Vec<_> = mutation.warnings.iter().map(|warning| warning.code().to_owned()).collect();
        assert_eq!(codes, ["kept_container"], "{list}: {:?}", mutation.warnings);
        assert_only_stamped(&mutation, &with(list, own.clone()));
    }
    let replaced = served(&helper("onConflict: replace\n      "), with("initContainers", own));
    assert_eq!(replaced["spec"]["initContainers"][0]["image"], "fabric:2");
    let same = json!({"name": "helper", "image": "fabric:2", "command": ["x"]});
    let merged = served(&helper(""), with("initContainers", same));
    assert_eq!(merged["spec"]["initContainers"][0]["securityContext"], json!({"privileged": true}));
    assert!(matches!(inject(&helper(""), merged).outcome, Outcome::Unchanged { .. }));
}

#[test]
fn a_rule_chooses_its_containers() {
    let policies = rule(
        "    - name: r\n      containers: gpus >= 4 || container.name == 'b'\n      env: {GPUS: '${gpus} of ${totalGpus}'}\n",
    );
    let pod = served(
        &policies,
        pod(json!({"containers": [
            {"name": "a", "resources": {"limits": {"amd.com/gpu": "4"}}},
            {"name": "b"},
            {"name": "c", "resources": {"requests": {"nvidia.com/gpu": 1}}}]})),
    );
    let value = |index: usize| pod["spec"]["containers"][index]["env"][0]["value"].clone();
    assert_eq!([value(0), value(1), value(2)], [json!("4 of 5"), json!("0 of 5"), Value::Null]);
}

/// The rest of the rule could not be evaluated.
#[test]
fn a_condition_that_parameters_settle_leaves_out_its_rule() {
    let load = |when: &str, claim: &str| {
        let body = format!(
            "  parameters: {{claim: {{type: string, description: d, default: '{claim}'}}}}\n  rules:\n    - name: r\n      \
             when: \"{when}\"\n      pod: {{spec: {{resourceClaims: [{{name: a, resourceClaimName: '${{claim}}'}}]}}}}\n"
        );
        set(vec![policy("test", "labels: {fabric: fast}", &body)])
    };
    for reads in [
        "totalGpus > 0",
        "has(pod.spec)",
        "!has(pod.status)",
        "pod.?spec.hasValue()",
        "!pod.?status.hasValue()",
        "pod.spec.?containers.orValue([]).size() > 0",
        "['a', 'b'].exists(name, pod.spec.containers[0].name == name)",
        "!('gpus' in claimNames)",
        "!hostNetwork",
    ] {
        let left_out = inject(&load(&format!("claim != '' && {reads}"), ""), gpu_pod());
        assert_eq!(reason(&left_out), "no_rule_applies", "{reads}");
        let applied = served(&load(&format!("{reads} && claim != ''"), "b"), gpu_pod());
        assert_eq!(applied["spec"]["resourceClaims"][0]["resourceClaimName"], "b", "{reads}");
    }
}

/// A condition reads a value by a computed key.
#[test]
fn a_computed_key_is_found() {
    let applies = |condition: &str| {
        let body = format!(
            "  variables: {{key: \"${{'nvidia.com/' + pod.metadata.?labels.?part.orValue('gpu')}}\"}}\n  rules:\n    - name: r\n      \
             when: \"{condition}\"\n      env: {{A: b}}\n"
        );
        let policies = set(vec![policy("test", "labels: {fabric: fast}", &body)]);
        matches!(inject(&policies, gpu_pod()).outcome, Outcome::Mutated(_))
    };
    let limits = "pod.spec.containers[0].?resources.?limits";
    assert!(applies(&format!("{limits}[?key].hasValue()")));
    assert!(!applies(&format!("{limits}[?key + 's'].hasValue()")));
    assert!(applies("pod.spec.containers.exists(c, c.?resources.?limits[?key].hasValue())"));
    assert!(applies(&format!("{limits}[?key].orValue(0) == 4")));
}

/// A container refuses a device with the amount 0, if its author wrote it. A number that is computed can be none.
#[test]
fn an_amount_of_0_is_written_as_it_is() {
    let body = "  variables: {none: ['a.example/x', 'a.example/y']}\n  devices:\n    resources: [b.example/z]\n    add:\n      \
                - {name: z, resources: {b.example/z: '${gpus - gpus}'}}\n  rules:\n    - name: r\n      container:\n        \
                resources:\n          limits: {'${none}': 0, a.example/w: '0', a.example/v: '${gpus - gpus}'}\n    - name: ipc\n      container: \
                {securityContext: {capabilities: {add: [IPC_LOCK]}}}\n";
    let policies = set(vec![policy("test", "labels: {fabric: fast}", body)]);
    let pod = served(&policies, gpu_pod());
    let limits = pod["spec"]["containers"][0]["resources"]["limits"].clone();
    assert_eq!(limits, json!({"nvidia.com/gpu": 4, "a.example/x": 0, "a.example/y": 0, "a.example/w": "0"}));
    // The amount that the container has itself stays.
    let mut own = gpu_pod();
    own["spec"]["containers"][0]["resources"]["limits"]["a.example/x"] = 2.into();
    let pod = served(&policies, own);
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["a.example/x"], 2);
}

#[test]
fn null_leaves_out_the_field_and_a_list_entry_as_a_whole() {
    let policies = rule(
        "    - name: r\n      containers: ranks\n      env: {A: \"${gpus > 8 ? '1' : ''}\", C: \"${gpus > 8 ? '1' : null}\", B: x}\n      \
         container:\n        workingDir: \"${gpus > 8 ? '/w' : null}\"\n",
    );
    let container = served(&policies, gpu_pod())["spec"]["containers"][0].clone();
    assert_eq!(container["env"], json!([{"name": "B", "value": "x"}]));
    assert!(container.get("workingDir").is_none());
}

#[test]
fn whole_numbers_of_parameters_and_gpus_add_up() {
    let body = "  parameters:\n    spare: {type: integer, description: Some more, default: 2, minimum: 0}\n  variables:\n    \
                wanted: ${gpus + spare}\n  rules:\n    - name: r\n      container:\n        resources:\n          \
                limits: {example.com/nic: '${wanted}'}\n          requests: {example.com/nic: '${wanted}'}\n";
    let policies = set(vec![policy("test", "labels: {fabric: fast}", body)]);
    let pod = served(&policies, gpu_pod());
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["example.com/nic"], "6");
}

#[test]
fn one_entry_is_put_in_front_of_or_behind_what_a_variable_lists() {
    let edit = |value: &str| rule(&format!("    - {{name: r, env: {{PATHS: {value}}}}}\n"));
    let with = |value: &str| {
        let mut pod = gpu_pod();
        pod["spec"]["containers"][0]["env"] = json!([{"name": "PATHS", "value": value}]);
        pod
    };
    let value = |pod: &Value| pod["spec"]["containers"][0]["env"][0]["value"].clone();
    assert_eq!(value(&served(&edit("/new:$(PATHS)"), with("/a:/b"))), "/new:/a:/b");
    assert_eq!(value(&served(&edit("$(PATHS):/new"), with("/a:/b"))), "/a:/b:/new");
    assert_eq!(value(&served(&edit("$(PATHS):/new"), gpu_pod())), "/new");
    let complete = with("/new:/b");
    assert_only_stamped(&inject(&edit("$(PATHS):/new"), complete.clone()), &complete);
}

#[test]
fn of_instance_types_that_disagree_the_least_number_counts() {
    let body = "  parameters:\n    ratio:\n      type: number\n      description: NICs for each GPU\n      default: 1\n  \
                machines: {node.kubernetes.io/instance-type: {small: {ratio: 0.5}, large: {ratio: 2}, huge: {ratio: 2}}}\n  \
                rules:\n    - name: r\n      container:\n        \
                resources:\n          limits: {example.com/nic: '${devices(gpus, ratio)}'}\n          \
                requests: {example.com/nic: '${devices(gpus, ratio)}'}\n";
    let policies = set(vec![policy("test", "labels: {fabric: fast}", body)]);
    let on = |types: Value| {
        let mut pod = gpu_pod();
        pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}]}]}}});
        let mutation = inject(&policies, pod);
        let codes: Vec<String> = mutation.warnings.iter().map(|warning| warning.code().to_owned()).collect();
        let Outcome::Mutated(mutated) = mutation.outcome else { panic!("not served") };
        (mutated.pod["spec"]["containers"][0]["resources"]["limits"]["example.com/nic"].clone(), codes)
    };
    assert_eq!(on(json!(["LARGE", "huge"])), (json!("8"), vec![]));
    assert_eq!(on(json!(["small", "large"])), (json!("2"), vec!["nodes_disagree".to_owned()]));
}

/// A policy with a parameter `ratio` by the labels `pool` and `size`, and a variable that `node` gives.
fn by_labels() -> PolicySet {
    let body = "  parameters:\n    ratio:\n      type: number\n      \
                description: NICs for each GPU\n      default: 1\n  \
                machines: {pool: {a: {ratio: 2}, '*-b': {ratio: 3}, c: {ratio: {8: 4, 4: 5}}}, size: {big: {ratio: 6}}}\n  \
                rules:\n    - name: r\n      containers: gpus > 0\n      \
                env:\n        NODE: \"${node[?'pool'].orValue('no')}/${node.?size.orValue('no')}/${string('zone' in node)}\"\n      \
                container:\n        resources:\n          limits: {example.com/nic: '${devices(gpus, ratio)}'}\n          \
                requests: {example.com/nic: '${devices(gpus, ratio)}'}\n";
    set(vec![policy("test", "labels: {fabric: fast}", body)])
}

/// The NICs, the variable and the codes for a pod with this `nodeSelector` and these `matchExpressions` of one term.
fn on_labels(selector: Value, expressions: &[(&str, Value)]) -> (Value, Value, Vec<String>) {
    let mut pod = gpu_pod();
    pod["spec"]["nodeSelector"] = selector;
    let expressions: Vec<Value> = expressions
        .iter()
        .map(|(label, values)| json!({"key": label, "operator": "In", "values": values}))
        .collect();
    pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}});
    let mutation = inject(&by_labels(), pod);
    let codes = mutation.warnings.iter().map(|warning| warning.code().to_owned()).collect();
    let Outcome::Mutated(mutated) = mutation.outcome else { panic!("not served") };
    let container = &mutated.pod["spec"]["containers"][0];
    (container["resources"]["limits"]["example.com/nic"].clone(), container["env"][0]["value"].clone(), codes)
}

#[test]
fn the_first_label_that_knows_the_node_gives_the_value() {
    let gpus = 4;
    let case = |selector: Value, ratio: u32, node: &str| {
        let (nics, seen, codes) = on_labels(selector, &[]);
        assert_eq!((nics, seen, codes), (json!((gpus * ratio).to_string()), json!(node), vec![]));
    };
    case(json!({"pool": "A", "size": "big"}), 2, "a/big/false");
    case(json!({"pool": "Team-B"}), 3, "team-b/no/false");
    case(json!({"pool": "c"}), 5, "c/no/false");
    case(json!({"pool": "other", "size": "BIG", "zone": "x"}), 6, "other/big/true");
}

#[test]
fn a_row_without_a_value_for_the_gpus_leaves_it_to_the_next() {
    let body = "  variables: {speed: none, kinds: {fabric: '1', tcp: '0'}}\n  machines: {pool: {p5: {speed: {8: fast}}, 'p*': {speed: slow}}}\n  \
                rules: [{name: r, env: {SPEED: '${speed}${kinds.fabric}'}}]\n";
    let policies = set(vec![policy("test", "labels: {fabric: fast}", body)]);
    let speed = |gpus: &str| {
        let mut pod = gpu_pod();
        pod["spec"]["nodeSelector"] = json!({"pool": "p5"});
        for list in ["limits", "requests"] {
            pod["spec"]["containers"][0]["resources"][list]["nvidia.com/gpu"] = json!(gpus);
        }
        served(&policies, pod)["spec"]["containers"][0]["env"][0]["value"].clone()
    };
    assert_eq!([speed("8"), speed("4")], ["fast1", "slow1"]);
}

#[test]
fn a_name_of_nodes_that_counts_no_devices_has_no_number() {
    let of = |value: &str| {
        let body = format!("  rules: [{{name: r, env: {{A: \"${{{value}}}\"}}}}]\n");
        Definition::read("test.yaml", &lab("test", "labels: {fabric: fast}", &body)).map(drop)
    };
    assert!(of("string(offeredName('rdma/a'))").is_ok());
    let error = of("string(offeredName('rdma/a=1'))").unwrap_err().to_string();
    assert!(error.contains("`rdma/a=1` is not an extended resource"), "{error}");
}

#[test]
fn a_value_precedes_the_patterns_that_match_it_and_a_longer_pattern_a_shorter_one() {
    let body = "  parameters:\n    first:\n      type: string\n      \
                description: d\n      default: none\n    \
                second:\n      type: string\n      description: d\n      default: none\n  \
                machines:\n    pool: {a: {first: a, second: other}, '*-b': {first: '*-b'}, a-*: {first: a-*}, \
                A-c*: {first: a-c*}, x*: {first: x*}, abc*: {first: abc*}, 'ab*c': {first: 'ab*c'}, \
                'g*': {first: {4: g4, 8: g8}}, a-cd*: {second: a-cd*}, gh: {second: {2: gh2}}}\n    \
                size: {big: {first: big}}\n  rules:\n    - name: r\n      \
                env: {A: '${first} ${second}'}\n";
    let policies = set(vec![policy("test", "labels: {fabric: fast}", body)]);
    let case = |selector: Value, expected: &str| {
        let mut pod = gpu_pod();
        pod["spec"]["nodeSelector"] = selector.clone();
        let found = served(&policies, pod);
        assert_eq!(found["spec"]["containers"][0]["env"][0]["value"], expected, "{selector}");
    };
    // Twice, since the values of the first time are kept.
    for _ in 0..2 {
        case(json!({"pool": "a"}), "a other");
        case(json!({"pool": "a-"}), "a-* none");
        case(json!({"pool": "A-B"}), "a-* none");
        case(json!({"pool": "z-b"}), "*-b none");
        case(json!({"pool": "a-c"}), "a-c* none");
        case(json!({"pool": "a-cd-1"}), "a-c* a-cd*");
        case(json!({"pool": "a-c-1"}), "a-c* none");
        case(json!({"pool": "X1"}), "x* none");
        case(json!({"pool": "abc"}), "abc* none");
        case(json!({"pool": "abbc"}), "ab*c none");
        case(json!({"pool": "gh"}), "g4 none");
        case(json!({"pool": "b", "size": "big"}), "big none");
        case(json!({"pool": "b"}), "none none");
    }
}

/// Loading tries what a pattern stands for.
#[test]
fn an_expression_that_fails_for_a_pattern_only_is_an_error() {
    let body = "  parameters:\n    nics:\n      type: integer\n      description: d\n      default: 1\n  \
                machines: {pool: {a: {nics: 2}, 'a*': {nics: 0}}}\n  variables: {v: '${8 / nics}'}\n  rules:\n    - name: r\n      \
                env: {A: '${string(v)}'}\n";
    let definition = policy("test", "labels: {fabric: fast}", body);
    let error = PolicySet::new(vec![(definition, BTreeMap::new())]).unwrap_err().to_string();
    assert!(error.contains("a pod that selects `pool: a*`"), "{error}");
}

#[test]
fn of_several_values_of_a_label_the_least_counts_and_they_are_not_in_node() {
    let disagree = || vec!["nodes_disagree".to_owned()];
    let (nics, seen, codes) = on_labels(json!({"size": "big"}), &[("pool", json!(["a", "b"]))]);
    assert_eq!((nics, seen, codes), (json!("8"), json!("no/big/false"), disagree()));
    let (nics, seen, codes) = on_labels(json!({}), &[("pool", json!(["a", "A"])), ("zone", json!(["x"]))]);
    assert_eq!((nics, seen, codes), (json!("8"), json!("a/no/true"), vec![]));
    let (nics, _, codes) = on_labels(json!({}), &[("pool", json!(["a", "unknown"]))]);
    assert_eq!((nics, codes), (json!("8"), disagree()));
    let (nics, _, codes) = on_labels(json!({}), &[("pool", json!(["unknown", "other"]))]);
    assert_eq!((nics, codes), (json!("4"), vec!["parameter_assumed".into()]));
}

/// A policy that moves a pod to other nodes has other values for the pod that comes out.
#[test]
fn a_policy_that_sets_the_node_on_which_it_depends_is_refused_for_the_pod() {
    let body = "  parameters:\n    ratio:\n      type: number\n      description: d\n      default: 1\n  \
                machines: {pool: {a: {ratio: 2}}}\n  rules:\n    - name: r\n      when: \"pod.metadata.?labels[?'move'].hasValue()\"\n      \
                pod: {spec: {nodeSelector: {pool: POOL}}}\n    - name: nics\n      container:\n        \
                resources:\n          limits: {example.com/nic: '${devices(gpus, ratio)}'}\n          \
                requests: {example.com/nic: '${devices(gpus, ratio)}'}\n";
    let mut pod = gpu_pod();
    pod["metadata"]["labels"]["move"] = json!("yes");
    let moved_to = |pool: &str| {
        let policies = set(vec![policy("test", "labels: {fabric: fast}", &body.replace("POOL", pool))]);
        inject(&policies, pod.clone()).outcome
    };
    let Outcome::Refused { reason } = moved_to("a") else { panic!("not refused") };
    assert_eq!(reason.code(), "not_idempotent");
    // A node that the table does not know changes nothing.
    let Outcome::Mutated(mutated) = moved_to("other") else { panic!("not served") };
    assert_eq!(mutated.pod["spec"]["containers"][0]["resources"]["limits"]["example.com/nic"], "4");
}

#[test]
fn huge_pages_need_cpu_or_memory_beside_them() {
    let policies = rule(
        "    - name: r\n      container:\n        resources:\n          limits: {hugepages-2Mi: 4Mi, example.com/nic: '1'}\n          \
         requests: {hugepages-2Mi: 4Mi, example.com/nic: '1'}\n",
    );
    let mutation = inject(&policies, gpu_pod());
    assert!(
        mutation.warnings.iter().any(|warning| warning.code() == "huge_pages_alone"),
        "{:?}",
        mutation.warnings
    );
    let mut with_memory = gpu_pod();
    with_memory["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!("1Gi");
    let pod = served(&policies, with_memory);
    assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["hugepages-2Mi"], "4Mi");
}
