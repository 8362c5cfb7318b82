//! Texts that do not mean what they seem to: amounts in quotes, prefixes that are gone, and modes in paths.

use serde_json::Value;

use crate::core::policy::definition::Definition;
use crate::core::policy::diagnostic::{
    ALWAYS_FALSE, Diagnostic, MODE_IN_MOUNT_PATH, QUANTITY_AS_TEXT, USELESS_PREFIX,
};
use crate::core::policy::expression::{Expression, Part};
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::node::spellings;
use crate::core::policy::parameter::ParameterType;
use crate::core::policy::place::field;
use crate::core::schema::Format;
use crate::core::yaml::{Content, Node, Span};

use super::samples::Samples;
use super::terms::Terms;
use super::writes;

pub(super) fn findings(definition: &Definition, samples: &Samples<'_>) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
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

/// A comparison of the value of a label with a text that begins with a prefix which is removed from it.
fn without_prefix(
    definition: &Definition,
    samples: &Samples<'_>,
    text: &Interpolation,
) -> Option<Diagnostic> {
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
    Some(Diagnostic::warning(ALWAYS_FALSE, expression.span(at, length), message).hint(hint))
}

/// Prefixes that no value of a label begins with, or that an earlier prefix takes away.
fn prefixes(definition: &Definition, found: &mut Vec<Diagnostic>) {
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
            let span = place_of_prefix(definition, label, prefix);
            found.push(Diagnostic::warning(USELESS_PREFIX, span, message).hint(hint));
        }
    }
}

fn place_of_prefix(definition: &Definition, label: &str, prefix: &str) -> Span {
    let labels = field(&definition.spec, "nodeLabels");
    let prefixes = spellings(label).find_map(|label| field(field(labels?, label)?, "stripPrefixes"));
    let Some(Node { content: Content::List(items), .. }) = prefixes else { return Span::default() };
    let is_prefix = |item: &&Node| item.text().is_some_and(|text| text.text.to_lowercase() == prefix);
    // Of two that are the same, the second one has no effect.
    items.iter().rfind(is_prefix).map_or_else(Span::default, |item| item.span)
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
