//! The parts of the pod, the container and the node that an expression reads.

use std::collections::BTreeSet;

use cel::common::ast::{Expr, IdedExpr, LiteralValue};

/// The parts of an object that an expression reads. Only they are converted for it: the whole of a pod costs ten times
/// as much as parsing it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReadSet {
    /// The values at these paths; none if the expression does not name the object.
    Paths(BTreeSet<Path>),
    /// The whole object.
    Whole,
}

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
    pub(crate) fn token(&self) -> &str {
        match self {
            Self::Field(name) => name,
            Self::Every => "*",
            Self::Exists => ".",
        }
    }
}

impl Default for ReadSet {
    fn default() -> Self {
        Self::Paths(BTreeSet::new())
    }
}

impl ReadSet {
    /// Adds the reads of another expression.
    pub(crate) fn extend(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Paths(known), Self::Paths(paths)) => known.extend(paths.iter().cloned()),
            _ => *self = Self::Whole,
        }
    }

    pub(super) fn insert(&mut self, path: Path) {
        match self {
            Self::Paths(paths) if !path.is_empty() => {
                paths.insert(path);
            }
            _ => *self = Self::Whole,
        }
    }
}

/// The objects whose parts are read.
pub(super) const ROOTS: [&str; 3] = ["pod", "container", "node"];

/// A variable, and the fields selected from it.
pub(super) struct Access<'e> {
    pub(super) name: &'e str,
    pub(super) path: Path,
    /// Computed keys. The path ends at the value that the first of them indexes, and the whole value counts as read.
    pub(super) keys: Vec<&'e IdedExpr>,
}

/// `pod` and `spec`, `hostNetwork` for `pod.spec.hostNetwork`, `has(pod.spec.hostNetwork)`,
/// `pod.?spec.?hostNetwork` and `pod["spec"].hostNetwork`.
pub(super) fn access(expression: &IdedExpr) -> Option<Access<'_>> {
    match &expression.expr {
        Expr::Ident(name) => Some(Access { name, path: Vec::new(), keys: Vec::new() }),
        Expr::Select(select) => {
            let mut access = access(&select.operand)?;
            access.field(&select.field);
            Some(access)
        }
        Expr::Call(call) if matches!(call.func_name.as_str(), "_?._" | "_[_]" | "_[?_]") => {
            let [operand, key] = call.args.as_slice() else { return None };
            let mut access = access(operand)?;
            match &key.expr {
                Expr::Literal(LiteralValue::String(text)) => access.field(text.inner()),
                _ => access.keys.push(key),
            }
            Some(access)
        }
        // `pod.spec.?initContainers.orValue([])` is the list or an empty one.
        Expr::Call(call) if call.func_name == "orValue" && is_constant(&call.args) => {
            access(call.target.as_ref()?)
        }
        _ => None,
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
