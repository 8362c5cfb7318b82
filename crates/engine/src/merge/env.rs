//! Environment variables. An entry is merged as one value, so a `value` never joins a `valueFrom`.

use super::added_entry::AddedEntry;
use super::rule::Merge;
use crate::record::{Cursor, ListCursor, OrReason, ValueKind};
use fabric_policy::overlay::Tree;
use fabric_policy::schema::{Shape, covers};
use serde_json::{Value, json};

/// Merges variables into the list of a container.
pub(crate) fn merge(
    merge: &mut Merge<'_, '_>,
    container: &mut Cursor<'_>,
    items: &Shape,
    variables: Tree,
) -> OrReason {
    container.list("env", |list| {
        for variable in variables.into_items() {
            let name = variable.literal("name").unwrap_or_default();
            // Whether or not the pod's own value stays.
            merge.pod.variables.push(name.to_owned());
            if let Some(added) = AddedEntry::of(&variable) {
                add_to_list(merge, list, &added)?;
            } else if let Some(wanted) = variable.into_value() {
                let is_same = |seen: &Value, wanted: &Value| {
                    same(seen, wanted, items) || is_edited(merge, seen, wanted)
                };
                merge.put_entry(list, position(list, name_of(&wanted)), wanted, ValueKind::Env, is_same)?;
            }
        }
        Ok(())
    })
}

/// Returns whether a value is the policy's with the entries that its rules add, as an earlier call leaves it.
fn is_edited(merge: &Merge<'_, '_>, existing: &Value, wanted: &Value) -> bool {
    let additions = || merge.pod.added_entries.iter().filter(|one| wanted["name"] == *one.name);
    let edited =
        |value: &str| additions().fold(value.to_owned(), |list, addition| addition.to(&list).unwrap_or(list));
    let value = wanted["value"].as_str().filter(|_| additions().next().is_some());
    value.is_some_and(|value| existing["value"] == edited(value) || existing["value"] == edited(""))
}

/// The entry of a name. Of several, the last one counts.
fn position(list: &ListCursor<'_>, name: Option<&str>) -> Option<usize> {
    list.entries().iter().rposition(|entry| name_of(entry) == name)
}

/// The name of a variable. It is nearly always the first field, which is found without hashing.
pub(crate) fn name_of(entry: &Value) -> Option<&str> {
    let map = entry.as_object()?;
    match map.iter().next() {
        Some((key, value)) if key == "name" => value.as_str(),
        _ => map.get("name")?.as_str(),
    }
}

fn same(existing: &Value, wanted: &Value, items: &Shape) -> bool {
    let text = |entry: &Value| entry["value"].as_str().unwrap_or_default().to_owned();
    match (existing["valueFrom"].is_null(), wanted["valueFrom"].is_null()) {
        (true, true) => text(existing) == text(wanted),
        (false, false) => covers(existing, wanted, items),
        _ => false,
    }
}

/// Adds an entry to the list that a variable holds.
fn add_to_list(merge: &Merge<'_, '_>, list: &mut ListCursor<'_>, added: &AddedEntry) -> OrReason {
    let alone = || json!({"name": added.name, "value": added.entry});
    let at = position(list, Some(&added.name));
    let own = at.map(|at| (at, &list.entries()[at])).filter(|(_, existing)| existing["valueFrom"].is_null());
    let Some((at, existing)) = own else {
        return merge.put_entry(list, at, alone(), ValueKind::Env, |_, _| false);
    };
    let Some(edited) = added.to(existing["value"].as_str().unwrap_or_default()) else {
        list.log.present_entry(at);
        return Ok(());
    };
    list.entry(at, |variable| {
        variable.put("value", Value::String(edited));
        Ok(())
    })
}
