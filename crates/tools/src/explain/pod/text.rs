//! The injection of a pod as text.

use std::collections::HashSet;

use serde_json::Value;

use fabric_engine::{ConditionFact, EvaluatedRule, FieldState, Read};
use fabric_policy::SelectedLabel;
use fabric_yaml::counted;

use super::rules::{FieldFact, MatchFact, RuleResult};
use super::{PodFact, PodParameter};
use crate::explain::columns::{Text, cell, on_one_line, row, value};
use crate::explain::parameters::{SourceKind, ValueFact};

/// The text about a pod. `head` says where the pod is.
pub fn pod_text(head: &str, fact: &PodFact) -> String {
    let mut text = Text::default();
    let outcome = match (&fact.stamp, &fact.reason) {
        (Some(stamp), None) => format!("{} by {stamp}", fact.outcome),
        (_, Some(reason)) => format!("{}: {} ({})", fact.outcome, reason.message, reason.code),
        (None, None) => fact.outcome.to_owned(),
    };
    text.line(&format!("{head}: {outcome}"));
    if let Some(condition) = fact.reason.as_ref().and_then(|reason| reason.condition.as_ref()) {
        text.rows(2, &[row("since", &described(condition))]);
    }
    text.section("policies");
    fact.policies.iter().for_each(|policy| write_match(policy, &mut text));
    nodes(fact, &mut text);
    parameters(fact, &mut text);
    variables(fact, &mut text);
    rules("rules", &fact.rules, &mut text);
    rules("files", &fact.files, &mut text);
    result(&fact.fields, &mut text);
    absent(&fact.fields, &mut text);
    warnings(fact, &mut text);
    text.finish()
}

fn write_match(fact: &MatchFact, text: &mut Text) {
    let verdict = if fact.matches { "matches" } else { "does not match" };
    text.line(&format!("  {} {verdict}", fact.policy));
    let mut rows = Vec::new();
    for part in fact.parts.iter().filter(|part| !part.holds || fact.matches) {
        let seen = if part.seen.is_empty() { "none of them".to_owned() } else { part.seen.join(", ") };
        let value = if part.holds {
            seen
        } else {
            let wanted = if part.key == "exceptAnnotation" { "excluded" } else { "wanted" };
            format!("{wanted}: {}; the pod has {seen}", part.wanted.join(" or "))
        };
        rows.push(row(part.key, &value));
    }
    rows.extend(fact.when.iter().map(|when| row("when", &described(when))));
    text.rows(4, &rows);
}

fn nodes(fact: &PodFact, text: &mut Text) {
    if fact.containers.is_empty() {
        return;
    }
    text.section("pod");
    let selected =
        |node: &SelectedLabel| row("selects", &format!("{}: {}", node.label, node.values.join(" | ")));
    let mut rows: Vec<_> = fact.nodes.iter().map(selected).collect();
    if rows.is_empty() {
        rows.push(row("selects", "no node label that the policy reads"));
    }
    for container in &fact.containers {
        let kind = if container.list == "containers" { "container" } else { "init container" };
        rows.push(row(kind, &format!("{}, {}", container.name, counted(container.gpus, "GPU"))));
    }
    text.rows(2, &rows);
}

/// The parameters that have a value from the operator or a table, and those that the rules read which apply.
fn parameters(fact: &PodFact, text: &mut Text) {
    if fact.parameters.is_empty() {
        return;
    }
    text.section("parameters");
    let is_default = |value: &ValueFact| matches!(value.source, SourceKind::Default | SourceKind::None);
    let matters = |value: &&PodParameter| value.used || !is_default(&value.value);
    let of =
        |PodParameter { value, .. }: &PodParameter| [value.name.clone(), cell(&value.value), origin(value)];
    let rows: Vec<_> = fact.parameters.iter().filter(matters).map(of).collect();
    text.rows(2, &rows);
    let others = fact.parameters.len() - rows.len();
    if others > 0 {
        let rest = if others == 1 {
            "1 other has its default and matters".to_owned()
        } else {
            format!("{others} others have their defaults and matter")
        };
        text.line(&format!("  {rest} to no rule that applies"));
    }
}

/// The source of a value, with its place.
fn origin(value: &ValueFact) -> String {
    let words = [Some(value.source.words()), value.detail.as_deref()];
    let place = value.place.as_ref().map(|place| format!("({place})"));
    words.into_iter().flatten().chain(place.as_deref()).collect::<Vec<_>>().join(" ")
}

/// The variables that the rules read which apply.
fn variables(fact: &PodFact, text: &mut Text) {
    let rows: Vec<_> = fact
        .variables
        .iter()
        // A table is the same for every pod.
        .filter(|variable| variable.used && (!variable.reads.is_empty() || variable.machine.is_some()))
        .map(|variable| {
            let holder = variable.container.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
            let reads: Vec<String> = variable.reads.iter().map(|read| read_text(read, cell)).collect();
            let value = variable.error.clone().unwrap_or_else(|| cell(&variable.value));
            let from = variable.machine.as_ref().map_or_else(|| format!("from {}", reads.join(", ")), origin);
            [format!("{}{holder}", variable.name), value, from]
        })
        .collect();
    text.table("variables", &rows);
}

/// The rules and files that apply to a container have a `+`.
fn rules(heading: &str, rules: &[RuleResult], text: &mut Text) {
    let mut rows = Vec::new();
    for rule in rules {
        let mark = if rule.result.applied { "+" } else { "-" };
        let mut reasons = reasons(&rule.result).into_iter();
        rows.push([format!("{mark} {}", rule.name), reasons.next().unwrap_or_default()]);
        rows.extend(reasons.map(|reason| [String::new(), reason]));
    }
    text.table(heading, &rows);
}

/// The conditions of a rule or of a file, each with the values that it reads; the containers with one reason together.
fn reasons(EvaluatedRule { kept_out, when, containers, .. }: &EvaluatedRule) -> Vec<String> {
    if let Some(name) = kept_out {
        return vec![format!("kept out: `{name}` is true")];
    }
    let mut reasons = Vec::new();
    if let Some(when) = when {
        reasons.push(format!("when {}", described(when)));
        if when.value != Some(true) {
            return reasons;
        }
    }
    let mut groups: Vec<(Vec<&str>, String)> = Vec::new();
    for of in containers {
        let reason = described(&of.condition);
        match groups.iter_mut().find(|(_, known)| *known == reason) {
            Some((names, _)) => names.push(&of.container),
            None => groups.push((vec![&of.container], reason)),
        }
    }
    reasons.extend(groups.into_iter().map(|(names, reason)| format!("{}: {reason}", names.join(", "))));
    reasons
}

/// The value of a condition, and the values that it reads.
fn described(condition: &ConditionFact) -> String {
    let ConditionFact { expression, value, error, reads } = condition;
    let value = value.map_or("no value".to_owned(), |value| value.to_string());
    let mut text = format!("{value}: `{expression}`");
    if let Some(error) = error {
        text.push_str(&format!(" cannot be evaluated: {error}"));
    }
    // A name alone is its value.
    let reads: Vec<String> = reads
        .iter()
        .filter(|read| read.name != *expression)
        .map(|read| read_text(read, on_one_line))
        .collect();
    if !reads.is_empty() {
        text.push_str(&format!(" with {}", reads.join(", ")));
    }
    text
}

fn read_text(read: &Read, text: fn(&Value) -> String) -> String {
    match &read.value {
        Value::Null => format!("no {}", read.name),
        // A table or a list is less informative than its name.
        Value::Object(_) | Value::Array(_) if text(&read.value).ends_with('…') => read.name.clone(),
        value => format!("{} = {}", read.name, text(value)),
    }
}

/// The fields that were added or changed. A value that was added in parts has a row for each part.
fn result(fields: &[FieldFact], text: &mut Text) {
    let is_written = |field: &&FieldFact| matches!(field.state, FieldState::Added | FieldState::Replaced);
    let written: Vec<&FieldFact> = fields.iter().filter(is_written).collect();
    let whole: HashSet<&str> = written
        .iter()
        .flat_map(|field| field.pointer.match_indices('/').map(|(end, _)| &field.pointer[..end]))
        .collect();
    let row = |field: &&FieldFact| {
        let value = field.value.as_ref().map_or_else(|| "removed".to_owned(), |v| value(&field.path, v));
        let replaces = if field.state == FieldState::Replaced { "replaces the pod's: " } else { "" };
        row(&field.by.to_string(), &format!("{} = {replaces}{value}", field.path))
    };
    let rows: Vec<_> =
        written.iter().filter(|field| !whole.contains(field.pointer.as_str())).map(row).collect();
    text.table("result", &rows);
}

/// The fields of overlays that the injection did not add.
fn absent(fields: &[FieldFact], text: &mut Text) {
    let row = |field: &FieldFact| {
        let state = match field.state {
            FieldState::Added => return None,
            FieldState::Replaced => "replaced",
            FieldState::Present => "present",
            FieldState::Kept => "kept",
            FieldState::LeftOut => "left out",
        };
        // A warning begins with the path.
        let because = field.because.as_deref().unwrap_or_default();
        let because = because.strip_prefix(&format!("`{}`", field.path)).unwrap_or(because);
        let because = because.trim_start_matches(':').trim();
        Some([field.by.to_string(), state.to_owned(), format!("{}: {because}", field.path)])
    };
    let rows: Vec<_> = fields.iter().filter_map(row).collect();
    text.table("not added", &rows);
}

fn warnings(fact: &PodFact, text: &mut Text) {
    if fact.warnings.is_empty() {
        return;
    }
    text.section("warnings");
    for warning in &fact.warnings {
        let rule = if warning.rule.is_empty() { String::new() } else { format!(", rule {}", warning.rule) };
        text.rows(2, &[row(&format!("{}{rule}", warning.code), &warning.message)]);
        let since = |condition| row("", &format!("since {}", described(condition)));
        text.rows(4, &warning.condition.iter().map(since).collect::<Vec<_>>());
    }
}
