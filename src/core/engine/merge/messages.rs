//! The warnings that a policy declares, some of which refuse the pod.

use std::collections::HashSet;

use serde_json::Value;

use crate::core::policy::expression::{Bindings, Resolver};
use crate::core::policy::interpolation::{EvaluationError, text_of};
use crate::core::policy::{About, PolicyWarning, ResolvedPolicy, VALUE};

use super::container::name_of;
use crate::core::engine::evaluate::{Row, Scope};
use crate::core::engine::record::{ChangeLog, Cursor, Kept, Reason, Stop, Warning, WarningKind};

/// Gives the warnings about the pod.
pub(in crate::core::engine) fn about_pod(
    policy: &ResolvedPolicy,
    scope: &Scope<'_>,
    log: &mut ChangeLog,
) -> Result<(), Stop> {
    let resolver = Resolver(scope);
    let bindings = scope.bindings(&resolver);
    for warning in policy.warnings.iter().filter(|warning| warning.about == About::Pod) {
        if let Some(kind) = evaluate(warning, scope, &bindings)? {
            log.warnings.push(Warning { path: String::new(), kind, rule: String::new() });
        }
    }
    Ok(())
}

/// Gives the warnings about the containers that a rule selects, and about the variables that they set themselves.
pub(super) fn about_containers<'s>(
    policy: &ResolvedPolicy,
    selected: impl Iterator<Item = &'s Row<'s>>,
    pod: &mut Value,
    log: &mut ChangeLog,
) -> Result<(), Stop> {
    let warnings = || policy.warnings.iter().filter(|warning| warning.about != About::Pod);
    if warnings().next().is_none() {
        return Ok(());
    }
    // The warnings for which a better one is known.
    let mut replaced: HashSet<String> = HashSet::new();
    for Row { container, scope, .. } in selected {
        let resolver = Resolver(scope);
        let bindings = scope.bindings(&resolver);
        let mut cursor = Cursor::container(pod, log, container.list, container.index)?;
        for warning in warnings() {
            let About::Variable(name) = &warning.about else {
                if let Some(kind) = evaluate(warning, scope, &bindings)? {
                    cursor.warn_here(kind, "");
                }
                continue;
            };
            let own = cursor.get("env").and_then(|env| own_variable(env, name));
            let Some((at, value)) = own else { continue };
            if cursor.list("env", |env| Ok(env.was_added(at)))? {
                continue;
            }
            let mut bindings = bindings.child();
            bindings.set(VALUE, &value);
            if let Some(kind) = evaluate(warning, scope, &bindings)? {
                let path = cursor.list("env", |env| {
                    env.warn(at, kind, "");
                    Ok(env.pointer_to(at))
                })?;
                replaced.insert(path);
            }
        }
    }
    log.warnings.retain(|warning| {
        !matches!(warning.kind, WarningKind::Kept { what: Kept::Env, .. })
            || !replaced.contains(&warning.path)
    });
    Ok(())
}

/// The kind of a warning whose condition holds. One that refuses the pod ends the injection.
fn evaluate(
    warning: &PolicyWarning,
    scope: &Scope<'_>,
    bindings: &Bindings<'_, '_>,
) -> Result<Option<WarningKind>, Stop> {
    let failed = |error: EvaluationError| scope.explain(&format!("the warning `{}`", warning.code), error);
    if !warning.when.holds(bindings).map_err(failed)? {
        return Ok(None);
    }
    let message = text_of(&warning.message.evaluate(bindings).map_err(failed)?);
    let code = warning.code.clone();
    if warning.refuses {
        return Err(Reason::Policy { code, message }.into());
    }
    Ok(Some(WarningKind::Policy { code, message }))
}

/// The position and value of a variable in a list of them. Of several entries, the last one counts.
pub(crate) fn own_variable(env: &Value, name: &str) -> Option<(usize, Value)> {
    let env = env.as_array()?;
    let at = env.iter().rposition(|entry| name_of(entry) == Some(name))?;
    let value = env[at]["value"].as_str().unwrap_or_default();
    env[at]["valueFrom"].is_null().then(|| (at, Value::from(value)))
}
