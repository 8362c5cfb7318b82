//! The conditions of a policy as formulas, and the facts that hold for all of them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::core::policy::definition::{Definition, Rule};
use crate::core::policy::expression::types::Type;
use crate::core::policy::expression::{Claim, Constant, Expression, Formula, Meanings, Test};
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::interpolation::text_of;
use crate::core::policy::parameter::ParameterType;
use crate::core::policy::variable::VariableValue;

use super::satisfy::contradiction;
use super::scope::Scope;

/// The names of a policy, for its conditions.
pub(super) struct Meaning<'d> {
    definition: &'d Definition,
    scope: &'d Scope,
    /// The statements about values that hold whatever the conditions are.
    pub(super) facts: Formula,
    /// The condition of a rule without `containers`.
    default_containers: Option<Expression>,
    /// The condition of a rule with `requiresPodNetwork`.
    pod_network: Option<Expression>,
}

impl Meanings for Meaning<'_> {
    fn type_of(&self, name: &str) -> Type {
        self.scope.get(name)
    }

    fn definition(&self, name: &str) -> Option<&Expression> {
        let variable = self.definition.variables.iter().find(|variable| variable.name == name)?;
        match &variable.value {
            VariableValue::Text(Interpolation::Expression(expression)) => Some(expression),
            _ => None,
        }
    }
}

impl<'d> Meaning<'d> {
    pub(super) fn of(definition: &'d Definition, scope: &'d Scope) -> Self {
        Self {
            definition,
            scope,
            facts: Formula::All(facts(definition, scope)),
            default_containers: Expression::compile("gpus > 0").ok(),
            pod_network: Expression::compile("!hostNetwork").ok(),
        }
    }

    /// A condition; one that is no expression can hold.
    pub(super) fn formula(&self, condition: Option<&Interpolation>) -> Formula {
        match condition {
            Some(Interpolation::Expression(expression)) => expression.formula(self),
            _ => Formula::Constant(true),
        }
    }

    /// The condition on which a rule applies to a container.
    pub(super) fn of_rule(&self, rule: &Rule) -> Formula {
        let implied = |expression: &Option<Expression>| {
            expression.as_ref().map_or(Formula::Constant(true), |expression| expression.formula(self))
        };
        let containers = match &rule.containers {
            Some(condition) => self.formula(Some(condition)),
            None => implied(&self.default_containers),
        };
        let network = rule.requires_pod_network.then(|| implied(&self.pod_network));
        let all = [self.formula(rule.when.as_ref()), containers].into_iter().chain(network);
        Formula::All(all.collect())
    }

    /// Returns whether no pod that the policy matches meets all of the conditions.
    pub(super) fn excludes(&self, conditions: &[&Formula]) -> bool {
        let matcher = self.formula(self.definition.matcher.when.as_ref());
        let all: Vec<&Formula> =
            [&self.facts, &matcher].into_iter().chain(conditions.iter().copied()).collect();
        contradiction(&all).is_some()
    }

    /// Returns whether the values of two tests may depend on each other.
    pub(super) fn depends(&self, one: &Test, other: &Test) -> bool {
        let (ones, others) = (self.groups(one), self.groups(other));
        ones.iter().any(|one| others.iter().any(|other| related(one, other)))
    }

    /// The names on which a test depends. A parameter with a table depends on labels of nodes.
    fn groups(&self, test: &Test) -> BTreeSet<String> {
        let mut groups = test.roots.clone();
        for name in &test.roots {
            let parameter = self.definition.parameters.iter().find(|parameter| parameter.name == *name);
            for table in parameter.into_iter().flat_map(|parameter| parameter.table.labels()) {
                groups.insert(format!("node\u{0}{}", table.label));
                groups.extend(table.reads_gpus().then(|| "totalGpus".to_owned()));
            }
            // A table or a text among the variables.
            let variable = self.definition.variables.iter().find(|variable| variable.name == *name);
            if let Some(variable) = variable {
                variable.value.texts(&mut |text| {
                    let names = text.expressions().flat_map(Expression::names);
                    groups.extend(names.cloned());
                });
            }
        }
        groups
    }
}

/// Returns whether a change of one value may come with a change of the other.
fn related(one: &str, other: &str) -> bool {
    let is_step = |text: &str, beginning: &str| {
        text.strip_prefix(beginning).is_some_and(|rest| rest.is_empty() || rest.starts_with('\u{0}'))
    };
    // Metadata says nothing of the rest of a pod, nor do its labels of each other.
    let is_apart = |name: &str| name.starts_with("pod\u{0}metadata\u{0}");
    let of_pod = |name: &str| OF_POD.iter().any(|known| is_step(name, known));
    is_step(one, other)
        || is_step(other, one)
        || of_pod(one) && of_pod(other) && !is_apart(one) && !is_apart(other)
}

/// The values that come from the spec of a pod.
const OF_POD: &[&str] = &[
    "pod",
    "container",
    "node",
    "hostNetwork",
    "gpus",
    "totalGpus",
    "gpuCounts",
    "claimNames",
    "ownFabric",
    "podRequests",
];

/// The bounds of number parameters, and the namespaces that `match` names.
fn facts(definition: &Definition, scope: &Scope) -> Vec<Formula> {
    let fact = |name: &str, claim: Claim, source: String| Test::fact(name, scope.get(name), claim, source);
    let as_formula = |test: Test| Formula::Test(Box::new(test));
    let mut facts = Vec::new();
    for parameter in definition.parameters.iter().filter(|known| known.kind == ParameterType::Number) {
        let name = parameter.name.as_str();
        let number =
            |bound: &Option<Value>| bound.as_ref().and_then(|bound| Some((bound.as_f64()?, text_of(bound))));
        if let Some((minimum, shown)) = number(&parameter.minimum) {
            let mut at_least = fact(name, Claim::Below(minimum), format!("minimum: {shown}"));
            at_least.negated = true;
            facts.push(as_formula(at_least));
        }
        if let Some((maximum, shown)) = number(&parameter.maximum) {
            facts.push(as_formula(fact(name, Claim::AtMost(maximum), format!("maximum: {shown}"))));
        }
    }
    let namespaces = &definition.matcher.namespaces;
    if !namespaces.is_empty() {
        let names = namespaces.iter().cloned().map(Constant::Text).collect();
        let source = format!("namespaces: [{}]", namespaces.join(", "));
        facts.push(as_formula(fact("podNamespace", Claim::OneOf(names), source)));
    }
    facts
}
