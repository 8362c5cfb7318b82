//! The one walk over the fields that an overlay writes. All code that needs them uses it.

use std::slice;

use crate::interpolation::Interpolation;
use crate::schema::{Field, Object};

use super::{
    Amount, Element, EntriesEdit, EnvEntry, Instruction, ListEdit, NetworksEdit, PodOverlay, StringValue,
    Template,
};

/// A change that an overlay makes to an object.
#[derive(Debug)]
pub struct Write<'i> {
    /// The fields that lead from the object to the one that changes.
    pub path: Vec<&'static str>,
    pub key: Key<'i>,
    pub value: Written<'i>,
}

/// The entry that changes of a map or list.
#[derive(Debug, Clone, Copy)]
pub enum Key<'i> {
    /// The whole field changes.
    Whole,
    /// The entry of a map.
    Of(&'i Interpolation),
    /// The entry of a list that has this name.
    Named(&'i Template),
    /// The entry of a list that has the values of these fields; without fields, that is the value itself.
    Fields(&'static [&'static str]),
}

/// A value, and how it is combined with that of the pod.
#[derive(Debug, Clone, Copy)]
pub enum Written<'i> {
    /// An object without fields, which is added.
    Empty,
    /// A value that is set.
    Value(&'i Template),
    /// An entry of a list.
    Entry(&'i Element),
    /// An entry of a list in a string.
    ListEdit(&'i ListEdit),
    /// Networks in an annotation.
    Networks(&'i NetworksEdit),
    /// Entries of a list of objects in an annotation.
    Entries(&'i EntriesEdit),
    /// Limit and request of one resource, in the lists of the object at the path.
    Amount(&'i Amount),
    /// The whole value of a field, which is compiled when it is known.
    Computed { object: &'static Object, field: &'static Field, expression: &'i Interpolation },
}

/// Every write of these instructions, in order.
pub fn writes(instructions: &[Instruction]) -> Vec<Write<'_>> {
    let mut walk = Walk { path: Vec::new(), writes: Vec::with_capacity(instructions.len()) };
    walk.instructions(instructions);
    walk.writes
}

/// Every write of a rule, except for claims and volumes.
pub fn writes_of_rule<'i>(
    container: &'i [Instruction],
    pod: &'i PodOverlay,
) -> impl Iterator<Item = Write<'i>> {
    let named = pod.containers.iter().flat_map(|container| &container.instructions);
    let all = container.iter().chain(named).chain(&pod.instructions);
    all.flat_map(|instruction| writes(slice::from_ref(instruction)))
}

/// The value that is set for the field at this path.
pub(super) fn value_at<'i>(instructions: &'i [Instruction], path: &[&str]) -> Option<&'i Template> {
    let (name, rest) = path.split_first()?;
    instructions.iter().find_map(|instruction| match instruction {
        Instruction::Object { field, instructions } if field.name == *name => value_at(instructions, rest),
        Instruction::Value { field, template } if field.name == *name && rest.is_empty() => Some(template),
        _ => None,
    })
}

struct Walk<'i> {
    path: Vec<&'static str>,
    writes: Vec<Write<'i>>,
}

impl<'i> Walk<'i> {
    fn instructions(&mut self, instructions: &'i [Instruction]) {
        for instruction in instructions {
            self.instruction(instruction);
        }
    }

    fn instruction(&mut self, instruction: &'i Instruction) {
        match instruction {
            Instruction::Object { field, instructions } => {
                if instructions.is_empty() {
                    self.add(field, Key::Whole, Written::Empty);
                }
                self.path.push(field.name);
                self.instructions(instructions);
                self.path.pop();
            }
            Instruction::Value { field, template } => self.add(field, Key::Whole, Written::Value(template)),
            Instruction::Map { field, entries, .. } => {
                for (key, value) in entries {
                    self.add(field, Key::Of(key), Written::string(value));
                }
            }
            Instruction::Keyed { field, keys, entries } => self.entries(field, keys, entries),
            Instruction::Env { field, variables } => {
                for variable in variables {
                    match variable {
                        EnvEntry::Entry(entry) => self.entries(field, &["name"], slice::from_ref(entry)),
                        EnvEntry::List { name, edit } => {
                            self.add(field, Key::Named(name), Written::ListEdit(edit));
                        }
                    }
                }
            }
            Instruction::Amounts(amounts) => {
                for amount in amounts {
                    let key = Key::Of(&amount.resource);
                    self.writes.push(Write { path: self.path.clone(), key, value: Written::Amount(amount) });
                }
            }
            Instruction::Computed { object, field, expression } => {
                self.add(field, Key::Whole, Written::Computed { object, field, expression });
            }
        }
    }

    fn entries(&mut self, field: &Field, keys: &'static [&'static str], entries: &'i [Element]) {
        for entry in entries {
            self.add(field, Key::Fields(keys), Written::Entry(entry));
        }
    }

    fn add(&mut self, field: &Field, key: Key<'i>, value: Written<'i>) {
        let path = self.path.iter().copied().chain([field.name]).collect();
        self.writes.push(Write { path, key, value });
    }
}

impl<'i> Written<'i> {
    fn string(value: &'i StringValue) -> Self {
        match value {
            StringValue::Text(template) => Self::Value(template),
            StringValue::Networks(edit) => Self::Networks(edit),
            StringValue::Entries(edit) => Self::Entries(edit),
        }
    }
}

impl<'i> Write<'i> {
    /// The name of the entry that changes; `None` if it is computed.
    pub(crate) fn name(&self) -> Option<&'i str> {
        match (self.key, self.value) {
            (Key::Of(Interpolation::Literal(key)), _) => Some(key),
            (Key::Named(name), _) => name.as_text(),
            (Key::Fields([key, ..]), Written::Entry(entry)) => entry.0.literal(key),
            _ => None,
        }
    }

    /// The last field of the path.
    pub(crate) fn field(&self) -> &'static str {
        self.path.last().copied().unwrap_or_default()
    }

    /// Returns whether it changes environment variables or annotations.
    pub(crate) fn is_of_strings(&self) -> bool {
        ["env", "annotations"].contains(&self.field())
    }

    /// Returns whether it changes a part of a string.
    pub(crate) fn is_edit(&self) -> bool {
        matches!(self.value, Written::ListEdit(_) | Written::Networks(_) | Written::Entries(_))
    }
}
