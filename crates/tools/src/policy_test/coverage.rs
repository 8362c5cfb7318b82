//! The rules, conditions and rows of policies, and the values that they had over all cases.

use fabric_engine::policy_set::PolicySet;
use fabric_engine::{ConditionFact, LookedAt, Trace};
use fabric_policy::interpolation::Interpolation;
use fabric_policy::{Definition, Origin, Policy, PolicyCheck, ResolvedPolicy};
use fabric_yaml::Span;

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

    /// Leaves out the policies of these names.
    pub fn leave_out(&mut self, is_left_out: impl Fn(&str) -> bool) {
        self.policies.retain(|known| !is_left_out(&known.policy));
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
            let Some(LookedAt { of: (_, resolved), when }) = trace.looked_at.get(&definition.name) else {
                continue;
            };
            coverage.see_condition(Kind::Match, definition.matcher.when.as_ref(), when.as_ref());
            for origin in &resolved.origins {
                if let Origin::Machines(label, span) = origin {
                    coverage.see(Kind::Row, label, *span, Some(true));
                }
            }
            if trace.chosen.as_ref() == Some(&definition.name) {
                coverage.see_injection(definition, resolved, trace);
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
        let is_own = |span: &Span| definition.extends.is_none() || !definition.is_of_base(*span);
        let mut part = |kind, name: &str, label: &str, span: Option<Span>| {
            if let Some(span) = span.filter(is_own) {
                let (file, line) = definition.line_in_file(span);
                let (name, label, file) = (name.to_owned(), label.to_owned(), file.to_owned());
                seen.push(Seen { kind, name, file, line: line.max(1), label, span, yes: 0, no: 0 });
            }
        };
        part(Kind::Match, "", "", varying(definition.matcher.when.as_ref()));
        for rule in &definition.rules {
            let (when, containers) = (varying(rule.when.as_ref()), varying(rule.containers.written()));
            let varies = when.is_some() || containers.is_some() || rule.containers.written().is_none();
            part(Kind::Rule, &rule.name, "", varies.then_some(rule.span));
            part(Kind::When, &rule.name, "", when);
            part(Kind::Containers, &rule.name, "", containers);
        }
        definition
            .files
            .iter()
            .for_each(|file| part(Kind::File, &file.path, "", varying(file.when.as_ref())));
        definition.checks.iter().for_each(|check| part(Kind::Check, &check.code, "", Some(check.span)));
        for column in definition.by_node() {
            for (label, machines, span) in column.rows() {
                let name = format!("`{machines}` of `{}` by `{label}`", column.name);
                part(Kind::Row, &name, label, Some(span));
            }
        }
        Self { policy: definition.name.clone(), file: definition.file.clone(), seen }
    }

    /// Records the rules and conditions of the policy that injects a pod.
    fn see_injection(&mut self, definition: &Definition, resolved: &ResolvedPolicy, trace: &Trace) {
        for (rule, result) in definition.rules.iter().zip(&trace.rules) {
            self.see_condition(Kind::When, rule.when.as_ref(), result.when.as_ref());
            for of in &result.containers {
                self.see_condition(Kind::Containers, rule.containers.written(), Some(&of.condition));
            }
            self.see(Kind::Rule, "", rule.span, Some(result.applied));
        }
        for (file, result) in definition.files.iter().zip(&trace.files) {
            self.see_condition(Kind::File, file.when.as_ref(), result.when.as_ref());
        }
        trace.checks.iter().for_each(|check| self.see(Kind::Check, "", check.span, check.fact.value));
        // The parameters exclude the others.
        let is_excluded =
            |check: &&PolicyCheck| resolved.evaluated.checks.iter().all(|known| known.span != check.span);
        for check in definition.checks.iter().filter(is_excluded) {
            self.see(Kind::Check, "", check.span, Some(false));
        }
    }

    fn see_condition(&mut self, kind: Kind, written: Option<&Interpolation>, fact: Option<&ConditionFact>) {
        if let Some((written, fact)) = written.zip(fact) {
            self.see(kind, "", written.span(), fact.value);
        }
    }

    /// Records the value of the part at a place, if it has one.
    fn see(&mut self, kind: Kind, label: &str, span: Span, value: Option<bool>) {
        let is_there = |seen: &&mut Seen| seen.kind == kind && seen.label == label && seen.span == span;
        for seen in self.seen.iter_mut().filter(is_there) {
            seen.yes += usize::from(value == Some(true));
            seen.no += usize::from(value == Some(false));
        }
    }
}

/// The place of a condition. No case can make a literal `true` false.
fn varying(condition: Option<&Interpolation>) -> Option<Span> {
    condition.filter(|condition| condition.source() != "true").map(Interpolation::span)
}

/// The part of a policy that cases cover: a row when it gives a value, the others when they had both of theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A rule applies to a pod, or it does not.
    Rule,
    /// `match.when`.
    Match,
    /// `when` of a rule.
    When,
    /// `containers` of a rule.
    Containers,
    /// `when` of an entry of `files`.
    File,
    /// The conditions of a check.
    Check,
    /// A value of `machines` is that of the parameter or variable for a pod.
    Row,
}

/// A part of a policy, and the values that it had.
#[derive(Debug, Clone)]
pub struct Seen {
    pub kind: Kind,
    /// The rule, the path of the file, the code, or the parameter and the machine; empty for `match.when`.
    pub name: String,
    /// The file that has it, which is that of the policy or of a part.
    pub file: String,
    pub line: usize,
    /// The label of a row. Rows of two labels have one place by an alias.
    label: String,
    /// The place in all files of the policy.
    span: Span,
    /// The number of times that the rule applied, that the condition was true, or that the row gave a value.
    pub yes: usize,
    /// The number of times that the rule did not apply, or that the condition was false.
    pub no: usize,
}

impl Seen {
    /// Returns whether the cases cover it.
    pub fn is_complete(&self) -> bool {
        self.yes > 0 && (self.no > 0 || self.kind == Kind::Row)
    }

    /// The rule or condition as reports name it.
    pub fn describe(&self) -> String {
        let name = &self.name;
        match self.kind {
            Kind::Rule => format!("rule `{name}`"),
            Kind::Match => "`match.when`".to_owned(),
            Kind::When => format!("`when` of rule `{name}`"),
            Kind::Containers => format!("`containers` of rule `{name}`"),
            Kind::File => format!("`when` of the file `{name}`"),
            Kind::Check => format!("check `{name}`"),
            Kind::Row => format!("row {name}"),
        }
    }

    /// The values that no case has seen, in words.
    pub fn lacking(&self) -> &'static str {
        match (self.kind, self.yes > 0, self.no > 0) {
            (Kind::Row, true, _) | (_, true, true) => "",
            (Kind::Row, false, _) => "never gives a value",
            (Kind::Rule, false, false) => "never evaluated",
            (Kind::Rule, false, true) => "never applies",
            (Kind::Rule, true, false) => "always applies",
            (_, false, false) => "never evaluated",
            (_, false, true) => "never true",
            (_, true, false) => "never false",
        }
    }
}
