//! The values of a policy that are the same for every pod with the current parameters.

use fabric_policy::expression::Bindings;
use fabric_policy::matcher::Selection;
use fabric_policy::{Override, ParameterType, Policy, resolve};

/// Binds the parameters without tables, and the variables that depend on no others. Everything else stays unbound, and
/// an expression that reads it has no value.
pub(super) fn constants(policy: &Policy) -> Bindings<'static, 'static> {
    let mut bindings = Bindings::default();
    let definition = policy.definition();
    for parameter in &definition.parameters {
        let own = policy.overrides().get(&parameter.name);
        if own.and_then(Override::table).is_some() || parameter.has_rows() {
            continue;
        }
        let value = resolve(parameter, own, &[Selection::default()]).value;
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
