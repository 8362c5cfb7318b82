//! A policy as text.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use fabric_policy::interpolation::text_of;
use fabric_yaml as yaml;

use super::{PolicyFact, RuleFact};
use crate::explain::columns::{Text, on_one_line, one_line, row};
use crate::explain::parameters::{ParameterFact, SourceKind};

/// The text about a policy: its parts in YAML, as a policy has them.
pub fn policy_text(fact: &PolicyFact) -> String {
    let mut text = Text::default();
    let spec = &fact.spec;
    text.line(&format!("{}: {}", fact.name, one_line(&text_of(&spec["description"]))));
    let mut head = vec![row("file", &fact.file)];
    head.extend(fact.extends.iter().map(|base| row("extends", base)));
    text.rows(2, &head);
    for key in ["provider", "nodes", "match", "gpus"] {
        write_part(key, &spec[key], &mut text);
    }
    let mut own = spec["devices"].clone();
    own.as_object_mut().map(|own| own.shift_remove("add"));
    if own != json!({}) {
        write_part("devices that a pod can bring itself", &own, &mut text);
    }
    text.section(
        "rules; without `containers`, those with `env` are for `ranks`, and the others for `gpus > 0`",
    );
    for list in [&spec["devices"]["add"], &spec["rules"]] {
        write_items(list, &mut text, |name| match fact.rules.iter().find(|rule| rule.name == name) {
            Some(RuleFact { applies: Some(false), place, .. }) => {
                format!("  (off with these parameters, {place})")
            }
            Some(RuleFact { place, .. }) => format!("  ({place})"),
            None => String::new(),
        });
    }
    write_part("files for processes that a container does not start itself", &spec["files"], &mut text);
    if !spec["checks"].is_null() {
        text.section("checks");
        write_items(&spec["checks"], &mut text, |_| String::new());
    }
    text.section("parameters");
    fact.parameters.iter().for_each(|parameter| write_parameter(parameter, &mut text));
    write_part("variables", &spec["variables"], &mut text);
    if !fact.machines.is_empty() {
        text.section("machines");
        fact.machines.iter().for_each(|label| as_yaml(label, 2, &mut text));
    }
    needs(fact, &mut text);
    text.finish()
}

fn as_yaml(value: &Value, indent: usize, text: &mut Text) {
    yaml::write(value).lines().for_each(|line| text.line(&format!("{:indent$}{line}", "")));
}

/// A section with one part of the policy, if it has that.
fn write_part(heading: &str, part: &Value, text: &mut Text) {
    if !part.is_null() {
        text.section(heading);
        as_yaml(part, 2, text);
    }
}

/// The items of a list, each below its name.
fn write_items(list: &Value, text: &mut Text, remark: impl Fn(&str) -> String) {
    for item in list.as_array().into_iter().flatten() {
        let mut item = item.clone();
        let name = item.as_object_mut().and_then(|item| item.shift_remove("name")).unwrap_or_default();
        let name = text_of(&name);
        text.line(&format!("  {name}{}", remark(&name)));
        as_yaml(&item, 4, text);
    }
}

fn write_parameter(fact: &ParameterFact, text: &mut Text) {
    let value = match &fact.value.value {
        Value::Null => "unset".to_owned(),
        value => on_one_line(value),
    };
    let from = match fact.value.source {
        SourceKind::Default | SourceKind::None => String::new(),
        source => format!(" ({})", fact.value.detail.clone().unwrap_or_else(|| source.words().to_owned())),
    };
    text.line(&format!("  {}: {} = {value}{from}", fact.name, fact.kind));
    let mut rows = vec![row("", &fact.description)];
    rows.extend(bounds(fact).map(|bounds| row("", &bounds)));
    text.rows(2, &rows);
    // The operator's tables.
    fact.setting.iter().filter(|setting| setting.is_object()).for_each(|table| as_yaml(table, 4, text));
}

/// The bounds of the values, by the keys of the policy.
fn bounds(fact: &ParameterFact) -> Option<String> {
    let bounds = serde_json::to_value(&fact.bounds).ok()?;
    let bounds = bounds.as_object()?.iter().map(|(key, bound)| format!("{key} {}", text_of(bound)));
    Some(bounds.collect::<Vec<_>>().join(", ")).filter(|bounds| !bounds.is_empty())
}

fn needs(fact: &PolicyFact, text: &mut Text) {
    if fact.needs.is_empty() {
        return;
    }
    text.section("needs");
    for of_kind in fact.needs.chunk_by(|one, other| one.kind == other.kind) {
        text.line(&format!("  {}", of_kind[0].kind.words()));
        let rules = |rules: &BTreeSet<String>| {
            let names = rules.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            match rules.len() {
                0 => names,
                1 => format!("rule {names}"),
                _ => format!("rules {names}"),
            }
        };
        let rows: Vec<_> = of_kind.iter().map(|need| row(&need.name, &rules(&need.rules))).collect();
        text.rows(4, &rows);
    }
}
