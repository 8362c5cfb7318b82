//! Small policies whose rules set the same few places, for what decides between them.

use serde_json::{Value, json};

use super::author::{Author, Phase};
use super::expressions::{Expr, literal};
use super::set;

/// The rules of a policy.
pub(crate) fn rules(author: &mut Author<'_>) -> Vec<Value> {
    (0..2 + author.dice.below(3)).map(|at| rule(author, at)).collect()
}

fn rule(author: &mut Author<'_>, at: usize) -> Value {
    let mut rule = json!({"name": format!("rule-{at}")});
    if author.dice.chance(25) {
        let condition = author.condition(Phase::Pod, 1);
        rule["when"] = author.write(condition).into();
    }
    if author.dice.chance(25) {
        let condition = author.condition(Phase::Container, 1);
        rule["containers"] = author.write(condition).into();
    }
    if author.dice.chance(15) {
        rule["onConflict"] = json!(author.dice.pick(&["replace", "keep"]));
    }
    if author.dice.chance(75) {
        let env = variables(author, Phase::Container);
        rule["container"] = json!({"env": env});
    }
    if author.dice.chance(15) {
        let user = author.dice.pick(&[literal(0), literal(1000), literal(Value::Null)]);
        let user = perhaps(author, Phase::Container, user);
        set(&mut rule, &["container", "securityContext"], json!({"runAsUser": user}));
    }
    if author.dice.chance(60) || rule["container"].is_null() {
        rule["pod"] = of_pod(author);
    }
    if rule["container"].is_null() {
        rule.as_object_mut().map(|rule| rule.shift_remove("container"));
    }
    rule
}

/// The value, or in some pods `null`.
fn perhaps(author: &mut Author<'_>, phase: Phase, value: Expr) -> Value {
    if let (Expr::Literal(value), true) = (&value, author.dice.chance(50)) {
        return value.clone();
    }
    if author.dice.chance(50) {
        return author.write(value).into();
    }
    let condition = Box::new(author.condition(phase, 0));
    author.write(Expr::Choose(condition, Box::new(value), Box::new(literal(Value::Null)))).into()
}

pub(crate) fn variables(author: &mut Author<'_>, phase: Phase) -> Value {
    let mut entries = Vec::new();
    for name in author.dice.some(&["A", "B", "NCCL_DEBUG"], 50) {
        let value = match author.dice.below(8) {
            0 => Value::Null,
            // No two refer to each other.
            1 | 2 if name == "B" => json!("$(A)/x"),
            1 | 2 if name == "NCCL_DEBUG" => json!(author.dice.pick(&["$(A)/x", "$(B)/x"])),
            3 | 4 => author.text_field(phase),
            _ => json!(author.dice.pick(&["1", "two", "x"])),
        };
        let name = if author.dice.chance(10) { author.write(literal(name)) } else { name.to_owned() };
        entries.push(json!({"name": name, "value": value}));
    }
    if entries.is_empty() {
        entries.push(json!({"name": "A", "value": author.dice.pick(&["1", "two"])}));
    }
    entries.into()
}

fn of_pod(author: &mut Author<'_>) -> Value {
    let mut pod = json!({});
    for _ in 0..=author.dice.below(2) {
        match author.dice.below(6) {
            0 | 1 => {
                let selector = map(author, "fabric", &["rdma", "own"]);
                set(&mut pod, &["spec", "nodeSelector"], selector);
            }
            2 => {
                let labels = map(author, "example.com/tier", &["yes", "own"]);
                set(&mut pod, &["metadata", "labels"], labels);
            }
            3 => {
                let annotations = map(author, "note", &["yes", "own"]);
                set(&mut pod, &["metadata", "annotations"], annotations);
            }
            4 => {
                let name = literal(author.dice.pick(&["fabric", "other"]));
                let name = perhaps(author, Phase::Final, name);
                set(&mut pod, &["spec", "schedulerName"], name);
            }
            _ => {
                let env = variables(author, Phase::Final);
                set(
                    &mut pod,
                    &["spec", "containers"],
                    json!([{"name": author.dice.pick(&["main", "worker"]), "env": env}]),
                );
            }
        }
    }
    pod
}

/// A map of one or two keys: written, or computed as a whole.
pub(crate) fn map(author: &mut Author<'_>, key: &str, values: &[&'static str]) -> Value {
    let mut entries = vec![(key.to_owned(), literal(author.dice.pick(values)))];
    if author.dice.chance(40) {
        entries.push(("x".to_owned(), literal(author.dice.pick(values))));
    }
    match author.dice.below(6) {
        0 | 1 => perhaps(author, Phase::Final, Expr::Map(entries)),
        2 => {
            let (key, value) = entries.swap_remove(0);
            let key = author.write(literal(key));
            json!({key: perhaps(author, Phase::Final, value)})
        }
        _ => entries.into_iter().map(|(key, value)| (key, perhaps(author, Phase::Final, value))).collect(),
    }
}
