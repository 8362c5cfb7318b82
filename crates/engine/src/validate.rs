//! The validation of a policy on sample pods when it is loaded.
//!
//! The engine refuses a pod if an expression fails or the policy is not idempotent for it. If that happens with a
//! sample pod, the policy has an error at its line, before any real pod comes.

mod expressions;
mod findings;
mod written;

pub use findings::findings;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::record::ChangeLog;
use crate::{FINDINGS, Outcome, Reason, Warning, analysis_if_condition_is_true, inject};
use fabric_policy::definition::{POLICIES_IN_USE, keys};
use fabric_policy::interpolation::EvaluationError;
use fabric_policy::matcher::{Match, Selection};
use fabric_policy::source::{DUPLICATE_NAME, NOT_IDEMPOTENT, SAMPLE_FAILED};
use fabric_policy::work::Work;
use fabric_policy::{
    Devices, Diagnostic, PodContext, Policy, ResolvedPolicy, Rule, SourceError, SourceErrors,
};
use fabric_yaml::Span;

/// Tries a policy. The first failure of each sample is an error, and so is too much work.
pub(crate) fn policy(policy: &Policy, loading: &Work) -> Result<(), SourceErrors> {
    let context = context(policy);
    let mut errors: Vec<SourceError> = checks_of_known_codes(policy).collect();
    let samples = samples(policy).map(|sample| (sample, context.clone()));
    for ((what, pod), context) in samples.chain(other_namespaces(policy, &context)) {
        let work = loading.for_input(pod.to_string().len());
        let tried = try_sample(policy, &what, pod, &PodContext { work: Some(work.clone()), ..context });
        loading.count_all(&work);
        let of_all = loading.ended().map(|ended| (POLICIES_IN_USE.to_owned(), ended));
        let of_sample = || Some((format!("a sample pod ({what})"), work.ended()?));
        if let Some((what, ended)) = of_all.or_else(of_sample) {
            errors.push(policy.definition().too_costly(&what, ended));
            break;
        }
        errors.extend(tried.err());
    }
    if loading.ended().is_none() {
        let (what, pod) = first_sample(policy, policy.first_node());
        let work = loading.for_input(pod.to_string().len());
        let failures =
            expressions::failures(policy, &pod, &PodContext { work: Some(work.clone()), ..context });
        loading.count_all(&work);
        errors.extend(failures.into_iter().map(|(place, failure)| failed(policy, &what, &place, failure)));
    }
    if errors.is_empty() { Ok(()) } else { Err(SourceErrors::first_at_each_place(errors)) }
}

/// Tries a policy on one sample.
pub(crate) fn first(policy: &Policy) -> Result<(), SourceErrors> {
    let (what, pod) = first_sample(policy, policy.first_node());
    try_sample(policy, &what, pod, &context(policy)).map_err(|error| SourceErrors::new(vec![error]))
}

/// Errors for checks whose reports would look like those of the engine.
fn checks_of_known_codes(policy: &Policy) -> impl Iterator<Item = SourceError> {
    const KNOWN: &[&[&str]] =
        &[Warning::CODES, FINDINGS, Reason::LEFT_ALONE, Reason::SKIPPED, Reason::REFUSED, Reason::FAULTS];
    let definition = policy.definition();
    let is_known = |code: &str| KNOWN.iter().any(|codes| codes.contains(&code));
    definition.checks.iter().filter(move |check| is_known(&check.code)).map(|check| {
        let message = format!("`{}` is a code of the program's own reports", check.code);
        definition.error(Diagnostic::error(DUPLICATE_NAME, check.span, message).hint("choose another code"))
    })
}

/// Returns whether the condition of the policy holds for a sample.
fn condition_is_true(policy: &Policy, pod: &Value, context: &PodContext) -> bool {
    analysis_if_condition_is_true(policy, pod, context, false, None).is_ok_and(|analysis| analysis.is_some())
}

/// The limit on namespaces with a sample of their own.
const MAX_NAMESPACES: usize = 16;

/// The limit on samples: a policy can have rows for thousands of machines.
const MAX_SAMPLES: usize = 1_000;

fn try_sample(policy: &Policy, what: &str, pod: Value, context: &PodContext) -> Result<(), SourceError> {
    let analysis = match analysis_if_condition_is_true(policy, &pod, context, false, None) {
        Ok(Some(analysis)) => analysis,
        // The condition of the policy may exclude the pods that give an expression no value.
        Ok(None) => return Ok(()),
        Err(reason) => return refused(policy, what, reason),
    };
    let is_taken = |pod: &Value| policy.definition().matcher.test(pod, context) == Match::Yes;
    let was_taken = is_taken(&pod);
    let mut log = ChangeLog::new(context);
    let mutation = inject(policy, analysis, pod, context, &mut log);
    if let Some(code) = log.own_checks.first() {
        return Err(reports_what_was_added(policy, what, code));
    }
    let pod = match mutation.outcome {
        Outcome::Mutated(mutated) => mutated.pod,
        Outcome::Unchanged { .. } | Outcome::Skipped { .. } => return Ok(()),
        Outcome::Refused { reason } => return refused(policy, what, reason),
    };
    // The API server calls again, with the same amount of work.
    let again = context.work.as_ref().map(Work::again);
    let holds = condition_is_true(policy, &pod, &PodContext { work: again.clone(), ..context.clone() });
    context.work.iter().zip(again).for_each(|(all, again)| all.count_all(&again));
    let changed = if was_taken && !is_taken(&pod) { Some("match") } else { (!holds).then_some("match.when") };
    changed.map_or(Ok(()), |key| {
        let message = format!(
            "the policy is not idempotent: `{key}` holds for a sample pod ({what}), but no longer after the policy \
             injects it"
        );
        Err(not_idempotent_at(policy, policy.definition().place(&keys(key.split('.'))), message))
    })
}

/// An error for a check that reports a sample only after it is injected.
fn reports_what_was_added(policy: &Policy, what: &str, code: &str) -> SourceError {
    let definition = policy.definition();
    let message = format!(
        "the policy is not idempotent: the check `{code}` reports a sample pod ({what}) only after the policy \
         injects it"
    );
    let span = definition.checks.iter().find(|check| check.code == code).map(|check| check.span);
    let diagnostic = Diagnostic::error(NOT_IDEMPOTENT, span.unwrap_or_default(), message);
    definition.error(diagnostic.hint("a check must not report what the policy itself adds"))
}

/// An error for a refusal that is the policy's fault. A check or a claim may refuse a sample.
fn refused(policy: &Policy, what: &str, reason: Reason) -> Result<(), SourceError> {
    match reason {
        Reason::EvaluationFailed { place, error } => Err(failed(policy, what, &place, *error)),
        Reason::NotIdempotent { path, span, .. } => {
            let is_there = |rule: &&Rule| rule.writes().any(|write| write.span() == span);
            let rule = policy.definition().rules.iter().find(is_there);
            let by = rule.map(|rule| format!(" by the rule `{}`", rule.name)).unwrap_or_default();
            let message = format!(
                "the policy is not idempotent: `{path}` of a sample pod ({what}) changes{by} each time that it is injected"
            );
            Err(not_idempotent_at(policy, span, message))
        }
        _ => Ok(()),
    }
}

/// An error for an expression without a value.
fn failed(policy: &Policy, what: &str, place: &str, failure: EvaluationError) -> SourceError {
    let EvaluationError { expression, message, fault } = failure;
    let message = format!("`{expression}` of {place} fails for a sample pod ({what}): {message}");
    let look = "look at the values that it reads for such a pod";
    let hint = if fault.span.line > 0 { look } else { "correct the value" };
    let hint = fault.hint.as_deref().unwrap_or(hint);
    let definition = policy.definition();
    // A value without an expression has no place of its own. It can be that of a parameter.
    let default = || {
        let mut parameters = definition.parameters.iter();
        let parameter = parameters.find(|parameter| parameter.default == *expression)?;
        Some(definition.place(&keys(["parameters", &parameter.name, "default"])))
    };
    let written = || definition.place_of_written(&expression).or_else(default).unwrap_or_default();
    let span = if fault.span.line > 0 { fault.span } else { written() };
    definition.error(Diagnostic::error(SAMPLE_FAILED, span, message).hint(hint))
}

fn not_idempotent_at(policy: &Policy, span: Span, message: String) -> SourceError {
    let diagnostic = Diagnostic::error(NOT_IDEMPOTENT, span, message);
    policy.definition().error(diagnostic.hint("a value must not depend on what the policy itself adds"))
}

/// The context in which the policy matches a sample: the first namespace of `match`. If `match.when` does not hold
/// there, it is a namespace that an expression compares with that of the pod.
pub fn context(policy: &Policy) -> PodContext {
    let matcher = &policy.definition().matcher;
    let within = |namespace| PodContext {
        namespace,
        owner_kinds: matcher.owner_kinds.first().cloned().into_iter().collect(),
        ..PodContext::default()
    };
    let first = within(matcher.namespaces.first().cloned());
    let (_, pod) = first_sample(policy, policy.first_node());
    if matcher.when.is_none() || condition_is_true(policy, &pod, &first) {
        return first;
    }
    let is_listed = |name: &String| matcher.namespaces.is_empty() || matcher.namespaces.contains(name);
    let compared = expressions::namespaces(policy.definition()).into_iter().filter(is_listed);
    let mut others = compared.map(|name| within(Some(name)));
    others.find(|context| condition_is_true(policy, &pod, context)).unwrap_or(first)
}

/// The first sample in the other namespaces that `match` lists, or with which expressions compare that of the pod.
fn other_namespaces(policy: &Policy, context: &PodContext) -> Vec<((String, Value), PodContext)> {
    let listed = &policy.definition().matcher.namespaces;
    let compared = expressions::namespaces(policy.definition());
    let of_expressions = compared.iter().filter(|name| listed.is_empty() || listed.contains(name));
    let mut names: BTreeSet<&String> = listed.iter().chain(of_expressions).collect();
    names.retain(|name| Some(*name) != context.namespace.as_ref());
    let (what, pod) = first_sample(policy, policy.first_node());
    let within = |name: &String| {
        let sample = (format!("{what}, in the namespace {name}"), pod.clone());
        (sample, PodContext { namespace: Some(name.clone()), ..context.clone() })
    };
    names.into_iter().take(MAX_NAMESPACES).map(within).collect()
}

/// A pod that a policy matches, on the first node of a table that meets the condition of the policy. Tables begin with
/// nodes that have the fabric.
pub fn sample(policy: &Policy) -> Value {
    let context = context(policy);
    let nodes = policy.first_node().into_iter().cloned().chain(policy.known_nodes());
    let mut samples = nodes.map(|nodes| first_sample(policy, Some(&nodes)));
    let found = samples.find(|(_, pod)| condition_is_true(policy, pod, &context));
    let (_, pod) = found.unwrap_or_else(|| first_sample(policy, policy.first_node()));
    without_patterns(pod)
}

/// A pod that a policy matches, on each node of a table and on an unknown node.
pub fn samples_by_node(policy: &Policy) -> impl Iterator<Item = Value> {
    let nodes = policy.known_nodes().map(Some).chain([None]);
    nodes.map(|nodes| without_patterns(first_sample(policy, nodes.as_ref()).1))
}

/// A pod whose node labels have no `*`, which matches any text, also the empty one.
fn without_patterns(mut pod: Value) -> Value {
    let selector = pod.pointer_mut("/spec/nodeSelector").and_then(Value::as_object_mut);
    for value in selector.into_iter().flat_map(Map::values_mut) {
        *value = value.as_str().unwrap_or_default().replace('*', "").into();
    }
    pod
}

/// Pods of several kinds that the policy matches, for the nodes of a table that the policy treats differently.
fn samples(policy: &Policy) -> impl Iterator<Item = (String, Value)> {
    let definition = policy.definition();
    let mut tried: Vec<Arc<ResolvedPolicy>> = Vec::new();
    let mut is_new = move |nodes: &Selection| match policy.resolved(nodes, &PodContext::default()) {
        Ok(resolved) if tried.iter().any(|known| known.is_as(&resolved)) => false,
        Ok(resolved) => {
            tried.push(resolved);
            true
        }
        Err(_) => true,
    };
    let compared = expressions::nodes(definition);
    let nodes = policy.known_nodes().chain(compared).filter(move |nodes| is_new(nodes)).map(Some);
    // Every kind of pod on an unknown node and on the first one; on the other nodes, only the first two kinds: a ratio can make half a device for one GPU.
    let all = [None].into_iter().chain(nodes).enumerate();
    let samples = all.flat_map(|(at, nodes)| {
        let kinds = if at < 2 { usize::MAX } else { 2 };
        samples_on(policy, nodes.as_ref()).into_iter().take(kinds)
    });
    let as_compared = expressions::samples(definition, &samples_on(policy, None), MAX_SAMPLES / 2);
    samples.take(MAX_SAMPLES - as_compared.len()).chain(as_compared)
}

/// The first kind of pod on some nodes.
fn first_sample(policy: &Policy, nodes: Option<&Selection>) -> (String, Value) {
    samples_on(policy, nodes).into_iter().next().unwrap_or_default()
}

/// Pods of each kind on some nodes. There is always one.
fn samples_on(policy: &Policy, nodes: Option<&Selection>) -> Vec<(String, Value)> {
    let definition = policy.definition();
    let matcher = &definition.matcher;
    let selection = nodes.cloned().unwrap_or_default();
    let resolved = policy.resolved(&selection, &PodContext::default()).ok();
    let metadata = json!({
        "name": "sample",
        "labels": pairs(&matcher.labels),
        "annotations": pairs(matcher.any_annotation.get(..1).unwrap_or_default()),
    });
    let gpu = definition.gpus.resources.first().map_or("gpu", String::as_str);
    let all = nodes.and_then(|nodes| nodes.gpus).unwrap_or(8);
    let container = |name: &str, count: i64| json!({"name": name, "image": "i", "resources": {"limits": {gpu: count, "memory": "1Gi"}}});
    let specs = [
        ("one container with GPUs", json!({"containers": [container("a", all)]})),
        ("one GPU", json!({"containers": [container("a", 1)]})),
        (
            "two containers",
            json!({"containers": [container("a", all - all / 2), container("sample-b", all / 2)]}),
        ),
        ("a hostNetwork pod", json!({"hostNetwork": true, "containers": [container("a", all)]})),
        (
            "init containers",
            json!({"initContainers": [container("sample-i", all)], "containers": [container("a", 1)]}),
        ),
        ("no GPU", json!({"containers": [{"name": "a", "image": "i"}]})),
        ("lists with entries", with_lists(container("a", all))),
    ];
    let on_nodes = |(what, spec): (&str, Value)| {
        let mut pod = json!({"metadata": metadata, "spec": spec});
        let Some(nodes) = nodes else { return (what.to_owned(), pod) };
        let selector: Map<String, Value> =
            nodes.labels.iter().map(|one| (one.label.clone(), one.values.join("").into())).collect();
        pod["spec"]["nodeSelector"] = selector.into();
        let labels: Vec<String> = nodes.labels.iter().map(ToString::to_string).collect();
        (format!("{what} on {}", labels.join(", ")), pod)
    };
    let Some(resolved) = resolved else { return specs.into_iter().map(on_nodes).collect() };
    let specs_without_claims = specs.len();
    let own = own_devices(&resolved.evaluated.devices, &container("a", 8));
    // For each other resource, on an unknown node: an expression may have a value only for the first one.
    let others = definition.gpus.resources.iter().skip(1).filter(|_| nodes.is_none());
    let others = others.map(|name| {
        let container = json!({"name": "a", "image": "i", "resources": {"limits": {name: 8}}});
        ("another resource of GPUs", json!({"containers": [container]}))
    });
    let two_nodes = json!({"containers": [container("a", all), container("sample-b", all)]});
    let more = nodes.is_none().then_some(("more GPUs than a node has", two_nodes));
    let mut all: Vec<_> = specs.into_iter().chain(own).chain(others).chain(more).collect();
    if definition.gpus.resources.is_empty() {
        // Only a claim brings GPUs.
        all.rotate_left(specs_without_claims);
    }
    all.into_iter().map(on_nodes).collect()
}

/// The spec of a pod with an entry in each list that expressions often read: a macro over an empty list tests nothing.
fn with_lists(mut container: Value) -> Value {
    container["args"] = json!(["sample"]);
    container["env"] = json!([
        {"name": "SAMPLE", "value": "sample"},
        {"name": "SAMPLE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]);
    container["volumeMounts"] = json!([{"name": "sample", "mountPath": "/sample"}]);
    container["resources"]["claims"] = json!([{"name": "sample"}]);
    json!({
        "containers": [container],
        "initContainers": [{"name": "sample-i", "image": "i"}],
        "resourceClaims": [{"name": "sample", "resourceClaimTemplateName": "sample"}],
        "tolerations": [{"key": "sample", "operator": "Exists"}],
        "volumes": [{"name": "sample", "emptyDir": {}}],
    })
}

/// Specs of pods that bring their own GPUs or fabric devices, under the names that the policy declares.
fn own_devices(devices: &Devices, gpus: &Value) -> Vec<(&'static str, Value)> {
    let claim = |name: &str, target: String| json!([{"name": name, "resourceClaimTemplateName": target}]);
    let mut specs = Vec::new();
    if let Some(known) = devices.gpu_claims.with_devices().next() {
        let container = json!({"name": "a", "image": "i", "resources": {"claims": [{"name": "gpus"}]}});
        let claims = claim("gpus", known.pattern.example());
        specs.push(("GPUs by claim", json!({"containers": [container], "resourceClaims": claims})));
    }
    if let Some(resource) = devices.own.resources.first() {
        let mut container = gpus.clone();
        container["resources"]["limits"][resource.example()] = json!(1);
        specs.push(("a device of its own", json!({"containers": [container]})));
    }
    if let Some(known) = devices.own.claims.with_devices().next() {
        let claims = claim("own-device", known.pattern.example());
        specs.push(("a claim of its own", json!({"containers": [gpus], "resourceClaims": claims})));
    }
    specs
}

fn pairs(entries: &[(String, String)]) -> Map<String, Value> {
    entries.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect()
}
