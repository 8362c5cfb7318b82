//! The checks that a policy declares: warnings, refusals, and pods to skip.

use std::collections::HashSet;

use serde_json::Value;

use fabric_policy::expression::Bindings;
use fabric_policy::interpolation::{EvaluationError, Interpolation, VALUE, text_of};
use fabric_policy::{About, Effect, PolicyCheck, ResolvedPolicy};

use super::env::name_of;
use crate::evaluate::{ContainerRules, Scope};
use crate::record::{ChangeLog, Cursor, OrReason, Reason, ValueKind, Warning, WarningKind};

/// Makes the checks of the pod.
pub(crate) fn check_pod(policy: &ResolvedPolicy, scope: &Scope<'_>, log: &mut ChangeLog) -> OrReason {
    let bindings = scope.bindings();
    for check in Check::all(policy, scope).filter(|one| one.declared.about == About::Pod) {
        if check.is_true([check.declared.when.as_ref()], &bindings, None, log)? {
            let kind = check.outcome(&bindings, "")?;
            log.warnings.push(Warning::of_pod(kind));
        }
    }
    Ok(())
}

/// Makes the checks of containers, and of the variables that they have in the end.
pub(crate) fn check_containers(
    policy: &ResolvedPolicy,
    of_containers: &[ContainerRules<'_>],
    pod: &mut Value,
    log: &mut ChangeLog,
) -> OrReason {
    if policy.evaluated.checks.iter().all(|check| check.about == About::Pod) {
        return Ok(());
    }
    // The warnings that a more precise one replaces.
    let mut replaced: HashSet<String> = HashSet::new();
    for ContainerRules { container, scope, .. } in of_containers {
        let bindings = scope.bindings();
        let mut cursor = Cursor::container(pod, log, container.place())?;
        for check in Check::all(policy, scope) {
            let path = check.make(&bindings, &mut cursor, &replaced)?;
            replaced.extend(path);
        }
    }
    log.warnings.retain(|warning| {
        !matches!(warning.kind, WarningKind::Kept { what: ValueKind::Env, .. })
            || !replaced.contains(&warning.path)
    });
    Ok(())
}

/// A check, and the scope of its expressions.
#[derive(Clone, Copy)]
struct Check<'a, 's> {
    declared: &'a PolicyCheck,
    scope: &'a Scope<'s>,
}

impl<'a, 's> Check<'a, 's> {
    fn all(policy: &'a ResolvedPolicy, scope: &'a Scope<'s>) -> impl Iterator<Item = Self> {
        policy.evaluated.checks.iter().map(move |declared| Self { declared, scope })
    }

    /// Makes the check of a container. Returns the path of the warning, if it is about a variable; `known` are those of
    /// other checks.
    fn make(
        &self,
        bindings: &Bindings<'_, '_>,
        cursor: &mut Cursor<'_>,
        known: &HashSet<String>,
    ) -> OrReason<Option<String>> {
        let when = self.declared.when.as_ref();
        let (name, containers) = match &self.declared.about {
            About::Variable(name, containers) => (name, containers),
            About::Containers(condition) => {
                if self.is_true([when, Some(condition)], bindings, None, cursor.log)? {
                    let kind = self.outcome(bindings, cursor.log.pointer())?;
                    cursor.log.warn(kind, "");
                }
                return Ok(None);
            }
            About::Pod => return Ok(None),
        };
        if !containers.condition().is_true(bindings).map_err(|error| self.failed(error))? {
            return Ok(None);
        }
        let Some(at) = cursor.get("env").and_then(|env| own_variable(env, name)) else { return Ok(None) };
        let own = &cursor.get("env").unwrap_or(&Value::Null)[at];
        if !own["valueFrom"].is_null() {
            let unread = |log: &mut ChangeLog| {
                let is_new = !log.was_added() && !known.contains(log.pointer());
                is_new.then(|| {
                    log.warn(WarningKind::ValueUnread { variable: name.clone() }, "");
                    log.pointer().to_owned()
                })
            };
            return Ok(cursor.log.at("env", |log| log.at(at, unread)));
        }
        let value = Value::from(own["value"].as_str().unwrap_or_default());
        let mut bindings = bindings.child();
        bindings.set(VALUE, &value);
        if !self.is_true([when], &bindings, Some(&value), cursor.log)? {
            return Ok(None);
        }
        let warn = |log: &mut ChangeLog| {
            if log.was_added() {
                log.own_checks.push(self.declared.code.clone());
            }
            let kind = self.outcome(&bindings, log.pointer())?;
            log.warn(kind, "");
            Ok(Some(log.pointer().to_owned()))
        };
        cursor.log.at("env", |log| log.at(at, warn))
    }

    /// Returns whether conditions hold. `own` is the value of the variable that the check is about.
    fn is_true<const N: usize>(
        &self,
        conditions: [Option<&Interpolation>; N],
        bindings: &Bindings<'_, '_>,
        own: Option<&Value>,
        log: &mut ChangeLog,
    ) -> OrReason<bool> {
        let one = |holds, condition: &&Interpolation| Ok(holds && condition.is_true(bindings)?);
        let holds = conditions.iter().flatten().try_fold(true, one);
        if let Some(trace) = &mut log.trace
            && let Some(last) = conditions.iter().flatten().last()
        {
            trace.checked(self.declared, self.scope.kind(), last, &holds, own);
        }
        holds.map_err(|error| self.failed(error))
    }

    /// The warning of a check whose conditions hold. One that refuses or skips the pod ends the injection.
    fn outcome(&self, bindings: &Bindings<'_, '_>, path: &str) -> OrReason<WarningKind> {
        let message = self.declared.message.evaluate(bindings).map_err(|error| self.failed(error))?;
        // For a message with a `null` in it, the source text in the policy says more.
        let message = if message.is_null() { self.declared.message.source() } else { text_of(&message) };
        let (code, path) = (self.declared.code.clone(), path.to_owned());
        match self.declared.effect {
            Effect::Warn => Ok(WarningKind::Policy { code, message, leaves_tcp: false }),
            Effect::WarnOfTcp => Ok(WarningKind::Policy { code, message, leaves_tcp: true }),
            Effect::Refuse => Err(Reason::Policy { code, message, skips: false, path }),
            Effect::Skip => Err(Reason::Policy { code, message, skips: true, path }),
        }
    }

    fn failed(&self, error: EvaluationError) -> Reason {
        self.scope.explain(&format!("the check `{}`", self.declared.code), error)
    }
}

/// The position of a variable in a list of them. Of several entries, the last one counts.
fn own_variable(env: &Value, name: &str) -> Option<usize> {
    env.as_array()?.iter().rposition(|entry| name_of(entry) == Some(name))
}
