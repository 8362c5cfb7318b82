//! The one walk over the fields that a tree writes. All code that needs them uses it.

use crate::interpolation::EvaluationError;
use crate::schema::{Field, Object, Shape};
use fabric_yaml::Span;

use super::scalars::is_structure;
use super::{Entry, Tree};

/// A value that a tree sets: the fields that lead to it, and its name, if it is an entry of a map or list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValuePath {
    pub path: Vec<&'static str>,
    pub name: Option<String>,
}

/// A value that an addition writes, and that another one may write, too.
#[derive(Debug, Clone)]
pub struct SharedValue {
    pub(crate) place: ValuePath,
    pub(crate) kind: Kind,
}

/// What an addition does with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Set,
    /// Adds to the value.
    Edit,
    /// An expression yields the whole object or list.
    Whole,
    /// An expression yields the name of the entry.
    Named,
    /// An entry without a name, which has no place of its own.
    Item,
}

impl Kind {
    pub(crate) fn is_computed(self) -> bool {
        matches!(self, Self::Whole | Self::Named)
    }
}

/// A value that a tree writes, of a field or of an entry in it.
#[derive(Debug)]
pub struct Write<'t> {
    /// The type of the object from which the path leads.
    pub object: &'static Object,
    /// The fields that lead from the object to the one that changes.
    pub path: Vec<&'static str>,
    pub field: &'static Field,
    pub target: Target<'t>,
    pub value: &'t Tree,
}

/// The part of a field that changes.
#[derive(Debug, Clone, Copy)]
pub enum Target<'t> {
    Whole,
    /// The entry of a map.
    Entry(&'t Entry),
    /// The entry of a list that has the values of these fields; without fields, that is the value itself.
    Item(&'static [&'static str]),
}

/// Every write of a tree to an object, in order.
pub fn writes<'t>(tree: &'t Tree, object: &'static Object) -> Vec<Write<'t>> {
    let mut writes = Vec::with_capacity(tree.entries().len());
    add_fields(tree, object, &mut Vec::new(), &mut |path, field, target, value| {
        writes.push(Write { object, path: path.to_vec(), field, target, value });
    });
    writes
}

/// Receives the path of a field, the field, the part of it that changes, and its value.
type Visit<'t, 'v> = &'v mut dyn FnMut(&[&'static str], &'static Field, Target<'t>, &'t Tree);

fn add_fields<'t>(
    tree: &'t Tree,
    object: &'static Object,
    path: &mut Vec<&'static str>,
    visit: Visit<'t, '_>,
) {
    for entry in tree.entries() {
        let Some(field) = entry.name().and_then(|name| object.field(name)) else { continue };
        path.push(field.name);
        add_field(&entry.value, field, path, visit);
        path.pop();
    }
}

fn add_field<'t>(value: &'t Tree, field: &'static Field, path: &mut Vec<&'static str>, visit: Visit<'t, '_>) {
    let mut add = |target, value| visit(path, field, target, value);
    match &field.shape {
        _ if value.as_text().is_some() => add(Target::Whole, value),
        Shape::Object(_) if value.is_empty() => add(Target::Whole, value),
        Shape::Object(within) => add_fields(value, within, path, visit),
        Shape::Map { .. } => value.entries().iter().for_each(|entry| add(Target::Entry(entry), &entry.value)),
        Shape::List { keys: Some(keys), .. } => {
            value.items().iter().for_each(|item| add(Target::Item(keys), item));
        }
        _ => add(Target::Whole, value),
    }
}

impl<'t> Write<'t> {
    /// The name of the entry that changes; `None` if it is computed.
    pub fn name(&self) -> Option<&'t str> {
        match self.target {
            Target::Whole => None,
            Target::Entry(entry) => entry.name(),
            Target::Item(keys) => self.value.literal(keys.first()?),
        }
    }

    /// The names of all entries that change.
    pub fn names(&self) -> impl Iterator<Item = &'t str> {
        let resources = if let Target::Entry(entry) = self.target { Some(entry.resources()) } else { None };
        self.name().into_iter().chain(resources.into_iter().flatten())
    }

    /// Returns whether it changes environment variables or annotations.
    pub(crate) fn is_of_strings(&self) -> bool {
        ["env", "annotations"].contains(&self.field.name)
    }

    /// Returns whether it changes a part of a string.
    pub fn is_edit(&self) -> bool {
        match self.target {
            Target::Whole => false,
            Target::Entry(_) => self.value.as_edit().is_some(),
            Target::Item(_) => self.value.edit_at("value").is_some(),
        }
    }

    /// Returns whether it changes the limit or the request of a resource.
    pub fn is_amount(&self) -> bool {
        matches!(self.target, Target::Entry(_))
            && matches!(*self.path, [.., "resources", "limits" | "requests"])
    }

    /// Returns whether it declares a volume of the pod.
    pub(crate) fn is_volume(&self) -> bool {
        self.path == ["spec", "volumes"]
    }

    /// Returns whether one expression yields the whole object or list.
    pub fn is_computed(&self) -> bool {
        matches!(self.target, Target::Whole)
            && self.value.as_text().is_some()
            && is_structure(&self.field.shape)
    }

    /// An error about its value.
    pub(crate) fn failed(&self, message: &str) -> EvaluationError {
        EvaluationError::about(|visit| self.value.texts(visit), message)
    }

    /// The place in the file: that of the value, of the key of a map or list, or of the name of an entry of a list.
    pub fn span(&self) -> Span {
        let of_value = |span: Span, value: &Tree| {
            let is_one = value.entries().is_empty() && value.items().is_empty() && value.as_edit().is_none();
            if is_one { value.span } else { span }
        };
        match self.target {
            Target::Whole => self.value.span,
            Target::Entry(entry) => of_value(entry.span, self.value),
            Target::Item(keys) => {
                let named = keys.first().and_then(|key| self.value.get(key));
                named.map_or(self.value.span, |name| name.span)
            }
        }
    }
}
