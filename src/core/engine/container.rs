//! The parts of a container that need more than a plain merge: variables, mounts, and the containers of the
//! policy's own.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::merge::{Merge, Place, brief};
use super::report::{Kept, Reason, WarningKind};
use super::volumes::{clean_path, covers};
use crate::core::policy::OnConflict;
use crate::core::policy::expression::Bindings;
use crate::core::policy::template::{Edit, Key, Template};

type Target<'t> = &'t mut Map<String, Value>;

fn existing_list<'t>(
    merge: &Merge<'_>,
    target: Target<'t>,
    key: &str,
) -> Result<Option<&'t mut Vec<Value>>, Reason> {
    match target.get_mut(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(other) => Err(merge.malformed("a list", other)),
    }
}

fn items(template: &Template) -> &[Template] {
    match template {
        Template::List(_, items) => items,
        _ => &[],
    }
}

/// The name of an entry. Nearly always its first field, so that is looked at before anything is hashed.
fn name_of(entry: &Value) -> Option<&str> {
    let map = entry.as_object()?;
    match map.iter().next() {
        Some((key, value)) if key == "name" => value.as_str(),
        _ => map.get("name")?.as_str(),
    }
}

/// Environment variables: an entry is one value, so nothing is ever put beside a `valueFrom`.
pub(super) fn merge_env(
    merge: &mut Merge<'_>,
    target: Target<'_>,
    template: &Template,
    bindings: &Bindings<'_, '_>,
) -> Result<(), Reason> {
    for item in items(template) {
        let Some(wanted) = merge.evaluated(item.build_entry(bindings))? else { continue };
        let list = merge.list_in(target, "env")?;
        let name = name_of(&wanted);
        // Of several entries with one name the last one counts.
        let Some(at) = list.iter().rposition(|entry| name_of(entry) == name) else {
            merge.push(list, wanted);
            continue;
        };
        let before = merge.enter_index(at);
        let entry = &mut list[at];
        match edit_of(item) {
            Some(edit) if entry["valueFrom"].is_null() => {
                let text = entry["value"].as_str().unwrap_or_default();
                if let Some(edited) = merge.edited(text, edit, bindings)?
                    && let Value::Object(map) = entry
                {
                    let before = merge.enter("value");
                    match map.get_mut("value") {
                        Some(value) => merge.replace(value, Value::String(edited)),
                        None => merge.insert(map, "value", Value::String(edited)),
                    }
                    merge.pointer.truncate(before);
                }
            }
            _ if same_env(entry, &wanted) => {}
            _ => merge.conflict(entry, wanted, Kept::Env)?,
        }
        merge.pointer.truncate(before);
    }
    Ok(())
}

fn edit_of(item: &Template) -> Option<&Edit> {
    let Template::Map(entries) = item else { return None };
    entries.iter().find_map(|(key, value)| match (key, value) {
        (Key::Literal(key), Template::Edit(edit)) if key == "value" => Some(&**edit),
        _ => None,
    })
}

fn same_env(existing: &Value, wanted: &Value) -> bool {
    let text = |entry: &Value| entry["value"].as_str().unwrap_or_default().to_owned();
    match (existing["valueFrom"].is_null(), wanted["valueFrom"].is_null()) {
        (true, true) => text(existing) == text(wanted),
        (false, false) => covers(&existing["valueFrom"], &wanted["valueFrom"]),
        _ => false,
    }
}

/// Volume mounts: one a path, and never of a volume that is not there.
pub(super) fn merge_mounts(
    merge: &mut Merge<'_>,
    target: Target<'_>,
    template: &Template,
    bindings: &Bindings<'_, '_>,
) -> Result<(), Reason> {
    for item in items(template) {
        let Some(mut wanted) = merge.evaluated(item.build_entry(bindings))? else { continue };
        let path = clean_path(wanted["mountPath"].as_str().unwrap_or_default()).into_owned();
        let taken_by_device = target.get("volumeDevices").and_then(Value::as_array).is_some_and(|list| {
            list.iter().any(|device| path_of(device, "devicePath").as_deref() == Some(&*path))
        });
        let at = existing_list(merge, target, "volumeMounts")?.and_then(|list| {
            list.iter().position(|mount| path_of(mount, "mountPath").as_deref() == Some(&*path))
        });
        if taken_by_device {
            let seen = format!("a block device at {path}");
            merge.warn(WarningKind::Kept { what: Kept::Mount, seen, wanted: brief(&wanted["name"]) });
            continue;
        }
        let volume = wanted["name"].as_str().unwrap_or_default().to_owned();
        if let Some(at) = at {
            keep_mount(merge, target, at, &volume, wanted)?;
            continue;
        }
        let Some(resolved) = resolve_volume(merge, &volume) else { continue };
        wanted["name"] = Value::from(resolved);
        let list = merge.list_in(target, "volumeMounts")?;
        merge.push(list, wanted);
    }
    Ok(())
}

fn path_of<'e>(entry: &'e Value, key: &str) -> Option<Cow<'e, str>> {
    entry[key].as_str().map(clean_path)
}

/// The name of the volume to mount, now counted as used; `None` with a warning if there is none.
fn resolve_volume(merge: &mut Merge<'_>, volume: &str) -> Option<String> {
    if let Some(resolved) = merge.volumes.resolve(volume, &merge.pod_volumes) {
        merge.volumes.mark_used(volume);
        return Some(resolved);
    }
    if merge.pod_volumes.iter().any(|existing| existing["name"].as_str() == Some(volume)) {
        return Some(volume.to_owned());
    }
    merge.warn(WarningKind::MountWithoutVolume { volume: volume.to_owned() });
    None
}

/// The container mounts something there already: it stays, and is reported unless it is the same thing.
fn keep_mount(
    merge: &mut Merge<'_>,
    target: Target<'_>,
    at: usize,
    volume: &str,
    mut wanted: Value,
) -> Result<(), Reason> {
    let Some(list) = existing_list(merge, target, "volumeMounts")? else { return Ok(()) };
    let mounted = list[at]["name"].as_str().unwrap_or_default();
    let resolved = merge.volumes.resolve(volume, &merge.pod_volumes);
    let same = resolved.as_deref() == Some(mounted)
        || merge.volumes.get(volume).is_some_and(|wanted| {
            merge
                .pod_volumes
                .iter()
                .any(|existing| existing["name"].as_str() == Some(mounted) && covers(existing, wanted))
        });
    if same {
        return Ok(());
    }
    let before = merge.enter_index(at);
    let seen = format!("volume {mounted}");
    match merge.on_conflict {
        OnConflict::Replace => {
            if let Some(resolved) = resolve_volume(merge, volume) {
                wanted["name"] = Value::from(resolved);
                merge.warn(WarningKind::Replaced { seen, wanted: format!("volume {volume}") });
                merge.replace(&mut list[at], wanted);
            }
        }
        OnConflict::Keep => {
            merge.warn(WarningKind::Kept { what: Kept::Mount, seen, wanted: format!("volume {volume}") });
        }
        OnConflict::Refuse => merge.conflict(&mut list[at], wanted, Kept::Mount)?,
    }
    merge.pointer.truncate(before);
    Ok(())
}

/// Containers that the policy brings, such as a native sidecar.
pub(super) fn merge_list(
    merge: &mut Merge<'_>,
    target: Target<'_>,
    list_name: &'static str,
    template: &Template,
    bindings: &Bindings<'_, '_>,
) -> Result<(), Reason> {
    for item in items(template) {
        let Some(Value::Object(mut wanted)) = merge.evaluated(item.build_entry(bindings))? else { continue };
        let name = wanted.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let home =
            ["containers", "initContainers"].into_iter().find(|list| has_named(target.get(*list), &name));
        match home {
            Some(home) if home != list_name => {
                // Names are unique among all containers of a pod.
                let seen = format!("one of {home}");
                merge.warn(WarningKind::Kept {
                    what: Kept::Container,
                    seen,
                    wanted: format!("{name} in {list_name}"),
                });
            }
            Some(_) => {
                let list = merge.list_in(target, list_name)?;
                let Some(at) = list.iter().position(|entry| name_of(entry) == Some(&name)) else { continue };
                let before = merge.enter_index(at);
                if let Some(Value::Object(map)) = list.get_mut(at) {
                    merge.map(map, &item.entries(), Place::Container, bindings)?;
                }
                merge.pointer.truncate(before);
            }
            None => {
                follow_renamed_volumes(merge, &mut wanted);
                let list = merge.list_in(target, list_name)?;
                merge.push(list, Value::Object(wanted));
            }
        }
    }
    Ok(())
}

fn has_named(list: Option<&Value>, name: &str) -> bool {
    let entries = list.and_then(Value::as_array).into_iter().flatten();
    entries.into_iter().any(|entry| name_of(entry) == Some(name))
}

fn follow_renamed_volumes(merge: &mut Merge<'_>, container: &mut Map<String, Value>) {
    let Some(Value::Array(mounts)) = container.get_mut("volumeMounts") else { return };
    mounts.retain_mut(|mount| {
        let Some(resolved) = resolve_volume(merge, mount["name"].as_str().unwrap_or_default()) else {
            return false;
        };
        mount["name"] = Value::from(resolved);
        true
    });
}
