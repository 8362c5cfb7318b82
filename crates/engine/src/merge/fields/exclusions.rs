//! Values that are left out, and reported, because another value of the pod excludes them.

use serde_json::Value;

use crate::merge::rule::{Merge, brief};
use crate::record::{Cursor, WarningKind};
use fabric_policy::schema::Field;

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
            } else {
                return false;
            };
        let setting = format!("{}: {}", field.name, brief(wanted));
        let kind = WarningKind::Excluded { setting, against };
        cursor.warn(field.name, kind, self.rule);
        true
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
