//! The warnings of an injection as they are reported.

use std::collections::HashMap;

use serde_json::Value;

use fabric_yaml::pointer::field_path;

use super::report::{Warning, WarningKind};

/// Warnings have JSON Pointers while the pod changes; this gives them field paths.
pub(crate) fn with_field_paths(mut warnings: Vec<Warning>, pod: &Value) -> Vec<Warning> {
    for warning in &mut warnings {
        if warning.path.starts_with('/') {
            warning.path = field_path(pod, &warning.path);
        }
    }
    warnings.dedup();
    warnings
}

/// The warnings of a pod that was injected.
pub(crate) fn of_injected(warnings: Vec<Warning>, pod: &Value) -> Vec<Warning> {
    with_field_paths(reconciled(warnings), pod)
}

/// The warnings, with only one for each value that rules replace: other rules may have kept it before, or replaced it
/// again.
fn reconciled(warnings: Vec<Warning>) -> Vec<Warning> {
    let mut result: Vec<Warning> = Vec::with_capacity(warnings.len());
    // The values of each path before and after a replacement, and the index of the warning about it.
    let mut values: HashMap<(String, String), usize> = HashMap::new();
    for warning in warnings {
        if let WarningKind::Replaced { seen, wanted } = &warning.kind {
            let value = |text: &String| (warning.path.clone(), text.clone());
            let known = values.get(&value(seen)).copied();
            let at = known.unwrap_or(result.len());
            values.extend([(value(seen), at), (value(wanted), at)]);
            if let Some(WarningKind::Replaced { wanted: last, .. }) =
                known.and_then(|at| result.get_mut(at)).map(|first| &mut first.kind)
            {
                last.clone_from(wanted);
                result[at].rule = warning.rule;
                continue;
            }
        }
        result.push(warning);
    }
    result.retain(|warning| match &warning.kind {
        WarningKind::Kept { seen, .. } => {
            values.is_empty() || !values.contains_key(&(warning.path.clone(), seen.clone()))
        }
        _ => true,
    });
    result
}
