//! Strings in maps: labels, node selectors and annotations. The size of annotations is limited, and some hold a list, of
//! networks or of objects in JSON. Each edit keeps the content of the string and its layout.

use serde_json::Value;

use fabric_policy::OnConflict;
use fabric_policy::interpolation::text_of;
use fabric_policy::overlay::{Edit, EditKind, Tree};
use fabric_policy::schema::Field;
use fabric_yaml::edit_json;

use super::rule::Merge;
use crate::analysis::with_networks;
use crate::record::{Cursor, MAX_ANNOTATIONS, OrReason, Reason, ValueKind, WarningKind, malformed, shorten};

/// Merges entries into a map of strings.
pub(crate) fn merge(
    merge: &mut Merge<'_, '_>,
    cursor: &mut Cursor<'_>,
    field: &'static Field,
    entries: Tree,
) -> OrReason {
    let what = match field.name {
        "annotations" => ValueKind::Annotation,
        "nodeSelector" => ValueKind::Nodes,
        _ => ValueKind::Field,
    };
    cursor.within(field.name, |map| {
        for (key, value) in entries.into_entries() {
            let existing = match map.object().get(&*key) {
                Some(Value::String(text)) => Some(text.clone()),
                // The API server reads it as an empty string.
                Some(Value::Null) => Some(String::new()),
                Some(other) => return Err(malformed(&map.pointer_to(&*key), "a string", other)),
                None => None,
            };
            let mut entry = MapEntry { merge, map, key: &key, existing: existing.as_deref() };
            let wanted = match (value.as_edit(), value.as_value()) {
                (Some(Edit { added, kind: EditKind::Objects(field) }), _) => entry.objects(added, field)?,
                (Some(edit), _) => entry.networks(edit)?,
                (None, Some(wanted)) => entry.text(wanted, what)?,
                (None, None) => continue,
            };
            let Some(wanted) = wanted else {
                map.log.present(&[&key]);
                continue;
            };
            let added =
                existing.map_or(key.len() + wanted.len(), |text| wanted.len().saturating_sub(text.len()));
            if what == ValueKind::Annotation {
                merge.pod.count_annotation(&key, added)?;
            }
            map.put(&key, Value::String(wanted));
        }
        Ok(())
    })
}

/// An entry of the map. Each method returns the string to set; `None` to leave the entry as it is.
struct MapEntry<'e, 'c> {
    merge: &'e Merge<'e, 'e>,
    map: &'e mut Cursor<'c>,
    key: &'e str,
    /// The string that the pod has.
    existing: Option<&'e str>,
}

impl MapEntry<'_, '_> {
    fn text(&mut self, wanted: &Value, what: ValueKind) -> OrReason<Option<String>> {
        let Self { merge, map, key, existing } = self;
        let text = text_of(wanted);
        // What the pod has stays, whatever excludes the other one.
        let stays = existing.is_some_and(|own| own == text || merge.on_conflict == OnConflict::Keep);
        if what == ValueKind::Nodes
            && !stays
            && let Some(against) = merge.excludes_label(map, key, &text)
        {
            let (setting, against) = (format!("{key}: {text}"), shorten(&against));
            map.warn(*key, WarningKind::Excluded { what, setting, against }, merge.rule);
            return Ok(None);
        }
        let Some(existing) = *existing else { return Ok(Some(text)) };
        if existing == text {
            return Ok(None);
        }
        let is_replaced = merge.resolve_conflict(map, *key, &Value::from(existing), wanted, what)?;
        Ok(is_replaced.then_some(text))
    }

    fn networks(&mut self, edit: &Edit) -> OrReason<Option<String>> {
        let Self { merge, map, key, existing } = self;
        let Attachments { networks, missing } = attachments(edit);
        if networks.iter().all(|(_, count)| *count == 0) {
            map.log.left_out(&[key], || "it has no networks".to_owned());
            return Ok(None);
        }
        if merge.analysis.host_network {
            map.warn(*key, WarningKind::HostNetwork, merge.rule);
            return Ok(None);
        }
        if missing > 0 {
            let given = networks.len();
            map.warn(*key, WarningKind::TooFewNetworks { given, wanted: given + missing }, merge.rule);
        }
        // Before too many of them are written.
        let size = |(network, count): &(String, usize)| count.saturating_mul(network.len());
        if networks.iter().map(size).fold(0, usize::saturating_add) > MAX_ANNOTATIONS {
            return Err(Reason::AnnotationLimit { key: (*key).to_owned() });
        }
        let text = existing.unwrap_or_default();
        map.log.takes(text.len() * (1 + networks.len()));
        let read = |text: &str| map.log.read(text);
        let edited = with_networks(text, &networks, &merge.analysis.namespace, read);
        Ok(edited.unwrap_or_else(|()| {
            let wanted = networks.iter().map(|(network, count)| match count {
                1 => network.clone(),
                count => format!("{count} times {network}"),
            });
            self.warn_of_kept(&wanted.collect::<Vec<_>>().join(", "));
            None
        }))
    }

    fn objects(&mut self, added: &Tree, identity: &str) -> OrReason<Option<String>> {
        let Self { merge, map, key, existing } = self;
        let wanted = added.as_value().and_then(Value::as_array).into_iter().flatten();
        let wanted: Vec<Value> = wanted.filter(|entry| entry.is_object()).cloned().collect();
        if wanted.is_empty() {
            map.log.left_out(&[key], || "it has no entries".to_owned());
            return Ok(None);
        }
        let text = existing.unwrap_or_default();
        if text.trim().is_empty() {
            return Ok(Some(Value::from(wanted).to_string()));
        }
        let Some(list) = map.log.read(text).and_then(object_list) else {
            self.warn_of_kept(&Value::from(wanted).to_string());
            return Ok(None);
        };
        map.log.takes(text.len() * (1 + wanted.len()));
        map.log.takes_memory(text.len() * BYTES_TO_EDIT);
        let mut edited = list.clone();
        let mut is_changed = false;
        for entry in wanted {
            match list.iter().position(|known| known.get(identity) == entry.get(identity)) {
                None => edited.push(entry),
                Some(at) if covers_object(&list[at], &entry) => continue,
                Some(at) => {
                    let (seen, wanted) = (Value::from(list[at].to_string()), Value::from(entry.to_string()));
                    if !merge.resolve_conflict(map, *key, &seen, &wanted, ValueKind::Annotation)? {
                        continue;
                    }
                    edited[at] = entry;
                }
            }
            is_changed = true;
        }
        Ok(is_changed.then(|| edit_json(text, &edited.into())))
    }

    /// Reports that the value of an annotation stays because an edit cannot extend its form.
    fn warn_of_kept(&mut self, wanted: &str) {
        let (seen, wanted) = (shorten(self.existing.unwrap_or_default()), shorten(wanted));
        let kind = WarningKind::Kept { what: ValueKind::Annotation, seen, wanted };
        self.map.warn(self.key, kind, self.merge.rule);
    }
}

/// The networks to attach, and what is missing.
#[derive(Debug, Default)]
struct Attachments {
    /// Each network with the number of its attachments.
    networks: Vec<(String, usize)>,
    /// The devices of the pod for which a list has no network.
    missing: usize,
}

/// The networks that an edit attaches. A single network is attached once for each device. Of a list, the networks are
/// attached whose positions are those of resources that the pod requests; the n-th device of one resource has the n-th
/// network. If the entry has no resources, each network is attached once.
fn attachments(edit: &Edit) -> Attachments {
    let of_edit = if let EditKind::Networks(devices) = &edit.kind { devices.as_ref() } else { None };
    let resources = of_edit.and_then(|of| of.resources.as_value()?.as_array()).map(Vec::as_slice);
    let requests = of_edit.and_then(|of| of.requests.as_value()).unwrap_or(&Value::Null);
    let devices = resources.map(|resources| devices_of(resources, requests));
    let all = devices.iter().flatten().copied().fold(0, usize::saturating_add);
    if let Some(name) = edit.added.as_str() {
        let count = if devices.is_some() { all } else { 1 };
        return Attachments { networks: vec![(name.to_owned(), count)], missing: 0 };
    }
    let names = edit.added.as_value().and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let is_one = matches!(resources, Some([one]) if !one.is_array());
    let is_wanted = |at: usize| match &devices {
        None => true,
        Some(_) if is_one => at < all,
        Some(devices) => devices.get(at).is_some_and(|count| *count > 0),
    };
    let attached = names.iter().enumerate().filter(|(at, _)| is_wanted(*at));
    let networks = attached.filter_map(|(_, name)| Some((name.as_str()?.to_owned(), 1))).collect();
    // An amount may be any number.
    let missing = match &devices {
        Some(_) if is_one => all.saturating_sub(names.len()),
        Some(devices) => devices.iter().skip(names.len()).filter(|count| **count > 0).count(),
        None => 0,
    };
    Attachments { networks, missing }
}

/// The devices that a pod requests of each resource. Those of a list are counted individually.
fn devices_of(resources: &[Value], requests: &Value) -> Vec<usize> {
    let names = resources.iter().flat_map(|resource| match resource {
        Value::Array(names) => names.as_slice(),
        one => std::slice::from_ref(one),
    });
    let count = |name: &Value| usize::try_from(requests[name.as_str()?].as_u64()?).ok();
    names.map(|name| count(name).unwrap_or_default()).collect()
}

/// `None` if it is not a list of objects.
fn object_list(list: Value) -> Option<Vec<Value>> {
    match list {
        Value::Array(entries) if entries.iter().all(Value::is_object) => Some(entries),
        _ => None,
    }
}

/// The bytes of memory to edit a byte of JSON: an empty object of three bytes has a node with the places of its parts.
const BYTES_TO_EDIT: usize = 128;

/// Returns whether an object has all fields of another one, and each object in it those of the other's.
fn covers_object(existing: &Value, wanted: &Value) -> bool {
    let Value::Object(wanted) = wanted else { return existing == wanted };
    existing.is_object()
        && wanted.iter().all(|(key, wanted)| existing.get(key).is_some_and(|own| covers_object(own, wanted)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> Option<Vec<Value>> {
        object_list(serde_json::from_str(text).ok()?)
    }

    fn added(text: &str) -> Option<String> {
        let mut list = parse(text)?;
        list.push(json!({"i": "eth1", "net": "r1"}));
        Some(edit_json(text, &list.into()))
    }

    fn replaced(text: &str) -> Option<String> {
        let mut list = parse(text)?;
        list[0] = json!({"i": "eth0", "net": "new"});
        Some(edit_json(text, &list.into()))
    }

    #[test]
    fn json_keeps_its_layout() {
        for (before, after) in [
            (r#"[{"i":"eth0"}]"#, r#"[{"i":"eth0"},{"i":"eth1","net":"r1"}]"#),
            (r#"[{"i":"eth0"}, {"i":"eth9"}]"#, r#"[{"i":"eth0"}, {"i":"eth9"}, {"i":"eth1", "net":"r1"}]"#),
            ("[]", r#"[{"i":"eth1","net":"r1"}]"#),
            ("[\n  {\"i\":\"eth0\"}\n]\n", "[\n  {\"i\":\"eth0\"},\n  {\"i\":\"eth1\",\"net\":\"r1\"}\n]\n"),
            (
                "[\n    {\n        \"i\": \"a]\\\"}\"\n    }\n]",
                "[\n    {\n        \"i\": \"a]\\\"}\"\n    },\n    {\n        \"i\": \"eth1\",\n        \"net\": \"r1\"\n    }\n]",
            ),
        ] {
            assert_eq!(added(before).as_deref(), Some(after));
        }
    }

    #[test]
    fn an_entry_is_replaced_in_the_layout_of_the_text() {
        for (before, after) in [
            (r#"[ {"i":"eth0"}, {"x":1.0} ]"#, r#"[ {"i":"eth0", "net":"new"}, {"x":1.0} ]"#),
            (
                "[\n  {\n    \"i\": \"eth0\"\n  }\n]",
                "[\n  {\n    \"i\": \"eth0\",\n    \"net\": \"new\"\n  }\n]",
            ),
        ] {
            assert_eq!(replaced(before).as_deref(), Some(after));
        }
    }

    #[test]
    fn what_is_no_list_of_objects_is_none() {
        for text in ["", "eth0", "[1]", "{}", "[{", "- a: 1", "[{a: 1}]", "[{}]x"] {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
