//! The expected result of a case.

use std::collections::BTreeSet;

use serde_json::Value;

use fabric_policy::Diagnostic;
use fabric_policy::schema::{self, Shape};
use fabric_policy::source::reader::{self, Fields};
use fabric_policy::source::{Checked, all, suggest};
use fabric_yaml::scalar::Scalar;
use fabric_yaml::{Content, Node, Span};

use super::keys;
use super::path::{FieldPath, known_field};

/// The expected result for one pod, or for each pod template without an expectation of its own.
#[derive(Debug)]
pub(super) struct Expectation {
    /// The number of the document that has the template, from 1.
    pub(super) document: Option<usize>,
    /// JSON Pointer to the template in the document.
    pub(super) template: Option<String>,
    pub(super) outcome: Option<String>,
    pub(super) reason: Option<Reference>,
    pub(super) warnings: Option<Vec<Reference>>,
    pub(super) patch: Option<Value>,
    pub(super) object: Option<Value>,
    pub(super) has: Option<Value>,
    pub(super) lacks: Vec<FieldPath>,
}

/// The name of a policy, the path of a file, or the code of a reason or a warning, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    pub text: String,
    pub span: Span,
}

impl Reference {
    pub(super) fn read(node: &Node, what: &str) -> Result<Self, Diagnostic> {
        Ok(Self { text: reader::text(node, what)?.to_owned(), span: node.span })
    }
}

impl Expectation {
    /// The codes of the warnings, each once, in alphabetical order.
    pub(super) fn warning_codes(&self) -> Option<Vec<&str>> {
        let codes: BTreeSet<&str> = self.warnings.as_ref()?.iter().map(|code| code.text.as_str()).collect();
        Some(codes.into_iter().collect())
    }
}

pub(super) fn expectation(node: &Node) -> Checked<Expectation> {
    if !matches!(node.content, Content::Map(_)) {
        return Err(reader::expected(node, "`expect` to be a map, or a list of them").into());
    }
    let mut fields = Fields::read(node, &keys::EXPECTATION)?;
    let document = fields.optional("document", number);
    let template = fields.optional("template", |node| reader::text(node, "`template`").map(str::to_owned));
    let outcome = fields.optional("outcome", outcome);
    let reason = fields.optional("reason", |node| Reference::read(node, "`reason`"));
    let warnings = fields.optional("warnings", |node| {
        all::<_, _, Vec<_>>(
            reader::items(node, "`warnings`")?.iter().map(|item| Reference::read(item, "`warnings`")),
        )
    });
    let patch = fields.optional("patch", |node| reader::items(node, "`patch`").map(|_| node.to_value()));
    let object = fields.optional("object", |node| reader::entries(node, "`object`").map(|_| node.to_value()));
    let has = fields.optional("has", has);
    let lacks = fields.optional("lacks", lacks);
    fields.finish()?;
    if keys::EXPECTATION.some_of.iter().all(|key| node.get(key).is_none()) {
        return Err(checks_nothing(node.span).into());
    }
    Ok(Expectation {
        document: document?,
        template: template?,
        outcome: outcome?,
        reason: reason?,
        warnings: warnings?,
        patch: patch?,
        object: object?,
        has: has?,
        lacks: lacks?.unwrap_or_default(),
    })
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

fn outcome(node: &Node) -> Result<String, Diagnostic> {
    let text = reader::text(node, "`outcome`")?;
    if !keys::OUTCOMES.contains(&text) {
        return Err(
            Diagnostic::new(node.span, format!("`outcome` is `{text}`")).hint(suggest(text, keys::OUTCOMES))
        );
    }
    Ok(text.to_owned())
}

fn has(node: &Node) -> Checked<Value> {
    if reader::entries(node, "`has`")?.is_empty() {
        return Err(checks_nothing(node.span).into());
    }
    known_fields(node, &Shape::Object(schema::pod()))?;
    says_something(node)?;
    strings(node, &Shape::Object(schema::pod()))?;
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

/// Fails for a number or a boolean where every pod has a string.
fn strings(node: &Node, shape: &Shape) -> Checked<()> {
    match (shape, &node.content) {
        (Shape::Text(_), Content::Scalar { value: Scalar::Bool(_) | Scalar::Number(_), .. }) => {
            let message = format!("a pod has a string here, and this is {}", node.describe());
            Err(Diagnostic::new(node.span, message).hint("put it in quotes").into())
        }
        (_, Content::Map(entries)) => {
            let known = entries.iter().filter_map(|entry| Some((&entry.value, shape.inner(&entry.key)?)));
            all(known.map(|(value, inner)| strings(value, &inner)))
        }
        (Shape::List { items, .. }, Content::List(nodes)) => {
            all(nodes.iter().map(|node| strings(node, items)))
        }
        _ => Ok(()),
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
            all(reader::entries(node, object.name)?
                .iter()
                .map(|entry| known_fields(&entry.value, &known_field(object, &entry.key, entry.span)?.shape)))
        }
        (Shape::List { items, .. }, Content::List(nodes)) => {
            all(nodes.iter().map(|node| known_fields(node, items)))
        }
        _ => Ok(()),
    }
}
