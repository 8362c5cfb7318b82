//! Lists that take the place of the pod's.

use serde_json::Value;

use crate::core::policy::source::{Checked, Diagnostic, FIELD_NOT_SETTABLE, MISPLACED_EDIT};
use crate::core::schema::{Field, ListMerge, Object, Shape};

use super::keys::REPLACE;
use crate::core::policy::overlay::source::{Source, SourceContent};
use crate::core::policy::overlay::template::Template;
use crate::core::policy::overlay::values::value;

/// Compiles `$replace` for a field.
pub(in crate::core::policy::overlay) fn compile(
    source: &Source,
    list: &Source,
    field: &'static Field,
    object: &'static Object,
) -> Checked<Template> {
    if let SourceContent::Map(entries) = &source.content
        && let Some(other) = entries.iter().find(|entry| entry.key.source() != REPLACE)
    {
        let message = format!("`{}` does not go with `$replace`", other.key.source());
        return Err(Diagnostic::new(other.span, message)
            .code(MISPLACED_EDIT)
            .hint("put all entries into the list of `$replace`")
            .into());
    }
    let refused = |reason: &str, hint: &str| {
        let message = format!("`$replace` cannot replace `{}`: {reason}", field.name);
        Err(Diagnostic::new(source.span, message).code(FIELD_NOT_SETTABLE).hint(hint).into())
    };
    let Shape::List { merge, .. } = &field.shape else {
        return refused("it is not a list", "set the value, with `onConflict: replace` in the rule");
    };
    if let Some(reason) = refusal(object.name, field.name, merge) {
        return refused(reason, "write the entries to add; `onConflict: replace` replaces those of the pod");
    }
    let list = value(list, &field.shape)?;
    if let (Template::Constant(Value::Array(entries)), Some(most)) = (&list, field.at_most)
        && entries.len() > most
    {
        let message = format!("`{}` has more than {most} entries", field.name);
        return Err(Diagnostic::new(source.span, message).into());
    }
    Ok(list)
}

/// An error for an expression that yields `$replace`.
pub(in crate::core::policy::overlay) fn computed(source: &Source) -> Diagnostic {
    Diagnostic::new(
        source.span,
        "an expression cannot yield `$replace`: write the key out, and let its value be one",
    )
}

/// Returns whether `$replace` can replace a list of an object that is merged.
pub(crate) fn can_replace(object: &Object, field: &Field) -> bool {
    matches!(&field.shape, Shape::List { merge, .. } if refusal(object.name, field.name, merge).is_none())
}

/// The reason for which a list cannot be replaced.
fn refusal(object: &str, field: &str, merge: &ListMerge) -> Option<&'static str> {
    Some(match (object, field) {
        (_, "env") => "other fields of the container, and other rules, refer to its variables",
        (_, "volumeMounts") => "the API server mounts the token of the service account",
        (_, "volumes") => "the mounts of all containers refer to it",
        (_, "containers" | "initContainers") => "a pod is its containers",
        (_, "resourceClaims") => "the claims of all containers refer to it",
        ("ResourceRequirements", "claims") => "the devices of the container come from it",
        (_, "ports") => "the API server adds host ports to it",
        (_, "imagePullSecrets") => "the API server fills it in from the service account",
        ("Capabilities", _) => "capabilities are added and dropped one by one",
        (_, "hostAliases" | "topologySpreadConstraints") => return None,
        _ if matches!(merge, ListMerge::Keyed(_)) => "other components of the cluster write to it",
        _ => return None,
    })
}
