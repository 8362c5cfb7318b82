//! What the samples show about a policy that is valid: values and checks without a purpose.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use fabric_policy::definition::keys;
use fabric_policy::interpolation::VALUE;
use fabric_policy::matcher::Match;
use fabric_policy::overlay::Write;
use fabric_policy::source::{ALWAYS_REPORTED, LOST_VALUE, NEVER_INJECTS};
use fabric_policy::work::Work;
use fabric_policy::{Diagnostic, Effect, OnConflict, PodContext, Policy, PolicyCheck, SourceError};
use fabric_yaml::pointer::field_path;

use super::expressions::reads;
use super::written::Written;
use super::{context, samples};
use crate::record::{Author, ChangeLog, FieldOutcome, FieldState, Trace};
use crate::{
    Mutated, Mutation, Outcome, Reason, Warning, WarningKind, analysis_if_condition_is_true, inject,
};

/// What happened to the samples that a policy matches.
#[derive(Default)]
struct Seen {
    /// True if the first sample meets the keys of `match` other than its condition.
    meets_match: bool,
    /// The number of samples that the policy matches.
    matched: usize,
    /// The number of those that no check refuses or skips.
    injected: usize,
    /// The number of samples that each check reports.
    reported: BTreeMap<String, usize>,
    /// The paths of values that two rules set differently, by the rule whose value the pod does not get.
    lost: BTreeMap<(String, String), String>,
    /// The rules and paths of values that a pod gets.
    won: BTreeSet<(String, String)>,
    written: Written,
}

/// The warnings about a valid policy. Those about a policy that it extends are left out: they are that policy's.
pub fn findings(policy: &Policy, loading: &Work) -> Vec<SourceError> {
    let seen = Seen::of_samples(policy, loading);
    let refuses = |check: &PolicyCheck| check.effect == Effect::Refuse;
    if seen.injected > 0 || !policy.definition().checks.iter().any(refuses) {
        return seen.findings(policy);
    }
    // If checks refuse all samples, what these would get without them is what pods get that pass the checks.
    let mut definition = policy.definition().clone();
    definition.checks.iter_mut().filter(|check| refuses(check)).for_each(|check| check.effect = Effect::Warn);
    match Policy::new(definition, policy.overrides().clone(), loading) {
        Ok(lenient) => Seen::of_samples(&lenient, loading).findings(&lenient),
        Err(_) => seen.findings(policy),
    }
}

/// Returns whether a pod with one of the annotations of `match` meets its keys other than the condition.
fn meets_match(policy: &Policy, pod: &Value, context: &PodContext) -> bool {
    let matcher = &policy.definition().matcher;
    let with = |(key, value): &(String, String)| {
        let mut pod = pod.clone();
        pod["metadata"]["annotations"] = json!({key: value});
        matcher.test(&pod, context) == Match::Yes
    };
    matcher.any_annotation.is_empty() || matcher.any_annotation.iter().any(with)
}

impl Seen {
    fn of_samples(policy: &Policy, loading: &Work) -> Self {
        let (context, mut seen) = (context(policy), Self::default());
        for (at, (_, pod)) in samples(policy).enumerate() {
            if loading.ended().is_some() {
                break;
            }
            let work = loading.for_input(pod.to_string().len());
            let context = PodContext { work: Some(work.clone()), ..context.clone() };
            seen.meets_match |= at == 0 && meets_match(policy, &pod, &context);
            if let Ok(Some(analysis)) = analysis_if_condition_is_true(policy, &pod, &context, false, None) {
                let mut log = ChangeLog::new(&context);
                log.trace = Some(Box::default());
                let mutation = inject(policy, analysis, pod, &context, &mut log);
                seen.add(policy, &mutation, &log.trace.unwrap_or_default());
            }
            loading.count_all(&work);
        }
        seen
    }

    fn add(&mut self, policy: &Policy, Mutation { outcome, warnings, .. }: &Mutation, trace: &Trace) {
        let rules = &policy.definition().rules;
        let rank = |name: &str| rules.iter().find(|rule| rule.name == name).map(|rule| rule.rank);
        self.matched += 1;
        let of_checks = warnings.iter().filter(|warning| matches!(warning.kind, WarningKind::Policy { .. }));
        let mut codes: BTreeSet<&str> = of_checks.map(Warning::code).collect();
        if let Some(Reason::Policy { code, .. }) = outcome.reason() {
            codes.insert(code);
        }
        for code in codes {
            *self.reported.entry(code.to_owned()).or_default() += 1;
        }
        let (Outcome::Mutated(Mutated { pod, .. }) | Outcome::Unchanged { pod, .. }) = outcome else {
            return;
        };
        self.injected += 1;
        for outcome in &trace.outcomes {
            self.written.add(pod, outcome);
            let FieldOutcome { author, pointer, state, .. } = outcome;
            let Author::Rule(rule) = author else { continue };
            let path = field_path(pod, pointer);
            // All containers are one place.
            let name = path.split_once("ontainers[").and_then(|(_, within)| within.split_once("]."));
            let key = (rule.clone(), name.map_or(path.as_str(), |(_, within)| within).to_owned());
            if let FieldState::Added | FieldState::Replaced = state {
                self.won.insert(key);
            } else if let Some(other) = outcome.preceded_by().filter(|other| rank(other) == rank(rule)) {
                self.lost.entry(key).or_insert_with(|| other.to_owned());
            }
        }
    }

    fn findings(self, policy: &Policy) -> Vec<SourceError> {
        let definition = policy.definition();
        let mut found = self.written.findings(definition);
        for check in &definition.checks {
            // Another pod, or another value, may have what the check needs.
            let is_of_samples = reads(definition, check.conditions()).iter().any(|name| {
                let is_part =
                    ["pod", "container", "containerEnv", "podNamespace", "claimNames", "claimClasses", VALUE]
                        .contains(&&**name);
                is_part || definition.parameters.iter().any(|parameter| parameter.name == *name)
            });
            if !is_of_samples && self.matched > 1 && self.reported.get(&check.code) == Some(&self.matched) {
                let message =
                    format!("the check `{}` reports each of {} sample pods", check.code, self.matched);
                let hint = "write a condition in `when` that is false for a pod that is as it should be";
                found.push(Diagnostic::warning(ALWAYS_REPORTED, check.span, message).hint(hint));
            }
        }
        if !self.meets_match {
            let message = "no pod meets all keys of `match`";
            let hint = "look for an annotation of `exceptAnnotation` that is one of `anyAnnotation`, too";
            let span = definition.place(&keys(["match"]));
            found.push(Diagnostic::warning(NEVER_INJECTS, span, message).hint(hint));
        }
        for ((rule, path), other) in self.lost.iter().filter(|(key, _)| !self.won.contains(*key)) {
            let named = |name: &str| definition.rules.iter().find(|known| known.name == name);
            let (Some(of), Some(first)) = (named(rule), named(other)) else { continue };
            let is_same = |write: &Write<'_>| {
                let is_there = write.name().is_some_and(|name| path.contains(name));
                let same = |other: &Write<'_>| other.name() == write.name() && other.value == write.value;
                is_there && first.writes().any(|other| same(&other))
            };
            if first.on_conflict == OnConflict::Replace || of.writes().any(|write| is_same(&write)) {
                continue;
            }
            let message =
                format!("`{path}` of a sample pod is from the rule `{other}`, so that of `{rule}` is lost");
            let hint = "remove one of the values, or give the rules conditions that exclude each other";
            found.push(Diagnostic::warning(LOST_VALUE, of.span, message).hint(hint));
        }
        found.into_iter().map(|finding| definition.error(finding)).collect()
    }
}
