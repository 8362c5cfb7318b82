//! Reading a YAML tree field by field. Every error has its position.

use crate::core::yaml::scalar::{self, Scalar};
use crate::core::yaml::{Content, Entry, Node, Span, Text};

use super::diagnostic::{Diagnostic, closest, suggest};

/// The fields of one map. [`Fields::finish`] fails for a field that was not read.
pub(crate) struct Fields<'n> {
    what: &'static str,
    span: Span,
    left: Vec<&'n Entry<Node>>,
    known: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// The fields of a map. `what` is its name in messages: "a rule", "`spec`".
    pub(crate) fn of(node: &'n Node, what: &'static str) -> Result<Self, Diagnostic> {
        Ok(Self { what, span: node.span, left: entries(node, what)?.iter().collect(), known: Vec::new() })
    }

    pub(crate) fn optional(&mut self, key: &'static str) -> Option<&'n Node> {
        self.known.push(key);
        let at = self.left.iter().position(|entry| entry.key == key)?;
        Some(&self.left.swap_remove(at).value)
    }

    pub(crate) fn required(&mut self, key: &'static str) -> Result<&'n Node, Diagnostic> {
        if let Some(node) = self.optional(key) {
            return Ok(node);
        }
        // Most often it is misspelled.
        let misspelt = self.left.iter().find(|entry| closest(&entry.key, [key]).is_some());
        Err(match misspelt {
            Some(entry) => Diagnostic::new(entry.span, format!("{} has no field `{}`", self.what, entry.key))
                .hint(format!("did you mean `{key}`?")),
            None => Diagnostic::new(self.span, format!("{} has no `{key}`", self.what))
                .hint(format!("add `{key}:`, see docs/policy.md")),
        })
    }

    /// Fails for the first field that was not read.
    pub(crate) fn finish(self) -> Result<(), Diagnostic> {
        let Some(entry) = self.left.iter().min_by_key(|entry| (entry.span.line, entry.span.column)) else {
            return Ok(());
        };
        let message = format!("{} has no field `{}`", self.what, entry.key);
        Err(Diagnostic::new(entry.span, message).hint(suggest(&entry.key, self.known)))
    }
}

/// The entries of a map.
pub(crate) fn entries<'n>(node: &'n Node, what: &str) -> Result<&'n [Entry<Node>], Diagnostic> {
    match &node.content {
        Content::Map(entries) => {
            entries.iter().try_for_each(string_key)?;
            Ok(entries)
        }
        _ => Err(expected(node, &format!("{what} to be a map"))),
    }
}

/// Fails for a key that YAML reads as another type: `on` would become `true`.
pub(crate) fn string_key(entry: &Entry<Node>) -> Result<(), Diagnostic> {
    if !entry.converted {
        return Ok(());
    }
    Err(Diagnostic::new(entry.span, format!("YAML reads this key as `{}`", entry.key))
        .hint("put it in quotes"))
}

/// The items of a list.
pub(crate) fn items<'n>(node: &'n Node, what: &str) -> Result<&'n [Node], Diagnostic> {
    match &node.content {
        Content::List(items) => Ok(items),
        _ => Err(expected(node, &format!("{what} to be a list"))),
    }
}

pub(crate) fn text<'n>(node: &'n Node, what: &str) -> Result<&'n str, Diagnostic> {
    match &node.content {
        Content::Scalar { value: Scalar::String(text), .. } => Ok(text),
        Content::Scalar { value: Scalar::Bool(_) | Scalar::Number(_), plain: true, .. } => {
            Err(expected(node, &format!("{what} to be a string")).hint("put it in quotes"))
        }
        _ => Err(expected(node, &format!("{what} to be a string"))),
    }
}

/// A string with its place.
pub(crate) fn located<'n>(node: &'n Node, what: &str) -> Result<Text<'n>, Diagnostic> {
    text(node, what).map(|text| node.text().unwrap_or(Text::on_line(text, node.span)))
}

/// A list of strings.
pub(crate) fn texts(node: &Node, what: &str) -> Result<Vec<String>, Diagnostic> {
    items(node, what)?.iter().map(|item| text(item, what).map(str::to_owned)).collect()
}

/// A map from strings to strings.
pub(crate) fn text_map(node: &Node, what: &str) -> Result<Vec<(String, String)>, Diagnostic> {
    entries(node, what)?
        .iter()
        .map(|entry| Ok((entry.key.clone(), text(&entry.value, what)?.to_owned())))
        .collect()
}

/// `true` or `false`; a spelling that only one version of YAML reads as a boolean is refused.
pub(crate) fn boolean(node: &Node, what: &str) -> Result<bool, Diagnostic> {
    unambiguous(node)?;
    match &node.content {
        Content::Scalar { value: Scalar::Bool(value), .. } => Ok(*value),
        _ => Err(expected(node, &format!("{what} to be `true` or `false`"))),
    }
}

/// Fails for a plain scalar that YAML 1.1 and YAML 1.2 read differently.
///
/// A tree has the value and not the spelling, so that the length of the scalar decides: `true` and `false` come from
/// words of four or five letters.
pub(crate) fn unambiguous(node: &Node) -> Result<(), Diagnostic> {
    let Content::Scalar { value, plain: true, .. } = &node.content else { return Ok(()) };
    let spelled_out = match value {
        Scalar::Bool(value) => node.span.length == if *value { 4 } else { 5 },
        Scalar::Number(number) => {
            let shortest = number.to_string();
            node.span.length <= shortest.len() || scalar::resolve(&shortest) != *value || number.is_f64()
        }
        Scalar::Null | Scalar::String(_) => true,
    };
    if spelled_out {
        return Ok(());
    }
    let message = format!("YAML 1.1 and YAML 1.2 do not agree that this is {}", node.describe());
    Err(Diagnostic::new(node.span, message)
        .hint("write `true`, `false` or a decimal number, or put it in quotes"))
}

/// An error with the expected kind of value, the value that was found, and how to write the expected one.
pub(crate) fn expected(node: &Node, what: &str) -> Diagnostic {
    let diagnostic = Diagnostic::new(node.span, format!("expected {what}, found {}", node.describe()));
    let how = [
        ("map", "write `key: value` on lines of their own, indented"),
        ("list", "write `- item` on lines of their own, or `[one, two]`"),
        ("string", "write text, in quotes if it looks like a number or a boolean"),
        ("`true` or `false`", "write it without quotes"),
        ("number", "write digits without quotes"),
        ("quantity", "write for example `64Gi`"),
    ];
    match how.iter().find(|(kind, _)| what.contains(kind)) {
        Some((_, how)) => diagnostic.hint(*how),
        None => diagnostic,
    }
}
