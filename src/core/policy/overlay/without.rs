//! An overlay without some of the values that it sets.

use super::{Amount, Element, EnvEntry, Instruction, Instructions, StringValue};
use crate::core::policy::interpolation::Interpolation;

/// A value that an overlay sets: the fields that lead to it, and its name, if it is an entry of a map or list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) path: Vec<&'static str>,
    pub(crate) name: Option<String>,
}

/// The instructions without the values at these places.
pub(crate) fn without(instructions: &[Instruction], places: &[&Place]) -> Instructions {
    Without { places, path: Vec::new() }.instructions(instructions)
}

struct Without<'p> {
    places: &'p [&'p Place],
    path: Vec<&'static str>,
}

impl Without<'_> {
    fn instructions(&mut self, instructions: &[Instruction]) -> Instructions {
        instructions.iter().filter_map(|instruction| self.instruction(instruction)).collect()
    }

    fn instruction(&mut self, instruction: &Instruction) -> Option<Instruction> {
        Some(match instruction {
            Instruction::Object { field, instructions } => {
                self.path.push(field.name);
                let left = self.instructions(instructions);
                self.path.pop();
                if left.is_empty() && !instructions.is_empty() {
                    return None;
                }
                Instruction::Object { field, instructions: left }
            }
            Instruction::Value { field, .. } | Instruction::Replace { field, .. } => {
                return self.keeps(field.name, None).then(|| instruction.clone());
            }
            Instruction::Entries { field, keys, entries } => {
                let entries = entries.iter().filter(|(key, _)| self.keeps(field.name, literal(key)));
                Instruction::Entries { field, keys: *keys, entries: entries.cloned().collect() }
            }
            Instruction::Annotations { field, keys, entries } => {
                let keeps = |(key, value): &&(Interpolation, StringValue)| {
                    !matches!(value, StringValue::Text(_)) || self.keeps(field.name, literal(key))
                };
                Instruction::Annotations {
                    field,
                    keys: *keys,
                    entries: entries.iter().filter(keeps).cloned().collect(),
                }
            }
            Instruction::Keyed { field, keys, entries } => {
                let keeps = |Element(entry): &&Element| {
                    keys.len() != 1 || self.keeps(field.name, entry.literal(keys[0]))
                };
                Instruction::Keyed { field, keys, entries: entries.iter().filter(keeps).cloned().collect() }
            }
            Instruction::Env { field, variables } => {
                let keeps = |variable: &&EnvEntry| match variable {
                    EnvEntry::Entry(Element(entry)) => self.keeps(field.name, entry.literal("name")),
                    EnvEntry::List { .. } => true,
                };
                Instruction::Env { field, variables: variables.iter().filter(keeps).cloned().collect() }
            }
            Instruction::Amounts(amounts) => {
                let keeps = |amount: &&Amount| self.is_kept(&self.path, literal(&amount.resource));
                Instruction::Amounts(amounts.iter().filter(keeps).cloned().collect())
            }
            Instruction::Capabilities { .. } | Instruction::Computed { .. } => instruction.clone(),
        })
    }

    fn keeps(&self, field: &'static str, name: Option<&str>) -> bool {
        let path: Vec<&str> = self.path.iter().copied().chain([field]).collect();
        self.is_kept(&path, name)
    }

    fn is_kept(&self, path: &[&str], name: Option<&str>) -> bool {
        !self.places.iter().any(|place| place.path == path && place.name.as_deref() == name)
    }
}

fn literal(key: &Interpolation) -> Option<&str> {
    if let Interpolation::Literal(key) = key { Some(key) } else { None }
}
