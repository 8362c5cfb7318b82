//! Maps of strings: labels, node selectors and annotations. The size of annotations is limited, and some hold lists.

use serde_json::{Map, Value};

use fabric_policy::interpolation::text_of;
use fabric_policy::overlay::Tree;
use fabric_policy::schema::Field;

use super::attachments::{Attachments, attachments};
use super::object_list::{self, covers_object};
use crate::analysis::with_networks;
use crate::merge::rule::Merge;
use crate::record::{Cursor, Kept, MAX_ANNOTATIONS, Reason, WarningKind, malformed, shorten};

/// Merges entries into a map of strings.
pub(crate) fn merge(
    merge: &mut Merge<'_, '_>,
    cursor: &mut Cursor<'_>,
    field: &'static Field,
    entries: Tree,
) -> Result<(), Reason> {
    let what = if field.name == "annotations" { Kept::Annotation } else { Kept::Field };
    cursor.within(field.name, |map| {
        for (key, value) in entries.into_entries() {
            let Some(value) = value.into_value() else { continue };
            let existing = match map.object().get(&*key) {
                Some(Value::String(text)) => Some(text.clone()),
                // The API server reads it as an empty string.
                Some(Value::Null) => Some(String::new()),
                Some(other) => return Err(malformed(&map.pointer_to(&*key), "a string", other)),
                None => None,
            };
            let wanted = match &value {
                Value::Object(edit) => match edit.get("$key").and_then(Value::as_str) {
                    Some(identity) => objects(merge, map, &key, existing.as_deref(), (edit, identity))?,
                    None => networks(merge, map, &key, existing.as_deref(), edit)?,
                },
                wanted => text(merge, map, &key, existing.as_deref(), (wanted, what))?,
            };
            let Some(wanted) = wanted else {
                map.log.present(&[&key]);
                continue;
            };
            let added =
                existing.map_or(key.len() + wanted.len(), |text| wanted.len().saturating_sub(text.len()));
            if what == Kept::Annotation {
                merge.pod.count_annotation(&key, added)?;
            }
            map.put(&key, Value::String(wanted));
        }
        Ok(())
    })
}

/// The string to set; `None` to leave the entry as it is.
fn text(
    merge: &Merge<'_, '_>,
    map: &mut Cursor<'_>,
    key: &str,
    existing: Option<&str>,
    (wanted, what): (&Value, Kept),
) -> Result<Option<String>, Reason> {
    let text = text_of(wanted);
    let Some(existing) = existing else { return Ok(Some(text)) };
    if existing == text {
        return Ok(None);
    }
    let is_replaced = merge.resolve_conflict(map, key, &Value::from(existing), wanted, what)?;
    Ok(is_replaced.then_some(text))
}

fn networks(
    merge: &mut Merge<'_, '_>,
    annotations: &mut Cursor<'_>,
    key: &str,
    existing: Option<&str>,
    edit: &Map<String, Value>,
) -> Result<Option<String>, Reason> {
    let Attachments { networks, missing } = attachments(edit);
    if networks.iter().all(|(_, count)| *count == 0) {
        annotations.log.left_out(&[key], || "it has no networks".to_owned());
        return Ok(None);
    }
    if merge.analysis.host_network {
        annotations.warn(key, WarningKind::HostNetwork, merge.rule);
        return Ok(None);
    }
    if missing > 0 {
        let given = networks.len();
        annotations.warn(key, WarningKind::TooFewNetworks { given, wanted: given + missing }, merge.rule);
    }
    // Before too many of them are written.
    let size = |(network, count): &(String, usize)| count.saturating_mul(network.len());
    if networks.iter().map(size).fold(0, usize::saturating_add) > MAX_ANNOTATIONS {
        return Err(Reason::AnnotationLimit { key: key.to_owned() });
    }
    let text = existing.unwrap_or_default();
    annotations.log.takes(text.len() * (1 + networks.len()));
    let edited = with_networks(text, &networks, &merge.analysis.namespace);
    Ok(edited.unwrap_or_else(|()| {
        let wanted = networks.iter().map(|(network, count)| match count {
            1 => network.clone(),
            count => format!("{count} times {network}"),
        });
        warn_of_kept(merge, annotations, key, text, &wanted.collect::<Vec<_>>().join(", "));
        None
    }))
}

fn objects(
    merge: &Merge<'_, '_>,
    annotations: &mut Cursor<'_>,
    key: &str,
    existing: Option<&str>,
    (edit, identity): (&Map<String, Value>, &str),
) -> Result<Option<String>, Reason> {
    let wanted = edit["$append"].as_array().into_iter().flatten();
    let wanted: Vec<_> = wanted.filter_map(Value::as_object).cloned().collect();
    if wanted.is_empty() {
        annotations.log.left_out(&[key], || "it has no entries".to_owned());
        return Ok(None);
    }
    let in_words = |entries: &[Map<String, Value>]| {
        entries.iter().map(|entry| Value::Object(entry.clone()).to_string()).collect::<Vec<_>>().join(",")
    };
    let text = existing.unwrap_or_default();
    if text.trim().is_empty() {
        return Ok(Some(format!("[{}]", in_words(&wanted))));
    }
    let Some(list) = object_list::parse(text) else {
        warn_of_kept(merge, annotations, key, text, &format!("[{}]", in_words(&wanted)));
        return Ok(None);
    };
    annotations.log.takes(text.len() * (1 + wanted.len()));
    let mut edited = list.clone();
    let mut is_changed = false;
    for entry in wanted {
        match list.iter().position(|known| known.get(identity) == entry.get(identity)) {
            None => edited.push(entry),
            Some(at) if covers_object(&list[at], &entry) => continue,
            Some(at) => {
                let seen = Value::from(in_words(&list[at..=at]));
                let wanted = Value::from(in_words(std::slice::from_ref(&entry)));
                let is_replaced =
                    merge.resolve_conflict(annotations, key, &seen, &wanted, Kept::Annotation)?;
                if !is_replaced {
                    continue;
                }
                edited[at] = entry;
            }
        }
        is_changed = true;
    }
    Ok(is_changed.then(|| object_list::edited(text, edited)))
}

/// Reports that the value of an annotation stays because an edit cannot extend its form.
fn warn_of_kept(merge: &Merge<'_, '_>, annotations: &mut Cursor<'_>, key: &str, text: &str, wanted: &str) {
    let kind = WarningKind::Kept { what: Kept::Annotation, seen: shorten(text), wanted: shorten(wanted) };
    annotations.warn(key, kind, merge.rule);
}
