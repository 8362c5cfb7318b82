//! The rules and conditions of policies, and the values that they had over all cases.

use serde_json::Value;

use crate::core::engine::{MessageConditions, RuleConditions, conditions};
use crate::core::policy::{Definition, PodContext};
use crate::core::policy_set::PolicySet;

/// What the cases have seen of policies.
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

/// The part of a policy that can have two values.
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
    SettingsWhen,
    SettingsContainers,
    Refusal,
    Warning,
}

/// A rule or a condition, and the values that it had.
#[derive(Debug, Clone)]
pub struct Seen {
    pub kind: Kind,
    /// The rule, the settings or the code; empty for `match.when`.
    pub name: String,
    /// The number of times that the rule applied, or that the condition was true.
    pub yes: usize,
    /// The number of times that the rule did not apply, or that the condition was false.
    pub no: usize,
}

impl Seen {
    fn new(kind: Kind, name: &str) -> Self {
        Self { kind, name: name.to_owned(), yes: 0, no: 0 }
    }

    fn record(&mut self, value: bool) {
        if value {
            self.yes += 1;
        } else {
            self.no += 1;
        }
    }

    /// Returns whether the cases have seen both values.
    pub fn is_complete(&self) -> bool {
        self.yes > 0 && self.no > 0
    }

    /// The rule or condition as reports name it.
    pub fn describe(&self) -> String {
        let name = &self.name;
        match self.kind {
            Kind::Rule => format!("rule `{name}`"),
            Kind::Match => "`match.when`".to_owned(),
            Kind::When => format!("`when` of rule `{name}`"),
            Kind::Containers => format!("`containers` of rule `{name}`"),
            Kind::SettingsWhen => format!("`when` of settings `{name}`"),
            Kind::SettingsContainers => format!("`containers` of settings `{name}`"),
            Kind::Refusal => format!("refusal `{name}`"),
            Kind::Warning => format!("warning `{name}`"),
        }
    }

    /// The values that no case has seen, in words.
    pub fn lacking(&self) -> &'static str {
        match (self.kind, self.yes > 0, self.no > 0) {
            (_, true, true) => "",
            (Kind::Rule, false, false) => "never evaluated",
            (Kind::Rule, false, true) => "never applies",
            (Kind::Rule, true, false) => "always applies",
            (_, false, false) => "never evaluated",
            (_, false, true) => "never true",
            (_, true, false) => "never false",
        }
    }
}

impl Coverage {
    /// Adds a policy of which no case may have seen anything.
    pub fn add(&mut self, definition: &Definition) {
        self.of(definition);
    }

    fn of(&mut self, definition: &Definition) -> &mut PolicyCoverage {
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

    /// Adds what other cases have seen.
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

    /// Records the conditions of each policy that a pod matches.
    pub(super) fn record(&mut self, policies: &PolicySet, pod: &Value, context: &PodContext) {
        for policy in policies.policies() {
            let coverage = self.of(policy.definition());
            // A pod for which a condition has no value is refused, which the case sees.
            if let Some(Ok(found)) =
                policies.concerns(policy, pod, context).then(|| conditions(policy, pod, context))
            {
                if let Some(value) = found.condition {
                    coverage.see(Kind::Match, 0, value);
                }
                for (at, rule) in found.rules.iter().enumerate() {
                    coverage.see(Kind::Rule, at, rule.applies());
                    coverage.see_rule(Kind::When, Kind::Containers, rule);
                }
                for settings in &found.settings {
                    coverage.see_rule(Kind::SettingsWhen, Kind::SettingsContainers, settings);
                }
                coverage.see_messages(Kind::Refusal, &found.refusals);
                coverage.see_messages(Kind::Warning, &found.warnings);
            }
        }
    }

    /// The policies, each with its file and with what was seen of it.
    pub fn policies(&self) -> impl Iterator<Item = (&str, &str, &[Seen])> {
        self.policies.iter().map(|one| (one.policy.as_str(), one.file.as_str(), one.seen.as_slice()))
    }
}

impl PolicyCoverage {
    fn new(definition: &Definition) -> Self {
        let mut seen = Vec::new();
        let mut add = |kind, name: &str, is_there: bool| {
            if is_there {
                seen.push(Seen::new(kind, name));
            }
        };
        add(Kind::Match, "", definition.matcher.when.is_some());
        for rule in &definition.rules {
            add(Kind::Rule, &rule.name, true);
            add(Kind::When, &rule.name, rule.when.is_some());
            add(Kind::Containers, &rule.name, rule.containers.is_some());
        }
        for settings in &definition.settings {
            add(Kind::SettingsWhen, &settings.name, settings.when.is_some());
            add(Kind::SettingsContainers, &settings.name, settings.containers.is_some());
        }
        definition.refusals.iter().for_each(|refusal| add(Kind::Refusal, &refusal.code, true));
        definition.warnings.iter().for_each(|warning| add(Kind::Warning, &warning.code, true));
        Self { policy: definition.name.clone(), file: definition.file.clone(), seen }
    }

    /// Records a value of the condition at this position among those of its kind.
    fn see(&mut self, kind: Kind, at: usize, value: bool) {
        if let Some(seen) = self.seen.iter_mut().filter(|seen| seen.kind == kind).nth(at) {
            seen.record(value);
        }
    }

    fn see_rule(&mut self, when: Kind, containers: Kind, rule: &RuleConditions) {
        for seen in self.seen.iter_mut().filter(|seen| seen.name == rule.name) {
            if seen.kind == when {
                rule.when.iter().for_each(|value| seen.record(*value));
            } else if seen.kind == containers {
                rule.containers.iter().for_each(|(_, value)| seen.record(*value));
            }
        }
    }

    fn see_messages(&mut self, kind: Kind, messages: &[MessageConditions]) {
        for (at, message) in messages.iter().enumerate() {
            for (_, value) in &message.values {
                self.see(kind, at, *value);
            }
        }
    }
}
