//! Volume mounts: one at a path, and only of a volume that the pod has.

use std::borrow::Cow;

use serde_json::Value;

use fabric_policy::OnConflict;
use fabric_policy::schema::{self, Shape, covers};

use super::rule::{Merge, brief};
use super::volumes::{clean_path, is_volume};
use crate::record::{Cursor, ListCursor, OrReason, ValueKind, WarningKind};

/// Merges mounts into the list of a container.
pub(crate) fn merge(
    merge: &mut Merge<'_, '_>,
    container: &mut Cursor<'_>,
    mounts: impl IntoIterator<Item = Value>,
) -> OrReason {
    for wanted in mounts {
        let path = clean_path(wanted["mountPath"].as_str().unwrap_or_default()).into_owned();
        let volume = wanted["name"].as_str().unwrap_or_default();
        if wanted["mountPropagation"] == "Bidirectional" && !is_privileged(container) {
            let setting = format!("{path}: mountPropagation: Bidirectional");
            let against = "no securityContext.privileged: true".to_owned();
            let kind = WarningKind::Excluded { what: ValueKind::Mount, setting, against };
            container.warn("volumeMounts", kind, merge.rule);
            continue;
        }
        if has_device(container, &path, volume) {
            let seen = format!("a block device of {volume} or at {path}");
            let kind = WarningKind::Kept { what: ValueKind::Mount, seen, wanted: brief(&wanted["name"]) };
            container.warn("volumeMounts", kind, merge.rule);
            continue;
        }
        container.list("volumeMounts", |list| {
            let is_there = |mount: &Value| path_of(mount, "mountPath").as_deref() == Some(&*path);
            match list.entries().iter().position(is_there) {
                Some(at) => merge_mount(merge, list, at, wanted),
                None => add(merge, list, wanted),
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn is_privileged(container: &Cursor<'_>) -> bool {
    container.get("securityContext").is_some_and(|context| context["privileged"] == true)
}

/// Returns whether the container has a block device at a path, or of a volume.
fn has_device(container: &Cursor<'_>, path: &str, volume: &str) -> bool {
    let devices = container.get("volumeDevices").and_then(Value::as_array);
    devices.is_some_and(|devices| {
        let taken = |device: &Value| {
            path_of(device, "devicePath").as_deref() == Some(path) || device["name"].as_str() == Some(volume)
        };
        devices.iter().any(taken)
    })
}

fn path_of<'e>(entry: &'e Value, key: &str) -> Option<Cow<'e, str>> {
    entry[key].as_str().map(clean_path)
}

fn add(merge: &mut Merge<'_, '_>, list: &mut ListCursor<'_>, mut wanted: Value) {
    let volume = wanted["name"].as_str().unwrap_or_default().to_owned();
    if let Some(name) = use_volume(merge, &volume) {
        wanted["name"] = Value::from(name);
        list.push(wanted);
    } else {
        list.log.warn(WarningKind::MountWithoutVolume { volume }, merge.rule);
    }
}

/// The name of the pod's volume to mount. A volume of the policy counts as used from now on.
fn use_volume(merge: &mut Merge<'_, '_>, volume: &str) -> Option<String> {
    let facts = &mut *merge.pod;
    if let Some(resolved) = facts.volumes.resolve(volume, &facts.own_volumes) {
        facts.volumes.mark_used(volume);
        return Some(resolved);
    }
    facts.own_volumes.get(volume).filter(|own| !own.is_null()).map(|_| volume.to_owned())
}

/// Merges a mount at a path that the container already uses.
fn merge_mount(merge: &mut Merge<'_, '_>, list: &mut ListCursor<'_>, at: usize, mut wanted: Value) {
    let volume = wanted["name"].as_str().unwrap_or_default().to_owned();
    let mounted = list.entries()[at]["name"].as_str().unwrap_or_default().to_owned();
    let facts = &mut *merge.pod;
    let resolved = facts.volumes.resolve(&volume, &facts.own_volumes);
    let is_same =
        |wanted: &Value| facts.own_volumes.get(&mounted).is_some_and(|existing| is_volume(existing, wanted));
    let same_volume = mounted == volume && resolved.is_none()
        || resolved.as_deref() == Some(&*mounted)
        || facts.volumes.get(&volume).is_some_and(is_same);
    let (seen, shown) = if same_volume {
        wanted["name"] = Value::from(mounted);
        wanted["mountPath"] = list.entries()[at]["mountPath"].clone();
        let mounts = schema::container().field("volumeMounts").map(|field| field.shape);
        let entry = if let Some(Shape::List { items, .. }) = mounts { items } else { &Shape::Opaque };
        if covers(&list.entries()[at], &wanted, entry) {
            list.log.present_entry(at);
            return;
        }
        (brief(&list.entries()[at]), brief(&wanted))
    } else {
        (format!("volume {mounted}"), format!("volume {volume}"))
    };
    if merge.on_conflict != OnConflict::Replace {
        list.warn(at, WarningKind::Kept { what: ValueKind::Mount, seen, wanted: shown }, merge.rule);
        return;
    }
    if !same_volume {
        let Some(name) = use_volume(merge, &volume) else {
            list.warn(at, WarningKind::MountWithoutVolume { volume }, merge.rule);
            return;
        };
        wanted["name"] = Value::from(name);
    }
    list.warn(at, WarningKind::Replaced { seen, wanted: shown }, merge.rule);
    list.replace(at, wanted);
}
