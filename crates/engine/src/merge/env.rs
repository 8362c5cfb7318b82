//! Environment variables. An entry is merged as one value, so a `value` never joins a `valueFrom`.

use super::rule::Merge;
use crate::record::{Cursor, ListCursor, Reason, ValueKind};
use fabric_policy::Rule;
use fabric_policy::overlay::{EditKind, Tree};
use fabric_policy::schema::{Shape, covers};
use serde_json::{Value, json};

/// Merges variables into the list of a container.
pub(crate) fn merge(
    merge: &mut Merge<'_, '_>,
    container: &mut Cursor<'_>,
    items: &Shape,
    variables: Tree,
) -> Result<(), Reason> {
    container.list("env", |list| {
        for variable in variables.into_items() {
            let name = variable.literal("name").unwrap_or_default();
            // Whether or not the pod's own value stays.
            if !merge.pod.variables.iter().any(|known| known == name) {
                merge.pod.variables.push(name.to_owned());
            }
            match Addition::of(&variable) {
                Some(addition) => add_to_list(merge, list, &addition)?,
                None => {
                    if let Some(wanted) = variable.into_value() {
                        put(merge, list, wanted, items)?;
                    }
                }
            }
        }
        Ok(())
    })
}

/// An entry that a rule adds to the list that a variable holds.
#[derive(Debug, Clone)]
pub(super) struct Addition {
    name: String,
    entry: String,
    prepends: bool,
}

impl Addition {
    fn of(variable: &Tree) -> Option<Self> {
        let edit = variable.edit_at("value")?;
        let (name, entry) = (variable.literal("name")?.to_owned(), edit.added.as_str()?.to_owned());
        Some(Self { name, entry, prepends: edit.kind == EditKind::Prepend })
    }

    /// The list with the entry; `None` if the list has it already.
    fn to(&self, list: &str) -> Option<String> {
        with_entry(list, &self.entry, self.prepends)
    }
}

/// The entries that these trees add to lists in variables.
pub(super) fn additions(trees: &[(&Rule, Tree)]) -> Vec<Addition> {
    let variables = trees.iter().filter_map(|(_, tree)| tree.get("env")).flat_map(Tree::items);
    variables.filter_map(Addition::of).collect()
}

/// Returns whether a value is the policy's with the entries that its rules add, as an earlier call leaves it.
fn is_edited(merge: &Merge<'_, '_>, existing: &Value, wanted: &Value) -> bool {
    let additions = || merge.pod.additions.iter().filter(|one| wanted["name"] == *one.name);
    let edited =
        |value: &str| additions().fold(value.to_owned(), |list, addition| addition.to(&list).unwrap_or(list));
    let value = wanted["value"].as_str().filter(|_| additions().next().is_some());
    value.is_some_and(|value| existing["value"] == edited(value) || existing["value"] == edited(""))
}

fn put(merge: &Merge<'_, '_>, list: &mut ListCursor<'_>, wanted: Value, items: &Shape) -> Result<(), Reason> {
    match position(list, name_of(&wanted)) {
        None => list.push(wanted),
        Some(at)
            if same(&list.entries()[at], &wanted, items)
                || is_edited(merge, &list.entries()[at], &wanted) =>
        {
            list.log.present_entry(at);
        }
        Some(at) => merge.resolve_entry_conflict(list, at, wanted, ValueKind::Env)?,
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
fn add_to_list(merge: &Merge<'_, '_>, list: &mut ListCursor<'_>, addition: &Addition) -> Result<(), Reason> {
    let alone = || json!({"name": addition.name, "value": addition.entry});
    let Some(at) = position(list, Some(&addition.name)) else {
        list.push(alone());
        return Ok(());
    };
    let existing = &list.entries()[at];
    if !existing["valueFrom"].is_null() {
        return merge.resolve_entry_conflict(list, at, alone(), ValueKind::Env);
    }
    let Some(edited) = addition.to(existing["value"].as_str().unwrap_or_default()) else {
        list.log.present_entry(at);
        return Ok(());
    };
    list.entry(at, |variable| {
        variable.put("value", Value::String(edited));
        Ok(())
    })
}

const SEPARATOR: &str = ":";

/// A list that a variable such as `LD_LIBRARY_PATH` holds, with `entry` in front of it or after it; `None` if the list has
/// it already.
fn with_entry(list: &str, entry: &str, prepend: bool) -> Option<String> {
    if list.is_empty() {
        return (!entry.is_empty()).then(|| entry.to_owned());
    }
    // An entry may contain several; those that the list already has keep their position.
    let mut missing: Vec<&str> = Vec::new();
    for part in entry.split(SEPARATOR) {
        if !missing.contains(&part) && !list.split(SEPARATOR).any(|known| known == part) {
            missing.push(part);
        }
    }
    if missing.is_empty() {
        return None;
    }
    let missing = missing.join(SEPARATOR);
    Some(if prepend { format!("{missing}{SEPARATOR}{list}") } else { format!("{list}{SEPARATOR}{missing}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_a_list_has_stay_where_they_are() {
        assert_eq!(with_entry("/a:/b", "/c", true).as_deref(), Some("/c:/a:/b"));
        assert_eq!(with_entry("/a:/b", "/c:/b", false).as_deref(), Some("/a:/b:/c"));
        assert_eq!(with_entry("/a:/b", "/b:/a", true), None);
        assert_eq!(with_entry("", "/a", true).as_deref(), Some("/a"));
        assert_eq!(with_entry("", "", true), None);
        assert_eq!(with_entry("/a", "/c:/c", false).as_deref(), Some("/a:/c"));
    }
}
