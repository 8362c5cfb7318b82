//! Injecting one pod by one policy.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use crate::core::pointer::at_pointer;
use crate::core::policy::expression::Resolver;
use crate::core::policy::interpolation::text_of;
use crate::core::policy::matcher::namespace_of;
use crate::core::policy::node::Selection as Nodes;
use crate::core::policy::{
    ActiveRule, Feedback, NoteKind, PodContext, Policy, ResolvedPolicy, SelectedLabel,
};

use super::Stop;
use super::bindings::{PodScope, Source};
use super::context::{PodFacts, evaluation_failed};
use super::log::ChangeLog;
use super::node;
use super::own_fabric;
use super::pass::{Pass, Selection};
use super::pod;
use super::report::{Reason, Warning, WarningKind};
use super::stamp::{SKIPPED, STAMP, stamp};
use super::user;
use super::volumes::add_missing;

/// The passes after which a policy that still changes the pod counts as one that always will.
const MAX_PASSES: usize = 4;

/// Injects the pod in place, and returns the stamp that it carries. After a [`Stop`], the log can revert the changes.
pub(super) fn inject(
    policy: &Policy,
    pod: &mut Value,
    context: &PodContext,
    log: &mut ChangeLog,
) -> Result<String, Stop> {
    let nodes = node::selected(policy, pod)?;
    let resolved = resolve(policy, &nodes)?;
    let injection = Injection { policy, resolved: &resolved, context, nodes: &nodes };
    injection.join_host(pod, log)?;
    let gpus = injection.counted_gpus(pod)?;
    let selection = injection.first_pass(pod, log)?;
    let may_change = match resolved.feedback {
        _ if injection.counted_gpus(pod)? != gpus => true,
        Feedback::Any => true,
        _ if log.warnings.iter().any(|warning| warning.kind.may_pass()) => true,
        Feedback::Rules => !injection.selects_no_more(pod, &selection)?,
        Feedback::None => false,
    };
    if may_change {
        injection.repeat(pod, log)?;
    }
    if resolved.may_move {
        injection.selects_the_same_nodes(pod, log)?;
    }
    log.drop_reverted(pod);
    let annotations = &pod["metadata"]["annotations"];
    if log.is_empty()
        && annotations.get(STAMP).is_some_and(|stamp| stamp == policy.stamp())
        && annotations.get(SKIPPED).is_none()
    {
        return Err(Stop::Leave(Reason::NothingToAdd));
    }
    stamp(policy.stamp(), pod, log)?;
    Ok(policy.stamp().to_owned())
}

fn resolve(policy: &Policy, nodes: &Nodes) -> Result<Arc<ResolvedPolicy>, Stop> {
    policy.resolved(nodes).map_err(|error| Stop::Refuse(evaluation_failed("the policy", error)))
}

struct Injection<'a> {
    policy: &'a Policy,
    resolved: &'a ResolvedPolicy,
    context: &'a PodContext,
    /// The labels of nodes that the pod selects.
    nodes: &'a Nodes,
}

impl Injection<'_> {
    /// Rules that set `hostNetwork` come before the others, whose conditions and values depend on the network.
    fn join_host(&self, pod: &mut Value, log: &mut ChangeLog) -> Result<(), Stop> {
        let joins = |rule: &ActiveRule| rule.pod.host_network().is_some();
        if !self.resolved.rules.iter().any(joins) {
            return Ok(());
        }
        let containers = pod::containers(pod, &self.resolved.devices)?;
        let source = Source::pod(self.resolved, pod, &containers, self.context);
        let scope = PodScope::new(source, self.resolved, None);
        let resolver = Resolver(&scope);
        Pass::new(self.resolved, &scope, &resolver, &containers, pod, self.context, joins)?
            .join_host(pod, log)
    }

    fn first_pass(&self, pod: &mut Value, log: &mut ChangeLog) -> Result<Selection, Stop> {
        let mut selection = Selection::new();
        let own_fabric = self.own_fabric(pod);
        self.pass(pod, log, |pass, pod, gpus, log| {
            if let Some(trace) = &mut log.trace {
                pass.record(trace);
            }
            if self.resolved.feedback == Feedback::Rules {
                selection = pass.selection();
            }
            let rules = self.resolved.rules.iter();
            for (rule, _) in rules.zip(&pass.left_out).filter(|(_, left_out)| **left_out) {
                log.warnings.push(about_pod(WarningKind::HostNetwork, &rule.name));
            }
            let applies = pass.applied.contains(&true);
            if !own_fabric.is_empty() && (gpus || applies) {
                log.warnings.push(about_pod(WarningKind::KeptFabric { names: own_fabric }, ""));
            }
            if !applies {
                pass.warn_alone(pod, log)?;
                let mark = self.policy.stamp().to_owned();
                let is_injected = pod["metadata"]["annotations"][STAMP].as_str() == Some(&*mark);
                return Err(if gpus && is_injected {
                    Stop::Leave(Reason::NothingToAdd)
                } else if gpus {
                    Stop::Skip { mark, reason: Reason::NoRuleApplies }
                } else {
                    Stop::Leave(self.no_gpus())
                });
            }
            self.warn_about_parameters(pass, gpus, log);
            Ok(())
        })?;
        Ok(selection)
    }

    /// `totalGpus`, if the policy reads it and a rule may change which containers count.
    fn counted_gpus(&self, pod: &Value) -> Result<Option<i64>, Stop> {
        if !self.resolved.may_recount || !self.resolved.reads("totalGpus") {
            return Ok(None);
        }
        let containers = pod::containers(pod, &self.resolved.devices)?;
        Ok(Some(pod::total_gpus(pod, &containers, &self.resolved.devices)))
    }

    /// The names under which the pod requests devices of the fabric itself, if a rule depends on that.
    fn own_fabric(&self, pod: &Value) -> Vec<String> {
        if !self.resolved.devices.rules_read_own_fabric {
            return Vec::new();
        }
        own_fabric::found(pod, &self.resolved.devices, namespace_of(&pod["metadata"], self.context))
    }

    fn no_gpus(&self) -> Reason {
        let devices = &self.resolved.devices;
        let known = devices.gpu_claims.iter().flat_map(|claims| &claims.names);
        let claims = known.filter(|known| known.devices.is_none()).map(|known| known.pattern.to_string());
        Reason::NoGpuContainer { resources: devices.gpu_resources.clone(), claims: claims.collect() }
    }

    /// Returns whether the rules select nothing, now that they are injected, that they did not select before, and none of
    /// those that they still select may have other values.
    fn selects_no_more(&self, pod: &Value, before: &Selection) -> Result<bool, Stop> {
        let containers = pod::containers(pod, &self.resolved.devices)?;
        let source = Source::pod(self.resolved, pod, &containers, self.context);
        let scope = PodScope::new(source, self.resolved, None);
        let resolver = Resolver(&scope);
        let pass = Pass::new(self.resolved, &scope, &resolver, &containers, pod, self.context, |rule| {
            rule.reads_own_changes
        })?;
        let selected = pass.selection();
        let rules = &self.resolved.rules;
        let may_differ = |(list, index, rule): &(&'static str, usize, usize)| {
            let still_selected =
                !rules[*rule].reads_own_changes || selected.contains(&(*list, *index, *rule));
            rules[*rule].values_read_own_changes && still_selected
        };
        Ok(selected.is_subset(before) && !before.iter().any(may_differ))
    }

    /// Repeats the pass until it leaves the pod as it is. That is necessary where the policy may read what it injects
    /// itself, and where one rule leaves out or replaces what another one adds.
    fn repeat(&self, pod: &mut Value, log: &mut ChangeLog) -> Result<(), Stop> {
        let mut before = Value::Null;
        for _ in 1..MAX_PASSES {
            let reported = log.warnings.len();
            before = pod.clone();
            self.pass(pod, log, |_, _, _, _| Ok(()))?;
            let repeated = log.warnings.split_off(reported);
            let settled = *pod == before;
            if settled {
                let repeated: HashSet<&Warning> = repeated.iter().collect();
                log.warnings.retain(|warning| !warning.kind.is_left_out() || repeated.contains(warning));
            }
            let mut known: HashSet<Warning> = log.warnings.iter().cloned().collect();
            for warning in repeated {
                let matters = !settled || warning.kind.is_kept() || warning.kind.is_left_out();
                if matters && known.insert(warning.clone()) {
                    log.warnings.push(warning);
                }
            }
            if settled {
                return Ok(());
            }
            log.feedback |= self.resolved.feedback != Feedback::None;
        }
        let changed = json_patch::diff(&before, pod).0.first().map(|operation| operation.path().to_string());
        Err(Stop::Refuse(Reason::NotIdempotent { path: changed.unwrap_or_default() }))
    }

    /// Refuses a pod for which the policy depends on what it sets itself of the nodes or GPUs that the pod selects.
    fn selects_the_same_nodes(&self, pod: &mut Value, log: &mut ChangeLog) -> Result<(), Stop> {
        let nodes = node::selected(self.policy, pod)?;
        if nodes == *self.nodes {
            return Ok(());
        }
        let resolved = resolve(self.policy, &nodes)?;
        let (before, reported) = (pod.clone(), log.warnings.len());
        Injection { resolved: &resolved, nodes: &nodes, ..*self }.pass(pod, log, |_, _, _, _| Ok(()))?;
        log.warnings.truncate(reported);
        // A second injection keeps an amount of the first one, so that the pod alone does not show other values.
        if *pod == before && resolved.values == self.resolved.values {
            return Ok(());
        }
        Err(Stop::Refuse(Reason::NotIdempotent { path: "/spec/nodeSelector".to_owned() }))
    }

    /// Evaluates the rules for the pod as it is, and injects them if `check` agrees. The check gets whether a
    /// container requests GPUs.
    fn pass(
        &self,
        pod: &mut Value,
        log: &mut ChangeLog,
        check: impl FnOnce(&Pass<'_>, &Value, bool, &mut ChangeLog) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let containers = pod::containers(pod, &self.resolved.devices)?;
        let source = Source::pod(self.resolved, pod, &containers, self.context);
        let scope = PodScope::new(source, self.resolved, None);
        let resolver = Resolver(&scope);
        let pass = Pass::new(self.resolved, &scope, &resolver, &containers, pod, self.context, |_| true)?;
        check(&pass, pod, containers.iter().any(|container| container.gpus > 0), log)?;
        let mut facts = PodFacts::take(pod, self.context, self.policy.stamp())?;
        let result = pass.inject(pod, &mut facts, log);
        facts.give_back_volumes(pod);
        result?;
        add_missing(pod, std::mem::take(&mut facts.volumes), log)?;
        warn_without_root(pod, facts.capabilities, log);
        Ok(())
    }

    /// Reports the sources of the parameter values on which an applied rule depends, and with it the choice of the
    /// policy.
    fn warn_about_parameters(&self, pass: &Pass<'_>, has_gpus: bool, log: &mut ChangeLog) {
        let matters = |name: &str| {
            let chooses = self.resolved.parameters_of_condition.contains(name);
            let mut rules = self.resolved.rules.iter().zip(&pass.applied);
            rules.any(|(rule, applied)| *applied && (chooses || rule.parameters.contains(name)))
        };
        let selected = |label: &String| {
            let values = self.nodes.values(label).to_vec();
            SelectedLabel { label: label.clone(), values }
        };
        for note in self.resolved.notes.iter().filter(|note| matters(&note.parameter)) {
            let (parameter, value) = (note.parameter.clone(), text_of(&note.value));
            let kind = match &note.kind {
                NoteKind::Assumed { labels, reads_gpus } => {
                    let gpus = self.nodes.gpus.filter(|_| *reads_gpus);
                    let labels = labels.iter().map(selected).collect();
                    WarningKind::ParameterAssumed { parameter, value, labels, gpus, has_gpus }
                }
                NoteKind::Disagree { label } => WarningKind::NodeValuesDisagree { selected: selected(label) },
                NoteKind::Contradicts { label, table } => {
                    let (table, selected) = (text_of(table), selected(label));
                    WarningKind::ParameterContradicts { parameter, value, table, selected }
                }
            };
            let warning = about_pod(kind, "");
            if !log.warnings.contains(&warning) {
                log.warnings.push(warning);
            }
        }
    }
}

fn about_pod(kind: WarningKind, rule: &str) -> Warning {
    Warning { path: String::new(), kind, rule: rule.to_owned() }
}

/// Reports capabilities of containers that do not run as root: they have no effect, because the kernel has no ambient
/// capabilities in containers.
fn warn_without_root(pod: &Value, capabilities: Vec<(String, String)>, log: &mut ChangeLog) {
    for (path, capability) in capabilities {
        let container = at_pointer(pod, &path).unwrap_or(&Value::Null);
        if let Some(because) = user::not_root(pod, container) {
            let kind = WarningKind::CapabilityWithoutRoot { capability, because };
            log.warnings.push(Warning { path, kind, rule: String::new() });
        }
    }
}
