//! The rules, conditions and rows of policies, and the values that they had over all cases.

mod seen;

use serde_json::Value;

use crate::core::engine::{
    Mutation, Outcome, Reason, ScopeOf, Trace, each_scope, own_variable, selected_nodes,
};
use crate::core::policy::expression::Bindings;
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::{About, Definition, Origin, PodContext, Policy, PolicyCheck, VALUE, resolve};
use crate::core::policy_set::PolicySet;

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
        // No case makes a `true` that is written out false.
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
        self.see_rows(policy, pod, context);
    }

    /// Records the value of a rule or condition, if it has one.
    fn see(&mut self, kind: Kind, name: &str, value: Option<bool>) {
        if let Some(value) = value
            && let Some(seen) = self.seen.iter_mut().find(|seen| seen.kind == kind && seen.name == name)
        {
            seen.record(value);
        }
    }

    /// Records the rows that give values for the nodes of a pod.
    fn see_rows(&mut self, policy: &Policy, pod: &Value, context: &PodContext) {
        let selection = selected_nodes(policy, pod, context).unwrap_or_default();
        for column in policy.definition().by_node() {
            let value = resolve(column, policy.overrides().get(&column.name), &selection.each());
            if let Origin::Machines(label, span) = value.origin {
                let at = (label, span);
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
            ScopeOf::Container { list, index } => {
                self.visit_container(bindings);
                // Without a rule that applies, the engine looks at the pod only.
                if !self.trace.applied.is_empty() {
                    let env = &self.pod["spec"][list][index]["env"];
                    self.visit_checks(bindings, |about| match about {
                        About::Pod => None,
                        About::Containers(_) => Some(None),
                        About::Variable(name, containers) => {
                            let is_for = holds(containers.condition(), bindings) == Some(true);
                            is_for.then(|| own_variable(env, name)).flatten().map(|(_, value)| Some(value))
                        }
                    });
                }
            }
            ScopeOf::Injected => {
                self.visit_checks(bindings, |about| (*about == About::Pod).then_some(None));
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
        for file in &self.definition.files {
            self.coverage.see(Kind::File, &file.path, holds(file.when.as_ref(), bindings));
        }
    }

    /// Records the conditions about a container, of the rules whose `when` holds.
    fn visit_container(&mut self, bindings: &Bindings<'_, '_>) {
        for rule in &self.definition.rules {
            if holds(rule.when.as_ref(), bindings).unwrap_or(rule.when.is_none()) {
                self.coverage.see(Kind::Containers, &rule.name, holds(rule.containers.written(), bindings));
            }
        }
    }

    /// Records the checks for which `value_of` has a value: that of a variable, or none if the check is about something
    /// else.
    fn visit_checks(
        &mut self,
        bindings: &Bindings<'_, '_>,
        value_of: impl Fn(&About) -> Option<Option<Value>>,
    ) {
        let checks = &self.definition.checks;
        // The engine makes no other checks of a pod that it refuses.
        let made = |check: &PolicyCheck| check.refuses || self.refusal.is_none();
        for (at, check) in checks.iter().enumerate().filter(|(_, check)| made(check)) {
            let Some(value) = value_of(&check.about) else { continue };
            let mut bindings = bindings.child();
            if let Some(value) = value {
                bindings.set(VALUE, &value);
            }
            let value = match self.refusal {
                // It reads what the rules added, and the pod that was refused does not have it.
                Some(reason) if check.about == About::Pod => {
                    matches!(reason, Reason::Policy { code, .. } if *code == check.code).then_some(true)
                }
                _ => check.holds(&bindings),
            };
            self.coverage.see_check(checks.len() - at, value);
        }
    }
}

/// The value of a condition; `None` without one, and for one that has no value.
fn holds(condition: Option<&Interpolation>, bindings: &Bindings<'_, '_>) -> Option<bool> {
    condition.and_then(|condition| condition.holds(bindings).ok())
}
