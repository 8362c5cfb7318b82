//! The checks that a policy declares: warnings and refusals.

use std::collections::HashSet;

use serde_json::Value;

use crate::core::policy::expression::{Bindings, Resolver};
use crate::core::policy::interpolation::{EvaluationError, Interpolation, text_of};
use crate::core::policy::{About, PolicyCheck, ResolvedPolicy, VALUE};

use super::container::name_of;
use crate::core::engine::evaluate::{Row, Scope};
use crate::core::engine::record::{ChangeLog, Cursor, Kept, Reason, Stop, Warning, WarningKind};

/// Makes the checks of the pod.
pub(in crate::core::engine) fn about_pod(
    policy: &ResolvedPolicy,
    scope: &Scope<'_>,
    log: &mut ChangeLog,
) -> Result<(), Stop> {
    let resolver = Resolver(scope);
    let bindings = scope.bindings(&resolver);
    for check in policy.checks.iter().filter(|check| check.about == About::Pod) {
        let check = Check { check, scope };
        if check.holds(check.check.when.as_ref(), &bindings)? {
            let kind = check.outcome(&bindings)?;
            log.warnings.push(Warning { path: String::new(), kind, rule: String::new() });
        }
    }
    Ok(())
}

/// Makes the checks of containers, and of the variables that they set themselves.
pub(super) fn about_containers(
    policy: &ResolvedPolicy,
    rows: &[Row<'_>],
    pod: &mut Value,
    log: &mut ChangeLog,
) -> Result<(), Stop> {
    let checks = || policy.checks.iter().filter(|check| check.about != About::Pod);
    if checks().next().is_none() {
        return Ok(());
    }
    // The warnings for which a better one is known.
    let mut replaced: HashSet<String> = HashSet::new();
    for Row { container, scope, .. } in rows {
        let resolver = Resolver(scope);
        let bindings = scope.bindings(&resolver);
        let mut cursor = Cursor::container(pod, log, container.list, container.index)?;
        for check in checks().map(|check| Check { check, scope }) {
            let name = match &check.check.about {
                About::Variable(name, containers) => {
                    if !check.holds(containers.condition(), &bindings)? {
                        continue;
                    }
                    name
                }
                About::Containers(condition) => {
                    let when = check.check.when.as_ref();
                    if check.holds(when, &bindings)? && check.holds(Some(condition), &bindings)? {
                        cursor.warn_here(check.outcome(&bindings)?, "");
                    }
                    continue;
                }
                About::Pod => continue,
            };
            let own = cursor.get("env").and_then(|env| own_variable(env, name));
            let Some((at, value)) = own else { continue };
            if cursor.list("env", |env| Ok(env.was_added(at)))? {
                continue;
            }
            let mut bindings = bindings.child();
            bindings.set(VALUE, &value);
            if check.holds(check.check.when.as_ref(), &bindings)? {
                let kind = check.outcome(&bindings)?;
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

/// A check, and the scope of its expressions.
#[derive(Clone, Copy)]
struct Check<'a, 's> {
    check: &'a PolicyCheck,
    scope: &'a Scope<'s>,
}

impl Check<'_, '_> {
    fn holds(&self, condition: Option<&Interpolation>, bindings: &Bindings<'_, '_>) -> Result<bool, Stop> {
        condition.map_or(Ok(true), |condition| condition.holds(bindings)).map_err(|error| self.failed(error))
    }

    /// The warning of a check whose conditions hold. One that refuses the pod ends the injection.
    fn outcome(&self, bindings: &Bindings<'_, '_>) -> Result<WarningKind, Stop> {
        let message = self.check.message.evaluate(bindings).map_err(|error| self.failed(error))?;
        // Of a message with a `null` in it, the text as the policy has it says more.
        let message = if message.is_null() { self.check.message.source() } else { text_of(&message) };
        let code = self.check.code.clone();
        if self.check.refuses {
            return Err(Reason::Policy { code, message }.into());
        }
        Ok(WarningKind::Policy { code, message })
    }

    fn failed(&self, error: EvaluationError) -> Stop {
        self.scope.explain(&format!("the check `{}`", self.check.code), error)
    }
}

/// The position and value of a variable in a list of them. Of several entries, the last one counts.
pub(crate) fn own_variable(env: &Value, name: &str) -> Option<(usize, Value)> {
    let env = env.as_array()?;
    let at = env.iter().rposition(|entry| name_of(entry) == Some(name))?;
    let value = env[at]["value"].as_str().unwrap_or_default();
    env[at]["valueFrom"].is_null().then(|| (at, Value::from(value)))
}
