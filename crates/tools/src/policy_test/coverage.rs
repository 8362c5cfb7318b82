//! The rules, conditions and rows of policies, and the values that they had over all cases.

mod seen;

use fabric_engine::policy_set::PolicySet;
use fabric_engine::{ConditionOf, Evaluated, LookedAt, Trace};
use fabric_policy::interpolation::Interpolation;
use fabric_policy::{Definition, Origin, Policy};

use seen::place;
pub use seen::{Kind, Seen};

/// The values that the cases have seen of the rules, conditions and rows of policies.
#[derive(Debug, Default)]
pub struct Coverage {
    policies: Vec<PolicyCoverage>,
}

#[derive(Debug)]
struct PolicyCoverage {
    policy: String,
    file: String,
    seen: Vec<Seen>,
}

impl Coverage {
    /// Adds a policy that may have no cases.
    pub fn add(&mut self, definition: &Definition) {
        self.entry(definition);
    }

    fn entry(&mut self, definition: &Definition) -> &mut PolicyCoverage {
        let known = self.position(&definition.name, &definition.file);
        let at = known.unwrap_or_else(|| {
            self.policies.push(PolicyCoverage::new(definition));
            self.policies.len() - 1
        });
        &mut self.policies[at]
    }

    fn position(&self, policy: &str, file: &str) -> Option<usize> {
        self.policies.iter().position(|known| known.policy == policy && known.file == file)
    }

    /// Adds the results of other cases.
    pub fn extend(&mut self, other: Self) {
        for policy in other.policies {
            let Some(at) = self.position(&policy.policy, &policy.file) else {
                self.policies.push(policy);
                continue;
            };
            for (seen, more) in self.policies[at].seen.iter_mut().zip(policy.seen) {
                seen.yes += more.yes;
                seen.no += more.no;
            }
        }
    }

    /// Records the policies that the engine considered for a pod, and the conditions and rules of the one that it
    /// chose.
    pub(super) fn record(&mut self, policies: &PolicySet, trace: &Trace) {
        for definition in policies.policies().iter().map(Policy::definition) {
            let coverage = self.entry(definition);
            if let Some(LookedAt { of: (_, resolved), when }) = trace.looked_at.get(&definition.name) {
                coverage.see(Kind::Match, "", when.as_ref().and_then(|when| when.value));
                coverage.see_rows(&resolved.origins);
            }
            if trace.chosen.as_ref() == Some(&definition.name) {
                coverage.see_injection(definition, trace);
            }
        }
    }

    /// The policies, each with its file and its covered parts.
    pub fn policies(&self) -> impl Iterator<Item = (&str, &str, &[Seen])> {
        self.policies.iter().map(|one| (one.policy.as_str(), one.file.as_str(), one.seen.as_slice()))
    }
}

impl PolicyCoverage {
    fn new(definition: &Definition) -> Self {
        let mut seen = Vec::new();
        let is_own = |span| definition.extends.is_none() || !definition.is_of_base(span);
        let mut part = |kind, name: &str, is_there: bool| {
            let span = place(definition, kind, name);
            if is_there && is_own(span) {
                seen.push(Seen::new(definition, kind, name, span));
            }
        };
        // No case can make a literal `true` false.
        let varies = |condition: Option<&Interpolation>| {
            condition.is_some_and(|condition| condition.source() != "true")
        };
        part(Kind::Match, "", varies(definition.matcher.when.as_ref()));
        for rule in &definition.rules {
            let (when, containers) = (varies(rule.when.as_ref()), rule.containers.written());
            part(Kind::Rule, &rule.name, when || containers.is_none() || varies(containers));
            part(Kind::When, &rule.name, when);
            part(Kind::Containers, &rule.name, varies(containers));
        }
        definition.files.iter().for_each(|file| part(Kind::File, &file.path, varies(file.when.as_ref())));
        definition.checks.iter().for_each(|check| part(Kind::Check, &check.code, true));
        for column in definition.by_node() {
            for (label, machines, span) in column.rows() {
                if is_own(span) {
                    let name = format!("`{machines}` of `{}` by `{label}`", column.name);
                    let row = Seen::new(definition, Kind::Row, &name, span);
                    seen.push(Seen { at: (label.to_owned(), span), ..row });
                }
            }
        }
        Self { policy: definition.name.clone(), file: definition.file.clone(), seen }
    }

    /// Records the conditions that the engine evaluated, and the rules that it applied.
    fn see_injection(&mut self, definition: &Definition, trace: &Trace) {
        let rules = &definition.rules;
        for Evaluated { of, fact, .. } in &trace.conditions {
            match *of {
                ConditionOf::Rule(at) => self.see(Kind::When, &rules[at].name, fact.value),
                ConditionOf::Containers(at) => self.see(Kind::Containers, &rules[at].name, fact.value),
                ConditionOf::File(at) => self.see(Kind::File, &definition.files[at].path, fact.value),
                ConditionOf::Check(at) => self.see_check(definition.checks.len() - at, fact.value),
            }
        }
        for rule in rules {
            self.see(Kind::Rule, &rule.name, Some(trace.applied.contains(&rule.name)));
        }
    }

    /// Records the value of a rule or condition, if it has one.
    fn see(&mut self, kind: Kind, name: &str, value: Option<bool>) {
        if let Some(value) = value
            && let Some(seen) = self.seen.iter_mut().find(|seen| seen.kind == kind && seen.name == name)
        {
            seen.record(value);
        }
    }

    /// Records the rows that give values for a pod.
    fn see_rows(&mut self, origins: &[Origin]) {
        for origin in origins {
            if let Origin::Machines(label, span) = origin {
                let at = (label.clone(), *span);
                self.seen.iter_mut().filter(|seen| seen.at == at).for_each(|seen| seen.record(true));
            }
        }
    }

    /// Records the value of a check by its place from the end. Several can have one code, and those of a
    /// base, which are not counted, come first.
    fn see_check(&mut self, from_end: usize, value: Option<bool>) {
        if let Some(value) = value
            && let Some(seen) =
                self.seen.iter_mut().rev().filter(|seen| seen.kind == Kind::Check).nth(from_end - 1)
        {
            seen.record(value);
        }
    }
}
