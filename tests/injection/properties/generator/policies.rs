//! Policies at random, as text.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::author::{Author, Phase};
use super::expressions::Expr;
use super::pools::{GPU, NAMESPACES, OPT_OUT, OTHER_GPU, REFUSAL, TRIGGER, VARIABLES, VOLUMES};
use super::{Dice, container_overlays, extends, fabric, own_writes, pod_overlays, same_places, values, yaml};

/// A policy and the expressions in it.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) document: Value,
    /// Each by its text, without `${` and `}`.
    pub(crate) expressions: BTreeMap<String, Expr>,
    /// When the value of each variable is known.
    pub(crate) phases: BTreeMap<String, Phase>,
    /// Whether the values of all expressions can be worked out.
    pub(crate) known: bool,
    /// What the operator sets.
    pub(crate) overrides: BTreeMap<String, Value>,
}

impl Policy {
    /// A policy of which the expressions are not known.
    pub(crate) fn of(document: Value) -> Self {
        let known = !yaml::text(&document).contains("${");
        Self {
            document,
            expressions: BTreeMap::new(),
            phases: BTreeMap::new(),
            known,
            overrides: BTreeMap::new(),
        }
    }

    /// A policy of which nothing is known.
    pub(crate) fn unknown() -> Self {
        Self { known: false, ..Self::of(Value::Null) }
    }

    /// The text of each of its files by the file's name; that of the policy itself is the first one.
    pub(crate) fn files(&self) -> Vec<(String, String)> {
        files(&self.document)
    }

    /// The text of all its files.
    pub(crate) fn text(&self) -> String {
        let texts: Vec<String> = self.files().into_iter().map(|(_, text)| text).collect();
        texts.join("---\n")
    }
}

/// The text of each file of a document by the file's name.
pub(crate) fn files(document: &Value) -> Vec<(String, String)> {
    extends::files(document).into_iter().map(|(name, one)| (name, yaml::text(&written(&one)))).collect()
}

/// A policy that is meant to load: in one file or in several, large, of rules that meet on a few places, or of such that
/// read what it writes.
pub(crate) fn policy(dice: &mut Dice) -> Policy {
    let kind = dice.below(20);
    if kind < 7 {
        let mut policy = Policy { known: false, ..Policy::of(own_writes::policy(dice)) };
        if dice.chance(40) {
            extends::divide(dice, &mut policy.document, 30);
        }
        return policy;
    }
    let is_small = kind < 11;
    let mut policy = of_any_kind(dice, is_small);
    if dice.chance(if is_small { 80 } else { 15 }) {
        policy.known &= extends::divide(dice, &mut policy.document, 4);
    }
    policy
}

/// A policy with some of all that there is, or a small one of rules that meet.
fn of_any_kind(dice: &mut Dice, is_small: bool) -> Policy {
    let matcher = matcher(dice);
    let gpus = if dice.chance(30) { json!([GPU, OTHER_GPU]) } else { json!([GPU]) };
    let wild = if dice.chance(25) { 70 } else { 3 };
    let mut author = Author { dice, known: Vec::new(), expressions: BTreeMap::new(), wild };
    let mut machines = Map::new();
    let (parameters, overrides) = values::parameters(&mut author, &mut machines);
    let variables = values::variables(&mut author, &mut machines);
    let mut warnings = warnings(&mut author);
    let rules: Vec<Value> = if is_small {
        same_places::rules(&mut author)
    } else {
        (0..=author.dice.below(5)).map(|at| rule(&mut author, at)).collect()
    };
    warnings.extend(refusal(&mut author));
    let mut matcher = matcher;
    if author.dice.chance(15) {
        let condition = author.condition(Phase::Pod, 2);
        matcher["when"] = author.write(condition).into();
    }
    let mut spec = json!({
        "provider": "test", "description": "generated", "gpus": {"resources": gpus}, "match": matcher,
    });
    for (key, value) in [("parameters", parameters), ("variables", variables), ("machines", machines)] {
        if !value.is_empty() {
            spec[key] = value.into();
        }
    }
    if !warnings.is_empty() {
        spec["checks"] = warnings.into();
    }
    spec["rules"] = rules.into();
    let known = fabric::extend_policy(&mut author, &mut spec);
    if author.dice.chance(10) {
        spec["files"] = own_writes::files(author.dice);
    }
    let document = json!({
        "apiVersion": "fabric-injector.io/v1alpha1", "kind": "FabricPolicy",
        "metadata": {"name": "generated"}, "spec": spec,
    });
    let phases = author.known.iter().map(|known| (known.name.clone(), known.phase)).collect();
    Policy { document, expressions: author.expressions, phases, known, overrides }
}

/// The policy as its author writes it: the generator and the model have a condition as `${…}`, a rule's variables as a
/// list in `container`, and what is added to a variable apart from the variable's own.
pub(crate) fn written(document: &Value) -> Value {
    let mut document = document.clone();
    let spec = &mut document["spec"];
    if let Some(matcher) = spec.get_mut("match") {
        condition(matcher, "when");
    }
    for check in spec["checks"].as_array_mut().into_iter().flatten() {
        condition(check, "when");
        condition(check, "containers");
    }
    for entry in spec.pointer_mut("/devices/add").and_then(Value::as_array_mut).into_iter().flatten() {
        condition(entry, "when");
    }
    for rule in spec["rules"].as_array_mut().into_iter().flatten() {
        condition(rule, "when");
        condition(rule, "containers");
        edits(rule);
        variables_by_name(rule);
    }
    if spec["checks"].is_null() {
        spec.as_object_mut().map(|spec| spec.remove("checks"));
    }
    if spec["rules"].is_null() {
        spec.as_object_mut().map(|spec| spec.remove("rules"));
    }
    document
}

fn condition(of: &mut Value, key: &str) {
    let Some(text) = of.get(key).and_then(Value::as_str) else { return };
    if let Some(bare) = text.strip_prefix("${").and_then(|text| text.strip_suffix('}')) {
        of[key] = bare.into();
    }
}

/// Writes what is added to the variables of a rule before or after their own.
fn edits(value: &mut Value) {
    let name = value["name"].as_str().map(|name| format!("$({name})"));
    if let (Some(own), Some(edit)) = (name, value["value"].as_object()) {
        let text = |side: &str| edit.get(side).and_then(Value::as_str);
        let before = text("$prepend").map(|entry| format!("{entry}:{own}"));
        let written = before.or_else(|| Some(format!("{own}:{}", text("$append")?)));
        value["value"] = written.into();
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(edits),
        Value::Object(fields) => fields.values_mut().for_each(edits),
        _ => {}
    }
}

fn variables_by_name(rule: &mut Value) {
    let Some(container) = rule.get_mut("container").and_then(Value::as_object_mut) else { return };
    let Some(Value::Array(entries)) = container.get("env").cloned() else { return };
    container.remove("env");
    let is_empty = container.is_empty();
    if is_empty {
        rule.as_object_mut().map(|rule| rule.remove("container"));
    } else if rule["containers"].is_null() {
        rule["containers"] = json!("gpus > 0");
    }
    let mut env = Map::new();
    for mut entry in entries {
        let name = entry["name"].as_str().unwrap_or_default().to_owned();
        let value = entry["value"].take();
        let source = entry["valueFrom"].take();
        env.insert(name, if source.is_null() { value } else { json!({"valueFrom": source}) });
    }
    rule["env"] = env.into();
}

fn matcher(dice: &mut Dice) -> Value {
    let mut matcher = json!({"anyAnnotation": {TRIGGER: "true"}});
    if dice.chance(30) {
        matcher["exceptAnnotation"] = json!({OPT_OUT: dice.pick(&["true", "*"])});
    }
    match dice.below(12) {
        0 => matcher["namespaces"] = json!(dice.some(&NAMESPACES, 80)),
        1 => {
            matcher["ownerKinds"] =
                json!([dice.pick(&["Job", "Job.batch", "Job.batch.test"]), "StatefulSet"]);
        }
        2 => matcher["labels"] = json!({"role": "launcher"}),
        3 => {
            matcher.as_object_mut().map(|matcher| matcher.remove("anyAnnotation"));
            matcher["labels"] = json!({"role": "launcher"});
        }
        _ => {}
    }
    if matcher["namespaces"] == json!([]) {
        matcher["namespaces"] = json!(["default"]);
    }
    matcher
}

/// Checks of pods, of containers and of variables.
fn warnings(author: &mut Author<'_>) -> Vec<Value> {
    let mut warnings = Vec::new();
    if author.dice.chance(25) {
        let condition = author.condition(Phase::Final, 1);
        let when = author.write(condition);
        let text = author.text(Phase::Final);
        let message = format!("seen: {}", author.write(text));
        warnings.push(json!({"name": "generated", "when": when, "message": message}));
    }
    if author.dice.chance(10) {
        let condition = author.condition(Phase::Container, 1);
        let containers = author.write(condition);
        let mut check = json!({"name": "generated_container", "containers": containers, "message": "seen"});
        if author.dice.chance(50) {
            check["env"] = json!(author.dice.pick(&VARIABLES));
            check["when"] = json!(author.dice.pick(&["${value == '1'}", "${value.contains('/opt/lib')}"]));
        }
        if author.dice.chance(15) {
            check["action"] = json!(author.dice.pick(&["refuse", "skip"]));
        }
        warnings.push(check);
    }
    warnings
}

fn refusal(author: &mut Author<'_>) -> Option<Value> {
    author.dice.chance(5).then(|| {
        let condition = author.condition(Phase::Final, 1);
        let when = author.write(condition);
        json!({"name": "generated_refusal", "when": when, "action": "refuse", "message": REFUSAL})
    })
}

fn rule(author: &mut Author<'_>, at: usize) -> Value {
    let mut rule = json!({"name": format!("rule-{at}")});
    if author.dice.chance(35) {
        let condition = author.condition(Phase::Pod, 2);
        rule["when"] = author.write(condition).into();
    }
    if author.dice.chance(30) {
        let condition = author.condition(Phase::Container, 2);
        rule["containers"] = author.write(condition).into();
    }
    match author.dice.below(10) {
        0 => rule["onConflict"] = json!("replace"),
        1 => rule["onConflict"] = json!("keep"),
        _ => {}
    }
    let mut volumes: Vec<&str> = Vec::new();
    if author.dice.chance(30) {
        volumes.push(author.dice.pick(&VOLUMES));
        if author.dice.chance(30) {
            volumes.extend(
                VOLUMES.iter().filter(|name| **name != volumes[0]).take(1).copied().collect::<Vec<_>>(),
            );
        }
    }
    let mounted = if author.dice.chance(90) { volumes.clone() } else { Vec::new() };
    let container = container_overlays::overlay(author, Phase::Container, &mounted);
    let provided = if author.dice.chance(90) { volumes } else { Vec::new() };
    let pod = if author.dice.chance(45) || !provided.is_empty() {
        pod_overlays::overlay(author, &provided)
    } else {
        json!({})
    };
    if pod != json!({}) {
        rule["pod"] = pod.clone();
    }
    if !container.is_empty() {
        rule["container"] = container.into();
    } else if pod == json!({}) {
        rule["container"] = json!({"env": [{"name": "A", "value": "1"}]});
    }
    rule
}
