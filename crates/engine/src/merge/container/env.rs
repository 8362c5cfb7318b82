//! Environment variables. An entry is merged as one value, so a `value` never joins a `valueFrom`.

use serde_json::{Value, json};

use fabric_policy::overlay::{EnvEntry, ListEdit};
use fabric_policy::schema::{Field, Shape, covers};

use crate::merge::rule::Merge;
use crate::merge::text::with_entry;
use crate::record::{Cursor, Kept, ListCursor, Reason};

/// Merges variables into the list of a container.
pub(crate) fn merge(
    merge: &mut Merge<'_, '_>,
    container: &mut Cursor<'_>,
    field: &'static Field,
    variables: &[EnvEntry],
) -> Result<(), Reason> {
    let Shape::List { items, .. } = &field.shape else { return Ok(()) };
    container.list(field.name, |list| {
        for variable in variables {
            match variable {
                EnvEntry::Entry(entry) => {
                    let built = merge.build_element(entry)?;
                    let Some(wanted) = built.filter(|built| !entry.yields_empty(built)) else {
                        merge.note_null(list.log(), &[], Some("name"), &entry.0);
                        continue;
                    };
                    note(merge, name_of(&wanted));
                    put(merge, list, wanted, items)?;
                }
                EnvEntry::List { name, edit } => {
                    if let Some(Value::String(name)) = merge.build(name)? {
                        note(merge, Some(&name));
                        add_to_list(merge, list, &name, edit)?;
                    }
                }
            }
        }
        Ok(())
    })
}

/// Records that the policy sets a variable, whether or not the pod's own value stays.
fn note(merge: &mut Merge<'_, '_>, name: Option<&str>) {
    let known = &mut merge.pod.variables;
    if let Some(name) = name
        && !known.iter().any(|known| known == name)
    {
        known.push(name.to_owned());
    }
}

fn put(merge: &Merge<'_, '_>, list: &mut ListCursor<'_>, wanted: Value, items: &Shape) -> Result<(), Reason> {
    match position(list, name_of(&wanted)) {
        None => list.push(wanted),
        Some(at) if same(&list.entries()[at], &wanted, items) => list.log().present_entry(at),
        Some(at) => merge.settle_entry(list, at, wanted, Kept::Env)?,
    }
    Ok(())
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
fn add_to_list(
    merge: &Merge<'_, '_>,
    list: &mut ListCursor<'_>,
    name: &str,
    edit: &ListEdit,
) -> Result<(), Reason> {
    let entry = merge.evaluated(edit.entry.evaluate(merge.bindings))?;
    let Some(entry) = text_of(&entry) else {
        list.log().left_out(&[name], || format!("`{}` has no value", edit.entry.source()));
        return Ok(());
    };
    let Some(at) = position(list, Some(name)) else {
        list.push(json!({"name": name, "value": entry}));
        return Ok(());
    };
    let existing = &list.entries()[at];
    if !existing["valueFrom"].is_null() {
        return merge.settle_entry(list, at, json!({"name": name, "value": entry}), Kept::Env);
    }
    let text = existing["value"].as_str().unwrap_or_default();
    let Some(edited) = with_entry(text, &entry, edit.prepend) else {
        list.log().present_entry(at);
        return Ok(());
    };
    list.entry(at, |variable| {
        variable.put("value", Value::String(edited));
        Ok(())
    })
}

/// A scalar as text; `None` for `null` and for an empty text.
fn text_of(value: &Value) -> Option<String> {
    (!value.is_null() && value != "").then(|| fabric_policy::interpolation::text_of(value))
}
