//! The facts about one pod: the policies that were considered, the rules that applied, and the outcome for each field.
//!
//! They are those that the engine recorded; nothing is evaluated or decided here.

mod rules;
mod text;

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use fabric_engine::policy_set::{PolicySet, mutate_traced};
use fabric_engine::{
    ConditionFact, ContainerGpus, LookedAt, Mutation, Reason, Trace, Warning, analysis_if_condition_is_true,
};
use fabric_policy::expression::Expression;
use fabric_policy::{Definition, PodContext, Policy, SelectedLabel};

use super::parameters::{self, Sources, ValueFact};
pub use rules::{FieldFact, MatchFact, PartFact, RuleResult, VariableValue};
use rules::{check, of_result, parts};
pub use text::pod_text;

/// A pod or pod template.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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
    pub nodes: Vec<SelectedLabel>,
    pub containers: Vec<ContainerGpus>,
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
    /// The condition of a check that refuses or skips the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionFact>,
}

/// The value of a parameter, for a pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PodParameter {
    #[serde(flatten)]
    pub value: ValueFact,
    /// True if a rule that applies depends on it.
    pub used: bool,
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
    pub policies: &'a PolicySet,
    pub sources: Sources<'a>,
}

impl Explainer<'_> {
    /// The injection of a pod, and the facts about it.
    pub fn pod(&self, pod: &Value, context: &PodContext) -> (Mutation, PodFact) {
        let (mutation, mut trace) = mutate_traced(self.policies, pod.clone(), context);
        let Mutation { outcome, policy, warnings } = &mutation;
        let policies = self.policies.policies();
        let matches = policies.iter().map(|policy| match_of(policy, pod, context, &mut trace)).collect();
        let reason = |reason: &Reason| ReasonFact {
            code: reason.code().to_owned(),
            message: reason.to_string(),
            condition: check(pod, &trace, reason.code(), None),
        };
        let warning = |warning: &Warning| WarningFact {
            code: warning.code().to_owned(),
            path: warning.path.clone(),
            message: warning.to_string(),
            rule: warning.rule.clone(),
            condition: check(pod, &trace, warning.code(), Some(&warning.path)),
        };
        let mut fact = PodFact {
            outcome: outcome.name(),
            policy: policy.clone(),
            stamp: outcome.changed().map(|changed| changed.stamp.clone()),
            reason: outcome.reason().map(reason),
            policies: matches,
            fields: of_result(pod, &mutation, &trace),
            warnings: warnings.iter().map(warning).collect(),
            ..PodFact::default()
        };
        let chosen = policies.iter().find(|policy| trace.chosen.as_deref() == Some(policy.name()));
        if let Some(policy) = chosen {
            self.add_results(&mut fact, policy, &trace);
        }
        (mutation, fact)
    }

    /// Adds the facts about the values and conditions of the policy that injects the pod.
    fn add_results(&self, fact: &mut PodFact, policy: &Policy, trace: &Trace) {
        let definition = policy.definition();
        let Some(LookedAt { of: (nodes, resolved), .. }) = trace.looked_at.get(policy.name()) else { return };
        fact.nodes = nodes.labels.iter().map(|label| (**label).clone()).collect();
        let used = used_names(definition, trace);
        let mut values = definition
            .by_node()
            .zip(resolved.evaluated.values.iter().zip(&resolved.origins))
            .map(|(parameter, (value, origin))| {
                parameters::value_of(policy, parameter, value, origin, nodes, &self.sources)
            });
        let parameter = |value: ValueFact| PodParameter { used: used.contains(&value.name), value };
        fact.parameters = values.by_ref().take(definition.parameters.len()).map(parameter).collect();
        let rows: Vec<ValueFact> = values.filter(|row| !row.value.is_null()).collect();
        fact.containers.clone_from(&trace.containers);
        [fact.rules, fact.files] = rules::rules_and_files(definition, trace);
        fact.variables = rules::variables(trace, &rows, |name| used.contains(name));
    }
}

fn match_of(policy: &Policy, pod: &Value, context: &PodContext, trace: &mut Trace) -> MatchFact {
    let parts = parts(policy, pod, context);
    let mut matches = parts.iter().all(|part| part.holds);
    let mut when = None;
    if matches && policy.definition().matcher.when.is_some() {
        // The choice may have ended before this policy.
        if !trace.looked_at.contains_key(policy.name()) {
            let _ = analysis_if_condition_is_true(policy, pod, context, false, Some(trace));
        }
        when = trace.looked_at.get(policy.name()).and_then(|looked_at| looked_at.when.clone());
        matches = when.as_ref().is_some_and(|when| when.value == Some(true));
    }
    MatchFact { policy: policy.name().to_owned(), matches, parts, when }
}

/// The names that the rules read which apply, directly and through variables.
fn used_names(definition: &Definition, trace: &Trace) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (rule, _) in definition.rules.iter().zip(&trace.rules).filter(|(_, result)| result.applied) {
        rule.texts(&mut |text| names.extend(text.expressions().flat_map(Expression::names).cloned()));
    }
    definition.with_names_of_variables(names)
}
