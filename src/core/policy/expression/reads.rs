//! The names that an expression reads, and the parts of the pod, the container and the node among them.

use std::collections::BTreeSet;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use super::environment::TYPE_NAMES;
use super::tree::operands;

/// The parts of an object that an expression reads. Only they are converted for it: the whole of a pod costs ten times
/// as much as parsing it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ReadSet {
    /// The values at these paths; none if the expression does not name the object.
    Paths(BTreeSet<Path>),
    /// The whole object.
    Whole,
}

/// The way from an object to a value in it.
pub(crate) type Path = Vec<Step>;

/// A step of a [`Path`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Step {
    /// To the field of this name.
    Field(String),
    /// To every entry of a list, or every key of a map.
    Every,
    /// Nowhere: the expression reads only that the value exists.
    Exists,
}

impl Default for ReadSet {
    fn default() -> Self {
        Self::Paths(BTreeSet::new())
    }
}

impl ReadSet {
    /// Adds what another expression reads.
    pub(crate) fn extend(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Paths(known), Self::Paths(paths)) => known.extend(paths.iter().cloned()),
            _ => *self = Self::Whole,
        }
    }

    fn insert(&mut self, path: Path) {
        match self {
            Self::Paths(paths) if !path.is_empty() => {
                paths.insert(path);
            }
            _ => *self = Self::Whole,
        }
    }
}

/// The objects of which parts are read.
const ROOTS: [&str; 3] = ["pod", "container", "node"];

/// A value in one of the [`ROOTS`].
#[derive(Debug, Clone)]
struct Place {
    root: usize,
    path: Path,
}

impl Place {
    fn step(&self, step: Step) -> Self {
        Self { root: self.root, path: self.path.iter().cloned().chain([step]).collect() }
    }
}

/// Walks an expression for the variables that it reads.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) names: BTreeSet<String>,
    /// By [`ROOTS`].
    pub(super) reads: [ReadSet; 3],
    /// Variables of the comprehensions around the current expression, each with the value that it iterates over.
    local: Vec<(String, Option<Place>)>,
}

impl Reader {
    pub(super) fn expression(&mut self, expression: &IdedExpr) {
        if let Some((place, keys)) = self.place(expression) {
            self.read(place);
            return keys.into_iter().for_each(|key| self.expression(key));
        }
        match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) => {
                let local = self.local.iter().any(|(known, _)| known == name);
                if !local && !TYPE_NAMES.contains(&name.as_str()) && !name.starts_with('@') {
                    self.names.insert(name.clone());
                }
            }
            Expr::Call(call) => self.call(call),
            Expr::Select(select) => self.expression(&select.operand),
            Expr::List(list) => list.elements.iter().for_each(|element| self.expression(element)),
            Expr::Map(map) => map.entries.iter().for_each(|entry| self.entry(&entry.expr)),
            Expr::Struct(structure) => structure.entries.iter().for_each(|entry| self.entry(&entry.expr)),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) {
        // With a second variable, the first one is an index.
        let one_variable = comprehension.iter_var2.is_none();
        let range = self.place(&comprehension.iter_range).filter(|_| one_variable);
        let entry = if let Some((place, keys)) = range {
            // The body says what is read of the entries; their number counts in any case.
            let entry = place.step(Step::Every);
            self.read(entry.step(Step::Exists));
            for key in keys {
                self.expression(key);
            }
            Some(entry)
        } else {
            self.expression(&comprehension.iter_range);
            None
        };
        self.expression(&comprehension.accu_init);
        let before = self.local.len();
        self.local.push((comprehension.iter_var.clone(), entry));
        self.local.extend(comprehension.iter_var2.clone().map(|name| (name, None)));
        self.local.push((comprehension.accu_var.clone(), None));
        self.expression(&comprehension.loop_cond);
        self.expression(&comprehension.loop_step);
        self.expression(&comprehension.result);
        self.local.truncate(before);
    }

    fn read(&mut self, place: Place) {
        self.names.insert(ROOTS[place.root].to_owned());
        self.reads[place.root].insert(place.path);
    }

    /// The value in one of the [`ROOTS`] that an expression selects, if it does nothing else, and the keys that it
    /// computes on the way.
    fn place<'e>(&self, expression: &'e IdedExpr) -> Option<(Place, Vec<&'e IdedExpr>)> {
        let Selection { name, path, keys } = selection(expression)?;
        let place = match self.local.iter().rev().find(|(known, _)| known == name) {
            Some((_, entry)) => {
                let entry = entry.as_ref()?;
                Place { root: entry.root, path: entry.path.iter().cloned().chain(path).collect() }
            }
            None => Place { root: ROOTS.iter().position(|root| *root == name)?, path },
        };
        Some((place, keys))
    }

    fn call(&mut self, call: &CallExpr) {
        for operand in operands(call) {
            self.expression(operand);
        }
    }

    fn entry(&mut self, entry: &EntryExpr) {
        match entry {
            EntryExpr::StructField(field) => self.expression(&field.value),
            EntryExpr::MapEntry(entry) => {
                self.expression(&entry.key);
                self.expression(&entry.value);
            }
        }
    }
}

/// A variable, and the fields selected from it.
pub(super) struct Selection<'e> {
    pub(super) name: &'e str,
    pub(super) path: Path,
    /// Computed keys. The path ends at the value that the first of them indexes, all of which is read.
    pub(super) keys: Vec<&'e IdedExpr>,
}

/// `pod` and `spec`, `hostNetwork` for `pod.spec.hostNetwork`, `has(pod.spec.hostNetwork)`,
/// `pod.?spec.?hostNetwork` and `pod["spec"].hostNetwork`.
pub(super) fn selection(expression: &IdedExpr) -> Option<Selection<'_>> {
    match &expression.expr {
        Expr::Ident(name) => Some(Selection { name, path: Vec::new(), keys: Vec::new() }),
        Expr::Select(select) => {
            let mut selection = selection(&select.operand)?;
            selection.field(&select.field);
            Some(selection)
        }
        Expr::Call(call) if matches!(call.func_name.as_str(), "_?._" | "_[_]" | "_[?_]") => {
            let [operand, key] = call.args.as_slice() else { return None };
            let mut selection = selection(operand)?;
            match &key.expr {
                Expr::Literal(LiteralValue::String(text)) => selection.field(text.inner()),
                _ => selection.keys.push(key),
            }
            Some(selection)
        }
        // `pod.spec.?initContainers.orValue([])` is the list or an empty one.
        Expr::Call(call) if call.func_name == "orValue" && is_constant(&call.args) => {
            selection(call.target.as_ref()?)
        }
        _ => None,
    }
}

impl Selection<'_> {
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
