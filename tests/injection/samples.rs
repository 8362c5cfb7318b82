//! The sample pods of loading have the names, images, labels and annotations with which a policy compares, so that a fault
//! behind such a condition is an error of the policy.

use std::collections::BTreeMap;

use fabric_engine::policy_set::PolicySet;
use fabric_policy::Definition;

use super::helpers::lab;

/// The errors of a policy with this body.
fn errors(body: &str) -> String {
    let text = lab("test", "labels: {fabric: fast}", body);
    let definition = Definition::read("test.yaml", &text).unwrap_or_else(|errors| panic!("{errors}"));
    let loaded = PolicySet::new(vec![(definition, BTreeMap::new())]);
    loaded.map_or_else(|errors| errors.to_string(), |_| String::new())
}

/// A rule that fails for each container for which a condition holds.
fn rule(condition: &str) -> String {
    format!(
        "  rules:\n    - {{name: r, containers: \"{condition}\", env: {{A: \"${{int(container.name)}}\"}}}}\n"
    )
}

#[test]
fn a_text_with_which_a_policy_compares_hides_no_fault_from_loading() {
    for (condition, sample) in [
        ("container.name == 'train'", "one container with GPUs and with the container train"),
        ("container.name in ['other', 'train']", "one container with GPUs and with the container other"),
        ("container.name.startsWith('train-')", "one container with GPUs and with the container train-a"),
        ("container.name.endsWith('-train')", "one container with GPUs and with the container a-train"),
        (
            "container.name.lowerAscii().contains('train')",
            "one container with GPUs and with the container train",
        ),
        ("container.image.contains('nccl:')", "one container with GPUs and with image: nccl:"),
        ("pod.metadata.?labels[?'x'].orValue('') == 'y'", "one container with GPUs and with x: y"),
        ("pod.metadata.?annotations[?'x'].orValue('') == 'a b'", "one container with GPUs and with x: a b"),
        (
            "pod.metadata.?name.orValue('').startsWith('train')",
            "one container with GPUs and with name: train",
        ),
        (
            "pod.spec.?schedulerName.orValue('') == 'gang'",
            "one container with GPUs and with schedulerName: gang",
        ),
        (
            "pod.spec.containers.exists(c, c.name == 'train')",
            "one container with GPUs and with the container train",
        ),
        ("container.name == 'train' && hostNetwork", "a hostNetwork pod and with the container train"),
        (
            "container.name == 'train' && container.image.contains('nccl')",
            "one container with GPUs and with image: nccl, the container train",
        ),
        (
            "container.name in ['a1', 'a2'] && container.name == 'a2' && pod.metadata.?labels[?'x'].orValue('') == 'y'",
            "one container with GPUs and with x: y, the container a2",
        ),
    ] {
        let errors = errors(&rule(condition));
        assert!(errors.contains(&format!("fails for a sample pod ({sample}): ")), "{condition}: {errors}");
    }
}

#[test]
fn a_variable_between_a_value_and_its_text_hides_no_fault() {
    for (value, condition) in [
        ("container.name", "found == 'train'"),
        ("container.name.split('-')[0]", "found == 'train'"),
        ("pod.metadata.?labels[?'role'].orValue('none')", "found == 'worker'"),
    ] {
        let errors = errors(&format!("  variables:\n    found: \"${{{value}}}\"\n{}", rule(condition)));
        assert!(errors.contains("for a sample pod (one container with GPUs and with "), "{value}: {errors}");
    }
}

#[test]
fn a_container_that_a_rule_changes_is_in_a_sample() {
    let errors = errors(
        "  rules:\n    - name: r\n      pod: {spec: {containers: [{name: train, env: [{name: A, value: \"${int(pod.spec.containers[0].name)}\"}]}]}}\n",
    );
    assert!(errors.contains("(one container with GPUs and with the container train)"), "{errors}");
}

#[test]
fn a_policy_with_many_texts_loads() {
    let names: Vec<String> = (0..2_000).map(|at| format!("'n{at}'")).collect();
    let body = format!(
        "  rules:\n    - {{name: r, containers: \"container.name in names\", env: {{A: b}}}}\n    - {{name: s, \
         containers: \"container.name in [{}]\", env: {{B: b}}}}\n",
        names[..200].join(",")
    );
    let body = format!("  variables:\n    names: [{}]\n{body}", names.join(", "));
    assert_eq!(errors(&body), "");
}
