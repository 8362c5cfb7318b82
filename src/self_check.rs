//! Trying a policy on sample pods before it may serve real ones.
//!
//! A webhook is called again after other webhooks have changed the pod. A policy whose second pass changes
//! something again would make a pod grow with each call, so it is refused when it is loaded.

use serde_json::{Value, json};

use crate::engine::{Outcome, Reason, mutate};
use crate::policy::{Diagnostic, Policy, Request, SourceError};
use crate::policy_set::PolicySet;
use crate::yaml::Span;

/// Tries the one policy of the set.
pub(crate) fn run(set: &PolicySet) -> Result<(), SourceError> {
    let Some(policy) = set.policies().first() else { return Ok(()) };
    let complain = |message: String, hint: &str| {
        let definition = policy.definition();
        let diagnostic = Diagnostic {
            message,
            span: Span { line: 1, column: 1, length: 1 },
            hint: Some(hint.to_owned()),
        };
        SourceError { file: definition.file.clone(), text: definition.text.clone(), diagnostic }
    };
    for (what, pod) in samples(policy) {
        let request = request(policy);
        let first = match mutate(set, pod, &request).outcome {
            Outcome::Mutated(mutated) => mutated.pod,
            Outcome::Refused { reason: reason @ Reason::EvaluationFailed { .. } } => {
                return Err(complain(
                    format!("the policy fails for a sample pod ({what}): {reason}"),
                    "guard what a pod may lack with `has(…)` or `.?`",
                ));
            }
            _ => continue,
        };
        if let Outcome::Mutated(mutated) = mutate(set, first, &request).outcome {
            let again = mutated.patch().0.first().map(ToString::to_string).unwrap_or_default();
            return Err(complain(
                format!("the policy is not idempotent: serving a sample pod ({what}) again changes it: {again}"),
                "a value must not depend on what the policy itself adds",
            ));
        }
    }
    Ok(())
}

fn request(policy: &Policy) -> Request {
    let matcher = &policy.definition().matcher;
    Request {
        namespace: matcher.namespaces.first().cloned(),
        owner_kinds: matcher.owner_kinds.first().cloned().into_iter().collect(),
        labels: Vec::new(),
    }
}

/// Pods of every kind that policies meet, each triggering the policy, for every instance type that it knows.
fn samples(policy: &Policy) -> Vec<(String, Value)> {
    let definition = policy.definition();
    let matcher = &definition.matcher;
    let metadata = json!({
        "name": "sample",
        "labels": pairs(&matcher.labels),
        "annotations": pairs(matcher.any_annotation.get(..1).unwrap_or_default()),
    });
    let gpu = definition.gpu_resources.first().map_or("gpu", String::as_str);
    let container = |name: &str, count: u32| json!({"name": name, "image": "i", "resources": {"limits": {gpu: count}}});
    let specs = [
        ("one container with 8 GPUs", json!({"containers": [container("a", 8)]})),
        ("two containers", json!({"containers": [container("a", 4), container("b", 3)]})),
        ("a hostNetwork pod", json!({"hostNetwork": true, "containers": [container("a", 8)]})),
        ("init containers", json!({"initContainers": [container("i", 8)], "containers": [container("a", 1)]})),
        ("no GPU", json!({"containers": [{"name": "a", "image": "i"}]})),
    ];
    let mut types: Vec<Option<&str>> = vec![None];
    types.extend(policy.known_instance_types().map(Some));
    let mut samples = Vec::new();
    for instance_type in types {
        for (what, spec) in &specs {
            let mut pod = json!({"metadata": metadata, "spec": spec});
            let mut what = (*what).to_owned();
            if let Some(instance_type) = instance_type {
                pod["spec"]["nodeSelector"] = json!({"node.kubernetes.io/instance-type": instance_type});
                what = format!("{what} on {instance_type}");
            }
            samples.push((what, pod));
        }
    }
    samples
}

fn pairs(entries: &[(String, String)]) -> Value {
    entries.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect::<serde_json::Map<_, _>>().into()
}
