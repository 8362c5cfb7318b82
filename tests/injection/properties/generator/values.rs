//! Parameters, variables and tables of policies.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Dice;
use super::author::{Author, Kind, Known, Phase};
use super::expressions::Expr;
use super::pools::{INSTANCE_TYPE, INSTANCE_TYPES, POOL, POOLS};

/// Parameters, and what the operator sets of them.
pub(crate) fn parameters(
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

pub(crate) fn variables(author: &mut Author<'_>, machines: &mut Map<String, Value>) -> Map<String, Value> {
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
