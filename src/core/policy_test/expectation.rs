//! The expected result of a case.

use serde_json::Value;

use crate::core::policy::Diagnostic;
use crate::core::policy::diagnostic::suggest;
use crate::core::policy::problems::{Checked, Problems, all};
use crate::core::policy::reader::{self, Fields};
use crate::core::schema::{self, Shape};
use crate::core::yaml::scalar::Scalar;
use crate::core::yaml::{Content, Node, Span};

use super::path::FieldPath;

/// The expected result for one pod, or for each pod template that no other expectation names.
#[derive(Debug)]
pub(super) struct Expectation {
    /// The number of the document that has the template, from 1.
    pub(super) document: Option<usize>,
    /// JSON Pointer to the template in the document.
    pub(super) template: Option<String>,
    pub(super) outcome: Option<Declared<String>>,
    pub(super) reason: Option<Declared<String>>,
    pub(super) warnings: Option<Declared<Vec<String>>>,
    pub(super) patch: Option<Declared<Value>>,
    pub(super) object: Option<Declared<Value>>,
    pub(super) has: Option<Value>,
    pub(super) lacks: Vec<FieldPath>,
}

/// A value of the file, with the positions of its key and of the value itself.
#[derive(Debug)]
pub(super) struct Declared<T> {
    pub(super) key: Span,
    pub(super) at: Span,
    pub(super) value: T,
}

pub(crate) const OUTCOMES: [&str; 4] = ["mutated", "unchanged", "skipped", "refused"];

pub(super) fn expectation(node: &Node) -> Checked<Expectation> {
    let Content::Map(entries) = &node.content else {
        return Err(reader::expected(node, "`expect` to be a map, or a list of them").into());
    };
    let key =
        |name: &str| entries.iter().find(|entry| entry.key == name).map_or(node.span, |entry| entry.span);
    let mut fields = Fields::of(node, "`expect`")?;
    let document = fields.optional("document", number);
    let template = fields.optional("template", |node| reader::text(node, "`template`").map(str::to_owned));
    let outcome = fields.optional("outcome", |node| one_of(node, key("outcome")));
    let reason = fields.optional("reason", |node| {
        let value = reader::text(node, "`reason`")?.to_owned();
        Ok::<_, Diagnostic>(Declared { key: key("reason"), at: node.span, value })
    });
    let warnings = fields.optional("warnings", |node| {
        let value = reader::texts(node, "`warnings`")?;
        Ok::<_, Problems>(Declared { key: key("warnings"), at: node.span, value })
    });
    let value =
        |name: &'static str, node: &Node| Declared { key: key(name), at: node.span, value: node.to_value() };
    let patch = fields.optional("patch", |node| reader::items(node, "`patch`").map(|_| value("patch", node)));
    let object =
        fields.optional("object", |node| reader::entries(node, "`object`").map(|_| value("object", node)));
    let has = fields.optional("has", has);
    let lacks = fields.optional("lacks", lacks);
    fields.finish()?;
    let read = Expectation {
        document: document?,
        template: template?,
        outcome: outcome?,
        reason: reason?,
        warnings: warnings?,
        patch: patch?,
        object: object?,
        has: has?,
        lacks: lacks?.unwrap_or_default(),
    };
    let result =
        read.patch.is_some() || read.object.is_some() || read.has.is_some() || !read.lacks.is_empty();
    let codes = read.outcome.is_some() || read.reason.is_some() || read.warnings.is_some();
    if !result && !codes {
        return Err(checks_nothing(node.span).into());
    }
    Ok(read)
}

pub(super) fn checks_nothing(span: Span) -> Diagnostic {
    Diagnostic::new(span, "the expectation checks nothing").hint(
        "add `outcome`, `reason`, `warnings`, `has`, `lacks`, `patch` or `object`, see docs/testing-policies.md",
    )
}

fn number(node: &Node) -> Result<usize, Diagnostic> {
    let number = node.to_value().as_u64().and_then(|number| usize::try_from(number).ok());
    number
        .filter(|number| *number > 0)
        .ok_or_else(|| reader::expected(node, "`document` to be a number from 1"))
}

fn one_of(node: &Node, key: Span) -> Result<Declared<String>, Diagnostic> {
    let text = reader::text(node, "`outcome`")?;
    if !OUTCOMES.contains(&text) {
        return Err(
            Diagnostic::new(node.span, format!("`outcome` is `{text}`")).hint(suggest(text, OUTCOMES))
        );
    }
    Ok(Declared { key, at: node.span, value: text.to_owned() })
}

fn has(node: &Node) -> Checked<Value> {
    if reader::entries(node, "`has`")?.is_empty() {
        return Err(checks_nothing(node.span).into());
    }
    known_fields(node, &Shape::Object(schema::pod()))?;
    says_something(node)?;
    Ok(node.to_value())
}

/// Fails for a part of `has` that every pod has.
fn says_something(node: &Node) -> Result<(), Diagnostic> {
    match &node.content {
        Content::Scalar { value: Scalar::Null, .. } => {
            Err(Diagnostic::new(node.span, "`has` expects nothing here").hint("write the path under `lacks`"))
        }
        Content::Scalar { .. } => Ok(()),
        Content::List(items) if items.is_empty() => Err(checks_nothing(node.span)),
        Content::List(items) => items.iter().try_for_each(says_something),
        Content::Map(entries) => entries.iter().try_for_each(|entry| says_something(&entry.value)),
    }
}

fn lacks(node: &Node) -> Checked<Vec<FieldPath>> {
    let items = reader::items(node, "`lacks`")?;
    if items.is_empty() {
        return Err(checks_nothing(node.span).into());
    }
    all(items.iter().map(|item| FieldPath::read(reader::text(item, "a path of `lacks`")?, item.span)))
}

/// Fails for a field that no pod has: a misspelled one would test nothing.
pub(super) fn known_fields(node: &Node, shape: &Shape) -> Checked<()> {
    match (shape, &node.content) {
        (Shape::Object(object) | Shape::Atomic(object), Content::Map(_)) => {
            all(reader::entries(node, object.name)?.iter().map(|entry| {
                let Some(field) = object.field(&entry.key) else {
                    let known = object.fields.iter().map(|field| field.name);
                    let message = format!("{} has no field `{}`", object.name, entry.key);
                    return Err(Diagnostic::new(entry.span, message).hint(suggest(&entry.key, known)).into());
                };
                known_fields(&entry.value, &field.shape)
            }))
        }
        (Shape::List { items, .. }, Content::List(nodes)) => {
            all(nodes.iter().map(|node| known_fields(node, items)))
        }
        _ => Ok(()),
    }
}
