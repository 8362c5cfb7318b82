//! An overlay without some of the values that it sets.

use std::collections::BTreeSet;

use super::{Amount, Element, EnvEntry, Instruction, Instructions};
use crate::interpolation::Interpolation;

/// A value that an overlay sets: the fields that lead to it, and its name, if it is an entry of a map or list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub path: Vec<&'static str>,
    pub name: Option<String>,
}

/// The instructions without the values at these places.
pub fn without(instructions: &[Instruction], places: &BTreeSet<&Place>) -> Instructions {
    Without { places, path: Vec::new() }.instructions(instructions)
}

struct Without<'p> {
    places: &'p BTreeSet<&'p Place>,
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
            Instruction::Value { field, .. } => {
                return self.keeps(field.name, None).then(|| instruction.clone());
            }
            Instruction::Map { field, keys, entries } => {
                let entries = entries.iter().filter(|(key, _)| self.keeps(field.name, literal(key)));
                Instruction::Map { field, keys: *keys, entries: entries.cloned().collect() }
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
                    EnvEntry::List { name, .. } => self.keeps(field.name, name.as_text()),
                };
                Instruction::Env { field, variables: variables.iter().filter(keeps).cloned().collect() }
            }
            Instruction::Amounts(amounts) => {
                Instruction::Amounts(amounts.iter().filter_map(|amount| self.amount(amount)).collect())
            }
            Instruction::Computed { .. } => instruction.clone(),
        })
    }

    fn amount(&self, amount: &Amount) -> Option<Amount> {
        let name = literal(&amount.resource);
        let whole = Place { path: self.path.clone(), name: name.map(str::to_owned) };
        let request = amount.request.clone().filter(|_| self.keeps("requests", name));
        let left = Amount { request, ..amount.clone() };
        (!self.places.contains(&whole) && (left.limit.is_some() || left.request.is_some())).then_some(left)
    }

    fn keeps(&self, field: &'static str, name: Option<&str>) -> bool {
        let path = self.path.iter().copied().chain([field]).collect();
        !self.places.contains(&Place { path, name: name.map(str::to_owned) })
    }
}

fn literal(key: &Interpolation) -> Option<&str> {
    if let Interpolation::Literal(key) = key { Some(key) } else { None }
}
