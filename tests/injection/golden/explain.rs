//! The explanation of every case: each added field names its rule, and the conditions give the rules that apply.

use std::collections::BTreeMap;
use std::fs;

use fabric_engine::policy_set::{PolicySet, mutate};
use fabric_engine::{Author, CLAIMS, EvaluatedRule, FieldState, Outcome, SKIPPED, STAMP, WITHOUT_FABRIC};
use fabric_injector::stream::RawDocuments;
use fabric_tools::explain::{ConditionFact, Explainer, PodFact, Sources};
use fabric_workloads::manifest::{Document, find};
use serde_json::Value;

use super::cases::{Case, cases};

/// The counts of all cases.
#[derive(Debug, Default)]
struct Counts {
    leaves: usize,
    applied: usize,
    others: usize,
    states: BTreeMap<FieldState, usize>,
}

#[test]
fn every_added_field_names_its_rule_and_every_rule_its_conditions() {
    let mut counts = Counts::default();
    // Cases with the same policy and parameters share what is compiled.
    let mut groups: BTreeMap<(String, Vec<String>), Vec<Case>> = BTreeMap::new();
    for case in cases() {
        groups.entry((case.policy.clone(), case.sets.clone())).or_default().push(case);
    }
    for group in groups.values() {
        let (policies, sets) = (group[0].policies(), BTreeMap::new());
        let sources = Sources { values: None, sets: &sets };
        let explainer = Explainer { policies: &policies, sources };
        for case in group {
            explain(case, &policies, &explainer, &mut counts);
        }
    }
    assert!(counts.leaves > 2_000 && counts.applied > 500 && counts.others > 500, "{counts:?}");
    for state in [FieldState::Added, FieldState::Present, FieldState::Kept, FieldState::LeftOut] {
        assert!(counts.states.contains_key(&state), "{counts:?}");
    }
}

/// Checks the explanation of each pod of a case against its mutation.
fn explain(case: &Case, policies: &PolicySet, explainer: &Explainer<'_>, counts: &mut Counts) {
    let bytes = fs::read(&case.workload).unwrap();
    for piece in RawDocuments::new(bytes.as_slice()) {
        let Some(document) = Document::read(&piece.unwrap()).unwrap().value else { continue };
        for found in find(&document, None) {
            let template = document.pointer(&found.pointer).unwrap();
            let mutation = mutate(policies, template.clone(), &found.request);
            let (traced, fact) = explainer.pod(template, &found.request);
            assert_eq!(traced, mutation, "{}", case.name());
            let warnings: Vec<String> = mutation.warnings.iter().map(ToString::to_string).collect();
            let known: Vec<String> = fact.warnings.iter().map(|warning| warning.message.clone()).collect();
            assert_eq!(warnings, known, "{}", case.name());
            check_fields(case, &mutation.outcome, &fact, counts);
            check_conditions(case, &fact, counts);
            check_states(case, &fact, counts);
        }
    }
}

/// The JSON Pointers to the values without parts in a value.
fn leaves(value: &Value, pointer: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    if children.is_empty() {
        found.push(pointer.to_owned());
    }
    for (token, child) in children {
        leaves(child, &format!("{pointer}/{token}"), found);
    }
}

/// Each added value is in a field of the explanation, by a rule that applies.
fn check_fields(case: &Case, outcome: &Outcome, fact: &PodFact, counts: &mut Counts) {
    let applied = |name: &str| fact.rules.iter().any(|rule| rule.result.applied && rule.name == name);
    let mut added = Vec::new();
    for operation in outcome.changed().iter().flat_map(|changed| changed.operations()) {
        leaves(operation.value.unwrap_or(&Value::Null), operation.pointer, &mut added);
    }
    for leaf in &added {
        let is_around = |pointer: &str| {
            leaf.strip_prefix(pointer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_written = |state| matches!(state, FieldState::Added | FieldState::Replaced);
        let written = fact.fields.iter().filter(|field| is_written(field.state));
        let of: Vec<_> = written.filter(|field| is_around(&field.pointer)).collect();
        assert!(!of.is_empty(), "{}: {leaf} has no author", case.name());
        for field in of {
            let known = match &field.by {
                Author::Rule(rule) => applied(rule),
                Author::File(path) => fact.files.iter().any(|file| file.name == *path),
                Author::Stamp => {
                    [STAMP, SKIPPED, CLAIMS, WITHOUT_FABRIC].iter().any(|key| field.path.contains(key))
                }
            };
            assert!(known, "{}: {leaf} is by {}", case.name(), field.by);
        }
        counts.leaves += 1;
    }
}

/// The rules that apply are those whose conditions hold.
fn check_conditions(case: &Case, fact: &PodFact, counts: &mut Counts) {
    let holds = |condition: &ConditionFact| {
        assert!(!condition.reads.is_empty(), "{}: {}", case.name(), condition.expression);
        condition.value.unwrap_or_else(|| panic!("{}: {condition:?}", case.name()))
    };
    for rule in &fact.rules {
        let EvaluatedRule { applied, kept_out, when, containers } = &rule.result;
        let when = when.as_ref().is_none_or(holds);
        let selects = containers.iter().any(|of| holds(&of.condition));
        assert_eq!(*applied, kept_out.is_none() && when && selects, "{}: {rule:?}", case.name());
        *if *applied { &mut counts.applied } else { &mut counts.others } += 1;
    }
}

/// Each value of the rules that apply is added, or there is a reason.
fn check_states(case: &Case, fact: &PodFact, counts: &mut Counts) {
    for field in &fact.fields {
        let by_applied =
            |rule: &String| fact.rules.iter().any(|known| known.result.applied && known.name == *rule);
        assert!(!matches!(&field.by, Author::Rule(rule) if !by_applied(rule)), "{}: {field:?}", case.name());
        let because = field.because.as_deref().unwrap_or_default();
        let needs_none = field.state == FieldState::Added || field.by == Author::Stamp;
        assert!(needs_none || !because.is_empty(), "{}: {field:?}", case.name());
        *counts.states.entry(field.state).or_default() += 1;
    }
}
