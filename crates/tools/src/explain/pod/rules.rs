//! The parts of `match`, the rules, files, variables and checks of a policy as the engine evaluated them for a pod, and the
//! outcome for each value, as the engine recorded it.

use serde::Serialize;
use serde_json::Value;

use fabric_engine::{
    Author, ConditionFact, EvaluatedCheck, EvaluatedRule, FieldOutcome, FieldState, Mutated, Mutation,
    Operation, Outcome, Read, Reason, ScopeOf, Trace, VariableIn,
};
use fabric_policy::definition::keys;
use fabric_policy::matcher::namespace_of;
use fabric_policy::{Definition, PodContext, Policy};
use fabric_yaml::Span;
use fabric_yaml::pointer::{at_pointer, field_path};

use crate::explain::parameters::{FileLine, ValueFact, in_file};

/// A rule, or a file, for a pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleResult {
    pub name: String,
    pub place: FileLine,
    #[serde(flatten)]
    pub result: EvaluatedRule,
}

/// The value of a variable, for the pod or for a container.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariableValue {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    pub value: Value,
    /// Why it has no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The values that its expressions read.
    pub reads: Vec<Read>,
    /// The row of the policy's machines that gives the value in place of its expressions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<ValueFact>,
    /// True if a rule that applies depends on it.
    pub used: bool,
}

/// The rules, and the files, of which each container with GPUs gets those whose condition holds.
pub(super) fn rules_and_files(definition: &Definition, trace: &Trace) -> [Vec<RuleResult>; 2] {
    let result = |name: &str, span: Span, result: &EvaluatedRule| RuleResult {
        name: name.to_owned(),
        place: in_file(definition, span),
        result: result.clone(),
    };
    let rules = definition.rules.iter().zip(&trace.rules);
    let files = definition.files.iter().zip(&trace.files);
    let place = |path: &str| definition.place(&keys(["files", path]));
    [
        rules.map(|(rule, of)| result(&rule.name, rule.span, of)).collect(),
        files.map(|(file, of)| result(&file.path, place(&file.path), of)).collect(),
    ]
}

/// The variables. Those in `rows` have their values from a row.
pub(super) fn variables(
    trace: &Trace,
    rows: &[ValueFact],
    is_used: impl Fn(&str) -> bool,
) -> Vec<VariableValue> {
    let variable = |VariableIn { name, container, value, reads }: &VariableIn| {
        let machine = rows.iter().find(|row| row.name == *name).cloned();
        let value = machine.as_ref().map_or_else(|| value.clone(), |row| Ok(row.value.clone()));
        VariableValue {
            name: name.clone(),
            container: container.clone(),
            value: value.clone().unwrap_or_default(),
            error: value.err(),
            reads: if machine.is_none() { reads.clone() } else { Vec::new() },
            machine,
            used: is_used(name),
        }
    };
    trace.variables.iter().map(variable).collect()
}

/// The condition of a check that reports the container with this path, or the pod.
pub(super) fn check(pod: &Value, trace: &Trace, code: &str, path: Option<&str>) -> Option<ConditionFact> {
    let is_about = |scope| match (scope, path) {
        (ScopeOf::Container { list, index }, Some(path)) => {
            path.starts_with(&field_path(pod, &format!("/spec/{list}/{index}")))
        }
        _ => true,
    };
    let reports = |check: &&EvaluatedCheck| {
        check.code == code && check.fact.value == Some(true) && is_about(check.scope)
    };
    trace.checks.iter().find(reports).map(|check| check.fact.clone())
}

/// A value that the policy gives a field, and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FieldFact {
    /// The path in the pod, as in reports.
    pub path: String,
    /// The JSON Pointer from the pod's root.
    pub pointer: String,
    /// The value of the field in the result; none if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    pub state: FieldState,
    /// The reason for a state other than `added`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The part of the policy that has the value.
    pub by: Author,
}

/// The outcomes of an injection, in the order of the engine. A pod that stays as it came, or that is refused, has none.
pub(super) fn of_result(before: &Value, mutation: &Mutation, trace: &Trace) -> Vec<FieldFact> {
    let after = match &mutation.outcome {
        Outcome::Mutated(mutated) => &mutated.pod,
        Outcome::Unchanged { pod, reason: Reason::NothingToAdd } => pod,
        outcome => return outcome.changed().map(marked).unwrap_or_default(),
    };
    let fact = |outcome: &FieldOutcome| {
        let value = at_pointer(after, &outcome.pointer);
        let is_written = matches!(outcome.state, FieldState::Added | FieldState::Replaced);
        // Another rule may have reverted a change.
        if is_written && at_pointer(before, &outcome.pointer) == value {
            return None;
        }
        Some(FieldFact {
            path: field_path(after, &outcome.pointer),
            pointer: outcome.pointer.clone(),
            value: value.cloned(),
            state: outcome.state,
            because: outcome.because(after),
            by: outcome.author.clone(),
        })
    };
    trace.outcomes.iter().filter_map(fact).collect()
}

/// The annotations of a pod that is skipped.
fn marked(skipped: &Mutated) -> Vec<FieldFact> {
    let fact = |operation: Operation<'_>| FieldFact {
        path: field_path(&skipped.pod, operation.pointer),
        pointer: operation.pointer.to_owned(),
        value: operation.value.cloned(),
        state: if operation.op == "replace" { FieldState::Replaced } else { FieldState::Added },
        because: None,
        by: Author::Stamp,
    };
    skipped.operations().into_iter().map(fact).collect()
}

/// A policy that was considered for a pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MatchFact {
    pub policy: String,
    /// True if each part holds.
    pub matches: bool,
    pub parts: Vec<PartFact>,
    /// The condition `match.when`, if the other parts hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<ConditionFact>,
}

/// One key of `match`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartFact {
    pub key: &'static str,
    pub wanted: Vec<String>,
    /// The values of the pod; empty if it has none.
    pub seen: Vec<String>,
    pub holds: bool,
}

/// The keys of `match` except `when`.
pub(super) fn parts(policy: &Policy, pod: &Value, context: &PodContext) -> Vec<PartFact> {
    let matcher = &policy.definition().matcher;
    let metadata = &pod["metadata"];
    let mut parts = Vec::new();
    let mut add = |key, wanted: Vec<String>, seen: Vec<String>, holds| {
        if !wanted.is_empty() {
            parts.push(PartFact { key, wanted, seen, holds });
        }
    };
    let mut add_pairs = |key, wanted: &[(String, String)], own: &Value, given: &[(String, String)], holds| {
        let texts = wanted.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        add(key, texts, seen_pairs(wanted, own, given), holds);
    };
    let (annotations, labels) = (&metadata["annotations"], &metadata["labels"]);
    let is_triggered = matcher.is_triggered(annotations, context);
    add_pairs("anyAnnotation", &matcher.any_annotation, annotations, &[], is_triggered);
    let has_no_exception = matcher.exception(annotations).is_none();
    add_pairs("exceptAnnotation", &matcher.except_annotation, annotations, &[], has_no_exception);
    let labels_hold = matcher.labels_hold(labels, context);
    add_pairs("labels", &matcher.labels, labels, &context.labels, labels_hold);
    let namespace = namespace_of(metadata, context).to_owned();
    add(
        "namespaces",
        matcher.namespaces.clone(),
        vec![namespace],
        matcher.namespace_holds(metadata, context),
    );
    let owners_hold = matcher.owners_hold(&metadata["ownerReferences"], context);
    add("ownerKinds", matcher.owner_kinds.clone(), owners(metadata, context), owners_hold);
    parts
}

/// The annotations or labels of a pod with the wanted keys. Those that it lacks can be given from elsewhere.
fn seen_pairs(wanted: &[(String, String)], own: &Value, given: &[(String, String)]) -> Vec<String> {
    let seen = |(key, _): &(String, String)| match &own[key.as_str()] {
        Value::Null => given.iter().find(|(name, _)| name == key).map(|(_, value)| format!("{key}: {value}")),
        Value::String(text) => Some(format!("{key}: {text}")),
        // An annotation that YAML reads as a boolean or a number.
        other => Some(format!("{key}: {other} (not a string)")),
    };
    wanted.iter().filter_map(seen).collect()
}

fn owners(metadata: &Value, context: &PodContext) -> Vec<String> {
    let references = metadata["ownerReferences"].as_array().into_iter().flatten();
    let kinds = references.filter_map(|owner| owner["kind"].as_str().map(str::to_owned));
    context.owner_kinds.iter().cloned().chain(kinds).collect()
}
