//! Security contexts: what the API server refuses side by side is never put side by side.

use serde_json::{Map, Value};

use crate::core::policy::expression::Bindings;
use crate::core::policy::template::{Key, Template};

use super::merge::{Merge, Place};
use super::report::{Kept, Reason, WarningKind};

/// Merges a container's security context; the pointer already points at it.
pub(super) fn merge(
    merge: &mut Merge<'_>,
    container: &mut Map<String, Value>,
    template: &Template,
    bindings: &Bindings<'_, '_>,
) -> Result<(), Reason> {
    let Template::Map(entries) = template else { return Ok(()) };
    let made = container.get("securityContext").is_none_or(Value::is_null);
    if made {
        merge.insert(container, "securityContext", Value::Object(Map::new()));
    }
    match container.get_mut("securityContext") {
        Some(Value::Object(context)) => merge.map(context, entries, Place::SecurityContext, bindings)?,
        other => return Err(merge.malformed("a map", other.map_or(&Value::Null, |value| value))),
    }
    // Everything in it may have been left out.
    let empty = container.get("securityContext").and_then(Value::as_object).is_some_and(Map::is_empty);
    if made && empty {
        merge.changes.take_back_last(container, "securityContext");
    }
    Ok(())
}

/// Merges one field of a container's security context; the pointer already points at it.
pub(super) fn merge_field(
    merge: &mut Merge<'_>,
    target: &mut Map<String, Value>,
    key: &str,
    template: &Template,
    bindings: &Bindings<'_, '_>,
) -> Result<(), Reason> {
    match key {
        "capabilities" => merge_capabilities(merge, target, template, bindings),
        "allowPrivilegeEscalation" | "privileged" => {
            let Some(wanted) = merge.evaluated(template.build(bindings))? else { return Ok(()) };
            let against = match (key, wanted.as_bool()) {
                ("allowPrivilegeEscalation", Some(false)) => escalates(target),
                ("privileged", Some(true)) if forbids_escalation(target) => {
                    Some("allowPrivilegeEscalation: false")
                }
                _ => None,
            };
            match against {
                Some(against) => {
                    let setting = format!("{key}: {wanted}");
                    merge.warn(WarningKind::PrivilegeConflict { setting, against: against.to_owned() });
                    Ok(())
                }
                None => merge.field(target, key, template, Place::SecurityContext, bindings),
            }
        }
        _ => merge.field(target, key, template, Place::SecurityContext, bindings),
    }
}

fn forbids_escalation(context: &Map<String, Value>) -> bool {
    context.get("allowPrivilegeEscalation").and_then(Value::as_bool) == Some(false)
}

/// What in a security context the API server refuses beside `allowPrivilegeEscalation: false`.
fn escalates(context: &Map<String, Value>) -> Option<&'static str> {
    if context.get("privileged").and_then(Value::as_bool) == Some(true) {
        return Some("privileged: true");
    }
    let added = context.get("capabilities").and_then(|capabilities| capabilities["add"].as_array());
    added
        .is_some_and(|added| added.iter().filter_map(Value::as_str).any(|name| bare(name) == "SYS_ADMIN"))
        .then_some("SYS_ADMIN")
}

/// A capability without the prefix that some write and some do not.
fn bare(capability: &str) -> String {
    let upper = capability.to_uppercase();
    upper.strip_prefix("CAP_").map_or_else(|| upper.clone(), str::to_owned)
}

fn merge_capabilities(
    merge: &mut Merge<'_>,
    context: &mut Map<String, Value>,
    template: &Template,
    bindings: &Bindings<'_, '_>,
) -> Result<(), Reason> {
    let Template::Map(entries) = template else { return Ok(()) };
    let forbids_escalation = forbids_escalation(context);
    for (key, template) in entries {
        let (Key::Literal(key), Template::List(_, items)) = (key, template) else { continue };
        for item in items {
            let Some(Value::String(wanted)) = merge.evaluated(item.build(bindings))? else { continue };
            if key == "add" && bare(&wanted) == "SYS_ADMIN" && forbids_escalation {
                let against = "allowPrivilegeEscalation: false".to_owned();
                merge.warn(WarningKind::PrivilegeConflict {
                    setting: format!("capability {wanted}"),
                    against,
                });
                continue;
            }
            add_capability(merge, context, key, wanted)?;
        }
    }
    Ok(())
}

fn add_capability(
    merge: &mut Merge<'_>,
    context: &mut Map<String, Value>,
    list: &str,
    wanted: String,
) -> Result<(), Reason> {
    let names = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).map(bare).collect()
    };
    let capabilities = context.get("capabilities").unwrap_or(&Value::Null);
    let present = names(&capabilities[list]);
    if list == "add" {
        let container = merge.pointer.split("/securityContext").next().unwrap_or_default().to_owned();
        merge.capabilities.push((container, wanted.clone()));
    }
    if present.iter().any(|name| *name == bare(&wanted) || name == "ALL") {
        return Ok(());
    }
    let opposite = if list == "add" { "drop" } else { "add" };
    if names(&capabilities[opposite]).contains(&bare(&wanted)) {
        let seen = format!("{opposite} {wanted}");
        merge.warn(WarningKind::Kept { what: Kept::Field, seen, wanted: format!("{list} {wanted}") });
        return Ok(());
    }
    let capabilities = merge.map_in(context, "capabilities")?;
    let before = merge.enter(list);
    let names = merge.list_in(capabilities, list)?;
    merge.push(names, Value::String(wanted));
    merge.pointer.truncate(before);
    Ok(())
}

/// What says that a container does not run as root; `None` if nothing does.
pub(super) fn not_root(pod: &Value, container: &Value) -> Option<String> {
    let setting = |key: &str| {
        let own = &container["securityContext"][key];
        if own.is_null() { pod["spec"]["securityContext"][key].clone() } else { own.clone() }
    };
    match setting("runAsUser").as_i64() {
        Some(0) => None,
        Some(user) => Some(format!("runAsUser: {user}")),
        None => (setting("runAsNonRoot").as_bool() == Some(true)).then(|| "runAsNonRoot: true".to_owned()),
    }
}
