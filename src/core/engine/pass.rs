//! One pass over a pod: which rules apply to which containers, and their injection.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::core::policy::expression::{Bindings, Resolver};
use crate::core::policy::interpolation::{EvaluationError, Interpolation};
use crate::core::policy::settings::Settings;
use crate::core::policy::{ActiveRule, PodContext, ResolvedPolicy};
use crate::core::schema;

use super::Stop;
use super::bindings::{PodScope, Source, bindings};
use super::context::{Merge, PodFacts};
use super::cursor::Cursor;
use super::log::ChangeLog;
use super::merge::apply_rule;
use super::named_container::inject_named;
use super::pod::Container;
use super::report::{Reason, Warning, WarningKind};
use super::settings::SettingsOf;
use super::trace::{Applied, Author, Trace};
use super::warnings;

/// Containers, by list and index, and the rules that select them.
pub(super) type Selection = BTreeSet<(&'static str, usize, usize)>;

/// The rules of a policy, evaluated for a pod.
pub(super) struct Pass<'a> {
    policy: &'a ResolvedPolicy,
    scope: &'a PodScope<'a>,
    resolver: &'a Resolver<'a>,
    containers: &'a [Container],
    context: &'a PodContext,
    host_network: bool,
    /// One scope for each container.
    container_scopes: Vec<PodScope<'a>>,
    /// One row for each container, one column for each rule.
    selected: Vec<Vec<bool>>,
    /// The rules that select a container.
    pub(super) applied: Vec<bool>,
    /// The rules that are left out because the pod uses the host network.
    pub(super) left_out: Vec<bool>,
    /// The rules that bring a pod with a network of its own into that of the host.
    joins_host: Vec<bool>,
    /// The value of the pod that excludes the host network.
    off_host: Option<String>,
    /// The rules that are left out because of it.
    kept_off: Vec<bool>,
}

impl<'a> Pass<'a> {
    /// Evaluates the conditions of the rules that are to be looked at.
    pub(super) fn new(
        policy: &'a ResolvedPolicy,
        scope: &'a PodScope<'a>,
        resolver: &'a Resolver<'a>,
        containers: &'a [Container],
        pod: &Value,
        context: &'a PodContext,
        looked_at: impl Fn(&ActiveRule) -> bool,
    ) -> Result<Self, Stop> {
        let inner = |container| PodScope::new(Source::container(policy, pod, container), policy, Some(scope));
        let mut pass = Self {
            policy,
            scope,
            resolver,
            containers,
            context,
            host_network: pod["spec"]["hostNetwork"].as_bool() == Some(true),
            container_scopes: containers.iter().map(inner).collect(),
            selected: Vec::with_capacity(containers.len()),
            applied: vec![false; policy.rules.len()],
            left_out: vec![false; policy.rules.len()],
            joins_host: vec![false; policy.rules.len()],
            off_host: None,
            kept_off: vec![false; policy.rules.len()],
        };
        let active = pass.active_rules(looked_at)?;
        if !pass.host_network {
            pass.joins_host = pass.rules_that_join_the_host(&active)?;
            pass.off_host =
                if pass.joins_host.contains(&true) { schema::excludes_host_network(pod) } else { None };
        }
        for (row, container) in containers.iter().enumerate() {
            pass.go_on()?;
            let selected = pass.select(row, container, &active)?;
            pass.selected.push(selected);
        }
        Ok(pass)
    }

    /// Ends the pass if the caller says so. A pod may have thousands of containers.
    fn go_on(&self) -> Result<(), Stop> {
        if self.context.is_stopped() { Err(Stop::Refuse(Reason::Stopped)) } else { Ok(()) }
    }

    /// The rules whose `when` holds.
    fn active_rules(&self, looked_at: impl Fn(&ActiveRule) -> bool) -> Result<Vec<bool>, Stop> {
        let bindings = bindings(self.policy, self.resolver);
        let holds = |rule: &ActiveRule| match &rule.when {
            _ if !looked_at(rule) => Ok(false),
            Some(when) => when.holds(&bindings).map_err(|error| failed(self.scope, rule, error)),
            None => Ok(true),
        };
        self.policy.rules.iter().map(holds).collect()
    }

    fn rules_that_join_the_host(&self, active: &[bool]) -> Result<Vec<bool>, Stop> {
        let bindings = bindings(self.policy, self.resolver);
        let joins = |(rule, active): (&ActiveRule, &bool)| match rule.pod.host_network() {
            Some(template) if *active => {
                let value = template.build(&bindings).map_err(|error| failed(self.scope, rule, error))?;
                Ok(value == Some(Value::Bool(true)))
            }
            _ => Ok(false),
        };
        self.policy.rules.iter().zip(active).map(joins).collect()
    }

    /// The active rules that select a container.
    fn select(&mut self, row: usize, container: &Container, active: &[bool]) -> Result<Vec<bool>, Stop> {
        let scope = &self.container_scopes[row];
        let resolver = Resolver(scope);
        let bindings = bindings(self.policy, &resolver);
        // Several rules of a policy most often have the same condition.
        let mut last: Option<(&Interpolation, bool)> = None;
        let mut selected = vec![false; active.len()];
        for (column, rule) in self.policy.rules.iter().enumerate().filter(|(column, _)| active[*column]) {
            let selects = match (&rule.containers, last) {
                (None, _) => container.gpus > 0,
                (Some(condition), Some((known, holds))) if known == condition => holds,
                (Some(condition), _) => {
                    let holds = condition.holds(&bindings).map_err(|error| failed(scope, rule, error))?;
                    last = Some((condition, holds));
                    holds
                }
            };
            if !selects {
                continue;
            }
            if rule.requires_pod_network && self.host_network {
                self.left_out[column] = true;
            } else if self.off_host.is_some() && self.joins_host[column] {
                self.kept_off[column] = true;
            } else {
                selected[column] = true;
                self.applied[column] = true;
            }
        }
        Ok(selected)
    }

    /// The containers and rules that belong together.
    pub(super) fn selection(&self) -> Selection {
        let rows = self.containers.iter().zip(&self.selected);
        let pairs = rows.flat_map(|(container, row)| {
            let rules = row.iter().enumerate().filter(|(_, selected)| **selected);
            rules.map(|(rule, _)| (container.list, container.index, rule))
        });
        pairs.collect()
    }

    /// Records the rules that apply.
    pub(super) fn record(&self, trace: &mut Trace) {
        let name = |rule: usize| self.policy.rules[rule].name.clone();
        trace.applied.extend(self.selection().into_iter().map(|(list, index, rule)| Applied {
            rule: name(rule),
            list,
            index,
        }));
        let left_out = self.left_out.iter().enumerate().filter(|(_, left_out)| **left_out);
        trace.left_out.extend(left_out.map(|(rule, _)| name(rule)));
    }

    /// The containers that a rule selects, each with its scope.
    fn selected_containers(&self) -> impl Iterator<Item = (&'a Container, &PodScope<'a>)> {
        let rows = self.containers.iter().zip(&self.container_scopes).zip(&self.selected);
        rows.filter(|(_, selected)| selected.contains(&true)).map(|(row, _)| row)
    }

    fn applied_rules(&self) -> impl Iterator<Item = (usize, &'a ActiveRule)> {
        self.policy.rules.iter().enumerate().filter(|(at, _)| self.applied[*at])
    }

    /// Brings the pod into the network of the host if a rule that applies does, so that all rules see it there.
    pub(super) fn join_host(&self, pod: &mut Value, log: &mut ChangeLog) -> Result<(), Stop> {
        let joining = self.applied_rules().find(|(at, _)| self.joins_host[*at]);
        let Some((_, rule)) = joining else { return Ok(()) };
        let mut cursor = Cursor::pod(pod, log)?;
        cursor.written_by_rule(&rule.name);
        Ok(cursor.within("spec", |spec| {
            spec.put("hostNetwork", Value::Bool(true));
            Ok(())
        })?)
    }

    fn warn_of_rules_kept_off_the_host(&self, log: &mut ChangeLog) {
        let Some(against) = &self.off_host else { return };
        for (rule, _) in self.policy.rules.iter().zip(&self.kept_off).filter(|(_, kept_off)| **kept_off) {
            let kind =
                WarningKind::Excluded { setting: "hostNetwork: true".to_owned(), against: against.clone() };
            let path = "/spec/hostNetwork".to_owned();
            log.warnings.push(Warning { path, kind, rule: rule.name.clone() });
        }
    }

    /// Injects the rules: claims, containers, and the rest of the pod.
    pub(super) fn inject(
        &self,
        pod: &mut Value,
        facts: &mut PodFacts,
        log: &mut ChangeLog,
    ) -> Result<(), Stop> {
        let pod_bindings = bindings(self.policy, self.resolver);
        self.warn_of_rules_kept_off_the_host(log);
        self.declare_volumes(facts, &pod_bindings)?;
        for (_, rule) in self.applied_rules().filter(|(_, rule)| !rule.pod.claims.is_empty()) {
            let mut merge = Merge::new(rule, &pod_bindings, facts);
            apply_rule(&mut merge, &mut Cursor::pod(pod, log)?, &rule.pod.claims)
                .map_err(|reason| explained(self.scope, reason))?;
        }
        facts.note_claims(pod);
        self.inject_containers(pod, facts, log)?;
        warnings::about_containers(self.policy, self.selected_containers(), pod, log)?;
        for (_, rule) in self.applied_rules() {
            for container in &rule.pod.containers {
                inject_named(rule, container, &pod_bindings, pod, facts, log)
                    .map_err(|reason| explained(self.scope, reason))?;
            }
        }
        let scope = PodScope::new(Source::injected(self.policy, pod), self.policy, Some(self.scope));
        let resolver = Resolver(&scope);
        let bindings = bindings(self.policy, &resolver);
        for (_, rule) in self.applied_rules().filter(|(_, rule)| !rule.pod.instructions.is_empty()) {
            facts.note_outside(pod);
            let mut merge = Merge::new(rule, &bindings, facts);
            apply_rule(&mut merge, &mut Cursor::pod(pod, log)?, &rule.pod.instructions)
                .map_err(|reason| explained(&scope, reason))?;
        }
        warnings::about_pod(self.policy, &scope, &bindings, log)
    }

    fn declare_volumes(&self, facts: &mut PodFacts, bindings: &Bindings<'_, '_>) -> Result<(), Stop> {
        for (_, rule) in self.applied_rules() {
            for volume in &rule.pod.volumes {
                let volume = volume.build(bindings).map_err(|error| failed(self.scope, rule, error))?;
                if let Some(volume) = volume {
                    facts.volumes.declare(&rule.name, volume);
                }
            }
        }
        Ok(())
    }

    /// The settings whose `when` holds.
    fn settings(&self) -> Result<Vec<&'a Settings>, Stop> {
        let bindings = bindings(self.policy, self.resolver);
        let mut active = Vec::new();
        for settings in &self.policy.settings {
            let failed = |error| self.scope.explain(&format!("the settings `{}`", settings.name), error);
            if settings.when.as_ref().map_or(Ok(true), |when| when.holds(&bindings)).map_err(failed)? {
                active.push(settings);
            }
        }
        Ok(active)
    }

    fn inject_containers(
        &self,
        pod: &mut Value,
        facts: &mut PodFacts,
        log: &mut ChangeLog,
    ) -> Result<(), Stop> {
        let settings = self.settings()?;
        for (row, container) in self.containers.iter().enumerate() {
            self.go_on()?;
            log.check_size()?;
            if !self.selected[row].contains(&true) {
                continue;
            }
            let scope = &self.container_scopes[row];
            let resolver = Resolver(scope);
            let bindings = bindings(self.policy, &resolver);
            facts.variables.clear();
            let mut cursor = Cursor::container(pod, log, container.list, container.index)?;
            for (_, rule) in self.applied_rules().filter(|(at, _)| self.selected[row][*at]) {
                let mut merge = Merge::new(rule, &bindings, facts);
                apply_rule(&mut merge, &mut cursor, &rule.container)
                    .map_err(|reason| explained(scope, reason))?;
            }
            for settings in &settings {
                let failed = |error| scope.explain(&format!("the settings `{}`", settings.name), error);
                let applies = match &settings.containers {
                    Some(condition) => condition.holds(&bindings).map_err(failed)?,
                    None => container.gpus > 0,
                };
                if applies {
                    let container = (container.list, container.index);
                    log.written_by(|| Author::Settings(settings.name.clone()));
                    SettingsOf { bindings: &bindings, container }.inject(settings, pod, facts, log)?;
                }
            }
        }
        Ok(())
    }

    /// Evaluates the refusals and warnings for a pod that no rule applies to.
    pub(super) fn warn_alone(&self, pod: &Value, log: &mut ChangeLog) -> Result<(), Stop> {
        self.warn_of_rules_kept_off_the_host(log);
        let scope = PodScope::new(Source::injected(self.policy, pod), self.policy, Some(self.scope));
        let resolver = Resolver(&scope);
        warnings::about_pod(self.policy, &scope, &bindings(self.policy, &resolver), log)
    }
}

fn failed(scope: &PodScope<'_>, rule: &ActiveRule, error: EvaluationError) -> Stop {
    scope.explain(&format!("rule `{}`", rule.name), error)
}

/// A failure within an overlay, explained by the variable that it comes from.
fn explained(scope: &PodScope<'_>, reason: Reason) -> Stop {
    match reason {
        Reason::EvaluationFailed { place, expression, message, fault } => {
            scope.explain(&place, EvaluationError { expression, message, fault: *fault })
        }
        other => other.into(),
    }
}
