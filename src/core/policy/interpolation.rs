//! Strings with `${…}` in them.

use std::sync::Arc;

use serde_json::Value;

use crate::core::yaml::{Node, Span};

use super::diagnostic::{Diagnostic, suggest};
use super::expression::{Bindings, Expression};
use super::phase::{Names, Phase};

/// A string of a policy, compiled.
#[derive(Debug, Clone)]
pub(crate) enum Interpolation {
    /// No expression in it.
    Literal(String),
    /// One expression and nothing else: the result keeps its type.
    Expression(Arc<Expression>),
    /// Literal text and expressions in turn: the result is a string.
    Mixed(Arc<[Part]>),
}

#[derive(Debug)]
pub(crate) enum Part {
    Literal(String),
    Expression(Expression),
}

/// An expression that has no value: the expression, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EvaluationError {
    pub(crate) expression: String,
    pub(crate) message: String,
}

impl Interpolation {
    /// Compiles a string at `span`. Every name in it is known, and can be read in the phase if one is given.
    pub(crate) fn compile(
        text: &str,
        span: Span,
        names: &Names,
        phase: Option<Phase>,
    ) -> Result<Self, Diagnostic> {
        let mut parts = split(text).map_err(|(message, at)| misplaced(span, text, at, 2, message))?;
        if !parts.iter().any(|piece| matches!(piece, Piece::Expression(..))) {
            let literal = parts.into_iter().map(|piece| match piece {
                Piece::Literal(text) => text,
                Piece::Expression(..) => String::new(),
            });
            return Ok(Self::Literal(literal.collect()));
        }
        if let [Piece::Expression(source, at)] = parts.as_slice() {
            return Ok(Self::Expression(Arc::new(compile(source, *at, text, span, names, phase)?)));
        }
        let parts = parts
            .drain(..)
            .map(|piece| match piece {
                Piece::Literal(text) => Ok(Part::Literal(text)),
                Piece::Expression(source, at) => {
                    compile(&source, at, text, span, names, phase).map(Part::Expression)
                }
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self::Mixed(parts.into()))
    }

    /// Compiles a condition: one expression and nothing else.
    pub(crate) fn condition(
        node: &Node,
        what: &str,
        names: &Names,
        phase: Phase,
    ) -> Result<Self, Diagnostic> {
        let text = super::reader::text(node, what)
            .map_err(|diagnostic| diagnostic.hint("write a condition as `${…}`"))?;
        let compiled = Self::compile(text.trim(), node.span, names, Some(phase))?;
        match compiled {
            Self::Expression(_) => Ok(compiled),
            _ => Err(Diagnostic::new(node.span, format!("{what} has to be one expression"))
                .hint("write a condition as `${…}`")),
        }
    }

    /// The expressions in it.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let (whole, mixed) = match self {
            Self::Literal(_) => (None, None),
            Self::Expression(expression) => (Some(&**expression), None),
            Self::Mixed(parts) => (None, Some(parts.iter())),
        };
        whole.into_iter().chain(mixed.into_iter().flatten().filter_map(|part| match part {
            Part::Expression(expression) => Some(expression),
            Part::Literal(_) => None,
        }))
    }

    /// The phase in which its value is known: the latest among the names that it reads.
    pub(crate) fn phase(&self, names: &Names) -> Phase {
        self.expressions().map(|expression| names.phase_of(expression)).max().unwrap_or(Phase::Fixed)
    }

    /// The value. A string in which any expression is `null` is `null`.
    pub(crate) fn evaluate(&self, bindings: &Bindings<'_, '_>) -> Result<Value, EvaluationError> {
        match self {
            Self::Literal(text) => Ok(Value::String(text.clone())),
            Self::Expression(expression) => run(expression, bindings),
            Self::Mixed(parts) => {
                let mut out = String::new();
                for part in parts.iter() {
                    match part {
                        Part::Literal(text) => out.push_str(text),
                        Part::Expression(expression) => match run(expression, bindings)? {
                            Value::Null => return Ok(Value::Null),
                            value => out.push_str(&super::parameter::plain(&value)),
                        },
                    }
                }
                Ok(Value::String(out))
            }
        }
    }

    /// Evaluates a condition.
    pub(crate) fn holds(&self, bindings: &Bindings<'_, '_>) -> Result<bool, EvaluationError> {
        let value = self.evaluate(bindings)?;
        value.as_bool().ok_or_else(|| EvaluationError {
            expression: self.source(),
            message: format!("the result is `{value}` where a condition needs `true` or `false`"),
        })
    }

    /// The text for a message.
    pub(crate) fn source(&self) -> String {
        match self {
            Self::Literal(text) => text.clone(),
            Self::Expression(expression) => format!("${{{}}}", expression.source()),
            Self::Mixed(parts) => parts
                .iter()
                .map(|part| match part {
                    Part::Literal(text) => text.clone(),
                    Part::Expression(expression) => format!("${{{}}}", expression.source()),
                })
                .collect(),
        }
    }
}

/// Two interpolations are equal if their texts are.
impl PartialEq for Interpolation {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Literal(one), Self::Literal(other)) => one == other,
            (Self::Expression(one), Self::Expression(other)) => one.source() == other.source(),
            (Self::Mixed(_), Self::Mixed(_)) => self.source() == other.source(),
            _ => false,
        }
    }
}

fn run(expression: &Expression, bindings: &Bindings<'_, '_>) -> Result<Value, EvaluationError> {
    expression
        .evaluate(bindings)
        .map_err(|message| EvaluationError { expression: format!("${{{}}}", expression.source()), message })
}

fn compile(
    source: &str,
    at: usize,
    text: &str,
    span: Span,
    names: &Names,
    phase: Option<Phase>,
) -> Result<Expression, Diagnostic> {
    let expression = Expression::compile(source).map_err(|error| {
        misplaced(span, text, at + error.at, error.length, error.message)
            .hint("expressions are CEL, see docs/policy.md")
    })?;
    for name in expression.names() {
        let place = at + find_name(source, name).unwrap_or(0);
        let Some(known) = names.get(name) else {
            let message = format!("`{name}` is neither a parameter nor a variable");
            return Err(misplaced(span, text, place, name.len(), message).hint(suggest(name, names.all())));
        };
        if phase.is_some_and(|phase| !phase.may_read(known)) {
            let message = format!("`{name}` is known {} only", known.describe());
            return Err(misplaced(span, text, place, name.len(), message)
                .hint("docs/policy.md says where each name can be used"));
        }
    }
    Ok(expression)
}

/// The position of a name in an expression, where it is not part of a longer one.
fn find_name(source: &str, name: &str) -> Option<usize> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    source
        .match_indices(name)
        .map(|(at, _)| at)
        .find(|at| !source[..*at].ends_with(is_name) && !source[*at + name.len()..].starts_with(is_name))
}

/// A mistake at byte `at` of a scalar's text. The position is exact for a scalar on one line; in others, the text
/// itself is searched.
fn misplaced(span: Span, text: &str, at: usize, length: usize, message: impl Into<String>) -> Diagnostic {
    let characters = text.chars().count();
    // A quoted scalar is longer than its text by the quotes.
    if !text.contains('\n') && (characters..=characters + 2).contains(&span.length) {
        let before = text.get(..at).map_or(0, |before| before.chars().count());
        let column = span.column + before + (span.length - characters).min(1);
        return Diagnostic::new(Span { column, length: length.max(1), ..span }, message);
    }
    let mut diagnostic = Diagnostic::new(span, message);
    let end = (at + length.max(1)..=text.len()).find(|end| text.is_char_boundary(*end));
    let needle = end.and_then(|end| text.get(at..end)).and_then(|needle| needle.split('\n').next());
    // One character would be found anywhere.
    diagnostic.needle = needle.filter(|needle| needle.len() > 1).map(Into::into);
    diagnostic
}

enum Piece {
    Literal(String),
    /// The source, and at which byte of the text it begins.
    Expression(String, usize),
}

/// Splits a text at its `${…}`; the error is a message and the byte that it is about.
fn split(text: &str) -> Result<Vec<Piece>, (String, usize)> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let offset = text.len() - rest.len() + at;
        if rest[..at].ends_with('$') {
            literal.push_str(&rest[..at]);
            literal.push('{');
            rest = &rest[at + 2..];
            continue;
        }
        literal.push_str(&rest[..at]);
        let body = &rest[at + 2..];
        let end = expression_end(body).ok_or_else(|| {
            ("`${` is not closed by `}`; a literal `${` is written `$${`".to_owned(), offset)
        })?;
        if !literal.is_empty() {
            pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        }
        pieces.push(Piece::Expression(body[..end].to_owned(), offset + 2));
        rest = &body[end + 1..];
    }
    literal.push_str(rest);
    if !literal.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(pieces)
}

/// The position of the `}` that closes an expression, after the braces and strings within it.
fn expression_end(body: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut quote = None;
    let mut escaped = false;
    for (at, byte) in body.bytes().enumerate() {
        match (quote, byte) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), b'\\') => escaped = true,
            (Some(open), byte) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'{') => depth += 1,
            (None, b'}') if depth == 0 => return Some(at),
            (None, b'}') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}
