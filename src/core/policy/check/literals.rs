//! Texts that do not mean what they seem to: amounts in quotes, prefixes that are gone, and modes in paths.

use serde_json::Value;

use crate::core::policy::definition::Definition;
use crate::core::policy::diagnostic::{
    ALWAYS_FALSE, Diagnostic, MODE_IN_MOUNT_PATH, QUANTITY_AS_TEXT, USELESS_PREFIX,
};
use crate::core::policy::expression::{Expression, Part};
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::parameter::ParameterType;
use crate::core::schema::Format;

use super::Finding;
use super::overlays::writes;
use super::places::Places;
use super::samples::Samples;
use super::terms::Terms;

pub(super) fn findings(definition: &Definition, samples: &Samples<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    definition.texts(&mut |text| {
        for expression in text.expressions() {
            quantities(definition, expression, &mut found);
        }
        found.extend(without_prefix(definition, samples, text));
    });
    prefixes(definition, &mut found);
    mount_paths(definition, &mut found);
    found
}

fn warning(diagnostic: Diagnostic) -> Finding {
    Finding { diagnostic, text: String::new() }
}

/// Quantities that are compared letter by letter.
fn quantities(definition: &Definition, expression: &Expression, found: &mut Vec<Finding>) {
    let is_quantity = |name: &str| {
        let mut parameters = definition.parameters.iter();
        parameters.any(|parameter| parameter.name == name && parameter.kind == ParameterType::Quantity)
    };
    expression.lookups(&mut |part, span| {
        let Part::Order { name, other } = part else { return };
        // A number against a quantity is an error of types.
        if !is_quantity(name) || other.is_empty() || found.iter().any(|known| known.diagnostic.span == span) {
            return;
        }
        let message = format!(
            "the quantities `{name}` and `{other}` are compared as texts, so that `9Gi` is more than `64Gi`"
        );
        let hint = "compare with `==` or `in`, or use a parameter of the type `integer` or `number`";
        found.push(warning(Diagnostic::warning(QUANTITY_AS_TEXT, span, message).hint(hint)));
    });
}

/// A comparison of the value of a label with a text that begins with a prefix which is removed from it.
fn without_prefix(definition: &Definition, samples: &Samples<'_>, text: &Interpolation) -> Option<Finding> {
    let Interpolation::Expression(expression) = text else { return None };
    let source = expression.source();
    let terms = Terms::of(samples, &[text])?;
    let (label, compared, prefix) = terms.labels().find_map(|(label, values)| {
        values.iter().filter_map(Value::as_str).filter(|value| source.contains(value)).find_map(|compared| {
            let mut prefixes = definition.node_labels.prefixes(label).iter();
            let prefix =
                prefixes.find(|prefix| !prefix.is_empty() && compared.starts_with(prefix.as_str()))?;
            Some((label, compared, prefix))
        })
    })?;
    let message = format!(
        "`{source}` compares with `{compared}`, and `nodeLabels` removes `{prefix}` from the values of `{label}`"
    );
    let hint = match &compared[prefix.len()..] {
        "" => "remove the comparison".to_owned(),
        rest => format!("write `'{rest}'`"),
    };
    let (at, length) = (source.find(compared).unwrap_or_default(), compared.len());
    let diagnostic = Diagnostic::warning(ALWAYS_FALSE, expression.span(at, length), message).hint(hint);
    Some(Finding { diagnostic, text: source.to_owned() })
}

/// Prefixes that no value of a label begins with, or that an earlier prefix takes away.
fn prefixes(definition: &Definition, found: &mut Vec<Finding>) {
    let places = Places::of(definition);
    for label in definition.node_labels.labels() {
        let prefixes = definition.node_labels.prefixes(label);
        for (at, prefix) in prefixes.iter().enumerate() {
            let earlier = prefixes[..at].iter().find(|earlier| prefix.starts_with(earlier.as_str()));
            let message = if let Some(earlier) = earlier {
                format!("the prefix `{prefix}` has no effect: `{earlier}` is removed in its place")
            } else if prefix.is_empty() || Format::LabelValue.check(&format!("{prefix}x")).is_err() {
                format!("no value of a label begins with `{prefix}`, which is never removed")
            } else {
                continue;
            };
            let hint = if earlier.is_some() { "write the longer prefix first" } else { "remove it" };
            let Some(span) = places.prefix(label, prefix) else { continue };
            let diagnostic = Diagnostic::warning(USELESS_PREFIX, span, message).hint(hint);
            found.push(Finding::placed(diagnostic, definition));
        }
    }
}

/// Paths with a mode as `docker run` takes one.
fn mount_paths(definition: &Definition, found: &mut Vec<Finding>) {
    for write in writes(definition).filter(|write| write.path == ["volumeMounts"]) {
        let Some(path) = write.name() else { continue };
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
        found.push(Finding::warning(MODE_IN_MOUNT_PATH, path, message, &hint));
    }
}
