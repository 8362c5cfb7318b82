//! Fields without rules of their own: values, keyed lists and sets. The schema alone determines how they are merged.
//! A value that another value of the pod excludes is left out, and reported.

use super::nodes::REQUIRED;
use super::rule::{Merge, brief};
use crate::record::{Cursor, OrReason, ValueKind, WarningKind};
use fabric_policy::OnConflict;
use fabric_policy::overlay::Tree;
use fabric_policy::schema::{Default, Field, Shape, covers, same};
use serde_json::Value;

/// Merges a field that is one value.
pub(super) fn value(
    merge: &mut Merge<'_, '_>,
    cursor: &mut Cursor<'_>,
    field: &'static Field,
    wanted: Value,
) -> OrReason {
    // A value of the pod stays, whatever excludes the other one.
    let stays = |own: &Value| merge.on_conflict == OnConflict::Keep || same(own, &wanted, &field.shape);
    if !cursor.get(field.name).is_some_and(stays) && merge.is_excluded(cursor, field, &wanted) {
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
            cursor.log.left_out(&[field.name], || "it is the default".to_owned());
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
        if !is_free && !merge.resolve_conflict(cursor, field.name, &seen, &wanted, kind_of(field.name))? {
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
    let reference = image.split('@').next().unwrap_or_default();
    let name = reference.rsplit('/').next().unwrap_or_default();
    match name.split_once(':') {
        Some((_, "latest")) => "Always",
        None if !image.contains('@') => "Always",
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
) -> OrReason {
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
            // What the pod has stays, whatever excludes the other one.
            let stays = at.is_some() && merge.on_conflict == OnConflict::Keep;
            if !stays && let Some(name) = port_name_of_another(list.entries(), at, &wanted, field) {
                let setting = format!("{}: {}", field.name, brief(&wanted));
                let against = format!("another port named {name}");
                let kind = WarningKind::Excluded { what: ValueKind::Field, setting, against };
                list.log.warn(kind, merge.rule);
                return Ok(());
            }
            let is_same = |own: &Value, wanted: &Value| keys.is_empty() || covers(own, wanted, items);
            merge.put_entry(list, at, wanted, ValueKind::Field, is_same)
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

impl Merge<'_, '_> {
    /// Returns whether another value of the pod excludes a value of a field. If so, reports that the field is left out.
    pub(crate) fn is_excluded(&self, cursor: &mut Cursor<'_>, field: &Field, wanted: &Value) -> bool {
        let against =
            if let Some(exclusion) = field.overlay.excluded_by(wanted, cursor.object(), &self.pod.outside) {
                exclusion.describe()
            } else if needs_sidecar(field.name) && is_plain_init_container(cursor) {
                "no restartPolicy: Always".to_owned()
            } else if let Some(against) =
                refused_by_kubelet(cursor, field.name, wanted, &self.pod.security_context)
            {
                against.to_owned()
            } else if field.name == "restartPolicy" && is_container_of_the_pod(cursor, wanted) {
                "this container, whose restartPolicy its author chose".to_owned()
            } else if field.name == REQUIRED
                && let Some(against) = self.excludes_affinity(wanted)
            {
                against
            } else {
                return false;
            };
        let setting = format!("{}: {}", field.name, brief(wanted));
        let is_security = cursor.log.pointer().ends_with("/securityContext");
        let what = if is_security { ValueKind::SecurityContext } else { kind_of(field.name) };
        cursor.warn(field.name, WarningKind::Excluded { what, setting, against }, self.rule);
        true
    }
}

fn kind_of(field: &str) -> ValueKind {
    match field {
        "hostNetwork" => ValueKind::HostNetwork,
        REQUIRED => ValueKind::Nodes,
        _ => ValueKind::Field,
    }
}

/// The setting that keeps the kubelet from starting a container with a value of a security context: a container that
/// must not run as root cannot run as user 0.
fn refused_by_kubelet(
    context: &Cursor<'_>,
    field: &str,
    wanted: &Value,
    of_pod: &Value,
) -> Option<&'static str> {
    let effective = |key: &str| context.get(key).unwrap_or(&of_pod[key]);
    match field {
        "runAsUser" if *wanted == 0 && *effective("runAsNonRoot") == true => Some("runAsNonRoot: true"),
        "runAsNonRoot" if *wanted == true && *effective("runAsUser") == 0 => Some("runAsUser: 0"),
        _ => None,
    }
}

/// Returns whether the API server accepts a field of an init container only if the container is a native sidecar.
fn needs_sidecar(field: &str) -> bool {
    matches!(field, "lifecycle" | "livenessProbe" | "readinessProbe" | "startupProbe")
}

/// Returns whether a container with another restartPolicy came with the pod: the policy's value would turn an init
/// container into a sidecar or the reverse.
fn is_container_of_the_pod(container: &Cursor<'_>, wanted: &Value) -> bool {
    container.get("restartPolicy") != Some(wanted) && !container.log.added_container(container.log.pointer())
}

fn is_plain_init_container(container: &Cursor<'_>) -> bool {
    container.log.pointer().starts_with("/spec/initContainers/")
        && container.get("restartPolicy").and_then(Value::as_str) != Some("Always")
}
