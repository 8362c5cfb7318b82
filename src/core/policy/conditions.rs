//! The conditions of a policy, for commands that explain it or measure its coverage.

use super::definition::{About, Definition};
use super::interpolation::Interpolation;

/// The place of a condition in a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConditionKind {
    /// `match.when`.
    Match,
    /// `when` of a rule.
    RuleWhen,
    /// `containers` of a rule.
    RuleContainers,
    /// `when` of settings.
    SettingsWhen,
    /// `containers` of settings.
    SettingsContainers,
    /// `when` of a refusal.
    Refusal,
    /// `when` of a warning.
    Warning,
}

/// The values that a condition can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConditionScope {
    Pod,
    Container,
    /// The pod after its containers were injected.
    Injected,
    /// A container, and the value that it sets for this variable.
    Variable(String),
}

/// A condition of a policy.
#[derive(Debug, Clone)]
pub(crate) struct PolicyCondition<'p> {
    pub(crate) kind: ConditionKind,
    /// The rule, the settings or the code; empty for `match.when`.
    pub(crate) name: &'p str,
    pub(crate) scope: ConditionScope,
    pub(crate) text: &'p Interpolation,
}

impl PolicyCondition<'_> {
    /// Returns whether it is the condition of a warning or a refusal.
    pub(crate) fn is_message(&self) -> bool {
        matches!(self.kind, ConditionKind::Refusal | ConditionKind::Warning)
    }
}

impl Definition {
    /// The conditions that the policy has, in the order in which the engine evaluates them.
    pub(crate) fn conditions(&self) -> Vec<PolicyCondition<'_>> {
        use ConditionKind as Kind;
        let mut found = Vec::new();
        let mut add = |kind, name, scope, text| {
            if let Some(text) = text {
                found.push(PolicyCondition { kind, name, scope, text });
            }
        };
        add(Kind::Match, "", ConditionScope::Pod, self.matcher.when.as_ref());
        for rule in &self.rules {
            add(Kind::RuleWhen, &rule.name, ConditionScope::Pod, rule.when.as_ref());
            add(Kind::RuleContainers, &rule.name, ConditionScope::Container, rule.containers.as_ref());
        }
        for settings in &self.settings {
            let (when, containers) = (settings.when.as_ref(), settings.containers.as_ref());
            add(Kind::SettingsWhen, &settings.name, ConditionScope::Pod, when);
            add(Kind::SettingsContainers, &settings.name, ConditionScope::Container, containers);
        }
        for (kind, messages) in [(Kind::Refusal, &self.refusals), (Kind::Warning, &self.warnings)] {
            for message in messages {
                let scope = match &message.about {
                    About::Pod => ConditionScope::Injected,
                    About::Container => ConditionScope::Container,
                    About::Variable(name) => ConditionScope::Variable(name.clone()),
                };
                add(kind, &message.code, scope, Some(&message.when));
            }
        }
        found
    }
}
