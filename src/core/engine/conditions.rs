//! The conditions of a policy, evaluated for one pod, for commands that show or count them.
//!
//! Injection records nothing of this. The conditions are evaluated again, on the pod before injection.

use serde_json::Value;

use crate::core::policy::expression::{Bindings, Resolver};
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::{
    About, ActiveWarning, Definition, PodContext, Policy, PolicyWarning, ResolvedPolicy, VALUE,
};

use super::bindings::{PodScope, Source, bindings};
use super::context::evaluation_failed;
use super::pod::{self, Container};
use super::report::Reason;
use super::{Mutation, Outcome, condition_holds, inject, node, warnings};

/// The values of the conditions of a policy. Each list has the order of the policy.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    /// `match.when`; `None` if the policy has none.
    pub(crate) condition: Option<bool>,
    pub(crate) rules: Vec<RuleConditions>,
    pub(crate) settings: Vec<RuleConditions>,
    pub(crate) refusals: Vec<MessageConditions>,
    pub(crate) warnings: Vec<MessageConditions>,
}

/// The conditions of a rule, or of an entry of `settings`.
#[derive(Debug, Default)]
pub(crate) struct RuleConditions {
    pub(crate) name: String,
    /// `None` if there is no `when`.
    pub(crate) when: Option<bool>,
    /// The containers for which `containers` was evaluated, and its value.
    pub(crate) containers: Vec<(String, bool)>,
    /// True if the rule is left out because the pod uses the host network.
    pub(crate) left_out: bool,
}

/// The condition of a warning or of a refusal.
#[derive(Debug, Default)]
pub(crate) struct MessageConditions {
    pub(crate) code: String,
    /// Each value, with the name of the container that it is about.
    pub(crate) values: Vec<(Option<String>, bool)>,
}

impl RuleConditions {
    fn selects(&self, container: &str) -> bool {
        self.containers.iter().any(|(name, selects)| name == container && *selects)
    }

    /// Returns whether the rule adds its overlays to a container or to the pod.
    pub(crate) fn applies(&self) -> bool {
        !self.left_out && self.containers.iter().any(|(_, selects)| *selects)
    }
}

/// Evaluates the conditions of a policy for a pod that its `match` selects apart from `match.when`.
pub(crate) fn conditions(policy: &Policy, pod: &Value, context: &PodContext) -> Result<Conditions, Reason> {
    let definition = policy.definition();
    let condition = condition_holds(policy, pod, context)?;
    let mut found = Conditions {
        condition: definition.matcher.when.is_some().then_some(condition),
        refusals: messages_of(definition.refusals.iter().map(|refusal| &refusal.code)),
        warnings: messages_of(definition.warnings.iter().map(|warning| &warning.code)),
        ..Conditions::default()
    };
    if !condition {
        return Ok(found);
    }
    let selected = node::selected(policy, pod)?;
    let resolved = policy.resolved(&selected).map_err(|error| evaluation_failed("the policy", error))?;
    let containers = pod::containers(pod, &resolved.devices)?;
    let scope = PodScope::new(Source::pod(&resolved, pod, &containers, context), &resolved, None);
    let inner =
        |container| PodScope::new(Source::container(&resolved, pod, container), &resolved, Some(&scope));
    let scopes: Vec<(&Container, PodScope<'_>)> =
        containers.iter().map(|container| (container, inner(container))).collect();
    let evaluator = Evaluator { resolved: &resolved, pod, scope: &scope, containers: &scopes };
    found.rules = evaluator.rules(definition)?;
    let applied: Vec<&(&Container, PodScope<'_>)> = scopes
        .iter()
        .filter(|(container, _)| {
            let name = name_of(pod, container);
            found.rules.iter().any(|rule| !rule.left_out && rule.selects(&name))
        })
        .collect();
    found.settings = evaluator.settings(definition, !applied.is_empty())?;
    evaluator.messages(definition, &applied, &inject(policy, pod.clone(), context), &mut found)?;
    Ok(found)
}

fn messages_of<'c>(codes: impl Iterator<Item = &'c String>) -> Vec<MessageConditions> {
    codes.map(|code| MessageConditions { code: code.clone(), values: Vec::new() }).collect()
}

fn name_of(pod: &Value, container: &Container) -> String {
    pod["spec"][container.list][container.index]["name"].as_str().unwrap_or_default().to_owned()
}

struct Evaluator<'a> {
    resolved: &'a ResolvedPolicy,
    pod: &'a Value,
    scope: &'a PodScope<'a>,
    containers: &'a [(&'a Container, PodScope<'a>)],
}

impl Evaluator<'_> {
    /// The value of a condition in a scope of the pod.
    fn holds(&self, place: &str, condition: &Interpolation, scope: &PodScope<'_>) -> Result<bool, Reason> {
        let resolver = Resolver(scope);
        self.holds_for(place, condition, scope, &bindings(self.resolved, &resolver))
    }

    fn holds_for(
        &self,
        place: &str,
        condition: &Interpolation,
        scope: &PodScope<'_>,
        bindings: &Bindings<'_, '_>,
    ) -> Result<bool, Reason> {
        condition.holds(bindings).map_err(|error| scope.explain(place, error).reason())
    }

    /// The containers, and whether a condition selects them; without one, those with GPUs.
    fn selected<'c>(
        &self,
        place: &str,
        condition: Option<&Interpolation>,
        among: impl Iterator<Item = &'c (&'c Container, PodScope<'c>)>,
    ) -> Result<Vec<(String, bool)>, Reason> {
        among
            .map(|(container, scope)| {
                let selects = match condition {
                    Some(condition) => self.holds(place, condition, scope)?,
                    None => container.gpus > 0,
                };
                Ok((name_of(self.pod, container), selects))
            })
            .collect()
    }

    fn rules(&self, definition: &Definition) -> Result<Vec<RuleConditions>, Reason> {
        let host_network = self.pod["spec"]["hostNetwork"].as_bool() == Some(true);
        let mut all = Vec::new();
        for rule in &definition.rules {
            let mut found = RuleConditions { name: rule.name.clone(), ..RuleConditions::default() };
            let place = format!("rule `{}`", rule.name);
            // A rule whose condition is false for these parameters and nodes is not part of the resolved policy.
            let active = self.resolved.rules.iter().find(|active| active.name == rule.name);
            let when = match active {
                Some(active) => {
                    active.when.as_ref().map_or(Ok(true), |when| self.holds(&place, when, self.scope))?
                }
                None => false,
            };
            found.when = rule.when.is_some().then_some(when);
            if when {
                found.containers = self.selected(&place, rule.containers.as_ref(), self.containers.iter())?;
                found.left_out = rule.requires_pod_network
                    && host_network
                    && found.containers.iter().any(|(_, selects)| *selects);
            }
            all.push(found);
        }
        Ok(all)
    }

    /// Evaluates the conditions of settings, for all containers, if a rule applies.
    fn settings(&self, definition: &Definition, applies: bool) -> Result<Vec<RuleConditions>, Reason> {
        let mut all = Vec::new();
        for settings in &definition.settings {
            let mut found = RuleConditions { name: settings.name.clone(), ..RuleConditions::default() };
            let place = format!("the settings `{}`", settings.name);
            let active = self.resolved.settings.iter().find(|active| active.name == settings.name);
            if applies {
                let when = match active {
                    Some(active) => {
                        active.when.as_ref().map_or(Ok(true), |when| self.holds(&place, when, self.scope))?
                    }
                    None => false,
                };
                found.when = settings.when.is_some().then_some(when);
                if when {
                    found.containers =
                        self.selected(&place, settings.containers.as_ref(), self.containers.iter())?;
                }
            }
            all.push(found);
        }
        Ok(all)
    }

    /// Evaluates the conditions of refusals and warnings, up to the refusal that ended the injection.
    fn messages(
        &self,
        definition: &Definition,
        applied: &[&(&Container, PodScope<'_>)],
        mutation: &Mutation,
        found: &mut Conditions,
    ) -> Result<(), Reason> {
        let declared = |warnings: &[PolicyWarning], active: &[ActiveWarning]| {
            let mut active = active.iter().peekable();
            let is_active = warnings.iter().map(|declared| {
                active.next_if(|next| next.code == declared.code && next.when == declared.when).is_some()
            });
            is_active.collect::<Vec<bool>>()
        };
        let refusals = declared(&definition.refusals, &self.resolved.refusals);
        let warnings = declared(&definition.warnings, &self.resolved.warnings);
        let refused = match &mutation.outcome {
            Outcome::Refused { reason: Reason::Policy { code, .. } } => Some(code.as_str()),
            Outcome::Refused { .. } => return Ok(()),
            _ => None,
        };
        let after = mutation.outcome.changed().map_or(self.pod, |changed| &changed.pod);
        let injected = PodScope::new(Source::injected(self.resolved, after), self.resolved, Some(self.scope));
        let lists = [
            ("refusal", &definition.refusals, refusals, &mut found.refusals),
            ("warning", &definition.warnings, warnings, &mut found.warnings),
        ];
        for (kind, declared, active, all) in lists {
            for ((message, active), found) in declared.iter().zip(active).zip(all) {
                let place = format!("the {kind} `{}`", message.code);
                if message.about == About::Pod {
                    let value = match refused {
                        Some(code) if kind == "refusal" => message.code == code,
                        Some(_) => continue,
                        None => active && self.holds(&place, &message.when, &injected)?,
                    };
                    found.values.push((None, value));
                    continue;
                }
                for (container, scope) in applied {
                    let resolver = Resolver(scope);
                    let bindings = bindings(self.resolved, &resolver);
                    let mut bindings = bindings.child();
                    if let About::Variable(name) = &message.about {
                        let env = &self.pod["spec"][container.list][container.index]["env"];
                        let Some((_, value)) = warnings::variable(env, name) else { continue };
                        bindings.set(VALUE, &value);
                    }
                    let value = self.holds_for(&place, &message.when, scope, &bindings)?;
                    found.values.push((Some(name_of(self.pod, container)), value));
                }
            }
        }
        Ok(())
    }
}
