//! The analysis of a pod: the facts that a policy needs, found before anything is added, and again before another
//! injection.
//!
//! The choice of the policy, the conditions, the merge and the report read it. It does not change the pod.

mod completed;
mod containers;
mod multus;
mod named_objects;
mod node_kinds;
mod node_labels;
mod own_devices;
mod pod_claims;

use std::sync::Arc;

use serde_json::{Map, Value};

use fabric_policy::interpolation::JOB_ROLE;
use fabric_policy::matcher::{Selection, namespace_of};
use fabric_policy::schema::{self, Shape};
use fabric_policy::work::Work;
use fabric_policy::{PodContext, Policy, ResolvedPolicy, Rule};

use super::record::{CLAIMS, NODES, OrReason, Reason, Resolved, STAMP, evaluation_failed};

pub(super) use containers::Container;
pub(crate) use containers::is_sidecar;
pub use containers::requests;
pub(super) use multus::with_networks;
pub use named_objects::absent_objects;
pub(crate) use named_objects::warnings_of_absent;
pub use node_kinds::is_device;
pub(super) use node_kinds::{kinds_of_earlier_injection, written};
pub(super) use node_labels::contradicted_label;
pub use pod_claims::claims_of_pod;
pub(crate) use pod_claims::{unknown_claim, warning_of_too_many, written_claims};

use completed::part_of;
use own_devices::OwnDevices;

/// A pod as a policy sees it. A value that no expression of the policy reads is left empty.
#[derive(Debug)]
pub struct PodAnalysis {
    /// The labels of nodes that the pod selects.
    pub(super) nodes: Selection,
    /// The policy for these nodes.
    pub(crate) policy: Arc<ResolvedPolicy>,
    /// The index in [`ResolvedPolicy::values_elsewhere`] of the values with which this policy is resolved; none for
    /// those of the first of the nodes.
    pub(super) other: Option<usize>,
    pub(super) containers: Vec<Container>,
    pub(super) namespace: String,
    pub(super) host_network: bool,
    pub(super) total_gpus: i64,
    /// True for the launcher of an MPIJob, which has no GPU.
    pub(super) is_launcher: bool,
    /// The names of the claims of unknown classes.
    pub(super) claim_names: Value,
    /// The known classes of the claims.
    pub(super) claim_classes: Value,
    /// The claims about which names decide.
    pub(super) claims_by_name: Vec<String>,
    /// The names under which the pod requests devices of the fabric itself.
    pub(super) own_devices: Vec<String>,
    /// The parts of the pod that expressions read.
    pub(super) pod: Value,
    /// The counter of the work for the pod.
    pub(super) work: Option<Work>,
}

/// The lists of containers that are injected. Ephemeral containers cannot request resources.
pub const CONTAINER_LISTS: [&str; 2] = ["initContainers", "containers"];

/// The steps to analyze a pod, besides those for its values.
const STEPS_OF_POD: usize = 1_000;

/// Counts steps of work; the reason to refuse the pod if there are none left.
pub(crate) fn count_steps(context: &PodContext, steps: usize) -> OrReason {
    if context.goes_on(steps) {
        return Ok(());
    }
    let ended = context.work.as_ref().and_then(Work::ended);
    Err(ended.map_or(Reason::Stopped, Reason::from))
}

/// A copy of the pod, counted before it is made; the reason to refuse the pod if it would take too much.
pub(crate) fn copy(pod: &Value, context: &PodContext) -> OrReason<Value> {
    context.may_copy(pod);
    count_steps(context, 0).map(|()| pod.clone())
}

/// The part of the pod's nodes that the policy reads, and the policy for them.
pub(crate) fn resolve(policy: &Policy, pod: &Value, context: &PodContext) -> OrReason<Resolved> {
    let nodes = node_labels::selected(policy, pod, context)?;
    let resolved = policy_for(policy, &nodes, context)?;
    Ok((nodes, resolved))
}

/// The policy for the nodes of a pod.
pub(crate) fn policy_for(
    policy: &Policy,
    nodes: &Selection,
    context: &PodContext,
) -> OrReason<Arc<ResolvedPolicy>> {
    policy.resolved(nodes, context).map_err(|error| evaluation_failed("the policy", error))
}

/// The policy with the values of its parameters for other nodes that the pod may get.
pub(crate) fn with_values(
    policy: &Policy,
    values: &[Value],
    nodes: &Selection,
    context: &PodContext,
) -> OrReason<Arc<ResolvedPolicy>> {
    let resolved = policy.with_values(values, nodes, context);
    resolved.map_err(|error| evaluation_failed("the policy", error))
}

impl PodAnalysis {
    /// Analyzes a pod. Returns an error if it is malformed.
    pub(super) fn new((nodes, policy): Resolved, pod: &Value, context: &PodContext) -> OrReason<Self> {
        context.count_input();
        count_steps(context, STEPS_OF_POD)?;
        let devices = &policy.evaluated.devices;
        let claims = pod_claims::claims(pod, devices, context);
        let mut containers = containers::containers(pod, &claims, devices, context)?;
        for container in &mut containers {
            container.read(&policy, pod, context.work.as_ref());
        }
        let total_gpus = if policy.evaluated.reads("totalGpus") {
            containers::total_gpus(pod, &containers, &claims, devices)
        } else {
            0
        };
        let (claim_names, claim_classes) =
            if policy.evaluated.reads("claimNames") || policy.evaluated.reads("claimClasses") {
                pod_claims::names_and_classes(pod, &claims)
            } else {
                (Value::Null, Value::Null)
            };
        let own = OwnDevices { devices, claims: &claims, known: context.objects.as_deref() };
        let own_devices = if policy.evaluated.adds_devices || policy.evaluated.reads("ownDevices") {
            own.names(pod)
        } else {
            Vec::new()
        };
        if policy.evaluated.reads("hasDevice") {
            let claims = own.claims_of_devices();
            for container in &mut containers {
                let (list, index) = container.place();
                container.has_device = own.has(&pod["spec"][list][index], &claims);
            }
        }
        let mut analysis = Self {
            host_network: pod["spec"]["hostNetwork"].as_bool() == Some(true),
            total_gpus,
            is_launcher: is_launcher(pod, context) && containers.iter().all(|container| container.gpus == 0),
            claim_names,
            claim_classes,
            claims_by_name: own.claims_by_name(),
            own_devices,
            pod: Value::Null,
            nodes,
            policy,
            other: None,
            containers,
            namespace: namespace_of(&pod["metadata"], context).to_owned(),
            work: context.work.clone(),
        };
        analysis.read_pod(pod, context);
        Ok(analysis)
    }

    /// Analyzes the pod in its current state, by the policy for the same nodes.
    pub(super) fn again(&self, policy: &Policy, pod: &Value, context: &PodContext) -> OrReason<Self> {
        let nodes = node_labels::selected(policy, pod, context)?;
        if nodes == self.nodes {
            let resolved = (nodes, Arc::clone(&self.policy));
            return Ok(Self { other: self.other, ..Self::new(resolved, pod, context)? });
        }
        let mut resolved = policy_for(policy, &nodes, context)?;
        if let Some(values) = self.other.and_then(|at| resolved.values_elsewhere.get(at)) {
            resolved = with_values(policy, values, &nodes, context)?;
        }
        Ok(Self { other: self.other, ..Self::new((nodes, resolved), pod, context)? })
    }

    /// Notes that a rule moved the pod to the host network.
    pub(super) fn joined_host(&mut self, pod: &Value, context: &PodContext) {
        self.host_network = true;
        self.read_pod(pod, context);
    }

    fn read_pod(&mut self, pod: &Value, context: &PodContext) {
        if !self.policy.evaluated.reads("pod") {
            return;
        }
        let reads = &self.policy.evaluated.paths_read.pod;
        self.pod = part_of(pod, reads, &Shape::Object(schema::pod()), self.work.as_ref());
        // A pod without it is malformed, which other code reports.
        if self.pod["spec"].is_null() {
            self.pod["spec"] = Value::Object(Map::new());
        }
        // Those of an earlier injection that the pod contradicts are `null` until they are written again.
        if let Some(Value::Object(annotations)) = self.pod.pointer_mut("/metadata/annotations") {
            for key in [STAMP, NODES, CLAIMS] {
                if pod["metadata"]["annotations"][key].is_null() {
                    annotations.shift_remove(key);
                }
            }
        }
        add_labels(&mut self.pod, context);
    }

    /// Returns whether a rule applies to this pod: a pod that brings its own devices gets none from the policy.
    pub(super) fn may_apply(&self, rule: &Rule) -> bool {
        rule.device.is_none() || self.own_devices.is_empty()
    }

    /// Returns whether a container requests GPUs.
    pub(super) fn has_gpus(&self) -> bool {
        self.containers.iter().any(|container| container.gpus > 0)
    }
}

/// Returns whether a label marks the pod as the launcher of a job.
fn is_launcher(pod: &Value, context: &PodContext) -> bool {
    let of_template =
        || context.labels.iter().find(|(key, _)| key == JOB_ROLE).map(|(_, value)| value.as_str());
    pod["metadata"]["labels"][JOB_ROLE].as_str().or_else(of_template) == Some("launcher")
}

/// Adds the labels that the controller of a template gives to its pods.
fn add_labels(pod: &mut Value, context: &PodContext) {
    for (key, value) in &context.labels {
        let labels = &mut pod["metadata"]["labels"];
        if labels.is_null() {
            *labels = Value::Object(Map::new());
        }
        if let Value::Object(labels) = labels {
            labels.entry(key.as_str()).or_insert_with(|| Value::from(value.as_str()));
        }
    }
}
