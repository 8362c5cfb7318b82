//! Texts that do not mean what they seem to: amounts in quotes, and modes in paths.

use crate::core::policy::definition::Definition;
use crate::core::policy::expression::{Expression, Part};
use crate::core::policy::parameter::ParameterType;
use crate::core::policy::source::{Diagnostic, MODE_IN_MOUNT_PATH, QUANTITY_AS_TEXT};

use crate::core::policy::check::writes;

pub(in crate::core::policy::check) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    definition.texts(&mut |text| {
        for expression in text.expressions() {
            quantities(definition, expression, &mut found);
        }
    });
    mount_paths(definition, &mut found);
    found
}

/// Quantities that are compared letter by letter.
fn quantities(definition: &Definition, expression: &Expression, found: &mut Vec<Diagnostic>) {
    let is_quantity = |name: &str| {
        let mut parameters = definition.parameters.iter();
        parameters.any(|parameter| parameter.name == name && parameter.kind == ParameterType::Quantity)
    };
    expression.lookups(&mut |part, span| {
        let Part::Order { name, other } = part else { return };
        // A number against a quantity is an error of types.
        if !is_quantity(name) || other.is_empty() || found.iter().any(|known| known.span == span) {
            return;
        }
        let message = format!(
            "the quantities `{name}` and `{other}` are compared as texts, so that `9Gi` is more than `64Gi`"
        );
        let hint = "compare with `==` or `in`, or use a parameter of the type `integer` or `number`";
        found.push(Diagnostic::warning(QUANTITY_AS_TEXT, span, message).hint(hint));
    });
}

/// Paths with a mode as `docker run` takes one.
fn mount_paths(definition: &Definition, found: &mut Vec<Diagnostic>) {
    for placed in writes(definition).filter(|placed| placed.write.path == ["volumeMounts"]) {
        let Some(path) = placed.write.name() else { continue };
        let Some((inner, mode)) = path.rsplit_once(':') else { continue };
        if !mode
            .split(',')
            .all(|option| ["ro", "rw", "z", "Z", "rshared", "rslave", "rprivate"].contains(&option))
        {
            continue;
        }
        let message = format!("the mount path `{path}` ends in `:{mode}`, which is a part of the path");
        let hint = if mode.contains("ro") {
            format!("write `mountPath: {inner}` and `readOnly: true`")
        } else {
            format!("write `mountPath: {inner}`")
        };
        let span = definition.place_of(&placed);
        found.push(Diagnostic::warning(MODE_IN_MOUNT_PATH, span, message).hint(hint));
    }
}
