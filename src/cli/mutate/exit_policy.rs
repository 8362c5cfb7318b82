//! The options of `mutate` that make findings count as a failure, for continuous integration.

use std::collections::BTreeSet;

use clap::Args;

use crate::builtin;
use crate::cli::fail_on::{FailOn, fail_on};
use crate::cli::report::Location;
use fabric_engine::policy_set::PolicySet;
use fabric_engine::{FINDINGS, Outcome, Reason, Warning};
use fabric_policy::{Effect, Policy};
use fabric_workloads::advice::WORKLOAD_WITHOUT_TRIGGER;
use fabric_workloads::manifest::{InjectedDocument, Template};

#[derive(Debug, Args)]
pub(super) struct ExitPolicyArguments {
    /// Exit with 1 if the report has a warning or a near miss, or one with these codes
    #[arg(long, value_name = "warning[=CODE,…]", value_parser = fail_on)]
    fail_on: Option<FailOn>,
    /// Exit with 1 if no pod template is injected, or if one that requests the fabric is not
    #[arg(long)]
    require_mutated: bool,
}

impl ExitPolicyArguments {
    /// Returns whether the findings of each document are needed, also without a report.
    pub(super) fn reads_findings(&self) -> bool {
        self.fail_on.is_some() || self.require_mutated
    }

    /// Fails for a code that no warning has.
    pub(super) fn validate(&self, policies: &PolicySet) -> anyhow::Result<()> {
        let Some(fail_on) = &self.fail_on else { return Ok(()) };
        let built_in = builtin::definitions()?;
        let definitions = policies.policies().iter().map(Policy::definition).chain(&built_in);
        let own = Warning::CODES.iter().chain(FINDINGS).copied();
        fail_on.validate(definitions.flat_map(|one| one.check_codes(&Effect::WARNINGS)).chain(own))
    }
}

/// The findings of the documents so far that the exit status depends on.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// The number of pod templates that are injected, now or by an earlier run.
    injected: usize,
    /// The codes of the warnings and near misses.
    codes: Vec<String>,
    /// The positions of the templates that request the fabric and are not injected.
    left_out: Vec<String>,
}

impl Verdict {
    pub(super) fn new(location: Location<'_>, document: &InjectedDocument) -> Self {
        let mut verdict = Self::default();
        for template in &document.templates {
            let warnings = template.mutation.warnings.iter().map(|warning| warning.code().to_owned());
            let near_misses = template.findings.near_misses.iter().map(|miss| miss.code.clone());
            verdict.codes.extend(warnings.chain(near_misses));
            if is_injected(template) {
                verdict.injected += 1;
            } else if requests_fabric(template) {
                verdict.left_out.push(location.of(&template.pointer));
            }
        }
        verdict
    }

    pub(super) fn add(&mut self, other: Self) {
        self.injected += other.injected;
        self.codes.extend(other.codes);
        self.left_out.extend(other.left_out);
    }

    /// The failures, each with its code.
    pub(super) fn failures(&self, arguments: &ExitPolicyArguments) -> Vec<(&'static str, String)> {
        let mut failures = Vec::new();
        let counts = |code: &&String| arguments.fail_on.as_ref().is_some_and(|on| on.counts(code));
        let counted: Vec<&String> = self.codes.iter().filter(counts).collect();
        if !counted.is_empty() {
            let codes: BTreeSet<&str> = counted.iter().map(|code| code.as_str()).collect();
            let codes: Vec<&str> = codes.into_iter().collect();
            let number = counted.len();
            failures.push((
                "fail_on",
                format!("--fail-on: the report has {} ({number} in all)", codes.join(", ")),
            ));
        }
        if arguments.require_mutated {
            let not_injected =
                |at: &String| format!("--require-mutated: {at} requests the fabric, but is not injected");
            failures.extend(self.left_out.iter().map(|at| ("require_mutated", not_injected(at))));
            if self.injected == 0 && self.left_out.is_empty() {
                failures
                    .push(("require_mutated", "--require-mutated: no pod template is injected".to_owned()));
            }
        }
        failures
    }
}

/// Returns whether a template has the additions of a policy, of this run or of an earlier one.
fn is_injected(template: &Template) -> bool {
    match &template.mutation.outcome {
        Outcome::Mutated(_) => true,
        Outcome::Unchanged { reason: Reason::NothingToAdd, .. } => true,
        // An earlier run assumed the annotation.
        Outcome::Unchanged { reason, .. } if reason.is_unmatched() => template.stamped,
        Outcome::Unchanged { .. } | Outcome::Skipped { .. } | Outcome::Refused { .. } => false,
    }
}

/// Returns whether a template requests the fabric: by the annotation of a trigger, or by something that looks like it.
/// A workload that merely should request it does not count, and neither does what it has by hand.
fn requests_fabric(template: &Template) -> bool {
    let by_annotation = match &template.mutation.outcome {
        Outcome::Unchanged { reason: Reason::MatchFailed { .. }, .. } => true,
        // A refused pod has an exit status of its own.
        Outcome::Refused { .. } => false,
        _ => template.mutation.requests_fabric(),
    };
    let is_trigger = |code: &str| code.contains("trigger") && code != WORKLOAD_WITHOUT_TRIGGER;
    (by_annotation && !template.assumed)
        || template.findings.near_misses.iter().any(|miss| is_trigger(&miss.code))
}
