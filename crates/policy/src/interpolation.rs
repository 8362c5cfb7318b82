//! Strings with `${…}` in them.
//!
//! An interpolation is a string, one expression, or a mixture. `built_in` lists the names that the engine defines, and
//! `phase` when the value of a name is known. `expression` evaluates the expressions.

mod built_in;
mod names;
mod phase;

pub use built_in::{BUILT_IN, JOB_ROLE, OBJECTS, VALUE};
pub use names::Names;
pub use phase::Phase;

use std::sync::Arc;

use serde_json::Value;

use fabric_yaml::scalar::Scalar;
use fabric_yaml::{self as yaml, Content, Node, Span, Text};

use crate::expression::{Bindings, Expression, find_name};
use crate::source::reader::check_count;
use crate::source::{
    Diagnostic, INVALID_EXPRESSION, Problems, UNKNOWN_NAME, WRONG_TYPE, is_misspelling, located, unambiguous,
};

/// The longest text, in bytes.
const MAX_TEXT: usize = 4 << 20;
/// The most expressions in one text.
const MAX_EXPRESSIONS: usize = 100;

/// A string of a policy, compiled.
#[derive(Debug, Clone, PartialEq)]
pub enum Interpolation {
    /// No expression in it.
    Literal(String),
    /// One expression and nothing else: the result keeps its type.
    Expression(Arc<Expression>),
    /// Literal text and expressions in turn: the result is a string.
    Mixed(Arc<[Self]>),
}

/// An expression that has no value: the expression, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluationError {
    pub expression: String,
    pub message: String,
    pub fault: Fault,
}

/// A value, or why an expression has none.
pub type Evaluated<T> = Result<T, EvaluationError>;

impl EvaluationError {
    /// An error about the first of the texts that `texts` visits.
    pub(crate) fn about(
        texts: impl FnOnce(&mut dyn FnMut(&Interpolation)),
        message: impl Into<String>,
    ) -> Self {
        let mut first = None;
        texts(&mut |text| {
            first.get_or_insert_with(|| text.clone());
        });
        first.unwrap_or_else(|| Interpolation::Literal(String::new())).failed(message)
    }

    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        self.fault.hint = Some(hint.to_owned());
        self
    }
}

/// A value for people: without the quotes of JSON, and whole numbers without a fraction.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => {
            let text = number.to_string();
            text.strip_suffix(".0").unwrap_or(&text).to_owned()
        }
        other => other.to_string(),
    }
}

/// The type of a value, for people.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}

/// The place of an expression without a value in the file of the policy, and the remedy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fault {
    /// Line 0 for an expression that is in no file.
    pub span: Span,
    pub hint: Option<String>,
    /// True if the expression fails for all values of the same types.
    pub is_of_types: bool,
}

impl Interpolation {
    /// Compiles a string. Every name in it is known, and can be read in the phase if one is given.
    pub(crate) fn compile(text: &Text<'_>, names: &Names, phase: Option<Phase>) -> Result<Self, Diagnostic> {
        let pieces = split(text.text).map_err(|at| {
            let message = "`${` is not closed by `}`; a literal `${` is written `$${`";
            Diagnostic::error(INVALID_EXPRESSION, text.span_of(at, 2), message)
                .hint("close it, and put quotes around a value that contains ` #`, which begins a comment")
        })?;
        let count = pieces.iter().filter(|piece| matches!(piece, Piece::Expression(..))).count();
        check_count(count, MAX_EXPRESSIONS, "expressions of a text", text.span)
            .map_err(|error| error.hint("compute it with a macro, as in `${list.map(x, …).join(',')}`"))?;
        let part = |piece| match piece {
            Piece::Literal(text) => Ok(Self::Literal(text)),
            Piece::Expression(source, at) => {
                compile(&source, at, text, names, phase).map(|one| Self::Expression(Arc::new(one)))
            }
        };
        let mut parts = pieces.into_iter().map(part).collect::<Result<Vec<_>, _>>()?;
        Ok(if parts.len() == 1 { parts.remove(0) } else { Self::Mixed(parts.into()) })
    }

    /// Compiles the condition under a key: one expression, without `${` and `}`.
    pub(crate) fn condition(node: &Node, key: &str, names: &Names, phase: Phase) -> Result<Self, Diagnostic> {
        let text = match &node.content {
            Content::Scalar { value: Scalar::Bool(value), plain: true, .. } => {
                unambiguous(node)?;
                Text::on_line(if *value { "true" } else { "false" }, node.span)
            }
            _ => located(node, &format!("`{key}`")).map_err(|diagnostic| {
                diagnostic.hint(if key == "containers" {
                    "write a condition, as in `containers: container.name == 'train'`, and the fields of one in `container`"
                        .to_owned()
                } else {
                    format!("write a condition, as in `{key}: \"!hostNetwork\"`")
                })
            })?,
        };
        let text = text.trim();
        if text.text.is_empty() {
            let message = format!("`{key}` is empty");
            let hint = "write a condition, such as `gpus > 0`, or leave the key out";
            return Err(Diagnostic::error(INVALID_EXPRESSION, node.span, message).hint(hint));
        }
        let is_cel = || Expression::compile(text.text).is_ok();
        if let Some(at) = text.text.find("${").filter(|at| *at == 0 || !is_cel()) {
            let part = |piece| match piece {
                Piece::Literal(text) | Piece::Expression(text, _) => text,
            };
            let bare: String = split(text.text).unwrap_or_default().into_iter().map(part).collect();
            let message = "a condition is an expression by itself, without `${` and `}`";
            return Err(Diagnostic::error(INVALID_EXPRESSION, text.span_of(at, 2), message)
                .hint(format!("write `{key}: {}`", yaml::write(&Value::from(bare.trim())).trim_end())));
        }
        let compiled = compile(text.text, 0, &text, names, Some(phase)).map_err(|found| {
            let is_unknown = found.code == UNKNOWN_NAME && !found.is_misspelling;
            let is_name = is_unknown && text.text.bytes().all(|byte| byte.is_ascii_alphanumeric());
            match text.text {
                _ if key != "containers" || !is_name => found,
                "all" | "any" => found.hint("write `containers: \"true\"` for every container"),
                name => {
                    found.hint(format!("write `container.name == '{name}'` for the containers of this name"))
                }
            }
        })?;
        Ok(Self::Expression(Arc::new(compiled.bare())))
    }

    /// The expressions in it.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let parts = if let Self::Mixed(parts) = self { parts } else { std::slice::from_ref(self) };
        parts.iter().filter_map(|part| if let Self::Expression(one) = part { Some(&**one) } else { None })
    }

    /// The phase of its value: the latest among the names that it reads.
    pub fn phase(&self, names: &Names) -> Phase {
        self.expressions().map(|expression| names.phase_of(expression)).max().unwrap_or(Phase::Fixed)
    }

    /// The value. If any expression in a string is `null`, the string is `null`.
    pub fn evaluate(&self, bindings: &Bindings<'_, '_>) -> Evaluated<Value> {
        match self {
            Self::Literal(text) => Ok(Value::String(text.clone())),
            Self::Expression(expression) => run(expression, bindings),
            Self::Mixed(parts) => {
                let mut out = String::new();
                for part in parts.iter() {
                    match part.evaluate(bindings)? {
                        Value::Null => return Ok(Value::Null),
                        Value::String(text) => out.push_str(&text),
                        value => out.push_str(&text_of(&value)),
                    }
                    if out.len() > MAX_TEXT {
                        return Err(self.failed("it has more than 4 MiB, which no pod can hold"));
                    }
                }
                Ok(Value::String(out))
            }
        }
    }

    /// The text that it is with these parameters, if it reads nothing else.
    pub(crate) fn with_parameters(&self, parameters: &Bindings<'_, '_>, names: &Names) -> Evaluated<Self> {
        if matches!(self, Self::Literal(_)) || self.phase(names) != Phase::Fixed {
            return Ok(self.clone());
        }
        Ok(match self.evaluate(parameters)? {
            Value::String(value) => Self::Literal(value),
            _ => self.clone(),
        })
    }

    /// Evaluates a condition.
    pub fn is_true(&self, bindings: &Bindings<'_, '_>) -> Evaluated<bool> {
        let value = self.evaluate(bindings)?;
        value.as_bool().ok_or_else(|| {
            let message = format!("the result is `{value}`, but a condition needs `true` or `false`");
            let name = self.expressions().map(|one| one.source().trim()).find(|_| value.is_number());
            let name = name.filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            let hint = match value.as_str() {
                Some("true" | "false") => "write the boolean where it is declared, without quotes".to_owned(),
                _ => format!("compare it, as in `{} > 0`", name.unwrap_or("totalGpus")),
            };
            self.of_wrong_type(message, &hint)
        })
    }

    /// An error about its value, which has another type than is needed.
    pub(crate) fn of_wrong_type(&self, message: impl Into<String>, hint: &str) -> EvaluationError {
        let mut error = self.failed(message).with_hint(hint);
        error.fault.is_of_types = true;
        error
    }

    /// An error about its value.
    pub(crate) fn failed(&self, message: impl Into<String>) -> EvaluationError {
        EvaluationError {
            expression: self.source(),
            message: message.into(),
            fault: Fault { span: self.span(), ..Fault::default() },
        }
    }

    /// An error about its value, which is not valid where it is written.
    pub fn invalid(&self, problems: Problems) -> EvaluationError {
        let Some(first) = problems.into_iter().next() else { return self.failed("") };
        let failed = self.failed(first.message);
        let is_of_types = first.code == WRONG_TYPE;
        EvaluationError { fault: Fault { hint: first.hint, is_of_types, ..failed.fault }, ..failed }
    }

    /// The place of its first expression; line 0 without one.
    pub fn span(&self) -> Span {
        let first = self.expressions().next();
        first.map_or_else(Span::default, |expression| expression.span(0, expression.source().len()))
    }

    /// The text without `${` and `}` around all of it, on one line.
    pub fn on_one_line(&self) -> String {
        let source = self.source();
        let inner = source.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).unwrap_or(&source);
        inner.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The text for a message.
    pub fn source(&self) -> String {
        match self {
            Self::Literal(text) => text.clone(),
            Self::Expression(expression) => expression.written(),
            Self::Mixed(parts) => parts.iter().map(Self::source).collect(),
        }
    }
}

/// The first name of a kind that texts read, with its place.
pub(super) fn first_read(
    is_wanted: impl Fn(&str) -> bool,
    texts: impl FnOnce(&mut dyn FnMut(&Interpolation)),
) -> Option<(String, Span)> {
    let mut read = None;
    texts(&mut |text| {
        for expression in text.expressions() {
            let found = expression.names().iter().find(|name| is_wanted(name));
            read = read.take().or(found.map(|name| (name.clone(), expression.span_of_name(name))));
        }
    });
    read
}

/// The names that the expressions of a text read.
pub(super) fn names_in(text: &Interpolation) -> impl Iterator<Item = String> {
    text.expressions().flat_map(Expression::names).cloned()
}

/// The hint for a key that a map of the policy lacks: almost the same one, or the only map that the expression reads.
fn near_key(expression: &Expression, bindings: &Bindings<'_, '_>, key: &str) -> Option<String> {
    let is_own = |name: &&String| BUILT_IN.iter().all(|known| known.name != **name);
    let is_near = |known: &&String| is_misspelling(key, known);
    let maps = expression.names().iter().filter(is_own);
    let maps: Vec<_> =
        maps.filter_map(|name| Some((name, bindings.get(name)?.as_object()?.clone()))).collect();
    let near = maps.iter().find_map(|(name, map)| Some((name, map.keys().find(is_near)?)));
    match (near, maps.as_slice()) {
        (Some((name, near)), _) => Some(format!("`{name}` has the key `{near}`: write both in the same way")),
        (None, [(name, map)]) if !map.contains_key(key) => {
            Some(format!("add `{key}` to `{name}`, or look it up as `{name}[?…].orValue(…)`"))
        }
        _ => None,
    }
}

fn run(expression: &Expression, bindings: &Bindings<'_, '_>) -> Evaluated<Value> {
    expression.evaluate(bindings).map_err(|failure| EvaluationError {
        expression: expression.written(),
        fault: Fault {
            span: expression.span_of_name(failure.name.as_deref().unwrap_or_default()),
            hint: failure.key.and_then(|key| near_key(expression, bindings, &key)).or(failure.hint),
            is_of_types: failure.is_of_types,
        },
        message: failure.message,
    })
}

const NULL: &str = "write `null` for no value, or put a string in quotes";

/// Names in the expressions of other engines, and their replacements.
const OF_OTHER_ENGINES: &[(&str, &str)] = &[
    (".Values", "write the name of the parameter by itself, without `.Values.`"),
    ("None", NULL),
    ("element", "write `container` for the container"),
    ("env", "add `env: NAME` to the check, and read `value`, the value of that variable"),
    ("metadata", "write `pod.metadata`"),
    ("nil", NULL),
    ("none", NULL),
    ("object", "write `pod` for the pod"),
    ("parameters", "write the name of the parameter by itself, without `parameters.`"),
    ("params", "write the name of the parameter by itself, without `params.`"),
    ("request", "write `pod` for the pod, and `podNamespace` for its namespace"),
    ("spec", "write `pod.spec`; a parameter has its name alone"),
    ("value", "add `env: NAME` to the check: `value` is that of the variable"),
    ("variables", "write the name of the variable by itself"),
];

fn compile(
    source: &str,
    at: usize,
    text: &Text<'_>,
    names: &Names,
    phase: Option<Phase>,
) -> Result<Expression, Diagnostic> {
    let expression = Expression::compile(source).map_err(|error| {
        Diagnostic::error(INVALID_EXPRESSION, text.span_of(at + error.at, error.length), error.message)
            .hint(error.hint.as_deref().unwrap_or("expressions are CEL, see docs/policy.md"))
    })?;
    for name in expression.names() {
        let place = || text.span_of(at + find_name(source, name).unwrap_or(0), name.len());
        let Some(known) = names.get(name) else {
            if names.is_taken(name) {
                continue;
            }
            let message = format!("`{name}` is neither a parameter nor a variable");
            let is_of_shell =
                name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
            let of_other_engine = OF_OTHER_ENGINES.iter().find(|(other, _)| *other == name);
            let is_near = names.readable(phase).any(|known| is_misspelling(name, known));
            let has_other_case = names.readable(phase).any(|known| known.eq_ignore_ascii_case(name));
            let error = Diagnostic::error(UNKNOWN_NAME, place(), message);
            let hint = match of_other_engine {
                Some((_, hint)) => (*hint).to_owned(),
                _ if ["yes", "on", "True", "TRUE"].contains(&name.as_str()) => "write `true`".to_owned(),
                _ if ["no", "off", "False", "FALSE"].contains(&name.as_str()) => "write `false`".to_owned(),
                _ if ["None", "nil", "NULL", "undefined"].contains(&name.as_str()) => {
                    "write `null`".to_owned()
                }
                _ if is_compared(source, name) && !is_near => format!("put a string in quotes: `'{name}'`"),
                _ if is_key(source, name) && !is_near => {
                    "put a key in quotes, as in `[?'example.com/pool']`".to_owned()
                }
                _ if is_of_shell && names.get(VALUE).is_some() => {
                    "write `value` for the value of the variable".to_owned()
                }
                _ if is_of_shell && !is_near && !has_other_case => format!(
                    "write `$({name})` for the value of the container, or `$${{{name}}}` for a literal `${{{name}}}`"
                ),
                _ => {
                    let suggested = error.suggest(name, names.readable(phase));
                    return Err(match suggested.hint.clone().filter(|hint| hint.starts_with("known here")) {
                        Some(known) => suggested.hint(format!("{known}; text is in quotes: `'{name}'`")),
                        None => suggested,
                    });
                }
            };
            return Err(error.hint(hint));
        };
        if phase.is_some_and(|phase| !phase.may_read(known)) {
            let message = format!("`{name}` is known only {}", known.describe());
            let hint = match known {
                Phase::Container if name == "hasDevice" => {
                    "write the condition under `containers` of a rule, or read `ownDevices`, the pod's own devices"
                }
                Phase::Container if BUILT_IN.iter().all(|known| known.name != name) => {
                    "this variable reads a name of containers, such as `gpus`: read `totalGpus`, the GPUs of the pod, there"
                }
                Phase::Container => {
                    "read `totalGpus`, the GPUs of the pod, or write it under `containers` or `container` of a rule: \
                     what is for the whole pod cannot differ by container"
                }
                _ => "docs/policy.md says where each name can be used",
            };
            return Err(Diagnostic::error(UNKNOWN_NAME, place(), message).hint(hint));
        }
    }
    Ok(expression.placed(text.map_of_part(at, source.len())))
}

/// Returns whether a name looks up a value, as in `node[?pool]`, or is a part of a key, as in `.?example.com/pool`.
pub(crate) fn is_key(source: &str, name: &str) -> bool {
    find_name(source, name).is_some_and(|at| source[..at].ends_with(['[', '?', '/']))
}

/// Returns whether a value is compared with a name, as in `transport == roce`.
fn is_compared(source: &str, name: &str) -> bool {
    let before = find_name(source, name).map_or("", |at| source[..at].trim_end());
    before.ends_with("==") || before.ends_with("!=")
}

enum Piece {
    Literal(String),
    /// The source, and its byte offset in the text.
    Expression(String, usize),
}

/// Splits a text at its `${…}`; the error is the byte of one that is not closed.
fn split(text: &str) -> Result<Vec<Piece>, usize> {
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
        let end = expression_end(body).ok_or(offset)?;
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
