//! Which rules apply to which containers of a pod, and carrying that out.

use serde_json::Value;

use crate::core::policy::expression::{Bindings, Resolver};
use crate::core::policy::matcher::namespace_of;
use crate::core::policy::parameter_text as plain;
use crate::core::policy::template::Template;
use crate::core::policy::text::{EvaluationError, Text};
use crate::core::policy::{ActiveRule, OnConflict, Request, Variant};

use super::merge::{MAX_ANNOTATIONS, Merge, Place};
use super::patch::Changes;
use super::pod::{self, Container};
use super::report::{Reason, Warning, WarningKind};
use super::scope::{PodScope, Source, bindings};
use super::volumes::PolicyVolumes;
use super::{STAMP, Stop};

/// What is to be done with one pod.
pub(super) struct Plan<'a> {
    variant: &'a Variant,
    scope: &'a PodScope<'a>,
    resolver: &'a Resolver<'a>,
    host_network: bool,
    /// One scope a container.
    container_scopes: Vec<PodScope<'a>>,
    /// One row a container, one column a rule.
    selected: Vec<Vec<bool>>,
    /// Rules that at least one container selects.
    pub(super) applied: Vec<bool>,
    /// Rules that would apply if the pod had a network of its own.
    pub(super) left_out: Vec<bool>,
}

impl<'a> Plan<'a> {
    pub(super) fn make(
        variant: &'a Variant,
        scope: &'a PodScope<'a>,
        resolver: &'a Resolver<'a>,
        containers: &[Container],
        pod: &Value,
    ) -> Result<Self, Stop> {
        let inner =
            |container| PodScope::new(Source::container(variant, pod, container), variant, Some(scope));
        let mut plan = Self {
            variant,
            scope,
            resolver,
            host_network: pod["spec"]["hostNetwork"].as_bool() == Some(true),
            container_scopes: containers.iter().map(inner).collect(),
            selected: Vec::with_capacity(containers.len()),
            applied: vec![false; variant.rules.len()],
            left_out: vec![false; variant.rules.len()],
        };
        let active = plan.active_rules()?;
        for (row, container) in containers.iter().enumerate() {
            let selected = plan.selected_by(row, container, &active)?;
            plan.selected.push(selected);
        }
        Ok(plan)
    }

    /// Which rules hold for the pod as a whole.
    fn active_rules(&self) -> Result<Vec<bool>, Stop> {
        let bindings = bindings(self.variant, self.resolver);
        let holds = |rule: &ActiveRule| match &rule.when {
            Some(when) => when.holds(&bindings).map_err(|error| failed(self.scope, rule, error)),
            None => Ok(true),
        };
        self.variant.rules.iter().map(holds).collect()
    }

    /// Which of the active rules are for a container.
    fn selected_by(&mut self, row: usize, container: &Container, active: &[bool]) -> Result<Vec<bool>, Stop> {
        let scope = &self.container_scopes[row];
        let resolver = Resolver(scope);
        let bindings = bindings(self.variant, &resolver);
        // Several rules of a policy most often have one condition in common.
        let mut last: Option<(&Text, bool)> = None;
        let mut selected = vec![false; active.len()];
        for (column, rule) in self.variant.rules.iter().enumerate().filter(|(column, _)| active[*column]) {
            let selects = match (&rule.containers, last) {
                (None, _) => container.gpus > 0,
                (Some(condition), Some((known, holds))) if known.same_source(condition) => holds,
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
            } else {
                selected[column] = true;
                self.applied[column] = true;
            }
        }
        Ok(selected)
    }

    /// What merging needs, before anything is merged. Takes the volumes out of the pod; [`Self::carry_out`]
    /// puts them back.
    pub(super) fn merge(&self, pod: &mut Value, request: &Request) -> Result<Merge<'a>, Stop> {
        let bindings = bindings(self.variant, self.resolver);
        let mut volumes = PolicyVolumes::default();
        for (at, rule) in self.applied_rules() {
            for volume in rule.pod.as_ref().map_or(&[][..], Template::volumes) {
                let value = volume.build_entry(&bindings).map_err(|error| failed(self.scope, rule, error))?;
                if let Some(value) = value {
                    volumes.declare(at, value);
                }
            }
        }
        let annotations = pod["metadata"]["annotations"].as_object();
        let size = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
        // The stamp, which comes last, needs its place as well.
        let stamped = annotations.is_some_and(|annotations| annotations.contains_key(STAMP));
        let stamp = if stamped { 0 } else { STAMP.len() + self.variant.stamp.len() };
        let annotation_bytes = stamp + annotations.into_iter().flatten().map(size).sum::<usize>();
        if annotation_bytes > MAX_ANNOTATIONS {
            return Err(Stop::Leave(Reason::AnnotationLimit { key: STAMP.to_owned() }));
        }
        let namespace = namespace_of(&pod["metadata"], request).to_owned();
        let pod_volumes = match pod.get_mut("spec").and_then(|spec| spec.get_mut("volumes")) {
            Some(Value::Array(volumes)) => std::mem::take(volumes),
            None | Some(Value::Null) => Vec::new(),
            Some(other) => return Err(Stop::Leave(pod::malformed("spec.volumes", "a list", other))),
        };
        Ok(Merge {
            changes: Changes::default(),
            warnings: Vec::new(),
            volumes,
            pod_volumes,
            rule: "",
            on_conflict: OnConflict::Keep,
            host_network: self.host_network,
            namespace,
            annotation_bytes,
            capabilities: Vec::new(),
            pointer: String::with_capacity(128),
        })
    }

    pub(super) fn carry_out(
        &self,
        merge: &mut Merge<'a>,
        containers: &[Container],
        pod: &mut Value,
    ) -> Result<(), Stop> {
        let result = self.merge_containers(merge, containers, pod);
        let result = result.and_then(|()| {
            let scope = PodScope::new(Source::served(self.variant, pod), self.variant, Some(self.scope));
            let resolver = Resolver(&scope);
            let bindings = bindings(self.variant, &resolver);
            self.merge_pod(merge, &scope, &bindings, pod)?;
            self.policy_warnings(merge, &scope, &bindings)
        });
        if let Some(Value::Array(volumes)) = pod.get_mut("spec").and_then(|spec| spec.get_mut("volumes")) {
            *volumes = std::mem::take(&mut merge.pod_volumes);
        }
        result?;
        self.add_volumes(merge, pod);
        Ok(())
    }

    fn applied_rules(&self) -> impl Iterator<Item = (usize, &'a ActiveRule)> {
        self.variant.rules.iter().enumerate().filter(|(at, _)| self.applied[*at])
    }

    fn merge_containers(
        &self,
        merge: &mut Merge<'a>,
        containers: &[Container],
        pod: &mut Value,
    ) -> Result<(), Stop> {
        for (row, container) in containers.iter().enumerate() {
            if !self.selected[row].contains(&true) {
                continue;
            }
            let Some(Value::Object(map)) = pod["spec"][container.list].get_mut(container.index) else {
                continue;
            };
            let resolver = Resolver(&self.container_scopes[row]);
            let bindings = bindings(self.variant, &resolver);
            merge.changes.next_part();
            let pointer = format!("/spec/{}/{}", container.list, container.index);
            for (at, rule) in self.applied_rules() {
                if let (true, Some(Template::Map(entries))) = (self.selected[row][at], &rule.container) {
                    merge.begin(rule, &pointer);
                    let result = merge.map(map, entries, Place::Container, &bindings);
                    result.map_err(|reason| explained(&self.container_scopes[row], reason))?;
                }
            }
        }
        merge.changes.next_part();
        Ok(())
    }

    fn merge_pod(
        &self,
        merge: &mut Merge<'a>,
        scope: &PodScope<'_>,
        bindings: &Bindings<'_, '_>,
        pod: &mut Value,
    ) -> Result<(), Stop> {
        let Value::Object(map) = pod else { return Ok(()) };
        for (_, rule) in self.applied_rules() {
            if let Some(Template::Map(entries)) = &rule.pod {
                merge.begin(rule, "");
                merge.map(map, entries, Place::Pod, bindings).map_err(|reason| explained(scope, reason))?;
            }
        }
        Ok(())
    }

    fn policy_warnings(
        &self,
        merge: &mut Merge<'a>,
        scope: &PodScope<'_>,
        bindings: &Bindings<'_, '_>,
    ) -> Result<(), Stop> {
        for warning in &self.variant.warnings {
            let failed = |error| scope.explain(&format!("the warning `{}`", warning.code), error);
            if warning.when.holds(bindings).map_err(failed)? {
                let message = plain(&warning.message.evaluate(bindings).map_err(failed)?);
                let kind = WarningKind::Policy { code: warning.code.clone(), message };
                merge.warnings.push(Warning { path: String::new(), kind, rule: String::new() });
            }
        }
        Ok(())
    }

    fn add_volumes(&self, merge: &mut Merge<'a>, pod: &mut Value) {
        let volumes = std::mem::take(&mut merge.volumes);
        for (volume, value) in volumes.missing() {
            merge.begin(&self.variant.rules[volume.rule], "/spec/volumes");
            let Value::Object(spec) = &mut pod["spec"] else { return };
            if spec.get("volumes").is_none_or(Value::is_null) {
                merge.insert(spec, "volumes", Value::Array(Vec::new()));
            }
            let to = value["name"].as_str().unwrap_or_default().to_owned();
            if let Some(Value::Array(list)) = spec.get_mut("volumes") {
                merge.push(list, value);
            }
            if to != volume.name {
                merge.warn(WarningKind::RenamedVolume { from: volume.name, to });
            }
        }
    }
}

fn failed(scope: &PodScope<'_>, rule: &ActiveRule, error: EvaluationError) -> Stop {
    scope.explain(&format!("rule `{}`", rule.name), error)
}

/// A failure inside of an overlay, explained by the variable behind it.
fn explained(scope: &PodScope<'_>, reason: Reason) -> Stop {
    match reason {
        Reason::EvaluationFailed { place, expression, message } => {
            scope.explain(&place, EvaluationError { expression, message })
        }
        other => other.into(),
    }
}
