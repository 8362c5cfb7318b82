//! Trying a policy on sample pods before it may serve real ones.
//!
//! A webhook is called again after other webhooks have changed the pod. A policy whose second pass changes
//! something again would make a pod grow with each call, so it is refused when it is loaded.

mod validity;

use serde_json::{Value, json};

use crate::core::engine::{Outcome, Reason, mutate};
use crate::core::policy::{Diagnostic, Parameter, Policy, Request, SourceError};
use crate::core::policy_set::PolicySet;
use crate::core::yaml::Span;

/// Tries the one policy of the set.
pub(crate) fn run(set: &PolicySet) -> Result<(), SourceError> {
    let Some(policy) = set.policies().first() else { return Ok(()) };
    let complain = |message: String, hint: &str, needle: Option<String>| {
        let definition = policy.definition();
        let rules = definition.text.find("\n  rules:").map_or(0, |at| at + 3);
        let span = Span { length: 5, ..crate::core::yaml::span_at(&definition.text, rules) };
        let mut diagnostic = Diagnostic::new(span, message).hint(hint);
        diagnostic.needle = needle.map(Into::into);
        SourceError::new(&definition.file, &definition.text, diagnostic)
    };
    for (what, pod) in samples(policy) {
        let request = request(policy);
        let first = match mutate(set, pod, &request).outcome {
            Outcome::Mutated(mutated) => mutated.pod,
            Outcome::Refused { reason: Reason::EvaluationFailed { place, expression, message } } => {
                return Err(complain(
                    format!("`{expression}` of {place} fails for a sample pod ({what}): {message}"),
                    "guard what a pod may lack with `has(…)` or `.?`",
                    Some(expression),
                ));
            }
            _ => continue,
        };
        if let Some((refusal, needle)) = validity::refusal(&first) {
            return Err(complain(
                format!("the API server would refuse a sample pod ({what}): {refusal}"),
                "look at the overlay, and at the values of the parameters",
                Some(needle),
            ));
        }
        if let Outcome::Mutated(mutated) = mutate(set, first, &request).outcome {
            let again = mutated.patch().0.first().map(ToString::to_string).unwrap_or_default();
            let needle =
                mutated.operations().list.first().map(|first| named_in_policy(first.pointer, first.value));
            return Err(complain(
                format!(
                    "the policy is not idempotent: serving a sample pod ({what}) again changes it: {again}"
                ),
                "a value must not depend on what the policy itself adds",
                needle,
            ));
        }
    }
    Ok(())
}

/// How the policy most likely names what an operation changes: by the name of an entry, or by its key.
fn named_in_policy(pointer: &str, value: &Value) -> String {
    let token = pointer.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
    let entry = value.as_array().and_then(|items| items.first()).unwrap_or(value);
    match entry["name"].as_str().or_else(|| entry["mountPath"].as_str()) {
        Some(name) => name.to_owned(),
        None => token,
    }
}

/// What a request for a sample has to say besides the pod.
pub(crate) fn request(policy: &Policy) -> Request {
    let matcher = &policy.definition().matcher;
    Request {
        namespace: matcher.namespaces.first().cloned(),
        owner_kinds: matcher.owner_kinds.first().cloned().into_iter().collect(),
        labels: Vec::new(),
    }
}

/// A pod that a policy serves, of the first instance type that it knows if it knows any: something to try it with.
/// Tables begin with what has the fabric; what has none stands at their end.
pub(crate) fn sample(policy: &Policy) -> Value {
    let instance_type = policy.definition().parameters.iter().flat_map(Parameter::instance_types).next();
    let sample = samples_on(policy, instance_type).into_iter().next();
    sample.map(|(_, pod)| pod).unwrap_or_default()
}

/// Pods of every kind that policies meet, each triggering the policy, for every instance type that it knows.
fn samples(policy: &Policy) -> Vec<(String, Value)> {
    let mut types: Vec<Option<&str>> = vec![None];
    types.extend(policy.known_instance_types().map(Some));
    types.into_iter().flat_map(|instance_type| samples_on(policy, instance_type)).collect()
}

fn samples_on(policy: &Policy, instance_type: Option<&str>) -> Vec<(String, Value)> {
    let definition = policy.definition();
    let matcher = &definition.matcher;
    let metadata = json!({
        "name": "sample",
        "labels": pairs(&matcher.labels),
        "annotations": pairs(matcher.any_annotation.get(..1).unwrap_or_default()),
    });
    let gpu = definition.gpu_resources.first().map_or("gpu", String::as_str);
    let container = |name: &str, count: u32| json!({"name": name, "image": "i", "resources": {"limits": {gpu: count, "memory": "1Gi"}}});
    let specs = [
        ("one container with 8 GPUs", json!({"containers": [container("a", 8)]})),
        ("two containers", json!({"containers": [container("a", 4), container("b", 3)]})),
        ("a hostNetwork pod", json!({"hostNetwork": true, "containers": [container("a", 8)]})),
        (
            "init containers",
            json!({"initContainers": [container("i", 8)], "containers": [container("a", 1)]}),
        ),
        ("no GPU", json!({"containers": [{"name": "a", "image": "i"}]})),
    ];
    let on_type = |(what, spec): (&str, Value)| {
        let mut pod = json!({"metadata": metadata, "spec": spec});
        let Some(instance_type) = instance_type else { return (what.to_owned(), pod) };
        pod["spec"]["nodeSelector"] = json!({"node.kubernetes.io/instance-type": instance_type});
        (format!("{what} on {instance_type}"), pod)
    };
    specs.into_iter().map(on_type).collect()
}

fn pairs(entries: &[(String, String)]) -> Value {
    entries
        .iter()
        .map(|(key, value)| (key.clone(), Value::from(value.as_str())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
