//! The user as which a container runs.

use crate::core::engine::record::{ChangeLog, Cursor, Warning, WarningKind};
use crate::core::pointer::at_pointer;
use serde_json::Value;

/// The setting next to which the kubelet does not start a container with a value of a security context: no container
/// runs as user 0 that must not run as root.
pub(super) fn refused_by_kubelet(
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

/// The setting by which a container does not run as root; `None` if there is none.
fn not_root(pod: &Value, container: &Value) -> Option<String> {
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

/// Reports capabilities of containers that do not run as root: they have no effect, because the kernel has no ambient
/// capabilities in containers.
pub(super) fn warn_without_root(pod: &Value, capabilities: Vec<(String, String)>, log: &mut ChangeLog) {
    for (path, capability) in capabilities {
        let container = at_pointer(pod, &path).unwrap_or(&Value::Null);
        if let Some(because) = not_root(pod, container) {
            let kind = WarningKind::CapabilityWithoutRoot { capability, because };
            log.warnings.push(Warning { path, kind, rule: String::new() });
        }
    }
}
