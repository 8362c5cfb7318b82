//! What a pod without the trigger annotation would get with it.

use std::collections::BTreeMap;

use serde_json::Value;

use fabric_policy::PodContext;

use super::{PolicySet, mutate};
use crate::analysis::copy;
use crate::{Mutation, Outcome, Reason, analysis_if_condition_is_true};

impl PolicySet {
    /// The result for a pod, as if it requested the fabric.
    pub fn assumed(&self, pod: &Value, context: &PodContext) -> Mutation {
        match copy(pod, context) {
            Ok(pod) => mutate(self, pod, &self.requesting(context)),
            Err(reason) => Mutation::new(Outcome::Refused { reason }, None),
        }
    }

    /// The context in which a pod requests the fabric.
    fn requesting(&self, context: &PodContext) -> PodContext {
        let annotations = self.triggers().into_iter().cloned().collect();
        PodContext { annotations, ..context.clone() }
    }

    /// Returns whether no policy would add a fabric to a pod with the trigger annotation, because its nodes or the
    /// labels that it selects have none.
    pub fn would_leave_alone(
        &self,
        pod: &Value,
        context: &PodContext,
        has_fabric: impl FnOnce(&Value) -> bool,
    ) -> bool {
        match self.assumed(pod, context).outcome {
            Outcome::Skipped { .. } | Outcome::Unchanged { .. } => true,
            Outcome::Refused { reason: Reason::OtherProvider { named: None, .. } } => true,
            Outcome::Refused { reason: Reason::NodesUnknown } => {
                self.a_provider_leaves_alone(pod, &self.requesting(context))
            }
            Outcome::Refused { .. } => false,
            Outcome::Mutated(mutated) => !has_fabric(&mutated.pod),
        }
    }

    /// Returns whether the conditions of all policies of a provider are false for a pod: its labels are those of that
    /// provider, which has no fabric for them.
    fn a_provider_leaves_alone(&self, pod: &Value, context: &PodContext) -> bool {
        let mut providers: BTreeMap<&str, bool> = BTreeMap::new();
        for policy in self.policies() {
            let leaves = matches!(analysis_if_condition_is_true(policy, pod, context, true, None), Ok(None));
            *providers.entry(policy.definition().provider.as_str()).or_insert(true) &= leaves;
        }
        providers.into_values().any(|leaves| leaves)
    }
}
