//! The places of a pod that an overlay changes.

use crate::core::policy::expression::{Path, Step};
use crate::core::policy::interpolation::Interpolation;
use crate::core::schema::Field;
use serde_json::Value;

use super::{Instruction, StringValue, Template, Variable};

/// Calls `visit` with every place that the instructions for an object at `place` may change.
pub(crate) fn of_instructions(instructions: &[Instruction], place: &Path, visit: &mut dyn FnMut(Path)) {
    for instruction in instructions {
        let at = |field: &Field| step(place, Step::Field(field.name.to_owned()));
        match instruction {
            Instruction::Object { field, instructions } => of_instructions(instructions, &at(field), visit),
            Instruction::Entries { field, entries, .. } => {
                for (key, _) in entries {
                    visit(entry(&at(field), key));
                }
            }
            Instruction::Annotations { field, entries, .. } => {
                for (key, _) in entries {
                    visit(entry(&at(field), key));
                }
            }
            Instruction::Amounts(amounts) => {
                for list in ["limits", "requests"] {
                    let list = step(place, Step::Field(list.to_owned()));
                    for amount in amounts {
                        visit(entry(&list, &amount.resource));
                    }
                }
            }
            Instruction::Value { field, .. }
            | Instruction::Replace { field, .. }
            | Instruction::Keyed { field, .. }
            | Instruction::Set { field, .. }
            | Instruction::Env { field, .. }
            | Instruction::Mounts { field, .. }
            | Instruction::Capabilities { field, .. }
            | Instruction::Claims { field, .. }
            | Instruction::Computed { field, .. } => visit(at(field)),
        }
    }
}

fn step(place: &Path, step: Step) -> Path {
    place.iter().cloned().chain([step]).collect()
}

/// The place of an entry of a map; the whole map if the key is computed.
fn entry(map: &Path, key: &Interpolation) -> Path {
    match key {
        Interpolation::Literal(key) => step(map, Step::Field(key.clone())),
        _ => map.clone(),
    }
}

/// A change to an environment variable or an annotation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StringWrite<'a> {
    /// `None` if it is computed.
    pub(crate) name: Option<&'a str>,
    /// The separator of the list that the string holds, if the change adds an entry to it.
    pub(crate) separator: Option<&'a str>,
}

impl StringWrite<'_> {
    pub(crate) fn may_be_of_the_same(&self, other: &StringWrite<'_>) -> bool {
        self.name.is_none() || other.name.is_none() || self.name == other.name
    }
}

/// Calls `visit` with every variable and annotation that the instructions may change.
pub(crate) fn strings_of<'i>(instructions: &'i [Instruction], visit: &mut dyn FnMut(StringWrite<'i>)) {
    for instruction in instructions {
        match instruction {
            Instruction::Object { instructions, .. } => strings_of(instructions, visit),
            Instruction::Env { variables, .. } => {
                for variable in variables {
                    visit(match variable {
                        Variable::Entry(entry) => {
                            StringWrite { name: entry.0.literal("name"), separator: None }
                        }
                        Variable::List { name, edit } => {
                            let name = if let Template::Constant(Value::String(name)) = name {
                                Some(name.as_str())
                            } else {
                                None
                            };
                            StringWrite { name, separator: Some(&edit.separator) }
                        }
                    });
                }
            }
            Instruction::Annotations { entries, .. } => {
                for (key, value) in entries {
                    let name = if let Interpolation::Literal(key) = key { Some(key.as_str()) } else { None };
                    let separator = match value {
                        StringValue::List(edit) => Some(edit.separator.as_str()),
                        // Multus separates networks by commas.
                        StringValue::Networks(_) => Some(","),
                        StringValue::Text(_) | StringValue::Entries(_) => None,
                    };
                    visit(StringWrite { name, separator });
                }
            }
            Instruction::Replace { .. } | Instruction::Computed { .. } => {
                visit(StringWrite { name: None, separator: None });
            }
            _ => {}
        }
    }
}
