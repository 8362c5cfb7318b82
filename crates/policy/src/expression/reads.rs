//! The parts of the pod, the container and the node that an expression reads.

use cel::common::ast::{Expr, IdedExpr, LiteralValue};
use serde_json::Value;

/// The path from an object to a value in it.
pub type Path = Vec<Step>;

/// A step of a [`Path`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// To the field of this name.
    Field(String),
    /// To every entry of a list, or every key of a map.
    Every,
    /// Nowhere: the expression only reads whether the value exists.
    Exists,
}

impl Step {
    /// The name of the field, `*` for every entry, or `.`.
    pub fn token(&self) -> &str {
        match self {
            Self::Field(name) => name,
            Self::Every => "*",
            Self::Exists => ".",
        }
    }
}

/// A variable, and the fields selected from it.
#[derive(Default)]
pub(super) struct Access<'e> {
    pub(super) name: &'e str,
    pub(super) path: Path,
    /// Computed keys. The path ends at the value that the first of them indexes, and the whole value counts as read.
    pub(super) keys: Vec<&'e IdedExpr>,
    /// True if it has a value, too, where a key that it selects is absent.
    pub(super) guarded: bool,
    /// True for an optional value, which `orValue` did not take apart.
    pub(super) optional: bool,
    /// The literals that take the place of a value that is absent.
    pub(super) fallbacks: Vec<Value>,
}

/// `pod` and `spec`, `hostNetwork` for `pod.spec.hostNetwork`, `has(pod.spec.hostNetwork)`,
/// `pod.?spec.?hostNetwork` and `pod["spec"].hostNetwork`.
pub(super) fn access(expression: &IdedExpr) -> Option<Access<'_>> {
    match &expression.expr {
        Expr::Ident(name) => Some(Access { name, ..Access::default() }),
        Expr::Select(select) => {
            let mut access = access(&select.operand)?;
            access.field(&select.field);
            access.guarded |= select.test;
            Some(access)
        }
        Expr::Call(call) if matches!(call.func_name.as_str(), "_?._" | "_[_]" | "_[?_]") => {
            let [operand, key] = call.args.as_slice() else { return None };
            let mut access = access(operand)?;
            match &key.expr {
                Expr::Literal(LiteralValue::String(text)) => access.field(text.inner()),
                _ => access.keys.push(key),
            }
            access.guarded |= call.func_name != "_[_]";
            access.optional |= call.func_name != "_[_]";
            Some(access)
        }
        // `pod.spec.?initContainers.orValue([])` is the list or an empty one.
        Expr::Call(call) if call.func_name == "orValue" && is_constant(&call.args) => Some(Access {
            guarded: true,
            optional: false,
            fallbacks: call.args.iter().flat_map(literals).collect(),
            ..access(call.target.as_ref()?)?
        }),
        _ => None,
    }
}

/// Returns whether an expression selects a value, and does nothing else. A fallback in lower case could also be the
/// value of a node label.
pub(super) fn selects(expression: &IdedExpr) -> bool {
    access(expression).is_some_and(|access| {
        let is_label = |value: &Value| {
            access.name == "node" && value.as_str().is_some_and(|text| text == text.to_lowercase())
        };
        access.keys.is_empty() && access.fallbacks.iter().all(|value| value == "" || is_label(value))
    })
}

/// The value of a literal, or those of a list of them.
pub(super) fn literals(expression: &IdedExpr) -> Vec<Value> {
    match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => vec![text.inner().into()],
        Expr::Literal(LiteralValue::Boolean(value)) => vec![(*value.inner()).into()],
        Expr::Literal(LiteralValue::Int(number)) => vec![(*number.inner()).into()],
        Expr::List(list) => list.elements.iter().flat_map(literals).collect(),
        _ => Vec::new(),
    }
}

impl Access<'_> {
    fn field(&mut self, name: &str) {
        if self.keys.is_empty() {
            self.path.push(Step::Field(name.to_owned()));
        }
    }
}

fn is_constant(arguments: &[IdedExpr]) -> bool {
    arguments.iter().all(|argument| match &argument.expr {
        Expr::Literal(_) => true,
        Expr::List(list) => is_constant(&list.elements),
        _ => false,
    })
}
