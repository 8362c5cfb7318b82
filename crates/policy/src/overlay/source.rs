//! The source of an overlay: the YAML of a policy, or the value of an expression.

use serde_json::Value;

use crate::interpolation::{Interpolation, Names, Phase};
use crate::source::{Checked, Diagnostic, Problems, TOO_EARLY, all, reader};
use fabric_yaml::scalar::Scalar;
use fabric_yaml::{Content, Node, Span, Text};

/// A piece of an overlay, before the schema of a Pod is applied to it.
#[derive(Debug)]
pub(crate) struct Source {
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
    /// A value with a problem that is reported.
    Unreadable,
}

#[derive(Debug)]
pub(super) struct SourceEntry {
    pub(super) key: Interpolation,
    pub(super) span: Span,
    pub(super) value: Source,
}

impl Source {
    /// Reads the YAML of an overlay. Its expressions are evaluated in the given phase.
    pub(super) fn read(node: &Node, names: &Names, phase: Phase, problems: &mut Problems) -> Self {
        let content = match &node.content {
            Content::List(items) if !items.is_empty() => SourceContent::List(
                items.iter().map(|item| Self::read(item, names, phase, problems)).collect(),
            ),
            Content::Map(entries) => {
                let mut read = Vec::with_capacity(entries.len());
                for entry in entries {
                    // `$prepend` and its like are keys of the language, not expressions.
                    let key = reader::string_key(entry).and_then(|()| {
                        Interpolation::compile(&Text::on_line(&entry.key, entry.span), names, Some(phase))
                    });
                    let value = Self::read(&entry.value, names, phase, problems);
                    if let Some(key) = problems.take(key) {
                        read.push(SourceEntry { key, span: entry.span, value });
                    }
                }
                SourceContent::Map(read)
            }
            _ => problems.take(Self::scalar(node, names, phase)).unwrap_or(SourceContent::Unreadable),
        };
        Self { span: node.span, content }
    }

    fn scalar(node: &Node, names: &Names, phase: Phase) -> Result<SourceContent, Diagnostic> {
        match &node.content {
            Content::List(_) | Content::Map(_) => {
                Err(Diagnostic::new(node.span, "an empty list adds nothing").hint("leave the field out"))
            }
            Content::Scalar { value: Scalar::Null, .. } => {
                Err(Diagnostic::new(node.span, "an overlay adds fields, and this one has no value").hint(
                    "leave the field out, or use an expression that is `null` where it is to be left out",
                ))
            }
            Content::Scalar { value: Scalar::String(_), .. } => {
                let text = reader::located(node, "a value")?;
                Interpolation::compile(&text, names, Some(phase)).map(SourceContent::Text)
            }
            Content::Scalar { .. } => {
                reader::unambiguous(node)?;
                Ok(SourceContent::Scalar(node.to_value()))
            }
        }
    }

    /// The value of an expression as an overlay; `None` for `null`, which leaves the field out.
    pub(super) fn of_value(value: &Value) -> Option<Self> {
        let content = match value {
            Value::Null => return None,
            Value::Bool(_) | Value::Number(_) => SourceContent::Scalar(value.clone()),
            Value::String(text) => SourceContent::Text(Interpolation::Literal(text.clone())),
            Value::Array(items) => SourceContent::List(items.iter().filter_map(Self::of_value).collect()),
            Value::Object(map) => {
                let entry = |(key, value): (&String, &Value)| {
                    let (key, value) = (Interpolation::Literal(key.clone()), Self::of_value(value)?);
                    Some(SourceEntry { key, span: value.span, value })
                };
                SourceContent::Map(map.iter().filter_map(entry).collect())
            }
        };
        Some(Self { span: Span::default(), content })
    }

    /// Fails if an expression reads a name that is not known in the phase.
    pub(super) fn check_phase(&self, names: &Names, phase: Phase) -> Checked<()> {
        let check = |text: &Interpolation| {
            let read = text.expressions().flat_map(|expression| {
                expression.names().iter().map(move |name| (name, expression.span_of_name(name)))
            });
            let early = read.filter(|(name, _)| names.get(name).is_some_and(|known| !phase.may_read(known)));
            all(early.map(|(name, span)| {
                Err::<(), _>(
                    Diagnostic::new(span, format!("`{name}` is not known yet where this is evaluated"))
                        .code(TOO_EARLY)
                        .hint("docs/policy.md says where each name can be used"),
                )
            }))
        };
        match &self.content {
            SourceContent::Scalar(_) | SourceContent::Unreadable => Ok(()),
            SourceContent::Text(text) => check(text),
            SourceContent::List(items) => all(items.iter().map(|item| item.check_phase(names, phase))),
            SourceContent::Map(entries) => {
                let parts = entries
                    .iter()
                    .flat_map(|entry| [check(&entry.key), entry.value.check_phase(names, phase)]);
                all(parts)
            }
        }
    }

    /// Fails without a problem for a value whose problem is already known.
    pub(super) fn readable(&self) -> Checked<()> {
        match self.content {
            SourceContent::Unreadable => Err(Problems::default()),
            _ => Ok(()),
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
            SourceContent::Unreadable => "a value".to_owned(),
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
