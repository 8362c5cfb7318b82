//! Policies at random, as text.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::author::{Author, Kind, Known, Phase};
use super::expressions::Expr;
use super::pools::{
    GPU, INSTANCE_TYPE, INSTANCE_TYPES, NAMESPACES, OPT_OUT, OTHER_GPU, POOL, POOLS, REFUSAL, TRIGGER,
    VOLUMES,
};
use super::{Dice, container_overlays, fabric, pod_overlays, yaml};

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

    pub(crate) fn text(&self) -> String {
        yaml::text(&written(&self.document))
    }
}

/// A policy that is meant to load.
pub(crate) fn policy(dice: &mut Dice) -> Policy {
    let matcher = matcher(dice);
    let gpus = if dice.chance(30) { json!([GPU, OTHER_GPU]) } else { json!([GPU]) };
    let wild = if dice.chance(25) { 70 } else { 3 };
    let mut author = Author { dice, known: Vec::new(), expressions: BTreeMap::new(), wild };
    let mut machines = Map::new();
    let (parameters, overrides) = parameters(&mut author, &mut machines);
    let variables = variables(&mut author, &mut machines);
    let mut warnings = warnings(&mut author);
    let rules: Vec<Value> = (0..=author.dice.below(5)).map(|at| rule(&mut author, at)).collect();
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
    fabric::extend_policy(&mut author, &mut spec);
    let document = json!({
        "apiVersion": "fabric-injector.io/v1alpha1", "kind": "FabricPolicy",
        "metadata": {"name": "generated"}, "spec": spec,
    });
    let phases = author.known.iter().map(|known| (known.name.clone(), known.phase)).collect();
    Policy { document, expressions: author.expressions, phases, known: true, overrides }
}

/// The policy as its author writes it: the generator and the model have a condition as `${…}`, a rule's variables as a
/// list in `container`, and what is added to a variable apart from the variable's own.
pub(crate) fn written(document: &Value) -> Value {
    let mut document = document.clone();
    let spec = &mut document["spec"];
    condition(&mut spec["match"], "when");
    for check in spec["checks"].as_array_mut().into_iter().flatten() {
        condition(check, "when");
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

/// Parameters, and what the operator sets of them.
fn parameters(
    author: &mut Author<'_>,
    machines: &mut Map<String, Value>,
) -> (Map<String, Value>, BTreeMap<String, Value>) {
    let all = [
        ("ratio", Kind::Ratio, "number", json!(2), json!(0.5)),
        ("count", Kind::Integer, "integer", json!(1), json!(4)),
        ("interface", Kind::Text, "string", json!("eth0"), json!("no")),
        ("perhaps", Kind::Perhaps, "string", Value::Null, json!("given")),
        ("flag", Kind::Boolean, "boolean", json!(true), json!(false)),
        ("size", Kind::Quantity, "quantity", json!("64Gi"), json!("1Gi")),
        ("links", Kind::Texts, "stringList", json!(["eth1", "eth2"]), json!(["role"])),
    ];
    let (mut parameters, mut overrides) = (Map::new(), BTreeMap::new());
    for (name, kind, type_name, default, other) in all {
        if !author.dice.chance(40) {
            continue;
        }
        let mut parameter = json!({"type": type_name, "description": "generated"});
        if !default.is_null() {
            parameter["default"] = default.clone();
        }
        match author.dice.below(20) {
            0 | 1 => {
                overrides.insert(name.to_owned(), other.clone());
            }
            2 | 3 => {
                let mut setting = table(author.dice, &other);
                if author.dice.chance(40) {
                    setting["default"] = other.clone();
                }
                overrides.insert(name.to_owned(), setting);
            }
            _ => {}
        }
        if author.dice.chance(40) {
            add_column(machines, name, &table(author.dice, &other));
        }
        // The default tells it.
        if !["integer", "quantity"].contains(&type_name) && !default.is_null() && author.dice.chance(50) {
            parameter.as_object_mut().map(|parameter| parameter.remove("type"));
        }
        parameters.insert(name.to_owned(), parameter);
        author.known.push(Known { name: name.to_owned(), kind, phase: Phase::Fixed });
    }
    (parameters, overrides)
}

/// Adds the values of a parameter or variable for machines, some of them in rows for several.
fn add_column(machines: &mut Map<String, Value>, name: &str, table: &Value) {
    for (label, cells) in table.as_object().into_iter().flatten() {
        let rows = machines.entry(label.clone()).or_insert_with(|| json!({}));
        let cells: Vec<_> = cells.as_object().into_iter().flatten().collect();
        // Rows of one column alone can have several values.
        let together = |(key, cell): (&String, &Value)| cells[0].1 == cell && rows.get(key).is_none();
        if cells.len() > 1 && cells.iter().copied().all(together) {
            let keys: Vec<&str> = cells.iter().map(|(key, _)| key.as_str()).collect();
            rows[keys.join(", ")] = json!({name: cells[0].1});
            continue;
        }
        for (key, cell) in cells {
            if rows.get(key).is_none() {
                rows[key] = json!({});
            }
            rows[key][name] = cell.clone();
        }
    }
    machines.retain(|_, rows| rows.as_object().is_some_and(|rows| !rows.is_empty()));
}

/// The value for some nodes, by one label or by both, each in either order.
fn table(dice: &mut Dice, value: &Value) -> Value {
    let mut of = |values: &[&str]| {
        let mut cells = Map::new();
        for name in dice.some(values, 60) {
            let cell = match dice.below(10) {
                0 => json!({"1": value, "8": value}),
                1 | 2 => json!({"2-8": value, "9-16": value}),
                _ => value.clone(),
            };
            let star = if dice.chance(20) { "*" } else { "" };
            cells.insert(format!("{star}{name}"), cell);
        }
        Value::from(cells)
    };
    let (types, pools) = (of(&INSTANCE_TYPES[..3]), of(&POOLS[..2]));
    match dice.below(4) {
        0 => json!({POOL: pools}),
        1 => json!({POOL: pools, INSTANCE_TYPE: types}),
        2 => json!({INSTANCE_TYPE: types, POOL: pools}),
        _ => json!({INSTANCE_TYPE: types}),
    }
}

fn variables(author: &mut Author<'_>, machines: &mut Map<String, Value>) -> Map<String, Value> {
    let mut variables = Map::new();
    for at in 0..author.dice.below(4) {
        let name = format!("v{at}");
        if author.dice.chance(20) {
            add_column(machines, &name, &table(author.dice, &json!("known")));
            let (mut fallback, mut phase) = ("other".to_owned(), Phase::Fixed);
            if author.dice.chance(50) {
                let expression = author.expression(Kind::Text, Phase::Pod);
                phase = phase_of(&expression, author);
                fallback = author.write(expression);
            }
            variables.insert(name.clone(), fallback.into());
            author.known.push(Known { name, kind: Kind::Text, phase });
            continue;
        }
        let phase = author.dice.pick(&[Phase::Fixed, Phase::Pod, Phase::Pod, Phase::Container, Phase::Final]);
        let kind = author.dice.pick(&[Kind::Boolean, Kind::Text, Kind::Integer, Kind::Perhaps]);
        let expression = author.expression(kind, phase);
        // What it reads says when its value is known; a wider phase than planned does no harm.
        let phase = phase_of(&expression, author);
        let text = author.write(expression);
        variables.insert(name.clone(), text.into());
        author.known.push(Known { name, kind, phase });
    }
    variables
}

/// When the value of an expression is known, by the names in its text.
fn phase_of(expression: &Expr, author: &Author<'_>) -> Phase {
    let source = expression.source();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let reads = |name: &str| {
        source.match_indices(name).any(|(at, _)| {
            let (before, after) = (&source[..at], &source[at + name.len()..]);
            !before.ends_with(|c: char| is_part(c) || c == '.' || c == '?') && !after.starts_with(is_part)
        })
    };
    let of = |wanted: Phase, built_in: &[&str]| {
        built_in.iter().any(|name| reads(name))
            || author.known.iter().any(|known| known.phase == wanted && reads(&known.name))
    };
    if of(Phase::Final, &["podRequests"]) {
        Phase::Final
    } else if of(Phase::Container, &["gpus", "container"]) {
        Phase::Container
    } else if of(Phase::Pod, &["pod", "podNamespace", "hostNetwork", "totalGpus"]) {
        Phase::Pod
    } else {
        Phase::Fixed
    }
}

fn warnings(author: &mut Author<'_>) -> Vec<Value> {
    let mut warnings = Vec::new();
    if author.dice.chance(25) {
        let condition = author.condition(Phase::Final, 1);
        let when = author.write(condition);
        let text = author.text(Phase::Final);
        let message = format!("seen: {}", author.write(text));
        warnings.push(json!({"name": "generated", "when": when, "message": message}));
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
