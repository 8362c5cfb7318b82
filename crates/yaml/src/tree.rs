//! The two trees that YAML is read into: JSON values for manifests, and nodes with positions for policies.

use serde_json::Value;

use super::build::{Entry, Tree};
use super::scalar::Scalar;
use super::source_map::SourceMap;
use super::span::Span;

impl Tree for Value {
    const MAPPED: bool = false;

    fn scalar(value: Scalar, _plain: bool, _span: Span, _map: Option<SourceMap>) -> Self {
        value.into()
    }

    fn list(items: Vec<Self>, _span: Span) -> Self {
        Value::Array(items)
    }

    fn map(entries: Vec<Entry<Self>>, _span: Span) -> Self {
        entries.into_iter().map(|entry| (entry.key, entry.value)).collect()
    }

    fn entries(self) -> Option<Vec<Entry<Self>>> {
        let Value::Object(map) = self else { return None };
        let entry = |(key, value)| Entry { key, span: Span::default(), converted: false, value };
        Some(map.into_iter().map(entry).collect())
    }

    fn items(self) -> Result<Vec<Self>, Self> {
        match self {
            Value::Array(items) => Ok(items),
            other => Err(other),
        }
    }
}

/// A value with its position, for messages that show the line.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The position of the value.
    pub span: Span,
    /// The value itself.
    pub content: Content,
}

/// The value of a [`Node`].
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A string, number, boolean or null.
    Scalar {
        /// The value by the rules of YAML 1.1.
        value: Scalar,
        /// True if the text has neither quotes nor a tag.
        plain: bool,
        /// The places of the characters of a text with expressions, or of several lines.
        map: Option<SourceMap>,
    },
    /// A list, in the order of the text.
    List(Vec<Node>),
    /// A map, in the order of the text.
    Map(Vec<Entry<Node>>),
}

/// A string of a file, with its place.
#[derive(Debug, Clone)]
pub struct Text<'t> {
    /// The string, without quotes and escapes.
    pub text: &'t str,
    /// The place of the whole.
    pub span: Span,
    map: SourceMap,
}

impl<'t> Text<'t> {
    /// A string that is verbatim in the file at `span`, perhaps in quotes.
    pub fn on_line(text: &'t str, span: Span) -> Self {
        Self { text, span, map: SourceMap::of_line(text, span) }
    }

    /// A string that is in no file.
    pub fn nowhere(text: &'t str) -> Self {
        Self { text, span: Span::default(), map: SourceMap::default() }
    }

    /// The string without white space around it.
    #[must_use]
    pub fn trim(&self) -> Self {
        let start = self.text.len() - self.text.trim_start().len();
        let text = self.text.trim();
        Self { text, span: self.span, map: self.map.of_part(self.text, start, text.len()) }
    }

    /// The place of `length` bytes at `offset`, as far as they are on one line.
    pub fn span_of(&self, offset: usize, length: usize) -> Span {
        self.map.span(self.text, offset, length)
    }

    /// The places of a part.
    pub fn map_of_part(&self, offset: usize, length: usize) -> SourceMap {
        self.map.of_part(self.text, offset, length)
    }
}

impl Node {
    /// A map that the text writes in another form at this place.
    pub fn map<'k>(span: Span, entries: impl IntoIterator<Item = (&'k str, Self)>) -> Self {
        let entry = |(key, value): (&str, Self)| Entry {
            key: key.to_owned(),
            span: value.span,
            converted: false,
            value,
        };
        Self { span, content: Content::Map(entries.into_iter().map(entry).collect()) }
    }

    /// A string that the text writes in another form at this place, such as a key.
    pub fn text_at(span: Span, text: &str) -> Self {
        let value = Scalar::String(text.to_owned());
        Self { span, content: Content::Scalar { value, plain: false, map: None } }
    }

    /// The items of a list, or else the value itself.
    pub fn one_or_items(&self) -> &[Self] {
        if let Content::List(items) = &self.content { items } else { std::slice::from_ref(self) }
    }

    /// The string, if it is one.
    pub fn text(&self) -> Option<Text<'_>> {
        let Content::Scalar { value: Scalar::String(text), map, .. } = &self.content else { return None };
        Some(match map {
            Some(map) => Text { text, span: self.span, map: map.clone() },
            None => Text::on_line(text, self.span),
        })
    }

    /// The entry of a map with this key.
    pub fn entry(&self, key: &str) -> Option<&Entry<Self>> {
        let Content::Map(entries) = &self.content else { return None };
        entries.iter().find(|entry| entry.key == key)
    }

    /// The value of a key of a map.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The value without positions.
    pub fn to_value(&self) -> Value {
        match &self.content {
            Content::Scalar { value, .. } => value.clone().into(),
            Content::List(items) => items.iter().map(Node::to_value).collect(),
            Content::Map(entries) => {
                entries.iter().map(|entry| (entry.key.as_str(), entry.value.to_value())).collect()
            }
        }
    }

    /// The node with every position moved down by a number of lines.
    #[must_use]
    pub fn moved(&self, lines: usize) -> Self {
        let down = |span: Span| Span { line: span.line + lines, ..span };
        let content = match &self.content {
            Content::Scalar { value, plain, map } => Content::Scalar {
                value: value.clone(),
                plain: *plain,
                map: map.as_ref().map(|map| map.moved(lines)),
            },
            Content::List(items) => Content::List(items.iter().map(|item| item.moved(lines)).collect()),
            Content::Map(entries) => {
                let moved = |entry: &Entry<Node>| Entry {
                    key: entry.key.clone(),
                    span: down(entry.span),
                    converted: entry.converted,
                    value: entry.value.moved(lines),
                };
                Content::Map(entries.iter().map(moved).collect())
            }
        };
        Self { span: down(self.span), content }
    }

    /// A description of the node for messages, such as ``the string `a` ``.
    pub fn describe(&self) -> String {
        match &self.content {
            Content::Scalar { value: Scalar::Null, .. } => "nothing".to_owned(),
            Content::Scalar { value: Scalar::Bool(value), .. } => format!("the boolean `{value}`"),
            Content::Scalar { value: Scalar::Number(number), .. } => format!("the number `{number}`"),
            Content::Scalar { value: Scalar::String(text), .. } => {
                let short: String = text.chars().take(40).collect();
                format!("the string `{}`", short.replace('\n', "⏎"))
            }
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a map".to_owned(),
        }
    }
}

impl Tree for Node {
    const MAPPED: bool = true;

    fn scalar(value: Scalar, plain: bool, span: Span, map: Option<SourceMap>) -> Self {
        Node { span, content: Content::Scalar { value, plain, map } }
    }

    fn list(items: Vec<Self>, span: Span) -> Self {
        Node { span, content: Content::List(items) }
    }

    fn map(entries: Vec<Entry<Self>>, span: Span) -> Self {
        Node { span, content: Content::Map(entries) }
    }

    fn entries(self) -> Option<Vec<Entry<Self>>> {
        if let Content::Map(entries) = self.content { Some(entries) } else { None }
    }

    fn items(self) -> Result<Vec<Self>, Self> {
        match self.content {
            Content::List(items) => Ok(items),
            content => Err(Self { content, ..self }),
        }
    }
}
