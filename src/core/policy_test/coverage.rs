//! The rules and conditions of policies, and the values that they had over all cases.

use serde_json::Value;

use crate::core::engine::{Mutation, Outcome, Reason, ScopeOf, Trace, each_scope, own_variable};
use crate::core::policy::definition::{At, keys};
use crate::core::policy::expression::Bindings;
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::{About, Definition, PodContext, Policy, PolicyWarning, VALUE};
use crate::core::policy_set::PolicySet;

/// The values that the cases have seen of the rules and conditions of policies.
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

    /// Records the conditions of each policy that a pod matches, and the rules that the engine applied.
    pub(super) fn record(
        &mut self,
        policies: &PolicySet,
        pod: &Value,
        context: &PodContext,
        (mutation, trace): (&Mutation, Option<&Trace>),
    ) {
        let none = Trace::default();
        for policy in policies.policies() {
            let coverage = self.of(policy.definition());
            if policies.concerns(policy, pod, context) {
                let is_chosen = mutation.policy.as_deref() == Some(policy.name());
                let trace = trace.filter(|_| is_chosen).unwrap_or(&none);
                coverage.record(policy, pod, context, mutation, trace);
            }
        }
    }

    /// The policies, each with its file and with what was seen of it.
    pub fn policies(&self) -> impl Iterator<Item = (&str, &str, &[Seen])> {
        self.policies.iter().map(|one| (one.policy.as_str(), one.file.as_str(), one.seen.as_slice()))
    }
}

/// Returns whether the file of a policy has a part itself, apart from what the policy has that it extends.
fn is_own(definition: &Definition, kind: Kind, name: &str) -> bool {
    let of = |list, key| vec![At::Key(list), At::Item(key, name.to_owned())];
    let path = match kind {
        Kind::Match => keys(["match", "when"]),
        Kind::Rule | Kind::When | Kind::Containers => {
            let rule = definition.rules.iter().find(|rule| rule.name == name);
            return rule.is_none_or(|rule| definition.extends.is_none() || !definition.is_of_base(rule.span));
        }
        Kind::SettingsWhen | Kind::SettingsContainers => of("settings".to_owned(), "name"),
        Kind::Warning => of("warnings".to_owned(), "code"),
    };
    definition.extends.is_none() || !definition.is_of_base(definition.place(&path))
}

impl PolicyCoverage {
    fn new(definition: &Definition) -> Self {
        let mut seen = Vec::new();
        let mut add = |kind, name: &str, is_there: bool| {
            if is_there && is_own(definition, kind, name) {
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
        definition.warnings.iter().for_each(|warning| add(Kind::Warning, &warning.code, true));
        Self { policy: definition.name.clone(), file: definition.file.clone(), seen }
    }

    fn record(
        &mut self,
        policy: &Policy,
        pod: &Value,
        context: &PodContext,
        mutation: &Mutation,
        trace: &Trace,
    ) {
        let after = mutation.outcome.changed().map_or(pod, |changed| &changed.pod);
        let mut run = Run {
            definition: policy.definition(),
            pod,
            refusal: match &mutation.outcome {
                Outcome::Refused { reason } => Some(reason),
                _ => None,
            },
            matches: true,
            trace,
            coverage: self,
        };
        // A pod for which an expression has no value is refused, which the case sees.
        let _ = each_scope(policy, pod, after, context, &mut |scope, _, bindings| run.visit(scope, bindings));
        if run.matches {
            for rule in &run.definition.rules {
                let applied = trace.applied.iter().any(|applied| applied.rule == rule.name);
                run.coverage.see(Kind::Rule, &rule.name, Some(applied));
            }
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

    /// Records the value of a warning by its place from the end. Several can have one code, and those of a
    /// base, which are not counted, come first.
    fn see_message(&mut self, from_end: usize, value: Option<bool>) {
        if let Some(value) = value
            && let Some(seen) =
                self.seen.iter_mut().rev().filter(|seen| seen.kind == Kind::Warning).nth(from_end - 1)
        {
            seen.record(value);
        }
    }
}

/// The evaluation of a policy's conditions for one pod, in the order of the engine.
struct Run<'a> {
    definition: &'a Definition,
    pod: &'a Value,
    /// The reason for which the pod was refused.
    refusal: Option<&'a Reason>,
    /// The value of `match.when`.
    matches: bool,
    trace: &'a Trace,
    coverage: &'a mut PolicyCoverage,
}

impl Run<'_> {
    fn visit(&mut self, scope: ScopeOf, bindings: &Bindings<'_, '_>) {
        match scope {
            ScopeOf::Pod => self.visit_pod(bindings),
            _ if !self.matches => {}
            ScopeOf::Container { list, index, .. } => {
                let container = &self.pod["spec"][list][index];
                self.visit_container(bindings);
                if self.trace.applied.iter().any(|applied| (applied.list, applied.index) == (list, index)) {
                    self.visit_messages(bindings, |about| match about {
                        About::Variable(name) => {
                            own_variable(&container["env"], name).map(|(_, value)| Some(value))
                        }
                        About::Container => Some(None),
                        About::Pod => None,
                    });
                }
            }
            ScopeOf::Injected => {
                self.visit_messages(bindings, |about| (*about == About::Pod).then_some(None));
            }
        }
    }

    fn visit_pod(&mut self, bindings: &Bindings<'_, '_>) {
        let value = holds(self.definition.matcher.when.as_ref(), bindings);
        self.coverage.see(Kind::Match, "", value);
        self.matches = value.unwrap_or(true);
        if !self.matches {
            return;
        }
        for rule in &self.definition.rules {
            self.coverage.see(Kind::When, &rule.name, holds(rule.when.as_ref(), bindings));
        }
        for settings in &self.definition.settings {
            self.coverage.see(Kind::SettingsWhen, &settings.name, holds(settings.when.as_ref(), bindings));
        }
    }

    /// Records the conditions about a container, of the rules and settings whose `when` holds.
    fn visit_container(&mut self, bindings: &Bindings<'_, '_>) {
        let rules = self.definition.rules.iter();
        let rules = rules.map(|rule| (Kind::Containers, &rule.name, &rule.when, &rule.containers));
        let settings = self.definition.settings.iter();
        let settings = settings.map(|one| (Kind::SettingsContainers, &one.name, &one.when, &one.containers));
        for (kind, name, when, containers) in rules.chain(settings) {
            if holds(when.as_ref(), bindings).unwrap_or(when.is_none()) {
                self.coverage.see(kind, name, holds(containers.as_ref(), bindings));
            }
        }
    }

    /// Records the messages for which `value_of` has a value: that of a variable, or none if the message is about
    /// something else.
    fn visit_messages(
        &mut self,
        bindings: &Bindings<'_, '_>,
        value_of: impl Fn(&About) -> Option<Option<Value>>,
    ) {
        let warnings = &self.definition.warnings;
        // The engine gives no other warnings for a pod that it refuses.
        let given = |warning: &PolicyWarning| warning.refuses || self.refusal.is_none();
        for (at, warning) in warnings.iter().enumerate().filter(|(_, warning)| given(warning)) {
            let Some(value) = value_of(&warning.about) else { continue };
            let mut bindings = bindings.child();
            if let Some(value) = value {
                bindings.set(VALUE, &value);
            }
            let value = match self.refusal {
                // It reads what the rules added, and the pod that was refused does not have it.
                Some(reason) if warning.about == About::Pod => {
                    matches!(reason, Reason::Policy { code, .. } if *code == warning.code).then_some(true)
                }
                _ => warning.when.holds(&bindings).ok(),
            };
            self.coverage.see_message(warnings.len() - at, value);
        }
    }
}

/// The value of a condition; `None` without one, and for one that has no value.
fn holds(condition: Option<&Interpolation>, bindings: &Bindings<'_, '_>) -> Option<bool> {
    condition.and_then(|condition| condition.holds(bindings).ok())
}
