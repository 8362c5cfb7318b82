//! The facts about one pod: the policies that were looked at, the rules that applied, and the outcome for each field.
//!
//! The outcomes are those that the engine recorded. The values of conditions come from evaluating them again, with what
//! the engine reads; nothing is decided here.

mod condition;
mod fields;
mod matching;
mod rules;
mod text;

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use crate::core::engine::{Mutation, Outcome, ScopeOf, Trace, Warning, each_scope, selected_nodes};
use crate::core::policy::expression::Expression;
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::matcher::Selection;
use crate::core::policy::{Definition, Parameter, PodContext, Policy, Rule, SelectedLabel};
use crate::core::policy_set::{PolicySet, mutate_traced};

use super::parameters::{self, Sources, ValueFact};
use condition::Reasons;
pub use condition::{ConditionFact, Read};
pub use fields::FieldFact;
use fields::of_result;
use matching::parts;
pub use matching::{MatchFact, PartFact};
pub use rules::{ContainerCondition, RuleResult, VariableValue};
use rules::{Evaluation, MessageResult};
pub use text::pod_text;

/// A pod or pod template.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodFact {
    /// `mutated`, `skipped`, `unchanged` or `refused`.
    pub outcome: &'static str,
    /// The policy that injects the pod.
    pub policy: Option<String>,
    /// The annotation that the result has: `<policy>@<digest>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamp: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReasonFact>,
    /// Every policy in use.
    pub policies: Vec<MatchFact>,
    /// The labels of nodes that the policy reads and the pod selects.
    pub nodes: Vec<NodeFact>,
    pub containers: Vec<ContainerFact>,
    pub parameters: Vec<PodParameter>,
    pub variables: Vec<VariableValue>,
    pub rules: Vec<RuleResult>,
    pub files: Vec<RuleResult>,
    /// The outcome for each value of the rules and files that apply.
    pub fields: Vec<FieldFact>,
    pub warnings: Vec<WarningFact>,
}

/// The reason for an outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReasonFact {
    pub code: String,
    pub message: String,
    /// The condition of a warning that refuses the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionFact>,
}

/// A label of nodes, with the values that the pod selects.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeFact {
    pub label: String,
    pub values: Vec<String>,
}

/// The value of a parameter, for a pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PodParameter {
    #[serde(flatten)]
    pub value: ValueFact,
    /// True if a rule that applies depends on it.
    pub used: bool,
}

/// A container or init container.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContainerFact {
    pub name: String,
    /// `containers` or `initContainers`.
    pub list: &'static str,
    pub gpus: i64,
}

/// A warning about the pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WarningFact {
    pub code: String,
    pub path: String,
    pub message: String,
    /// The rule or the file that it is about; empty for none.
    pub rule: String,
    /// The condition of a warning that the policy declares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionFact>,
}

/// The explanation of pods by the policies in use.
#[derive(Debug)]
pub struct Explainer<'a> {
    policies: &'a PolicySet,
    sources: Sources<'a>,
}

impl<'a> Explainer<'a> {
    pub fn new(policies: &'a PolicySet, sources: Sources<'a>) -> Self {
        Self { policies, sources }
    }

    /// The injection of a pod, and the facts about it.
    pub fn pod(&self, pod: &Value, context: &PodContext) -> (Mutation, PodFact) {
        let (mutation, trace) = mutate_traced(self.policies, pod.clone(), context);
        let policies = self.policies.policies();
        let mut fact = PodFact::of(&mutation);
        fact.fields = of_result(pod, &mutation, trace.as_ref());
        fact.policies = policies.iter().map(|policy| match_of(policy, pod, context)).collect();
        let mut messages = Vec::new();
        let chosen = policies.iter().find(|policy| Some(policy.name()) == mutation.policy.as_deref());
        if let (Some(policy), Some(trace)) = (chosen, &trace) {
            let injected = mutation.outcome.changed().map_or(pod, |changed| &changed.pod);
            messages = self.evaluate(&mut fact, policy, [pod, injected], trace, context);
        }
        if let Some(reason) = &mut fact.reason {
            let is_own = |message: &&MessageResult| message.code == reason.code;
            reason.condition = messages.iter().find(is_own).map(|message| message.condition.clone());
        }
        fact.warnings = mutation.warnings.iter().map(|warning| warning_of(warning, &messages)).collect();
        (mutation, fact)
    }

    /// Adds the facts about the values and conditions of the policy that injects the pod. Returns those about its
    /// messages.
    fn evaluate(
        &self,
        fact: &mut PodFact,
        policy: &Policy,
        [pod, injected]: [&Value; 2],
        trace: &Trace,
        context: &PodContext,
    ) -> Vec<MessageResult> {
        let definition = policy.definition();
        let selection = selected_nodes(policy, pod, context).unwrap_or_default();
        fact.nodes = nodes(&selection);
        let used = used_names(definition, trace);
        let value = |parameter: &Parameter| PodParameter {
            value: parameters::value(policy, parameter, &selection, &self.sources),
            used: used.contains(&parameter.name),
        };
        fact.parameters = definition.parameters.iter().map(value).collect();
        let columns = definition.variables.iter().filter_map(|variable| variable.column.as_deref());
        let rows = columns.map(|column| parameters::value(policy, column, &selection, &self.sources));
        let rows = rows.filter(|row| !row.value.is_null()).collect();
        let mut evaluation = Evaluation::new(definition, pod, trace, rows);
        // A pod that cannot be evaluated has that as the reason of its outcome.
        let _ = each_scope(policy, pod, injected, context, &mut |scope, _, bindings| {
            if let ScopeOf::Container { list, index } = scope {
                let gpus = bindings.get("gpus").and_then(|gpus| gpus.as_i64()).unwrap_or_default();
                let name = pod["spec"][list][index]["name"].as_str().unwrap_or_default().to_owned();
                fact.containers.push(ContainerFact { name, list, gpus });
            }
            evaluation.visit(scope, bindings);
        });
        (fact.rules, fact.files) = evaluation.results();
        fact.variables = evaluation.variables;
        for variable in &mut fact.variables {
            variable.used = used.contains(&variable.name);
        }
        evaluation.messages
    }
}

impl PodFact {
    /// The outcome of an injection.
    fn of(mutation: &Mutation) -> Self {
        let (outcome, stamp, reason) = match &mutation.outcome {
            Outcome::Mutated(mutated) => ("mutated", Some(mutated.stamp.clone()), None),
            Outcome::Skipped { marked, reason } => ("skipped", Some(marked.stamp.clone()), Some(reason)),
            Outcome::Unchanged { reason, .. } => ("unchanged", None, Some(reason)),
            Outcome::Refused { reason } => ("refused", None, Some(reason)),
        };
        Self {
            outcome,
            policy: mutation.policy.clone(),
            stamp,
            reason: reason.map(|reason| ReasonFact {
                code: reason.code().to_owned(),
                message: reason.to_string(),
                condition: None,
            }),
            ..Self::default()
        }
    }
}

fn match_of(policy: &Policy, pod: &Value, context: &PodContext) -> MatchFact {
    let parts = parts(policy, pod, context);
    let mut matches = parts.iter().all(|part| part.holds);
    let mut fact = None;
    if let Some(when) = policy.definition().matcher.when.as_ref().filter(|_| matches) {
        let evaluated = each_scope(policy, pod, pod, context, &mut |scope, _, bindings| {
            if scope == ScopeOf::Pod {
                fact = Some(Reasons { definition: policy.definition(), bindings }.through_variables(when));
            }
        });
        matches = evaluated.is_ok() && fact.as_ref().is_some_and(|fact| fact.value == Some(true));
    }
    MatchFact { policy: policy.name().to_owned(), matches, parts, when: fact }
}

/// The names that the rules read which apply, directly and through variables.
fn used_names(definition: &Definition, trace: &Trace) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let applies = |rule: &&Rule| trace.applied.iter().any(|applied| applied.rule == rule.name);
    let mut add =
        |text: &Interpolation| names.extend(text.expressions().flat_map(Expression::names).cloned());
    definition.rules.iter().filter(applies).for_each(|rule| rule.texts(&mut add));
    for variable in definition.variables.iter().rev() {
        if names.contains(&variable.name) {
            variable.value.texts(&mut |text| {
                names.extend(text.expressions().flat_map(Expression::names).cloned());
            });
        }
    }
    names
}

fn nodes(selection: &Selection) -> Vec<NodeFact> {
    let fact = |selected: &SelectedLabel| NodeFact {
        label: selected.label.clone(),
        values: selected.values.clone(),
    };
    selection.labels.iter().map(fact).collect()
}

fn warning_of(warning: &Warning, messages: &[MessageResult]) -> WarningFact {
    let code = warning.code();
    let is_own = |message: &&MessageResult| {
        message.code == code
            && message.container.as_ref().is_none_or(|path| warning.path.starts_with(path.as_str()))
    };
    WarningFact {
        code: code.to_owned(),
        path: warning.path.clone(),
        message: warning.to_string(),
        rule: warning.rule.clone(),
        condition: messages.iter().find(is_own).map(|message| message.condition.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn pods_share_what_is_compiled_for_the_first_one() {
        let text = "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {name: test}\nspec:\n  \
             provider: test\n  description: d\n  gpus: {resources: [nvidia.com/gpu]}\n  match: {labels: {a: b}}\n  \
             variables: {big: \"${totalGpus > 8 || podNamespace == 'big'}\"}\n  rules:\n    - name: r\n      \
             when: \"!big && totalGpus > 0\"\n      env: {A: \"1\"}\n";
        let definition = Definition::read("test.yaml", text).unwrap_or_else(|error| panic!("{error}"));
        let policies = PolicySet::new(vec![(definition, BTreeMap::new())]).unwrap();
        let sets = BTreeMap::new();
        let explainer = Explainer::new(&policies, Sources { values: None, sets: &sets });
        let pod = |name: &str| {
            json!({"metadata": {"name": name, "labels": {"a": "b"}}, "spec": {"containers": [
                {"name": name, "resources": {"limits": {"nvidia.com/gpu": 8}}}]}})
        };
        let counts = ["a", "b", "c"].map(|name| {
            let (_, fact) = explainer.pod(&pod(name), &PodContext::default());
            assert!(fact.rules[0].applied, "{fact:?}");
            policies.policies()[0].wholes()
        });
        assert_eq!(counts, [1; 3]);
    }
}
