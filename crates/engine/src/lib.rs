//! The mutation engine: a pod and policies in, a JSON Patch and a report out.
//!
//! The pod is a [`serde_json::Value`] throughout, which keeps fields that this version does not know. The engine adds
//! to it, and replaces a value only where a rule says so.
//!
//! The path of a pod: [`admission`] reads its review, [`policy_set`] chooses its policy, `analysis` finds the facts that
//! the policy needs, `evaluate` finds the rules that apply, and `merge` changes the pod, all called by `inject`; `record`
//! keeps what changed and why, and the response has the patch of that. Each uses those after it, and `record` none of
//! them. [`validate`] tries a policy on sample pods when it is loaded, and [`registration`] derives
//! the conditions of the webhook from the policies.
//!
//! This crate contains no knowledge of a provider or of a server: it receives the bytes of a review and returns the
//! bytes of the answer.
//!
//! ```
//! use fabric_engine::Outcome;
//! use fabric_engine::policy_set::{PolicySet, mutate};
//! use fabric_policy::{Definition, PodContext};
//!
//! let policy = "
//! apiVersion: fabric-injector.io/v1alpha1
//! kind: FabricPolicy
//! metadata: {name: lab}
//! spec:
//!   provider: lab
//!   description: InfiniBand for a lab
//!   gpus: {resources: [nvidia.com/gpu]}
//!   match: {anyAnnotation: {example.com/fabric: 'true'}}
//!   rules:
//!     - name: adapters
//!       containers: gpus > 0
//!       env: {NCCL_IB_HCA: mlx5}
//! ";
//! let definition = Definition::read("lab.yaml", policy)?;
//! let policies = PolicySet::new(vec![(definition, Default::default())])?;
//! let pod = serde_json::json!({
//!     "metadata": {"annotations": {"example.com/fabric": "true"}},
//!     "spec": {"containers": [{"name": "nim", "resources": {"limits": {"nvidia.com/gpu": 8}}}]},
//! });
//! let mutation = mutate(&policies, pod, &PodContext::default());
//! let Outcome::Mutated(mutated) = mutation.outcome else { return Err("not injected".into()) };
//! assert_eq!(mutated.pod["spec"]["containers"][0]["env"][0]["name"], "NCCL_IB_HCA");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod admission;
mod analysis;
mod evaluate;
mod fitting_nodes;
mod inject;
mod merge;
pub mod policy_set;
mod record;
pub mod registration;
pub mod validate;

use serde_json::Value;

use fabric_policy::{PodContext, Policy};

pub use analysis::{CONTAINER_LISTS, PodAnalysis, absent_objects, claims_of_pod, is_device, requests};
pub use evaluate::{analyse_named, analysis_if_condition_is_true, condition_values, has_gpus_or_rules};
pub use record::*;

use record::ChangeLog;

/// Injects a pod by a policy that matches it, after the changes in `log`. A trace in it gets what was evaluated and what
/// each rule wrote.
pub(crate) fn inject(
    policy: &Policy,
    analysis: PodAnalysis,
    mut pod: Value,
    context: &PodContext,
    log: &mut ChangeLog,
) -> Mutation {
    if let Some(trace) = &mut log.trace {
        trace.chosen = Some(policy.name().to_owned());
    }
    let ended = inject::inject_if_nodes_agree(policy, analysis, &mut pod, context, log);
    let name = Some(policy.name().to_owned());
    match ended {
        Ok(()) => {
            let (changes, warnings) = log.finish();
            let warnings = record::with_field_paths(record::reconciled(warnings), &pod);
            let stamp = policy.stamp().to_owned();
            let mutated = Mutated { pod, stamp, changes };
            Mutation { outcome: Outcome::Mutated(mutated), policy: name, warnings }
        }
        Err(reason) if reason.refuses() => {
            Mutation::new(Outcome::Refused { reason: reason.with_field_path(&pod) }, name)
        }
        Err(reason) => {
            let reason = reason.with_field_path(&pod);
            let warnings = record::with_field_paths(std::mem::take(&mut log.warnings), &pod);
            log.undo(&mut pod);
            if reason.skips() {
                return skip(pod, policy.stamp().to_owned(), reason, name, warnings);
            }
            Mutation { outcome: Outcome::Unchanged { pod, reason }, policy: name, warnings }
        }
    }
}
