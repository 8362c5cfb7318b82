//! The values of parameters and fixed variables for one kind of node.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::definition::Definition;
use crate::expression::Bindings;
use crate::interpolation::{EvaluationError, Phase};
use crate::matcher::Selection;
use crate::parameter::{NoteKind, Origin, Overrides, Parameter, ParameterType, Resolution, Variable};
use crate::work::Work;

/// A remark about the value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    pub parameter: String,
    pub value: Value,
    pub kind: NoteKind,
}

/// The values of the parameters and of the variables by node, and remarks about them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ParameterValues {
    pub(crate) values: Vec<Value>,
    /// The source of each value.
    pub(crate) origins: Vec<Origin>,
    pub(crate) notes: Vec<Note>,
    /// The values for the other nodes that the pod may get, if they differ in a setting without a lowest value.
    pub(crate) values_elsewhere: Vec<Vec<Value>>,
}

impl ParameterValues {
    pub(crate) fn resolve(definition: &Definition, overrides: &Overrides, selection: &Selection) -> Self {
        let mut each = selection.each();
        for one in &mut each {
            remove_unpaired_networks(definition, overrides, one);
        }
        let mut resolved = Self::default();
        for parameter in definition.by_node() {
            let Resolution { value, origin, notes } =
                parameter.resolve(overrides.get(&parameter.name), &each);
            // Reports are only about values that an operator can set.
            for kind in notes.into_iter().filter(|_| parameter.kind != ParameterType::Any) {
                let (parameter, value) = (parameter.name.clone(), value.clone().into_owned());
                resolved.notes.push(Note { parameter, value, kind });
            }
            resolved.values.push(value.into_owned());
            resolved.origins.push(origin);
        }
        for other in each.iter().skip(1) {
            let of_other = |(parameter, value): (&Parameter, &Value)| {
                let own = overrides.get(&parameter.name);
                if parameter.has_least() {
                    value.clone()
                } else {
                    parameter.of_one(own, other).value.into_owned()
                }
            };
            let values: Vec<Value> = definition.by_node().zip(&resolved.values).map(of_other).collect();
            if values != resolved.values && !resolved.values_elsewhere.contains(&values) {
                resolved.values_elsewhere.push(values);
            }
        }
        resolved
    }
}

/// Removes the networks of resources that another parameter names otherwise than the nodes offer them: a pod gets each
/// network for the device in its place of the list.
fn remove_unpaired_networks(definition: &Definition, overrides: &Overrides, one: &mut Selection) {
    let named = definition.parameters.iter().filter_map(|one| Some((one, one.from_nodes.as_ref()?)));
    for (parameter, named) in named.filter(|(_, named)| named.gives_resources()) {
        let Some(kind) = one.kinds.first().filter(|kind| !kind.networks.is_empty()) else { return };
        let value = parameter.of_one(overrides.get(&parameter.name), one).value;
        if named.of_kind(kind).as_ref() != Some(&*value) {
            one.kinds[0].networks.retain(|resource, _| !named.looks_for(resource));
        }
    }
}

/// What a policy is evaluated with, all but the pod.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    pub(crate) definition: &'a Definition,
    /// Those of the parameters.
    pub(crate) values: &'a [Value],
    pub(crate) selection: &'a Selection,
    pub(crate) work: &'a Work,
}

/// Binds the values that do not depend on the pod: `node`, the parameters and the fixed variables.
pub(crate) fn bound(given: Given<'_>) -> Result<Bindings<'static, 'static>, Vec<EvaluationError>> {
    let Given { definition, values, selection, work } = given;
    let mut bindings = Bindings::default();
    bindings.count_by(Some(work.clone()));
    let node = selection.node();
    bindings.set("node", &node);
    for (parameter, value) in definition.by_node().zip(values) {
        match (parameter.kind, value.as_f64()) {
            (ParameterType::Number, Some(number)) => bindings.set_double(&parameter.name, number),
            // No row: the variable has its fallback.
            (ParameterType::Any, _) if value.is_null() && parameter.from_nodes.is_none() => {}
            _ => bindings.set(&parameter.name, value),
        }
    }
    let mut errors = Vec::new();
    let mut without_value: BTreeSet<&str> = BTreeSet::new();
    let computed =
        |variable: &&Variable| variable.phase == Phase::Fixed && !has_row(definition, values, variable);
    for variable in definition.variables.iter().filter(computed) {
        let mut is_known = true;
        variable.value.names(&mut |name| is_known &= !without_value.contains(name));
        match variable.value.evaluate(&bindings) {
            Ok(value) if work.may_copy(&value) => bindings.set(&variable.name, &value),
            Ok(_) => {
                let message = "with it, the values of the policies in use take more than 128 MiB of memory";
                let hint = "write a shorter list, or compute its entries where they are used";
                let error = EvaluationError::about(|visit| variable.value.texts(visit), message);
                errors.push(error.with_hint(hint));
                return Err(errors);
            }
            Err(error) => {
                without_value.insert(&variable.name);
                // An error for an expression that only reads a variable without a value would add nothing.
                errors.extend(is_known.then_some(error));
            }
        }
    }
    if errors.is_empty() { Ok(bindings) } else { Err(errors) }
}

/// Returns whether a variable has its value from a row of machines.
pub(crate) fn has_row(definition: &Definition, values: &[Value], variable: &Variable) -> bool {
    let column = variable.column.as_deref();
    column.is_some_and(|column| {
        let mut known = definition.by_node().zip(values);
        known.any(|(one, value)| std::ptr::eq(one, column) && !value.is_null())
    })
}
