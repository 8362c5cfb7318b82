//! A policy as text.

use serde_json::Value;

use fabric_yaml::counted;

use super::additions::{AdditionFact, RuleFact};
use super::needs::NeedKind;
use super::{CheckFact, PolicyFact, VariableFact};
use crate::explain::columns::{GPU_CONTAINERS, Text, brief, one_line, shown, value};
use crate::explain::parameters::{ParameterFact, SourceKind};

/// The text about a policy.
pub fn policy_text(fact: &PolicyFact) -> String {
    let mut text = Text::default();
    text.line(&format!("{}: {}", fact.name, one_line(&fact.description)));
    let mut head = vec![row("file", &fact.file), row("provider", &fact.provider)];
    head.extend(fact.extends.iter().map(|base| row("extends", base)));
    text.rows(2, &head);
    triggers(fact, &mut text);
    gpus(fact, &mut text);
    text.section(&format!("rules, for containers with `{GPU_CONTAINERS}` if they do not say otherwise"));
    fact.rules.iter().for_each(|rule| write_rule(rule, &mut text));
    files(fact, &mut text);
    text.section("parameters");
    fact.parameters.iter().for_each(|parameter| write_parameter(parameter, &mut text));
    variables(fact, &mut text);
    checks(&fact.checks, &mut text);
    needs(fact, &mut text);
    text.finish()
}

fn row(name: &str, value: &str) -> [String; 2] {
    [name.to_owned(), value.to_owned()]
}

fn triggers(fact: &PolicyFact, text: &mut Text) {
    let matcher = &fact.r#match;
    let pairs = |pairs: &[(String, String)]| -> Vec<String> {
        pairs.iter().map(|(key, value)| format!("{key}: \"{value}\"")).collect()
    };
    text.section("matches a pod");
    let mut rows = Vec::new();
    for (words, values) in [
        ("with one of these annotations", pairs(&matcher.any_annotation)),
        ("with none of these annotations", pairs(&matcher.except_annotation)),
        ("with all of these labels", pairs(&matcher.labels)),
        ("in one of these namespaces", matcher.namespaces.clone()),
        ("with an owner of one of these kinds", matcher.owner_kinds.clone()),
        ("among several providers, for nodes with", pairs(&matcher.nodes)),
        ("if", matcher.when.clone().into_iter().collect()),
    ] {
        for (index, value) in values.iter().enumerate() {
            rows.push(row(if index == 0 { words } else { "" }, value));
        }
    }
    text.rows(2, &rows);
}

fn gpus(fact: &PolicyFact, text: &mut Text) {
    text.section("counts as GPUs");
    let mut rows = vec![row("resources", &fact.gpus.resources.join(", "))];
    if !fact.gpus.claims.is_empty() {
        rows.push(row("claims with their GPUs", &fact.gpus.claims.join(", ")));
    }
    text.rows(2, &rows);
    let own = &fact.own_devices;
    let lists = [("resources", &own.resources), ("claims", &own.claims)];
    let rows: Vec<_> = lists
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(kind, names)| row(kind, &names.join(", ")))
        .collect();
    if !rows.is_empty() {
        text.section("counts as a fabric that the pod brings itself (`ownDevices`)");
        text.rows(2, &rows);
    }
}

fn write_rule(rule: &RuleFact, text: &mut Text) {
    let state = match rule.applies {
        Some(false) => "  (off with these parameters)",
        Some(true) | None => "",
    };
    text.line(&format!("  {}{state}", rule.name));
    let mut rows = Vec::new();
    rows.extend(rule.when.iter().map(|when| row("if", when)));
    if rule.containers != GPU_CONTAINERS {
        rows.push(row("for containers with", &rule.containers));
    }
    if rule.on_conflict != "keep" {
        rows.push(row("on conflict", rule.on_conflict));
    }
    for (holder, additions) in [("container", &rule.container), ("pod", &rule.pod)] {
        let mut name = holder;
        for addition in additions.iter().filter(|addition| !repeats_limit(addition, additions)) {
            rows.push(row(name, &written(addition)));
            name = "";
        }
    }
    text.rows(4, &rows);
}

/// Returns whether the addition is a request that equals the limit.
fn repeats_limit(addition: &AdditionFact, all: &[AdditionFact]) -> bool {
    let Some(name) = addition.path.strip_prefix("resources.requests") else { return false };
    let limit = format!("resources.limits{name}");
    all.iter().any(|other| other.path == limit && other.value == addition.value)
}

fn written(addition: &AdditionFact) -> String {
    let AdditionFact { path, value: written, constant } = addition;
    let join = |value: String| if value.is_empty() { path.clone() } else { format!("{path} = {value}") };
    if let Some(entry) = written.get("$append") {
        let entry = constant.as_ref().filter(|constant| !constant.is_null()).unwrap_or(entry);
        return join(format!("$append {}", brief(entry)));
    }
    match constant {
        Some(Value::Null) => format!("{} (left out with these parameters)", join(value(path, written))),
        Some(constant) if constant.is_array() && written.is_object() => join(value(path, written)),
        Some(constant) => join(value(path, constant)),
        None => join(value(path, written)),
    }
}

fn files(fact: &PolicyFact, text: &mut Text) {
    if fact.files.is_empty() {
        return;
    }
    text.section("files for processes that a container does not start itself");
    for file in &fact.files {
        text.line(&format!("  {}", file.path));
        let mut rows = Vec::new();
        rows.extend(file.when.iter().map(|when| row("if", when)));
        rows.push(row("variables", &file.variables.join(", ")));
        rows.extend(file.env.iter().map(|name| row("unless set", name)));
        text.rows(4, &rows);
    }
}

fn write_parameter(fact: &ParameterFact, text: &mut Text) {
    let value = match &fact.value.value {
        Value::Null => "unset".to_owned(),
        value => brief(value),
    };
    let from = match fact.value.source {
        SourceKind::Default | SourceKind::None => String::new(),
        source => format!(" ({})", fact.value.detail.clone().unwrap_or_else(|| source.words().to_owned())),
    };
    text.line(&format!("  {}: {} = {value}{from}", fact.name, fact.kind));
    let mut rows = vec![row("", &fact.description)];
    rows.extend(bounds(fact).map(|bounds| row("", &bounds)));
    text.rows(2, &rows);
    let tables = fact.setting.iter().filter_map(Value::as_object).chain(&fact.machines);
    tables.for_each(|table| write_table(table, text));
}

fn write_table(table: &serde_json::Map<String, Value>, text: &mut Text) {
    for (label, entries) in table {
        let Some(entries) = entries.as_object() else { continue };
        text.line(&format!("    by {label}"));
        text.rows(6, &grouped(entries));
    }
}

/// The bounds of the values, by the keys of the policy.
fn bounds(fact: &ParameterFact) -> Option<String> {
    let bounds = serde_json::to_value(&fact.bounds).ok()?;
    let bounds = bounds.as_object()?.iter().map(|(key, bound)| format!("{key} {}", shown(bound)));
    Some(bounds.collect::<Vec<_>>().join(", ")).filter(|bounds| !bounds.is_empty())
}

/// The entries of a table, those with one value together.
fn grouped(entries: &serde_json::Map<String, Value>) -> Vec<[String; 2]> {
    let mut groups: Vec<[String; 2]> = Vec::new();
    let mut add = |value: &Value, label: String| {
        let value = brief(value);
        match groups.iter_mut().find(|group| group[0] == value) {
            Some(group) => group[1].push_str(&format!(", {label}")),
            None => groups.push([value, label]),
        }
    };
    for (label, cell) in entries {
        let Value::Object(by_gpus) = cell else {
            add(cell, label.clone());
            continue;
        };
        let mut values: Vec<&Value> = by_gpus.values().collect();
        values.dedup();
        for value in values {
            let counts = by_gpus.iter().filter(|(_, other)| *other == value);
            let counts: Vec<&str> = counts.map(|(count, _)| count.as_str()).collect();
            add(value, format!("{label} with {}", counted(counts.join("/"), "GPU")));
        }
    }
    groups
}

/// The variables that depend on something: on expressions, or on the machine.
fn variables(fact: &PolicyFact, text: &mut Text) {
    let row_of = |variable: &VariableFact| row(&variable.name, &variable.fallback);
    let varies = |variable: &&VariableFact| !variable.expressions.is_empty() || !variable.machines.is_empty();
    let rows: Vec<_> = fact.variables.iter().filter(varies).map(row_of).collect();
    if rows.is_empty() {
        return;
    }
    text.section("variables");
    text.rows(2, &rows);
    for variable in fact.variables.iter().filter(|variable| !variable.machines.is_empty()) {
        text.line(&format!("  {}", variable.name));
        variable.machines.iter().for_each(|table| write_table(table, text));
    }
}

fn checks(checks: &[CheckFact], text: &mut Text) {
    if checks.is_empty() {
        return;
    }
    text.section("checks");
    for check in checks {
        text.line(&format!("  {}", check.code));
        let mut rows: Vec<_> = check.env.iter().map(|name| row("of the variable", name)).collect();
        rows.extend(check.when.iter().map(|when| row("if", when)));
        rows.extend(check.containers.iter().map(|condition| row("for containers with", condition)));
        rows.push(row(check.effect, &check.message));
        text.rows(4, &rows);
    }
}

fn needs(fact: &PolicyFact, text: &mut Text) {
    if fact.needs.is_empty() {
        return;
    }
    text.section("needs");
    for kind in NeedKind::ALL {
        let of_kind: Vec<_> = fact.needs.iter().filter(|need| need.kind == kind).collect();
        if of_kind.is_empty() {
            continue;
        }
        text.line(&format!("  {}", kind.words()));
        let rules = |rules: &std::collections::BTreeSet<String>| match rules.len() {
            0 => String::new(),
            1 => format!("rule {}", rules.iter().map(String::as_str).collect::<String>()),
            _ => format!("rules {}", rules.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
        };
        let rows: Vec<_> = of_kind.iter().map(|need| row(&need.name, &rules(&need.rules))).collect();
        text.rows(4, &rows);
    }
}
