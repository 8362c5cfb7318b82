//! The source of an overlay: the YAML of a policy, or the value of an expression.

use serde_json::Value;

use crate::core::policy::diagnostic::Diagnostic;
use crate::core::policy::expression::Expression;
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::phase::{Names, Phase};
use crate::core::policy::reader;
use crate::core::yaml::scalar::Scalar;
use crate::core::yaml::{Content, Entry, Node, Span, Text};

use super::edit_keys::REPLACE;

/// A piece of an overlay, before the schema of a Pod is applied to it.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) span: Span,
    pub(super) content: SourceContent,
}

#[derive(Debug)]
pub(super) enum SourceContent {
    /// A number or a boolean.
    Scalar(Value),
    Text(Interpolation),
    Map(Vec<SourceEntry>),
    List(Vec<Source>),
}

#[derive(Debug)]
pub(super) struct SourceEntry {
    pub(super) key: Interpolation,
    pub(super) span: Span,
    pub(super) value: Source,
}

impl Source {
    /// Reads the YAML of an overlay. Its expressions are evaluated in the given phase.
    pub(super) fn read(node: &Node, names: &Names, phase: Phase) -> Result<Self, Diagnostic> {
        let content = match &node.content {
            Content::Scalar { value: Scalar::Null, .. } => {
                return Err(Diagnostic::new(node.span, "an overlay adds fields, and this one has no value")
                    .hint(
                        "leave the field out, or use an expression that is `null` where it is to be left out",
                    ));
            }
            Content::Scalar { value: Scalar::String(_), .. } => {
                let text = reader::located(node, "a value")?;
                SourceContent::Text(Interpolation::compile(&text, names, Some(phase))?)
            }
            Content::Scalar { .. } => {
                reader::unambiguous(node)?;
                SourceContent::Scalar(node.to_value())
            }
            Content::List(items) if items.is_empty() => {
                return Err(
                    Diagnostic::new(node.span, "an empty list adds nothing").hint("leave the field out")
                );
            }
            Content::List(items) => SourceContent::List(
                items.iter().map(|item| Self::read(item, names, phase)).collect::<Result<_, _>>()?,
            ),
            Content::Map(entries) => {
                let entry = |entry: &Entry<Node>| {
                    reader::string_key(entry)?;
                    // `$prepend` and its like are keys of the language, not expressions.
                    let key =
                        Interpolation::compile(&Text::on_line(&entry.key, entry.span), names, Some(phase))?;
                    let empties = entry.key == REPLACE
                        && matches!(&entry.value.content, Content::List(items) if items.is_empty());
                    let value = if empties {
                        Self { span: entry.value.span, content: SourceContent::List(Vec::new()) }
                    } else {
                        Self::read(&entry.value, names, phase)?
                    };
                    Ok::<_, Diagnostic>(SourceEntry { key, span: entry.span, value })
                };
                SourceContent::Map(entries.iter().map(entry).collect::<Result<_, _>>()?)
            }
        };
        Ok(Self { span: node.span, content })
    }

    /// The value of an expression as an overlay; `None` for `null`, which leaves out what it is the value of.
    pub(super) fn of_value(value: &Value) -> Option<Self> {
        let content = match value {
            Value::Null => return None,
            Value::Bool(_) | Value::Number(_) => SourceContent::Scalar(value.clone()),
            Value::String(text) => SourceContent::Text(Interpolation::Literal(text.clone())),
            Value::Array(items) => SourceContent::List(items.iter().filter_map(Self::of_value).collect()),
            Value::Object(map) => {
                let entry = |(key, value): (&String, &Value)| {
                    let key = Interpolation::Literal(key.clone());
                    Some(SourceEntry { key, span: Span::default(), value: Self::of_value(value)? })
                };
                SourceContent::Map(map.iter().filter_map(entry).collect())
            }
        };
        Some(Self { span: Span::default(), content })
    }

    /// Fails if an expression reads a name that is not known in the phase.
    pub(super) fn check_phase(&self, names: &Names, phase: Phase) -> Result<(), Diagnostic> {
        let check = |text: &Interpolation, span| {
            let read = text.expressions().flat_map(Expression::names);
            let unknown = |name: &&String| names.get(name).is_some_and(|known| !phase.may_read(known));
            match read.into_iter().find(unknown) {
                Some(name) => {
                    Err(Diagnostic::new(span, format!("`{name}` is not known yet where this is evaluated"))
                        .hint("docs/policy.md says where each name can be used"))
                }
                None => Ok(()),
            }
        };
        match &self.content {
            SourceContent::Scalar(_) => Ok(()),
            SourceContent::Text(text) => check(text, self.span),
            SourceContent::List(items) => items.iter().try_for_each(|item| item.check_phase(names, phase)),
            SourceContent::Map(entries) => entries.iter().try_for_each(|entry| {
                check(&entry.key, entry.span)?;
                entry.value.check_phase(names, phase)
            }),
        }
    }

    /// The kind of the value, for a message.
    pub(super) fn describe(&self) -> String {
        match &self.content {
            SourceContent::Scalar(Value::Bool(value)) => format!("the boolean `{value}`"),
            SourceContent::Scalar(value) => format!("the number `{value}`"),
            SourceContent::Text(text) => {
                let short: String = text.source().chars().take(40).collect();
                format!("the string `{}`", short.replace('\n', "⏎"))
            }
            SourceContent::Map(_) => "a map".to_owned(),
            SourceContent::List(_) => "a list".to_owned(),
        }
    }

    /// The value under a literal key.
    pub(super) fn get(&self, name: &str) -> Option<&Source> {
        let SourceContent::Map(entries) = &self.content else { return None };
        let named = |entry: &&SourceEntry| matches!(&entry.key, Interpolation::Literal(key) if key == name);
        entries.iter().find(named).map(|entry| &entry.value)
    }
}
