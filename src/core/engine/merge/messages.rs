//! The warnings and refusals that a policy declares.

use std::collections::HashSet;

use serde_json::Value;

use crate::core::policy::expression::{Bindings, Resolver};
use crate::core::policy::interpolation::EvaluationError;
use crate::core::policy::interpolation::text_of;
use crate::core::policy::{About, PolicyWarning, ResolvedPolicy, VALUE};

use super::container::name_of;
use crate::core::engine::evaluate::{Row, Scope};
use crate::core::engine::record::{ChangeLog, Cursor, Kept, Reason, Stop, Warning, WarningKind};

/// Gives the refusals and warnings about the pod.
pub(in crate::core::engine) fn about_pod(
    policy: &ResolvedPolicy,
    scope: &Scope<'_>,
    log: &mut ChangeLog,
) -> Result<(), Stop> {
    let resolver = Resolver(scope);
    let bindings = scope.bindings(&resolver);
    for message in messages(policy).filter(|message| message.0.about == About::Pod) {
        if let Some(kind) = evaluate(message, scope, &bindings)? {
            log.warnings.push(Warning { path: String::new(), kind, rule: String::new() });
        }
    }
    Ok(())
}

/// Gives the refusals and warnings about the containers that a rule selects, and about the variables that they set themselves.
pub(super) fn about_containers<'s>(
    policy: &ResolvedPolicy,
    selected: impl Iterator<Item = &'s Row<'s>>,
    pod: &mut Value,
    log: &mut ChangeLog,
) -> Result<(), Stop> {
    let messages = || messages(policy).filter(|message| message.0.about != About::Pod);
    if messages().next().is_none() {
        return Ok(());
    }
    // The warnings for which a better one is known.
    let mut replaced: HashSet<String> = HashSet::new();
    for Row { container, scope, .. } in selected {
        let resolver = Resolver(scope);
        let bindings = scope.bindings(&resolver);
        let mut cursor = Cursor::container(pod, log, container.list, container.index)?;
        for message in messages() {
            let About::Variable(name) = &message.0.about else {
                if let Some(kind) = evaluate(message, scope, &bindings)? {
                    cursor.warn_here(kind, "");
                }
                continue;
            };
            let Some((at, value)) = own_variable(&mut cursor, name) else { continue };
            let mut bindings = bindings.child();
            bindings.set(VALUE, &value);
            if let Some(kind) = evaluate(message, scope, &bindings)? {
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

/// The refusals and warnings of a policy.
fn messages(policy: &ResolvedPolicy) -> impl Iterator<Item = Message<'_>> {
    let refusals = policy.refusals.iter().map(|refusal| Message(refusal, true));
    refusals.chain(policy.warnings.iter().map(|warning| Message(warning, false)))
}

/// A warning, or a refusal if the flag is set.
#[derive(Clone, Copy)]
struct Message<'a>(&'a PolicyWarning, bool);

/// The kind of a warning whose condition holds. A refusal ends the injection.
fn evaluate(
    Message(message, refuses): Message<'_>,
    scope: &Scope<'_>,
    bindings: &Bindings<'_, '_>,
) -> Result<Option<WarningKind>, Stop> {
    let kind = if refuses { "refusal" } else { "warning" };
    let failed = |error: EvaluationError| scope.explain(&format!("the {kind} `{}`", message.code), error);
    if !message.when.holds(bindings).map_err(failed)? {
        return Ok(None);
    }
    let (code, message) =
        (message.code.clone(), text_of(&message.message.evaluate(bindings).map_err(failed)?));
    if refuses {
        return Err(Reason::Policy { code, message }.into());
    }
    Ok(Some(WarningKind::Policy { code, message }))
}

/// The position and value of a variable that the container came with. Of several entries, the last one counts.
fn own_variable(container: &mut Cursor<'_>, name: &str) -> Option<(usize, Value)> {
    let env = container.get("env")?.as_array()?;
    let at = env.iter().rposition(|entry| name_of(entry) == Some(name))?;
    let entry = &env[at];
    let value =
        entry["valueFrom"].is_null().then(|| Value::from(entry["value"].as_str().unwrap_or_default()))?;
    let own = container.list("env", |env| Ok(!env.was_added(at))).unwrap_or(false);
    own.then_some((at, value))
}
