//! The facts about a policy: what its files have, with the values of the parameters, and what it needs.
//!
//! They come from the definition and the values of the parameters, without a pod.

mod needs;
mod text;

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Map, Value};

use fabric_policy::definition::entries;
use fabric_policy::expression::Bindings;
use fabric_policy::interpolation::text_of;
use fabric_policy::matcher::Selection;
use fabric_policy::{Definition, Override, ParameterType, Policy, Rule};

use super::parameters::{FileLine, ParameterFact, Sources, declared, in_file};
use needs::needs;

pub use needs::{NeedFact, NeedKind};
pub use text::policy_text;

/// A policy with the values of its parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyFact {
    pub name: String,
    pub file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extends: Option<String>,
    pub parameters: Vec<ParameterFact>,
    /// The labels of `machines`, each with its rows. Those of an extension follow those of its base, which they precede
    /// in effect.
    pub machines: Vec<Value>,
    /// The rest of `spec`, with that of the files that it extends, and with values in place of the expressions that the
    /// parameters decide for every pod.
    pub spec: Value,
    /// The entries of `devices.add` and the rules.
    pub rules: Vec<RuleFact>,
    pub needs: Vec<NeedFact>,
}

/// A rule, or an entry of `devices.add`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleFact {
    pub name: String,
    pub place: FileLine,
    /// The value of `when` if it is the same for every pod with these parameters.
    pub applies: Option<bool>,
}

/// The facts about a policy with the values of its parameters.
pub fn policy(policy: &Policy, sources: &Sources<'_>) -> PolicyFact {
    let definition = policy.definition();
    let constants = constants(policy);
    let spec = with_known_values(definition, &constants);
    let rule = |rule: &Rule| RuleFact {
        name: rule.name.clone(),
        place: in_file(definition, rule.span),
        applies: rule.when.as_ref().map_or(Some(true), |when| when.is_true(&constants).ok()),
    };
    let machines = entries(definition.spec.get("machines")).iter();
    PolicyFact {
        name: definition.name.clone(),
        file: definition.file.clone(),
        extends: definition.extends.clone(),
        parameters: declared(policy, sources),
        machines: machines
            .map(|label| [(label.key.clone(), label.value.to_value())].into_iter().collect())
            .collect(),
        rules: definition.rules.iter().map(rule).collect(),
        needs: needs(policy, &spec),
        spec,
    }
}

/// Binds the parameters that no node decides, and the variables that depend on no others. Everything else stays unbound,
/// and an expression that reads it has no value.
fn constants(policy: &Policy) -> Bindings<'static, 'static> {
    let mut bindings = Bindings::default();
    let definition = policy.definition();
    for parameter in &definition.parameters {
        let own = policy.overrides().get(&parameter.name);
        let by_node = own.and_then(Override::table).is_some() || parameter.has_rows();
        if by_node || parameter.from_nodes.is_some() {
            continue;
        }
        let value = parameter.resolve(own, &[Selection::default()]).value;
        match (parameter.kind, value.as_f64()) {
            (ParameterType::Number, Some(number)) => bindings.set_double(&parameter.name, number),
            _ => bindings.set(&parameter.name, &value),
        }
    }
    for variable in definition.variables.iter().filter(|variable| variable.column.is_none()) {
        if let Ok(value) = variable.value.evaluate(&bindings) {
            bindings.set(&variable.name, &value);
        }
    }
    bindings
}

/// The keys of `spec` that are facts of their own.
const APART: [&str; 4] = ["extends", "without", "parameters", "machines"];
/// The keys whose expressions get their values. A message and a condition say more as they are.
const WITH_VALUES: [&str; 4] = ["gpus", "devices", "variables", "rules"];

/// The `spec` of a policy as its authors wrote it, with values in place of expressions.
fn with_known_values(definition: &Definition, constants: &Bindings<'_, '_>) -> Value {
    let mut known = HashMap::new();
    definition.texts(&mut |text| {
        let source = text.source();
        if source.contains("${")
            && let Ok(value) = text.evaluate(constants)
        {
            // Numbers are written without a fraction if they have none.
            let whole = if value.is_f64() { text_of(&value).parse().ok() } else { None };
            known.insert(source, whole.unwrap_or(value));
        }
    });
    let Value::Object(mut spec) = definition.spec.to_value() else { return Value::Null };
    spec.retain(|key, _| !APART.contains(&key.as_str()));
    for (key, value) in &mut spec {
        if WITH_VALUES.contains(&key.as_str()) {
            *value = filled(value.take(), &known, false);
        }
    }
    let mut spec = Value::from(spec);
    // Files may name one resource twice.
    spec["gpus"]["resources"] = definition.gpus.resources.clone().into();
    spec
}

/// A value with those of its texts. A key that is a list of names stands for each of them; where it has an amount of
/// resources, that is the amount of all of them, and the list stays.
fn filled(value: Value, known: &HashMap<String, Value>, has_amounts: bool) -> Value {
    match value {
        Value::String(text) => known.get(&text).cloned().unwrap_or(Value::String(text)),
        Value::Array(items) => items.into_iter().map(|item| filled(item, known, false)).collect(),
        Value::Object(map) => {
            let mut entries = Map::new();
            for (key, value) in map {
                let value = filled(value, known, ["resources", "limits", "requests"].contains(&key.as_str()));
                match known.get(&key) {
                    None | Some(Value::Null) => drop(entries.insert(key, value)),
                    Some(Value::Array(names)) if has_amounts && names.len() > 1 => {
                        let names: Vec<String> =
                            names.iter().map(|name| format!("'{}'", text_of(name))).collect();
                        entries.insert(format!("${{[{}]}}", names.join(", ")), value);
                    }
                    Some(Value::Array(names)) => {
                        entries.extend(names.iter().map(|name| (text_of(name), value.clone())));
                    }
                    Some(name) => drop(entries.insert(text_of(name), value)),
                }
            }
            entries.into()
        }
        other => other,
    }
}
