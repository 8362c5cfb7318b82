//! Runs a case and compares the result with the expected one.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use fabric_engine::policy_set::{PolicySet, mutate, mutate_traced};
use fabric_engine::{CLAIMS, Mutation, NODES, Reason, SKIPPED, STAMP, Warning};
use fabric_policy::PodContext;
use fabric_policy::objects::NamedObject;
use fabric_policy::schema::{self, Shape};
use fabric_workloads::manifest::{self, Found};

use super::case::{Case, Subject};
use super::compare::{Difference, differences, missing, shown};
use super::context::add;
use super::coverage::Coverage;
use super::expectation::Expectation;
use super::path;

/// The result of a case.
#[derive(Debug, Default)]
pub struct CaseResult {
    /// Empty if everything is as expected.
    pub differences: Vec<Difference>,
    /// For each expectation about exactly one pod: the result for that pod.
    pub(super) actual: Vec<Option<Actual>>,
}

/// The result of a policy for a pod.
#[derive(Debug, Clone)]
pub(super) struct Actual {
    pub(super) outcome: &'static str,
    pub(super) reason: Option<Reason>,
    /// The codes of the warnings, each once, in alphabetical order.
    pub(super) warnings: Vec<String>,
    pub(super) patch: Value,
    /// `None` for a pod that is refused.
    pub(super) pod: Option<Value>,
}

/// A pod of the case, and its result.
struct Tested {
    /// The number of its document, from 1.
    document: usize,
    /// JSON Pointer to it in the document.
    pointer: String,
    actual: Actual,
}

impl Tested {
    /// Returns whether an expectation fits the place of the pod.
    fn is_at(&self, Expectation { template, document, .. }: &Expectation) -> bool {
        template.as_ref().is_none_or(|template| *template == self.pointer)
            && document.is_none_or(|document| document == self.document)
    }
}

/// Runs a case. `documents` are those of its workload file; none for a case with a pod or workload of its own.
/// Records the conditions of the policies in `coverage`.
pub fn run(case: &Case, policies: &PolicySet, documents: &[Value], coverage: &mut Coverage) -> CaseResult {
    let tested = tested(case, policies, documents, coverage);
    let mut result = CaseResult::default();
    let mut used = vec![false; tested.len()];
    for expectation in &case.expectations {
        let is_named =
            |one: &Tested| case.expectations.iter().any(|other| other.template.is_some() && one.is_at(other));
        let fits =
            |one: &Tested| one.is_at(expectation) && (expectation.template.is_some() || !is_named(one));
        let matching: Vec<usize> = (0..tested.len()).filter(|at| fits(&tested[*at])).collect();
        if matching.is_empty() {
            let known: Vec<&str> = tested.iter().map(|one| one.pointer.as_str()).collect();
            let wanted = expectation.template.as_deref().unwrap_or("of a workload");
            let known = if known.is_empty() { "no pod template".to_owned() } else { known.join(", ") };
            let wanted = format!("the pod template {wanted}");
            result.differences.push(Difference::new("expect", Some(wanted), Some(known)));
        }
        for at in &matching {
            used[*at] = true;
            let Tested { pointer, actual, .. } = &tested[*at];
            let prefix = if tested.len() > 1 { format!("{pointer}: ") } else { String::new() };
            let found = compare(expectation, actual).into_iter();
            result
                .differences
                .extend(found.map(|one| Difference { at: format!("{prefix}{}", one.at), ..one }));
        }
        result.actual.push(match matching.as_slice() {
            [at] => Some(tested[*at].actual.clone()),
            _ => None,
        });
    }
    for (one, _) in tested.iter().zip(used).filter(|(_, used)| !used) {
        let wanted = "an expectation for this pod template".to_owned();
        result.differences.push(Difference::new(&one.pointer, Some(wanted), None));
    }
    result
}

/// The pods of a case with their results, in the context that the case gives them.
fn tested(case: &Case, policies: &PolicySet, documents: &[Value], coverage: &mut Coverage) -> Vec<Tested> {
    let mut tested = Vec::new();
    let mut test = |document, pointer: String, pod: &Value, context: &PodContext| {
        let (mutation, trace) = mutate_traced(policies, pod.clone(), context);
        debug_assert_eq!(mutation, mutate(policies, pod.clone(), context), "a trace decides nothing");
        coverage.record(policies, &trace);
        tested.push(Tested { document, pointer, actual: Actual::new(&mutation) });
    };
    let own = match &case.subject {
        Subject::Pod(pod) => {
            test(1, String::new(), pod, &case.context);
            return tested;
        }
        Subject::Workload(workload) => std::slice::from_ref(workload),
        Subject::File(_) => documents,
    };
    let mut given = case.context.clone();
    let named: Vec<NamedObject> = own.iter().flat_map(|one| NamedObject::read_all(one, "default")).collect();
    if !named.is_empty() {
        Arc::make_mut(given.objects.get_or_insert_default()).extend(named);
    }
    for (at, document) in own.iter().enumerate() {
        for Found { pointer, request } in manifest::find(document, None) {
            let pod = document.pointer(&pointer).unwrap_or(&Value::Null);
            test(at + 1, pointer, pod, &add(&given, request));
        }
    }
    tested
}

impl Actual {
    fn new(mutation: &Mutation) -> Self {
        let warnings: BTreeSet<&str> = mutation.warnings.iter().map(Warning::code).collect();
        let patch = mutation.outcome.changed().map_or_else(|| json!([]), |changed| json!(changed.patch()));
        Self {
            outcome: mutation.outcome.name(),
            reason: mutation.outcome.reason().cloned(),
            warnings: warnings.into_iter().map(str::to_owned).collect(),
            patch: masked(&patch),
            pod: mutation.outcome.pod().map(masked),
        }
    }

    /// The reason with its message.
    fn explained(&self) -> String {
        match &self.reason {
            Some(reason) => format!("{} ({reason})", reason.code()),
            None => format!("no reason, since the pod is {}", self.outcome),
        }
    }

    fn described(&self) -> String {
        match &self.reason {
            Some(reason) => format!("{} ({}: {reason})", self.outcome, reason.code()),
            None => self.outcome.to_owned(),
        }
    }
}

fn compare(expectation: &Expectation, actual: &Actual) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut differ = |at: &str, expected: Option<String>, actual: Option<String>| {
        found.push(Difference::new(at, expected, actual));
    };
    if let Some(outcome) = &expectation.outcome
        && *outcome != actual.outcome
    {
        differ("outcome", Some(outcome.clone()), Some(actual.described()));
    }
    let code = actual.reason.as_ref().map(Reason::code);
    if let Some(reason) = &expectation.reason
        && Some(reason.text.as_str()) != code
    {
        differ("reason", Some(reason.text.clone()), Some(actual.explained()));
    }
    if let Some(expected) = expectation.warning_codes().filter(|codes| *codes != actual.warnings) {
        let (expected, actual) = (expected.join(", "), actual.warnings.join(", "));
        differ("warnings", Some(format!("[{expected}]")), Some(format!("[{actual}]")));
    }
    if let Some(patch) = &expectation.patch {
        let expected = masked(patch);
        if expected != actual.patch {
            let (expected, actual) = different_lines(&expected, &actual.patch);
            differ("patch", expected, actual);
        }
    }
    let needs_pod =
        expectation.object.is_some() || expectation.has.is_some() || !expectation.lacks.is_empty();
    match &actual.pod {
        Some(pod) => found.extend(compare_pod(expectation, pod)),
        None if needs_pod && expectation.outcome.as_ref().is_none_or(|outcome| outcome != "refused") => {
            differ("outcome", Some("a pod".to_owned()), Some(actual.described()));
        }
        None if needs_pod => {
            differ("expect", Some("`outcome: refused` alone: no pod is left to look at".to_owned()), None);
        }
        None => {}
    }
    found.dedup();
    found
}

fn compare_pod(expectation: &Expectation, pod: &Value) -> Vec<Difference> {
    let shape = Shape::Object(schema::pod());
    let mut found = Vec::new();
    if let Some(object) = &expectation.object {
        found.extend(differences(&masked(object), pod, &shape));
    }
    if let Some(has) = &expectation.has {
        found.extend(missing(&masked(has), pod, &shape));
    }
    for path in &expectation.lacks {
        let (expected, actual) = match path.find(pod) {
            path::Found::Nothing => continue,
            path::Found::Value(value) => (None, shown(value)),
            path::Found::NoContainer(name) => (
                Some(format!("a container `{name}` that lacks this")),
                "no container of that name".to_owned(),
            ),
        };
        found.push(Difference::new(&path.text, expected, Some(actual)));
    }
    found
}

/// The operations of two patches that the other one does not have. If they have the same ones in another order, all.
fn different_lines(expected: &Value, actual: &Value) -> (Option<String>, Option<String>) {
    let lines = |patch: &Value| -> Vec<String> {
        patch.as_array().into_iter().flatten().map(Value::to_string).collect()
    };
    let (expected, actual) = (lines(expected), lines(actual));
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|line| !those.contains(line)).cloned().collect()
    };
    let (mut first, mut second) = (only(&expected, &actual), only(&actual, &expected));
    if first.is_empty() && second.is_empty() {
        (first, second) = (expected, actual);
    }
    let text = |lines: Vec<String>| (!lines.is_empty()).then(|| lines.join("\n"));
    (text(first), text(second))
}

/// The value with `*` for the digest of each stamp, which changes with each change of a policy.
fn masked(value: &Value) -> Value {
    let is_stamp = |key: &str| [STAMP, SKIPPED, NODES, CLAIMS].contains(&key);
    match value {
        Value::Object(map) => {
            let is_operation = map.get("path").and_then(Value::as_str).is_some_and(|path| {
                path.rsplit_once("/metadata/annotations/")
                    .is_some_and(|(_, key)| is_stamp(&key.replace("~1", "/")))
            });
            let entry = |(key, value): (&String, &Value)| {
                let is_mark = is_stamp(key) || is_operation && key == "value";
                let value = match value {
                    Value::String(text) if is_mark => Value::String(without_digests(text)),
                    other => masked(other),
                };
                (key.clone(), value)
            };
            map.iter().map(entry).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(masked).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

fn without_digests(text: &str) -> String {
    let after =
        |part: &str| format!("@*{}", part.trim_start_matches(|c: char| c.is_ascii_hexdigit() || c == '*'));
    let mut parts = text.split('@');
    parts.next().unwrap_or_default().to_owned() + &parts.map(after).collect::<String>()
}
