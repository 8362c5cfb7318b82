//! Serving one pod by one policy, step by step.

use serde_json::{Map, Value};

use crate::core::policy::expression::Resolver;
use crate::core::policy::parameter_text as plain;
use crate::core::policy::{NoteKind, Policy, Request, Variant};

use super::instance_type;
use super::merge::evaluation_failed;
use super::patch::{Changes, at_pointer, field_path};
use super::plan::Plan;
use super::pod;
use super::report::{Reason, Warning, WarningKind};
use super::scope::{PodScope, Source};
use super::security;
use super::{STAMP, Stop};

/// The work on one pod: what was changed so far, and what there is to tell.
#[derive(Debug, Default)]
pub(super) struct Service {
    pub(super) changes: Changes,
    warnings: Vec<Warning>,
}

impl Service {
    /// Serves the pod in place and returns its stamp. On a stop the pod may be half served.
    pub(super) fn serve(
        &mut self,
        policy: &Policy,
        pod: &mut Value,
        request: &Request,
    ) -> Result<String, Stop> {
        let definition = policy.definition();
        let containers = pod::containers(pod, &definition.gpu_resources)?;
        let selected_types = instance_type::selected(pod, &definition.strip_prefixes);
        let variant = policy
            .variant(&selected_types)
            .map_err(|error| Stop::Refuse(evaluation_failed("the policy", error)))?;
        let scope = PodScope::new(Source::pod(&variant, pod, &containers, request), &variant, None);
        let resolver = Resolver(&scope);
        let plan = Plan::make(&variant, &scope, &resolver, &containers, pod)?;
        self.warn_host_network(&variant, &plan);
        if !plan.applied.contains(&true) {
            return Err(Stop::Leave(if containers.iter().all(|container| container.gpus == 0) {
                Reason::NoGpuContainer { resources: definition.gpu_resources.clone() }
            } else {
                Reason::NothingToAdd
            }));
        }
        self.note_parameters(policy, &variant, &plan, &selected_types);
        let mut merge = plan.merge(pod, request)?;
        let result = plan.carry_out(&mut merge, &containers, pod);
        self.changes = merge.changes;
        self.warnings.append(&mut merge.warnings);
        result?;
        self.warn_without_root(pod, std::mem::take(&mut merge.capabilities));
        // A pod whose author wrote everything is stamped as well: what carries no stamp was never looked after.
        if self.changes.is_empty() && pod["metadata"]["annotations"].get(STAMP).is_some() {
            return Err(Stop::Leave(Reason::NothingToAdd));
        }
        Ok(self.stamp(pod, &variant))
    }

    /// The warnings, their paths written for people.
    pub(super) fn finished_warnings(&mut self, pod: &Value) -> Vec<Warning> {
        let mut warnings = std::mem::take(&mut self.warnings);
        for warning in &mut warnings {
            if warning.path.starts_with('/') {
                warning.path = field_path(pod, &warning.path);
            }
        }
        warnings.dedup();
        warnings
    }

    fn warn_host_network(&mut self, variant: &Variant, plan: &Plan<'_>) {
        for (rule, _) in variant.rules.iter().zip(&plan.left_out).filter(|(_, left_out)| **left_out) {
            let kind = WarningKind::HostNetwork;
            self.warnings.push(Warning { path: String::new(), kind, rule: rule.name.clone() });
        }
    }

    /// Tells where the values of the parameters come from, as far as they mattered.
    fn note_parameters(&mut self, policy: &Policy, variant: &Variant, plan: &Plan<'_>, selected: &[String]) {
        let matters = |name: &str| {
            let mut rules = variant.rules.iter().zip(&plan.applied);
            rules.any(|(rule, applied)| *applied && rule.parameters.contains(name))
        };
        let mut push = |kind| {
            self.warnings.push(Warning { path: String::new(), kind, rule: String::new() });
        };
        if policy.types_disagree(selected) {
            push(WarningKind::InstanceTypesDisagree { selected: selected.to_vec() });
        }
        for note in variant.notes.iter().filter(|note| matters(&note.parameter)) {
            let (parameter, value, selected) =
                (note.parameter.clone(), plain(&note.value), selected.to_vec());
            push(match &note.kind {
                NoteKind::Assumed => WarningKind::ParameterAssumed { parameter, value, selected },
                NoteKind::Contradicts { table } => {
                    WarningKind::ParameterContradicts { parameter, value, table: plain(table), selected }
                }
            });
        }
    }

    /// A capability is granted to root only: the kernel knows no ambient capabilities in containers.
    fn warn_without_root(&mut self, pod: &Value, capabilities: Vec<(String, String)>) {
        for (path, capability) in capabilities {
            let container = at_pointer(pod, &path).unwrap_or(&Value::Null);
            if let Some(because) = security::not_root(pod, container) {
                let kind = WarningKind::CapabilityWithoutRoot { capability, because };
                self.warnings.push(Warning { path, kind, rule: String::new() });
            }
        }
    }

    /// Marks the pod, once: a stamp that is there stays.
    fn stamp(&mut self, pod: &mut Value, variant: &Variant) -> String {
        let Some(root) = pod.as_object_mut() else { return variant.stamp.clone() };
        let mut pointer = String::new();
        let mut place = root;
        for key in ["metadata", "annotations"] {
            super::push_token(&mut pointer, key);
            let empty = Value::Object(Map::new());
            let slot = place.entry(key).or_insert_with(|| {
                self.changes.added(&pointer, &empty);
                empty.clone()
            });
            if slot.is_null() {
                let before = std::mem::replace(slot, empty);
                self.changes.replaced(&pointer, before, slot);
            }
            let Value::Object(map) = slot else { return variant.stamp.clone() };
            place = map;
        }
        if place.contains_key(STAMP) {
            return variant.stamp.clone();
        }
        super::push_token(&mut pointer, STAMP);
        let stamp = Value::String(variant.stamp.clone());
        self.changes.added(&pointer, &stamp);
        place.insert(STAMP.to_owned(), stamp);
        variant.stamp.clone()
    }
}
