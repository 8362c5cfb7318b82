//! Lists that take the place of the pod's.

use serde_json::Value;

use crate::core::policy::overlay::Template;
use crate::core::schema::{Field, same};

use crate::core::engine::merge::rule::{Merge, brief};
use crate::core::engine::record::{Cursor, Reason, WarningKind, malformed};

/// Replaces a list, and reports the entries that the pod had.
pub(in crate::core::engine::merge) fn list(
    merge: &mut Merge<'_, '_>,
    cursor: &mut Cursor<'_>,
    field: &'static Field,
    list: &Template,
) -> Result<(), Reason> {
    let Some(mut wanted) = merge.build(list)? else {
        merge.note_null(cursor.log(), &[field.name], None, list);
        return Ok(());
    };
    let existing = match cursor.get(field.name) {
        None => Value::Array(Vec::new()),
        Some(existing @ Value::Array(_)) => existing.clone(),
        Some(other) => return Err(malformed(&cursor.pointer_to(field.name), "a list", other)),
    };
    if let (Value::Array(wanted), "tolerations") = (&mut wanted, field.name) {
        keep_default_tolerations(existing.as_array().map_or(&[], Vec::as_slice), wanted);
    }
    // A list without an order is compared in both directions, because an entry may be in it twice.
    if same(&existing, &wanted, &field.shape) && same(&wanted, &existing, &field.shape) {
        cursor.log().present(&[field.name]);
        return Ok(());
    }
    if merge.is_excluded(cursor, field, &wanted) {
        return Ok(());
    }
    if !field.is_absent(&existing) {
        let kind = WarningKind::Replaced { seen: brief(&existing), wanted: brief(&wanted) };
        cursor.warn(field.name, kind, merge.rule);
    }
    cursor.put(field.name, wanted);
    Ok(())
}

/// Keeps the tolerations that the API server adds to every pod before and after it calls a webhook.
fn keep_default_tolerations(existing: &[Value], wanted: &mut Vec<Value>) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let of_key = |toleration: &&Value| toleration["key"] == key;
        let is_default = |toleration: &&Value| {
            toleration["operator"] == "Exists"
                && toleration["effect"] == "NoExecute"
                && toleration["tolerationSeconds"].is_i64()
        };
        if wanted.iter().any(|toleration| of_key(&toleration)) {
            continue;
        }
        wanted.extend(existing.iter().filter(of_key).find(is_default).cloned());
    }
}
