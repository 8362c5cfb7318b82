//! Merging a tree without expressions into an object of the pod.
//!
//! [`object`] walks the tree and the tables of a Pod together, and [`field`] chooses the module for each field. Those
//! modules import [`Merge`] and the cursor; environment variables share the edits of texts, and mounts the volumes.

use std::sync::Arc;

use serde_json::Value;

use fabric_policy::overlay::Tree;
use fabric_policy::schema::{Default, Field, Object, Shape};

use super::rule::Merge;
use super::{container, fields, text};
use crate::record::{Cursor, Reason};

/// Merges the fields of a tree into an object.
pub(super) fn object(
    merge: &mut Merge<'_, '_>,
    cursor: &mut Cursor<'_>,
    fields: impl IntoIterator<Item = (Arc<str>, Tree)>,
    object: &'static Object,
) -> Result<(), Reason> {
    for (name, value) in fields {
        if let Some(known) = object.field(&name) {
            field(merge, cursor, value, known)?;
        }
    }
    Ok(())
}

fn field(
    merge: &mut Merge<'_, '_>,
    cursor: &mut Cursor<'_>,
    tree: Tree,
    field: &'static Field,
) -> Result<(), Reason> {
    match (field.name, &field.shape) {
        ("capabilities", Shape::Object(_)) => container::capabilities(merge, cursor, field, tree),
        ("env", Shape::List { items, .. }) => container::env(merge, cursor, items, tree),
        ("volumeMounts", _) => {
            let mounts = tree.into_items().into_iter().filter_map(Tree::into_value);
            container::mounts(merge, cursor, mounts)
        }
        ("resources", Shape::Object(resources)) => cursor.within(field.name, |cursor| {
            let others = container::amounts(merge, cursor, tree)?;
            object(merge, cursor, others, resources)
        }),
        (_, Shape::Object(within)) => {
            // An object that the author wrote as empty is intended.
            let is_absent = cursor.get(field.name).is_none() && field.default != Default::EmptyObject;
            if tree.is_empty() && is_absent {
                cursor.put(field.name, Value::Object(serde_json::Map::new()));
            }
            cursor.within(field.name, |cursor| object(merge, cursor, tree.into_entries(), within))
        }
        (_, Shape::Map { .. }) => text::entries(merge, cursor, field, tree),
        (_, Shape::List { keys: Some(keys), .. }) => fields::keyed(merge, cursor, field, keys, tree),
        _ => tree.into_value().map_or(Ok(()), |value| fields::value(merge, cursor, field, value)),
    }
}
