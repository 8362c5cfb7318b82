//! Capabilities of a container, and the user that they require.

use serde_json::{Value, json};

use fabric_policy::overlay::Tree;
use fabric_policy::schema::Field;

use super::rule::Merge;
use crate::record::{ChangeLog, Cursor, OrReason, ValueKind, Warning, WarningKind};
use fabric_yaml::pointer::at_pointer;

/// Merges the sets of a security context's capabilities.
pub(crate) fn merge(
    merge: &mut Merge<'_, '_>,
    context: &mut Cursor<'_>,
    field: &'static Field,
    sets: Tree,
) -> OrReason {
    for (list, names) in sets.into_entries() {
        for name in names.items().iter().filter_map(Tree::as_str) {
            if !merge.is_excluded(context, field, &json!([name])) {
                add(merge, context, field, &list, name)?;
            }
        }
    }
    Ok(())
}

fn add(
    merge: &mut Merge<'_, '_>,
    context: &mut Cursor<'_>,
    field: &'static Field,
    list: &str,
    wanted: &str,
) -> OrReason {
    if list == "add" {
        let container = context.log.pointer().trim_end_matches("/securityContext").to_owned();
        merge.pod.capabilities.push((container, wanted.to_owned()));
    }
    let capabilities = context.get(field.name).unwrap_or(&Value::Null);
    // With its prefix, a capability has no effect in containerd, which adds another prefix.
    let has = |name: &str| name.eq_ignore_ascii_case(wanted) || name.eq_ignore_ascii_case("ALL");
    let present = names(&capabilities[list]).position(has);
    if let Some(at) = present {
        context.log.present(&[field.name, list, &at.to_string()]);
        return Ok(());
    }
    let opposite = if list == "add" { "drop" } else { "add" };
    if names(&capabilities[opposite]).any(|name| bare(name) == bare(wanted)) {
        let (seen, wanted) = (format!("{opposite} {wanted}"), format!("{list} {wanted}"));
        context.warn(field.name, WarningKind::Kept { what: ValueKind::Field, seen, wanted }, merge.rule);
        return Ok(());
    }
    let adds_without_escalation =
        list == "add" && context.get("allowPrivilegeEscalation") == Some(&Value::Bool(false));
    if adds_without_escalation && bare(wanted) == "SYS_ADMIN" {
        let setting = format!("capability {wanted}");
        let against = "allowPrivilegeEscalation: false".to_owned();
        let kind = WarningKind::Excluded { what: ValueKind::SecurityContext, setting, against };
        context.warn(field.name, kind, merge.rule);
        return Ok(());
    }
    // The kernel grants it to no process in such a container, and Pod Security rejects the pod because of it.
    let own = |key: &str| context.get(key).unwrap_or(&Value::Null);
    if adds_without_escalation && let Some(because) = not_root(&merge.pod.security_context, own) {
        // A later value can set another user.
        context.log.may_differ_again = true;
        context.log.left_out(&[field.name, list, wanted], || because);
        return Ok(());
    }
    context.within(field.name, |capabilities| {
        capabilities.list(list, |names| {
            names.push(Value::from(wanted));
            Ok(())
        })
    })
}

fn names(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().map(|name| name.as_str().unwrap_or_default())
}

/// A capability in upper case and without its prefix, which some runtimes accept.
fn bare(capability: &str) -> String {
    let upper = capability.to_uppercase();
    upper.strip_prefix("CAP_").map_or_else(|| upper.clone(), str::to_owned)
}

/// The setting that keeps a container from running as root, from the security context of the pod and its `own`; `None`
/// if there is none.
fn not_root<'v>(pod: &'v Value, own: impl Fn(&str) -> &'v Value) -> Option<String> {
    let setting = |key: &str| {
        let own = own(key);
        if own.is_null() { &pod[key] } else { own }
    };
    match setting("runAsUser").as_i64() {
        Some(0) => None,
        Some(user) => Some(format!("runAsUser: {user}")),
        None => (setting("runAsNonRoot").as_bool() == Some(true)).then(|| "runAsNonRoot: true".to_owned()),
    }
}

/// Reports capabilities of containers that do not run as root: they have no effect, because the kernel has no ambient
/// capabilities in containers.
pub(crate) fn warn_without_root(pod: &Value, capabilities: Vec<(String, String)>, log: &mut ChangeLog) {
    for (path, capability) in capabilities {
        let container = at_pointer(pod, &path).unwrap_or(&Value::Null);
        let own = |key: &str| &container["securityContext"][key];
        if let Some(because) = not_root(&pod["spec"]["securityContext"], own) {
            let kind = WarningKind::CapabilityWithoutRoot { capability, because };
            log.warnings.push(Warning { path, kind, rule: String::new() });
        }
    }
}
