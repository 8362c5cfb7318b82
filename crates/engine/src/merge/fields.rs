//! Fields without rules of their own: values, keyed lists and sets. The schema alone determines how they are merged.
//! Fields of a container with rules of their own are in `container`, and maps of strings in `text`.

mod exclusions;

use serde_json::Value;

use fabric_policy::OnConflict;
use fabric_policy::overlay::Tree;
use fabric_policy::schema::{Default, Field, Shape, covers, same};

use super::rule::{Merge, brief};
use crate::record::{Cursor, Kept, Reason, WarningKind};

/// Merges a field that is one value.
pub(super) fn value(
    merge: &mut Merge<'_, '_>,
    cursor: &mut Cursor<'_>,
    field: &'static Field,
    wanted: Value,
) -> Result<(), Reason> {
    if merge.is_excluded(cursor, field, &wanted) {
        return Ok(());
    }
    // An empty string counts as absent, and the API server sets its default.
    if wanted == "" && field.is_absent(&wanted) {
        cursor.log.left_out(&[field.name], || "it is empty".to_owned());
        return Ok(());
    }
    let default = match field.default {
        Default::Computed => Some(Value::from(pull_policy(cursor))),
        _ => field.static_default(),
    };
    let seen = match cursor.get(field.name).cloned() {
        Some(existing) => Some(existing),
        None if field.is_absent(&wanted) => {
            cursor.log.present(&[field.name]);
            return Ok(());
        }
        // The API server adds defaults to a pod before it calls a webhook. A manifest must get the same result.
        None if cursor.log.at(field.name, |log| log.is_added()) => None,
        None => default.clone(),
    };
    // The author did not choose a default, so replacing it loses nothing.
    let is_free = merge.on_conflict == OnConflict::Replace && seen == default;
    if let Some(seen) = seen {
        if same(&seen, &wanted, &field.shape) {
            cursor.log.present(&[field.name]);
            return Ok(());
        }
        if !is_free && !merge.resolve_conflict(cursor, field.name, &seen, &wanted, Kept::Field)? {
            return Ok(());
        }
    }
    cursor.put(field.name, wanted);
    Ok(())
}

/// The `imagePullPolicy` that the API server computes for a container: that of the tag of its image. No other field
/// that is one value has a computed default.
fn pull_policy(container: &Cursor<'_>) -> &'static str {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let (reference, digest) =
        image.split_once('@').map_or((image, false), |(reference, _)| (reference, true));
    let name = reference.rsplit('/').next().unwrap_or_default();
    match name.split_once(':') {
        Some((_, "latest")) => "Always",
        None if !digest => "Always",
        _ => "IfNotPresent",
    }
}

/// Merges entries of a list that are identified by some of their fields, or else by their value.
pub(super) fn keyed(
    merge: &mut Merge<'_, '_>,
    cursor: &mut Cursor<'_>,
    field: &'static Field,
    keys: &[&str],
    entries: Tree,
) -> Result<(), Reason> {
    let Shape::List { items, .. } = &field.shape else { return Ok(()) };
    for wanted in entries.into_items().into_iter().filter_map(Tree::into_value) {
        if merge.is_excluded(cursor, field, &wanted) {
            continue;
        }
        if let Some(claim) = claim_without_pod_claim(merge, &wanted, field) {
            cursor.warn(field.name, WarningKind::ClaimWithoutPodClaim { claim }, merge.rule);
            continue;
        }
        cursor.list(field.name, |list| {
            let known = |existing: &Value| match keys {
                [] => same(existing, &wanted, items),
                keys => keys.iter().all(|key| same_field(existing, &wanted, key, items)),
            };
            let at = list.entries().iter().position(known);
            if let Some(name) = port_name_of_another(list.entries(), at, &wanted, field) {
                let setting = format!("{}: {}", field.name, brief(&wanted));
                let against = format!("another port named {name}");
                list.log.warn(WarningKind::Excluded { setting, against }, merge.rule);
                return Ok(());
            }
            match at {
                Some(at) if keys.is_empty() || covers(&list.entries()[at], &wanted, items) => {
                    list.log.present_entry(at);
                    Ok(())
                }
                Some(at) => merge.resolve_entry_conflict(list, at, wanted, Kept::Field),
                None => {
                    list.push(wanted);
                    Ok(())
                }
            }
        })?;
    }
    Ok(())
}

/// The name of a claim that a container is to use, if the pod has no claim of that name.
fn claim_without_pod_claim(merge: &Merge<'_, '_>, wanted: &Value, field: &Field) -> Option<String> {
    let name = wanted["name"].as_str().filter(|_| field.name == "claims")?;
    (!merge.pod.claims.contains(name)).then(|| name.to_owned())
}

/// The name of a port, if another port of the container has it: names are unique in a container.
fn port_name_of_another(
    entries: &[Value],
    at: Option<usize>,
    wanted: &Value,
    field: &Field,
) -> Option<String> {
    let name = wanted["name"].as_str().filter(|_| field.name == "ports")?;
    let mut others = entries.iter().enumerate().filter(|(index, _)| Some(*index) != at);
    others.any(|(_, port)| port["name"].as_str() == Some(name)).then(|| name.to_owned())
}

fn same_field(existing: &Value, wanted: &Value, key: &str, entry: &Shape) -> bool {
    let (Shape::Object(object) | Shape::Atomic(object)) = entry else { return false };
    let Some(field) = object.field(key) else { return false };
    let completed = |value: &Value| match &value[key] {
        Value::Null => field.static_default().unwrap_or(Value::Null),
        value => value.clone(),
    };
    same(&completed(existing), &completed(wanted), &field.shape)
}
