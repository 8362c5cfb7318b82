//! Merging the instructions of an overlay into an object of the pod.
//!
//! [`apply`] chooses the module for each kind of instruction. Those modules import [`Merge`] and the cursor, and not
//! one another.

use serde_json::Value;

use fabric_policy::overlay::Instruction;
use fabric_policy::schema::Default;

use super::rule::Merge;
use super::{container, fields, text};
use crate::record::{Cursor, Reason};

/// Merges instructions of a rule into an object.
pub(super) fn apply_rule(
    merge: &mut Merge<'_, '_>,
    cursor: &mut Cursor<'_>,
    instructions: &[Instruction],
) -> Result<(), Reason> {
    cursor.written_by_rule(merge.rule);
    apply(merge, cursor, instructions)
}

/// Merges instructions into an object.
pub(super) fn apply(
    merge: &mut Merge<'_, '_>,
    cursor: &mut Cursor<'_>,
    instructions: &[Instruction],
) -> Result<(), Reason> {
    instructions.iter().try_for_each(|instruction| apply_one(merge, cursor, instruction))
}

fn apply_one(
    merge: &mut Merge<'_, '_>,
    cursor: &mut Cursor<'_>,
    instruction: &Instruction,
) -> Result<(), Reason> {
    match instruction {
        Instruction::Object { field, instructions } if field.name == "capabilities" => {
            container::capabilities(merge, cursor, field, instructions)
        }
        Instruction::Object { field, instructions } => {
            // An object that the author wrote as empty is intended.
            let is_absent = cursor.get(field.name).is_none() && field.default != Default::EmptyObject;
            if instructions.is_empty() && is_absent {
                cursor.put(field.name, Value::Object(serde_json::Map::new()));
            }
            cursor.within(field.name, |cursor| apply(merge, cursor, instructions))
        }
        Instruction::Value { field, template } => fields::value(merge, cursor, field, template),
        Instruction::Keyed { field, entries, .. } if field.name == "volumeMounts" => {
            container::mounts(merge, cursor, field, entries)
        }
        Instruction::Keyed { field, keys, entries } => fields::keyed(merge, cursor, field, keys, entries),
        Instruction::Map { field, keys, entries } => text::entries(merge, cursor, field, *keys, entries),
        Instruction::Env { field, variables } => container::env(merge, cursor, field, variables),
        Instruction::Amounts(amounts) => container::amounts(merge, cursor, amounts),
        Instruction::Computed { object, field, expression } => {
            let computed = merge.compiled(cursor.log(), &[field.name], (object, field), expression)?;
            computed.map_or(Ok(()), |instruction| apply_one(merge, cursor, &instruction))
        }
    }
}
