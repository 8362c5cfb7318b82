//! Injecting one pod by one policy, once.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use fabric_policy::interpolation::text_of;
use fabric_policy::matcher::Selection;
use fabric_policy::{NoteKind, PodContext, Policy, ResolvedPolicy, SecondRun, SelectedLabel};
use fabric_yaml::pointer::field_path;

use super::analysis::{PodAnalysis, Purpose, with_values, written_claims};
use super::evaluate::{Rules, Scope, State, rule_that_joins_host};
use super::fitting_nodes::{self, NodesRecorded};
use super::merge::{about_pod, merge, settings};
use super::record::{
    CLAIMS, ChangeLog, Cursor, Kept, Reason, SKIPPED, STAMP, Stop, Warning, WarningKind, keep, stamp,
};

/// Injects the pod in place. After a [`Stop`], the log can revert the changes.
pub(super) fn inject(
    policy: &Policy,
    mut analysis: PodAnalysis,
    pod: &mut Value,
    context: &PodContext,
    log: &mut ChangeLog,
) -> Result<(), Stop> {
    let nodes = fitting_nodes::keep(&analysis, pod, log)?;
    join_host(&mut analysis, pod, context, log)?;
    let scope = Scope::of_pod(&analysis);
    let mut rules = Rules::unevaluated(&analysis, &scope);
    let found = rules.evaluate(pod, context, log.trace.as_deref_mut());
    let ended = found.and_then(|()| inject_by(policy, &rules, nodes, pod, context, log));
    if let Some(trace) = &mut log.trace {
        rules.record(&policy.definition().variables, pod, trace);
    }
    ended
}

/// Injects the pod by the rules that apply.
fn inject_by(
    policy: &Policy,
    rules: &Rules<'_>,
    nodes: NodesRecorded,
    pod: &mut Value,
    context: &PodContext,
    log: &mut ChangeLog,
) -> Result<(), Stop> {
    let analysis = rules.analysis;
    record_rules(rules, log);
    if !rules.any() {
        // The record includes the conditions of files, whether or not a rule applies.
        let _ = log.trace.is_some().then(|| settings(&analysis.policy, rules.scope, log));
        about_pod(&analysis.policy, &rules.scope.of_injected(pod), log)?;
        return Err(no_rule_applies(policy, analysis, pod));
    }
    warn_about_parameters(rules, log);
    if !analysis.claims_by_name.is_empty() {
        let claims = analysis.claims_by_name.clone();
        log.warnings.push(about(WarningKind::ClaimByName { claims }, ""));
    }
    let of_merge = log.warnings.len();
    merge(rules, pod, policy.stamp(), context, log)?;
    let may_pass = log.may_pass || log.warnings.iter().any(|warning| warning.kind.may_pass());
    let again =
        if may_pass { SecondRun::Everything } else { analysis.policy.second_runs.after(rules.applied()) };
    if again != SecondRun::Nothing {
        inject_until_unchanged(policy, rules, again, pod, of_merge, context, log)?;
    }
    if nodes == NodesRecorded::Now {
        fitting_nodes::warn_of_requests(analysis, pod, log);
    }
    log.drop_reverted(pod);
    let annotations = &pod["metadata"]["annotations"];
    if log.is_empty() && annotations[STAMP] == policy.stamp() && annotations.get(SKIPPED).is_none() {
        return Err(Stop::Leave(Reason::NothingToAdd));
    }
    if let Some(claims) = written_claims(pod, context) {
        keep(CLAIMS, &claims, pod, log)?;
    }
    Ok(stamp(policy.stamp(), pod, log)?)
}

/// A pod before its injection, and the nodes that it may get.
pub(super) struct BeforeInjection {
    pod: Value,
    nodes: Selection,
    resolved: Arc<ResolvedPolicy>,
    purpose: Purpose,
}

impl BeforeInjection {
    pub(super) fn new(pod: &Value, analysis: &PodAnalysis) -> Self {
        let (nodes, resolved) = analysis.nodes_and_policy();
        Self { pod: pod.clone(), nodes, resolved, purpose: analysis.purpose }
    }
}

/// The reason to refuse a pod whose result depends on the node that it gets: a setting without a lowest value differs
/// between the nodes, and the pod must choose. `ended` and `after` are the result for the first of them.
pub(super) fn reason_of_undecided_setting(
    policy: &Policy,
    before: &BeforeInjection,
    ended: &Result<(), Stop>,
    after: &Value,
    context: &PodContext,
) -> Option<Reason> {
    let BeforeInjection { pod, nodes, resolved, purpose } = before;
    // One after the other, because most pods for which the nodes differ are refused at the first.
    for (at, values) in resolved.others.iter().enumerate() {
        context.count_input();
        let mut pod = pod.clone();
        let other = with_values(policy, values, nodes, context, *purpose);
        let there = other.and_then(|other| PodAnalysis::new((nodes.clone(), other), &pod, context, *purpose));
        let there = there.map_err(Stop::from);
        let there = there.and_then(|analysis| {
            let analysis = PodAnalysis { other: Some(at), ..analysis };
            inject(policy, analysis, &mut pod, context, &mut ChangeLog::new(context))
        });
        let setting = match (ended, there) {
            (Ok(()), Ok(())) if pod == *after => continue,
            (Ok(()), Ok(())) => {
                let first = json_patch::diff(after, &pod).0.into_iter().next();
                first.map(|operation| field_path(after, operation.path().as_str()))
            }
            // The same outcome, for example that no rule applies.
            (Err(here), Err(there)) if here.reason_code() == there.reason_code() => continue,
            _ => None,
        };
        let setting = setting.unwrap_or_else(|| policy.name().to_owned());
        return Some(Reason::SettingUndecided {
            setting,
            why: fitting_nodes::fits_several(nodes),
            chooses_policy: false,
        });
    }
    None
}

/// Injects the pod in its current state until that changes nothing: an expression may read an added value, and a later
/// rule may have removed an obstacle to a value. A pod that changes each time is refused. `of_merge` is the index of
/// the first warning of the merge. If only conditions are evaluated `again`, the rules of the first injection change
/// nothing as long as no other rules apply.
fn inject_until_unchanged(
    policy: &Policy,
    first: &Rules<'_>,
    again: SecondRun,
    pod: &mut Value,
    of_merge: usize,
    context: &PodContext,
    log: &mut ChangeLog,
) -> Result<(), Stop> {
    let mut changed = None;
    for _ in 0..2 {
        changed = inject_again(policy, first, again, pod, of_merge, context, log)?;
        if changed.is_none() {
            return Ok(());
        }
        log.changed_again = true;
    }
    Err(Stop::Refuse(Reason::NotIdempotent { path: changed.unwrap_or_default() }))
}

/// Returns the JSON Pointer to a value that changes.
fn inject_again(
    policy: &Policy,
    first: &Rules<'_>,
    again: SecondRun,
    pod: &mut Value,
    of_merge: usize,
    context: &PodContext,
    log: &mut ChangeLog,
) -> Result<Option<String>, Stop> {
    let mut analysis = first.analysis.again(policy, pod, context)?;
    if analysis.policy.values != first.analysis.policy.values {
        return Err(Stop::Refuse(Reason::NotIdempotent { path: "/spec/nodeSelector".to_owned() }));
    }
    // A trace has the values, too.
    let is_of_conditions = again == SecondRun::Conditions && log.trace.is_none();
    if is_of_conditions && no_others_apply(&analysis, first, pod, context)? {
        return Ok(None);
    }
    context.count_input();
    let (unchanged, writes) = (pod.clone(), log.writes);
    join_host(&mut analysis, pod, context, log)?;
    if let Some(trace) = &mut log.trace {
        trace.start_again();
    }
    let known = log.warnings.split_off(of_merge);
    let scope = Scope::of_pod(&analysis);
    let mut rules = Rules::unevaluated(&analysis, &scope);
    rules.evaluate(pod, context, None)?;
    merge(&rules, pod, policy.stamp(), context, log)?;
    let changed = (log.writes > writes && *pod != unchanged).then(|| {
        let first = json_patch::diff(&unchanged, pod).0.into_iter().next();
        first.map(|operation| operation.path().to_string()).unwrap_or_default()
    });
    let repeated = log.warnings.split_off(of_merge);
    let (seen, still): (HashSet<&Warning>, HashSet<&Warning>) =
        (known.iter().collect(), repeated.iter().collect());
    // A value that nothing excludes any longer changes the pod.
    let holds =
        |warning: &Warning| changed.is_none() || !warning.kind.is_left_out() || still.contains(warning);
    let is_new =
        |warning: &Warning| (changed.is_some() || warning.kind.is_left_out()) && !seen.contains(warning);
    log.warnings.extend(known.iter().filter(|warning| holds(warning)).cloned());
    log.warnings.extend(repeated.iter().filter(|warning| is_new(warning)).cloned());
    Ok(changed)
}

/// Returns whether the rules that apply now are among those of the first injection.
fn no_others_apply(
    analysis: &PodAnalysis,
    before: &Rules<'_>,
    pod: &Value,
    context: &PodContext,
) -> Result<bool, Stop> {
    if rule_that_joins_host(analysis, pod, context)?.is_some() {
        return Ok(false);
    }
    let scope = Scope::of_pod(analysis);
    let mut rules = Rules::unevaluated(analysis, &scope);
    rules.evaluate(pod, context, None)?;
    Ok(rules.are_among(before))
}

/// Moves the pod to the host network if an applicable rule does, so all rules see it there.
fn join_host(
    analysis: &mut PodAnalysis,
    pod: &mut Value,
    context: &PodContext,
    log: &mut ChangeLog,
) -> Result<(), Stop> {
    let Some(rule) = rule_that_joins_host(analysis, pod, context)? else { return Ok(()) };
    let mut cursor = Cursor::pod(pod, log)?;
    cursor.written_by_rule(&rule.name);
    cursor.within("spec", |spec| {
        if let Some(false) = spec.get("hostNetwork").and_then(Value::as_bool) {
            let (seen, wanted) = ("false".to_owned(), "true".to_owned());
            spec.warn("hostNetwork", WarningKind::Replaced { seen, wanted }, &rule.name);
        }
        spec.put("hostNetwork", Value::Bool(true));
        Ok(())
    })?;
    analysis.joined_host(pod, context);
    Ok(())
}

/// Records the rules that apply, and those that are left out.
fn record_rules(rules: &Rules<'_>, log: &mut ChangeLog) {
    let analysis = rules.analysis;
    if let Some(trace) = &mut log.trace {
        trace.applied.extend(rules.applied().map(|rule| rule.name.clone()));
    }
    let names = &analysis.own_devices;
    if analysis.policy.devices.are_kept && !names.is_empty() && (analysis.has_gpus() || rules.any()) {
        log.warnings.push(about(WarningKind::KeptFabric { names: names.clone() }, ""));
    }
    for rule in rules.in_state(State::WithoutNetwork) {
        let path = "/spec/hostNetwork".to_owned();
        log.warnings.push(Warning { path, kind: WarningKind::HostNetwork, rule: rule.name.clone() });
    }
    for rule in rules.in_state(State::KeptOffHost) {
        let kind = if let Some(against) = rules.off_host.clone() {
            WarningKind::Excluded { setting: "hostNetwork: true".to_owned(), against }
        } else {
            let (seen, wanted) = ("false".to_owned(), "true".to_owned());
            WarningKind::Kept { what: Kept::Field, seen, wanted }
        };
        let path = "/spec/hostNetwork".to_owned();
        log.warnings.push(Warning { path, kind, rule: rule.name.clone() });
    }
}

fn no_rule_applies(policy: &Policy, analysis: &PodAnalysis, pod: &Value) -> Stop {
    let is_injected = pod["metadata"]["annotations"][STAMP] == policy.stamp();
    if analysis.has_gpus() && is_injected {
        return Stop::Leave(Reason::NothingToAdd);
    }
    if analysis.has_gpus() {
        return Stop::Skip(Reason::NoRuleApplies);
    }
    let resource = analysis.policy.devices.gpu_resources.first().cloned().unwrap_or_default();
    Stop::Leave(Reason::NoGpuContainer { resource })
}

/// Reports the sources of the parameter values on which an applied rule depends, and with it the choice of the policy.
fn warn_about_parameters(rules: &Rules<'_>, log: &mut ChangeLog) {
    let PodAnalysis { policy, nodes: selection, .. } = rules.analysis;
    let of_nodes = !selection.kinds.is_empty();
    let matters = |name: &str| {
        policy.parameters_of_condition.contains(name)
            || rules.applied().any(|rule| rule.parameters.contains(name))
    };
    let selected =
        |label: &String| SelectedLabel { label: label.clone(), values: selection.values(label).to_vec() };
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
                kinds: fitting_nodes::told_apart(&selection.each()),
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
        let warning = about(kind, "");
        if !log.warnings.contains(&warning) {
            log.warnings.push(warning);
        }
    }
}

/// A warning about the pod.
fn about(kind: WarningKind, rule: &str) -> Warning {
    Warning { path: String::new(), kind, rule: rule.to_owned() }
}
