//! Checks of workloads: finds requests for the fabric that no policy understands.
//!
//! Each near miss is a [`Finding`] that names the change that gives the request its effect. The checks read a document
//! and the outcome for its pods, and change nothing. A document can be a pod, whose pointer is empty.

mod amounts;
mod by_hand;
mod claims;
mod finding;
mod gpus;
mod injected;
mod kinds;
mod mesh;
mod no_pods;
mod peers;
mod requested;
mod signs;
mod spelling;
mod together;
mod trigger;

use std::collections::HashSet;

use serde_json::{Map, Value};

use fabric_engine::policy_set::PolicySet;
use fabric_engine::{Mutation, Outcome, Reason};
use fabric_policy::PodContext;
use fabric_policy::work::{Ended, Work, goes_on};
use fabric_yaml::json::items;
use fabric_yaml::pointer::{at_pointer, field_path, push_token};

pub use claims::claims_without_devices;
pub use kinds::{Kind, controller_of, known, pods_of_template};

pub use finding::{Finding, Level, WORKLOAD_WITHOUT_TRIGGER};
pub use mesh::mesh_of_namespace;
pub use no_pods::{NO_POD_TEMPLATE, note as note_without_pods, objects};
pub use no_pods::{runtime, runtime_of_job};

/// The steps to check a template, and to find out that no policy matches it.
const STEPS_OF_TEMPLATE: usize = 1_500;

/// A pod or pod template of a document, with its outcome.
#[derive(Debug, Clone, Copy)]
pub struct CheckedPod<'a> {
    /// JSON Pointer from the document's root.
    pub pointer: &'a str,
    pub context: &'a PodContext,
    pub mutation: &'a Mutation,
}

/// The result of a check of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    pub near_misses: Vec<Finding>,
    /// A note, or for a pod with GPUs and without a request for the fabric, the annotation that would trigger a policy.
    pub advice: Option<Finding>,
}

impl Findings {
    /// Returns whether there is no note with a code.
    fn lacks_note(&self) -> bool {
        self.advice.as_ref().is_none_or(|advice| advice.code.is_empty())
    }
}

/// A pod and the facts that the checks need.
#[derive(Clone, Copy)]
struct Pod<'a> {
    policies: &'a PolicySet,
    /// The names of the resources that count as GPUs for a policy in use.
    gpus: &'a [&'a str],
    document: &'a Value,
    pointer: &'a str,
    value: &'a Value,
    context: &'a PodContext,
    /// True if it requests GPUs of a policy in use.
    has_gpus: bool,
    /// True if a pod of the document does. Then this one can be a launcher.
    has_gpu_peers: bool,
    mutation: &'a Mutation,
}

/// Checks the pods of a document, each with what the rest of the document has for it.
pub fn near_misses<'a>(policies: &PolicySet, document: &'a Value, pods: &[CheckedPod<'a>]) -> Vec<Findings> {
    let gpus = &gpus::names(policies);
    let checked = |CheckedPod { pointer, context, mutation }: &CheckedPod<'a>| {
        let value = at_pointer(document, pointer).unwrap_or(&Value::Null);
        let has_gpus = gpus::requested(value, gpus);
        Pod { policies, gpus, document, pointer, value, context, has_gpus, has_gpu_peers: false, mutation }
    };
    let mut pods: Vec<Pod<'_>> = pods.iter().map(checked).collect();
    // The objects of a `List` with a pod that requests GPUs.
    let with_gpus = pods.iter().filter(|pod| pod.has_gpus);
    let gpu_objects: HashSet<&str> = with_gpus.map(|pod| object_of(pod.pointer)).collect();
    for pod in &mut pods {
        pod.has_gpu_peers = gpu_objects.contains(object_of(pod.pointer));
    }
    let mut found: Vec<Findings> = pods.iter().map(findings).collect();
    peers::check(&pods, &mut found);
    together::check(&pods, &mut found);
    if let (Some(first), Some(findings)) = (pods.first(), found.first_mut())
        && let Some(Ended::Limit { steps }) = first.context.work.as_ref().and_then(Work::ended)
    {
        let message = format!(
            "split the document: checking all of it takes more than {steps} steps, so a part is not checked"
        );
        findings.near_misses.push(Finding::warning("not_checked", "", message));
    }
    found
}

fn findings(pod: &Pod<'_>) -> Findings {
    let mut findings = Findings::default();
    let near_misses = &mut findings.near_misses;
    if !pod.goes_on(STEPS_OF_TEMPLATE + pod.pointer.len()) {
        return findings;
    }
    match &pod.mutation.outcome {
        Outcome::Unchanged { reason: Reason::NoPolicyMatches, .. } => {
            let triggers = trigger::usable_triggers(pod);
            trigger::misplaced(&triggers, pod, near_misses);
            if near_misses.is_empty() && pod.has_gpu_peers {
                findings.advice = triggers.first().map(|(key, wanted)| {
                    let place = trigger::place(pod);
                    let message = format!("to inject it, add `{key}: \"{wanted}\"` to `{place}`");
                    Finding::note("", pod.pointer, message)
                });
            }
        }
        Outcome::Unchanged { reason: Reason::TriggerValue { key, wanted, .. }, .. } => {
            near_misses.extend(trigger::other_value(pod, key, wanted));
        }
        Outcome::Unchanged { reason: Reason::NoGpuContainer { .. }, .. }
        | Outcome::Skipped { reason: Reason::NoGpuContainer { .. }, .. } => {
            gpus::not_found(pod, near_misses);
        }
        Outcome::Mutated(_) => {
            gpus::without_limit(pod, near_misses);
            injected::check(pod, true, near_misses);
            near_misses.extend(injected::adapters_by_path(pod));
            findings.advice = injected::several_zones(pod);
        }
        Outcome::Skipped { .. } => gpus::without_limit(pod, near_misses),
        Outcome::Refused { reason: Reason::NodesUnknown } => injected::check(pod, false, near_misses),
        Outcome::Unchanged { .. } | Outcome::Refused { .. } => {}
    }
    findings.near_misses.extend(gpus::more_ranks(pod));
    requested::check(pod, &mut findings);
    let may_lack = pod.is_unmatched() && pod.has_gpus && findings.lacks_note() && pod.goes_on(0);
    if may_lack && together::whole_node(pod).is_none() {
        // Without a policy, the author may know that the adapters are those of the pod, as they are with a whole node.
        let found = injected::adapters_by_path(pod);
        let found = found.map(|found| Finding::note(&found.code, pod.pointer, found.message));
        findings.advice = found.or(findings.advice);
    }
    findings
}

/// A JSON Pointer with one more token.
fn with_token(mut pointer: String, token: &str) -> String {
    push_token(&mut pointer, token);
    pointer
}

/// The keys of a map.
fn keys(map: &Value) -> impl Iterator<Item = &String> {
    map.as_object().into_iter().flat_map(Map::keys)
}

/// The pointer of the object that has a pod: of an item, for a `List`, else of the document.
fn object_of(pointer: &str) -> &str {
    let of_item = pointer.strip_prefix("/items/").map(|rest| rest.find('/').unwrap_or(rest.len()));
    of_item.map_or("", |length| &pointer[.."/items/".len() + length])
}

impl Pod<'_> {
    /// JSON Pointer from the document's root to a field of the pod.
    fn pointer_to(&self, tokens: &[&str]) -> String {
        tokens.iter().fold(self.pointer.to_owned(), |pointer, token| with_token(pointer, token))
    }

    /// The containers of these lists, each with its JSON Pointer.
    fn containers(&self, lists: &'static [&str]) -> impl Iterator<Item = (String, &Value)> {
        lists.iter().flat_map(move |list| {
            let containers = items(&self.value["spec"], list).iter().enumerate();
            containers.map(move |(at, container)| (format!("{}/spec/{list}/{at}", self.pointer), container))
        })
    }

    /// Counts steps of a check, and returns whether it may go on.
    fn goes_on(&self, steps: usize) -> bool {
        goes_on(self.context.work.as_ref(), steps)
    }

    /// Returns whether no policy matches the pod.
    fn is_unmatched(&self) -> bool {
        matches!(&self.mutation.outcome, Outcome::Unchanged { reason, .. } if reason.is_unmatched())
    }

    /// Returns whether a label says that the pod launches the ranks of others, and needs no GPUs.
    fn is_launcher(&self) -> bool {
        let labels = self.value["metadata"]["labels"].as_object();
        let own = labels.into_iter().flat_map(|labels| labels.values()).filter_map(Value::as_str);
        let assumed = self.context.labels.iter().map(|(_, value)| value.as_str());
        own.chain(assumed).any(|value| value.eq_ignore_ascii_case("launcher"))
    }

    /// The field path of a pointer, from the document's root.
    fn path(&self, pointer: &str) -> String {
        field_path(self.document, pointer)
    }
}
