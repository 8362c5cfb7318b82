//! Injecting one pod by one policy: once, again where an expression may read what a rule wrote, and for each of the nodes
//! between which the pod does not choose.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use fabric_policy::interpolation::text_of;
use fabric_policy::{NoteKind, PodContext, Policy, Rule};
use fabric_yaml::pointer::field_path;
use fabric_yaml::{Span, each_once};

use super::analysis::{PodAnalysis, copy, unknown_claim, warnings_of_absent, with_values, written_claims};
use super::evaluate::{Rules, Scope, State, rule_that_joins_host};
use super::fitting_nodes;
use super::merge::{check_containers, check_pod, merge};
use super::record::{
    Author, CLAIMS, ChangeLog, Cursor, OrReason, Reason, SKIPPED, STAMP, Trace, ValueKind, Warning,
    WarningKind, record_annotation, record_ways, stamp,
};

/// The rules of the policy. A record also has what the parameters leave out of them.
fn rules_of<'a>(policy: &Policy, analysis: &'a PodAnalysis, log: &ChangeLog) -> Cow<'a, [Rule]> {
    match &log.trace {
        Some(_) => analysis.policy.evaluated.rules_as_written(policy.definition()).into(),
        None => Cow::Borrowed(&analysis.policy.evaluated.rules),
    }
}

/// An injection of a pod by a policy.
struct Injection<'a> {
    policy: &'a Policy,
    context: &'a PodContext,
    pod: &'a mut Value,
    log: &'a mut ChangeLog,
}

impl Injection<'_> {
    /// Injects the pod in place. If it ends early, the log can revert the changes.
    fn inject(mut self, mut analysis: PodAnalysis) -> OrReason {
        let are_nodes_new = fitting_nodes::record_nodes(&analysis, self.pod, self.context, self.log)?;
        self.join_host(&mut analysis)?;
        let scope = Scope::of_pod(&analysis);
        let all = rules_of(self.policy, &analysis, self.log);
        let mut rules = Rules::unevaluated(&all, &analysis, &scope);
        let found = rules.evaluate(self.pod, self.context);
        let ended = found.and_then(|()| self.inject_by(&mut rules, are_nodes_new));
        if let Some(trace) = &mut self.log.trace {
            rules.record(self.policy.definition(), self.pod, trace);
        }
        ended
    }

    /// Injects the pod by the rules that apply.
    fn inject_by(&mut self, rules: &mut Rules<'_>, are_nodes_new: bool) -> OrReason {
        let (analysis, stamp_of_policy) = (rules.analysis, self.policy.stamp());
        warn_about_rules(rules, self.log);
        if !rules.any() {
            check_pod(&analysis.policy, &rules.scope.of_injected(self.pod), self.log)?;
            return Err(no_rule_applies(self.policy, analysis, self.pod, self.context));
        }
        warn_about_parameters(rules, self.log);
        if !analysis.claims_by_name.is_empty() {
            let claims = analysis.claims_by_name.clone();
            self.log.warnings.push(Warning::of_pod(WarningKind::ClaimByName { claims }));
        }
        let of_merge = self.log.warnings.len();
        merge(rules, self.pod, stamp_of_policy, self.context, self.log)?;
        let may_differ_again = self.log.may_differ_again
            || self.log.warnings.iter().any(|warning| warning.kind.may_differ_again());
        let reads_own_writes = || analysis.policy.evaluated.own_writes.are_read(rules.applied());
        let changes = self.log.writes > 0 || self.pod["metadata"]["annotations"][STAMP] != stamp_of_policy;
        if changes && (may_differ_again || reads_own_writes()) {
            // The next injection has the same memory.
            rules.of_containers.iter_mut().for_each(|row| row.scope.forget());
            self.inject_until_unchanged(rules, may_differ_again, of_merge)?;
        }
        if are_nodes_new {
            fitting_nodes::warn_of_requests(analysis, self.pod, self.log);
        }
        self.log.drop_reverted(self.pod);
        let devices = &analysis.policy.evaluated.devices;
        self.log.warnings.extend(warnings_of_absent(self.pod, devices, self.context));
        let annotations = &self.pod["metadata"]["annotations"];
        let is_stamped = annotations[STAMP] == stamp_of_policy && annotations.get(SKIPPED).is_none();
        if self.log.is_empty() && is_stamped {
            return Err(Reason::NothingToAdd);
        }
        self.mark()
    }

    /// Writes the annotations of the engine.
    fn mark(&mut self) -> OrReason {
        if let Some(claims) = written_claims(self.pod, self.context) {
            record_annotation(CLAIMS, &claims, self.pod, self.log)?;
        }
        record_ways(self.pod, self.log)?;
        stamp(self.policy.stamp(), self.pod, self.log)
    }

    /// Injects the pod in its current state until that changes nothing: an expression may read an added value, and a later
    /// rule may have removed an obstacle to a value. A pod that changes each time is refused. `of_merge` is the index of
    /// the first warning of the merge.
    fn inject_until_unchanged(
        &mut self,
        first: &Rules<'_>,
        may_differ_again: bool,
        of_merge: usize,
    ) -> OrReason {
        // The same rules write the same, so that only their conditions and the checks are evaluated again.
        let values = may_differ_again
            || first.analysis.policy.evaluated.own_writes.are_read_by_values(first.applied());
        let same = Some(first).filter(|_| !values);
        self.mark()?;
        let again = self.inject_again(first.analysis, same, of_merge);
        if let Err(Reason::Policy { code, .. }) = &again {
            self.log.own_checks.push(code.clone());
        }
        if again?.is_none() {
            return Ok(());
        }
        self.mark()?;
        // Whoever writes what does not come to rest is named.
        let recorded = self.log.trace.replace(Box::default());
        let changed = self.inject_again(first.analysis, None, of_merge);
        let last = std::mem::replace(&mut self.log.trace, recorded);
        changed?.map_or(Ok(()), |pointer| Err(self.not_idempotent(&pointer, last.as_deref())))
    }

    /// The reason for a pod with a value that changes each time.
    fn not_idempotent(&self, pointer: &str, last: Option<&Trace>) -> Reason {
        let definition = self.policy.definition();
        let path = field_path(self.pod, pointer);
        let steps: Vec<&str> = path.split(['.', '[', ']']).collect();
        let author = last.and_then(|last| last.author_of(pointer));
        let is_author = |rule: &&Rule| author.is_none_or(|author| *author == Author::Rule(rule.name.clone()));
        let of_rule = |rule| Rule::writes(rule).map(move |write| (rule, write));
        let writes: Vec<_> = definition.rules.iter().filter(is_author).flat_map(of_rule).collect();
        let found = writes.iter().find(|(_, write)| write.name().is_some_and(|name| steps.contains(&name)));
        let found = found.or_else(|| writes.iter().find(|(_, write)| steps.contains(&write.field.name)));
        let (author, span) = match (found, author) {
            (Some((rule, write)), _) => (Author::Rule(rule.name.clone()), write.span()),
            (None, author) => (author.cloned().unwrap_or_default(), Span::default()),
        };
        let (file, line) = definition.line_in_file(span);
        let author = match author {
            Author::Rule(name) => format!("the rule `{name}` ({file}:{line})"),
            Author::File(path) => format!("the file `{path}`"),
            Author::Stamp => "the policy".to_owned(),
        };
        Reason::NotIdempotent { path, author, span }
    }

    /// Returns the JSON Pointer to a value that changes. If the `same` rules apply, none does.
    fn inject_again(
        &mut self,
        first: &PodAnalysis,
        same: Option<&Rules<'_>>,
        of_merge: usize,
    ) -> OrReason<Option<String>> {
        let mut analysis = first.again(self.policy, self.pod, self.context)?;
        if analysis.policy.evaluated.values != first.policy.evaluated.values {
            return Err(self.not_idempotent("/spec/nodeSelector", None));
        }
        let writes = self.log.writes;
        let joins_host = rule_that_joins_host(&analysis, self.pod, self.context)?.is_some();
        let joined = if joins_host { Some(copy(self.pod, self.context)?) } else { None };
        self.join_host(&mut analysis)?;
        if let Some(trace) = &mut self.log.trace {
            trace.start_again();
        }
        let known = self.log.warnings.split_off(of_merge);
        let scope = Scope::of_pod(&analysis);
        let all = rules_of(self.policy, &analysis, self.log);
        let mut rules = Rules::unevaluated(&all, &analysis, &scope);
        rules.evaluate(self.pod, self.context)?;
        let changed = if joined.is_none() && same.is_some_and(|before| rules.are_among(before, self.pod)) {
            check_containers(&analysis.policy, &rules.of_containers, self.pod, self.log)?;
            check_pod(&analysis.policy, &scope.of_injected(self.pod), self.log)?;
            None
        } else {
            let unchanged = joined.map_or_else(|| copy(self.pod, self.context), Ok)?;
            merge(&rules, self.pod, self.policy.stamp(), self.context, self.log)?;
            (self.log.writes > writes && *self.pod != unchanged).then(|| {
                let first = json_patch::diff(&unchanged, self.pod).0.into_iter().next();
                first.map(|operation| operation.path().to_string()).unwrap_or_default()
            })
        };
        let repeated = self.log.warnings.split_off(of_merge);
        let (seen, still): (HashSet<&Warning>, HashSet<&Warning>) =
            (known.iter().collect(), repeated.iter().collect());
        // A value that nothing excludes any longer changes the pod.
        let holds =
            |warning: &&Warning| changed.is_none() || !warning.kind.is_left_out() || still.contains(warning);
        self.log.warnings.extend(known.iter().filter(holds).cloned());
        // A value is replaced again by each rule that replaces it.
        let is_new = |warning: &&Warning| {
            !seen.contains(warning)
                && (changed.is_some() || !matches!(warning.kind, WarningKind::Replaced { .. }))
        };
        for warning in repeated.iter().filter(is_new) {
            if let WarningKind::Policy { code, .. } = &warning.kind {
                self.log.own_checks.push(code.clone());
            }
            self.log.warnings.push(warning.clone());
        }
        Ok(changed)
    }

    /// Moves the pod to the host network if an applicable rule does, so all rules see it there.
    fn join_host(&mut self, analysis: &mut PodAnalysis) -> OrReason {
        let Some(rule) = rule_that_joins_host(analysis, self.pod, self.context)? else { return Ok(()) };
        let mut cursor = Cursor::pod(self.pod, self.log)?;
        cursor.log.written_by(|| Author::Rule(rule.name.clone()));
        cursor.within("spec", |spec| {
            if let Some(false) = spec.get("hostNetwork").and_then(Value::as_bool) {
                let (seen, wanted) = ("false".to_owned(), "true".to_owned());
                spec.warn("hostNetwork", WarningKind::Replaced { seen, wanted }, &rule.name);
            }
            spec.put("hostNetwork", Value::Bool(true));
            Ok(())
        })?;
        analysis.joined_host(self.pod, self.context);
        Ok(())
    }
}

/// Injects the pod in place, and refuses one whose result depends on the node that it gets. Where nodes differ in a number,
/// the lowest one is taken before; text has none, so that the pod is injected with the values of each kind of node, and must
/// choose if that makes a difference. The result is that for the first of them.
pub(super) fn inject_if_nodes_agree(
    policy: &Policy,
    analysis: PodAnalysis,
    pod: &mut Value,
    context: &PodContext,
    log: &mut ChangeLog,
) -> OrReason {
    if analysis.policy.values_elsewhere.is_empty() {
        return Injection { policy, context, pod, log }.inject(analysis);
    }
    let before = copy(pod, context)?;
    let (nodes, resolved) = (analysis.nodes.clone(), Arc::clone(&analysis.policy));
    let ended = Injection { policy, context, pod: &mut *pod, log: &mut *log }.inject(analysis);
    // One after the other, because most pods for which the nodes differ are refused at the first.
    for (at, values) in resolved.values_elsewhere.iter().enumerate() {
        let mut there = copy(&before, context)?;
        let other = with_values(policy, values, &nodes, context);
        let other = other.and_then(|other| PodAnalysis::new((nodes.clone(), other), &there, context));
        let mut log_there = ChangeLog::new(context);
        let ended_there = other.and_then(|analysis| {
            let analysis = PodAnalysis { other: Some(at), ..analysis };
            Injection { policy, context, pod: &mut there, log: &mut log_there }.inject(analysis)
        });
        let is_same = match (&ended, &ended_there) {
            (Err(here), Err(there)) => here.code() == there.code(),
            (Ok(()), Ok(())) => there == *pod,
            _ => false,
        };
        if is_same {
            // A value that only these nodes have, and that the pod does not get either.
            let both = log.warnings.drain(..).chain(log_there.warnings);
            log.warnings = each_once(both.collect::<Vec<_>>());
            log.own_checks.append(&mut log_there.own_checks);
            continue;
        }
        let setting = ended.as_ref().ok().zip(ended_there.ok()).and_then(|_| {
            // The annotation of a settings file follows from the variables.
            let follows =
                |path: &str| path.starts_with("/metadata/annotations/settings.fabric-injector.io~1");
            let operations = json_patch::diff(pod, &there).0.into_iter();
            let first = operations.min_by_key(|operation| follows(operation.path().as_str()))?;
            Some(field_path(pod, first.path().as_str()))
        });
        let setting = setting.unwrap_or_else(|| policy.name().to_owned());
        let why = fitting_nodes::must_select_one(&nodes);
        return Err(Reason::SettingUndecided { setting, why, chooses_policy: false });
    }
    ended
}

/// Warns about the rules that are left out.
fn warn_about_rules(rules: &Rules<'_>, log: &mut ChangeLog) {
    let analysis = rules.analysis;
    let names = &analysis.own_devices;
    if analysis.policy.evaluated.devices.give_way && !names.is_empty() && (analysis.has_gpus() || rules.any())
    {
        log.warnings.push(Warning::of_pod(WarningKind::KeptFabric { names: names.clone() }));
    }
    let about =
        |kind, rule: &Rule| Warning { path: "/spec/hostNetwork".to_owned(), kind, rule: rule.name.clone() };
    let without_network = rules.in_state(State::WithoutNetwork);
    log.warnings.extend(without_network.map(|rule| about(WarningKind::HostNetwork, rule)));
    for rule in rules.in_state(State::OwnNetworkStays) {
        let kind = if let Some(against) = rules.off_host.clone() {
            let setting = "hostNetwork: true".to_owned();
            WarningKind::Excluded { what: ValueKind::HostNetwork, setting, against }
        } else {
            let (seen, wanted) = ("false".to_owned(), "true".to_owned());
            WarningKind::Kept { what: ValueKind::HostNetwork, seen, wanted }
        };
        log.warnings.push(about(kind, rule));
    }
}

fn no_rule_applies(policy: &Policy, analysis: &PodAnalysis, pod: &Value, context: &PodContext) -> Reason {
    // What a rule added may be why it no longer applies.
    if pod["metadata"]["annotations"][STAMP] == policy.stamp() {
        return Reason::NothingToAdd;
    }
    if analysis.has_gpus() {
        return Reason::NoRuleApplies;
    }
    let devices = &analysis.policy.evaluated.devices;
    let resource = devices.gpu_resources.first().cloned().unwrap_or_default();
    let unknown_claim = unknown_claim(pod, Some(devices), context).map(Box::new);
    Reason::NoGpuContainer { resource, other: None, unknown_claim }
}

/// Reports the sources of the parameter values on which an applied rule depends, and with it the choice of the policy.
fn warn_about_parameters(rules: &Rules<'_>, log: &mut ChangeLog) {
    let PodAnalysis { policy, nodes: selection, .. } = rules.analysis;
    let of_nodes = !selection.kinds.is_empty();
    let matters = |name: &str| {
        policy.evaluated.parameters_of_condition.contains(name)
            || rules.applied().any(|rule| rule.parameters.contains(name))
    };
    let selected = |label: &String| fitting_nodes::selected_label(selection, label);
    for note in policy.notes.iter().filter(|note| matters(&note.parameter)) {
        let (parameter, value) = (note.parameter.clone(), text_of(&note.value));
        let kind = match &note.kind {
            NoteKind::Assumed { labels, reads_gpus } => WarningKind::ParameterAssumed {
                parameter,
                value,
                labels: labels.iter().map(selected).collect(),
                gpus: selection.gpus.filter(|_| *reads_gpus),
                has_gpus: rules.analysis.has_gpus(),
                of_nodes,
            },
            NoteKind::Least => WarningKind::NodesDisagree {
                parameter,
                value,
                kinds: fitting_nodes::differences_of(&selection.each()),
            },
            NoteKind::LessThanTable { label, table } => {
                let (table, selected) = (text_of(table), selected(label));
                WarningKind::NodesOfferLess { parameter, value, table, selected }
            }
            NoteKind::MoreThanTable { label, offered } => {
                let (offered, selected) = (text_of(offered), selected(label));
                WarningKind::NodesOfferMore { parameter, value, offered, selected }
            }
            NoteKind::Contradicts { label, table } => {
                let (table, selected) = (text_of(table), selected(label));
                WarningKind::ParameterContradicts { parameter, value, table, selected }
            }
        };
        let warning = Warning::of_pod(kind);
        if !log.warnings.contains(&warning) {
            log.warnings.push(warning);
        }
    }
}
