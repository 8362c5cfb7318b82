//! The places of a pod that an overlay changes.

use crate::core::policy::expression::{Path, Step};
use crate::core::policy::interpolation::Interpolation;
use crate::core::schema::Field;

use super::Instruction;

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
