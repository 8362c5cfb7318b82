//! Facts about the pod on which fields elsewhere in it depend.

use super::added_entry::AddedEntry;
use super::volumes::{OwnVolumes, PolicyVolumes};
use crate::analysis::{CONTAINER_LISTS, is_sidecar};
use crate::record::{MAX_ANNOTATIONS, OrReason, Place, Reason, STAMP, malformed, size_without};
use fabric_policy::overlay::is_zero;
use fabric_policy::schema::AMOUNT_LISTS;
use fabric_yaml::json::items;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};

/// Facts about the pod that fields outside of the current one depend on.
#[derive(Debug, Default)]
pub(super) struct PodState {
    pub(super) volumes: PolicyVolumes,
    /// The volumes that the pod came with; `null` for one that it only mounts.
    pub(super) own_volumes: OwnVolumes,
    /// True if the pod has amounts of resources for all of its containers together.
    pub(super) pod_resources: bool,
    /// The resources that containers request, from the policy or their own.
    pub(super) requested: Requested,
    /// The size of the pod's annotations, in bytes.
    pub(super) annotation_bytes: usize,
    /// The names of the pod's claims.
    pub(super) claims: HashSet<String>,
    /// The capabilities of containers, from the policy or their own: pointer to the container, and name.
    pub(super) capabilities: Vec<(String, String)>,
    /// The variables that rules set in the current container; twice, if two rules do.
    pub(super) variables: Vec<String>,
    /// What the policy adds to lists in variables of the current container.
    pub(super) added_entries: Vec<AddedEntry>,
    /// The annotations that hold settings files.
    pub(super) files: SettingsFiles,
    /// The parts of the pod that exclusions of other parts name.
    pub(super) outside: Value,
    /// The fields of the pod that choose its nodes, where a rule sets one of them.
    pub(super) nodes: Value,
    /// The pod's own security context.
    pub(super) security_context: Value,
}

/// The annotations of the pod that hold settings files.
#[derive(Debug, Default)]
pub(super) struct SettingsFiles {
    /// The keys of those that containers already use.
    pub(super) used: HashSet<String>,
    /// By the name of the settings.
    pub(super) names: HashMap<String, FileNames>,
}

/// The names of the files of some settings.
#[derive(Debug, Default)]
pub(super) struct FileNames {
    /// The numbers that were tried.
    pub(super) count: usize,
    pub(super) by_lines: HashMap<String, String>,
}

impl PodState {
    /// Collects the facts about a pod.
    pub(super) fn collect(pod: &Value, stamp: &str) -> OrReason<Self> {
        // The stamp, which is added last, needs space too.
        let stamped = pod["metadata"]["annotations"][STAMP].is_string();
        let stamp = if stamped { 0 } else { STAMP.len() + stamp.len() };
        let mut facts = Self {
            pod_resources: pod["spec"]["resources"]
                .as_object()
                .is_some_and(|resources| !resources.is_empty()),
            requested: Requested::collect(pod),
            security_context: pod["spec"]["securityContext"].clone(),
            ..Self::default()
        };
        facts.count_annotation(STAMP, stamp + size_without(&[], pod))?;
        facts.note_outside(pod);
        let volumes = match &pod["spec"]["volumes"] {
            Value::Array(volumes) => volumes.as_slice(),
            Value::Null => &[],
            other => return Err(malformed("spec.volumes", "a list", other)),
        };
        // Of several with one name, the first one counts.
        let named = volumes.iter().rev().filter_map(|volume| Some((volume["name"].as_str()?, volume)));
        facts.own_volumes = named.map(|(name, volume)| (name.to_owned(), volume.clone())).collect();
        // A mount without its volume keeps the name: a volume of the policy must not become that of the mount.
        let containers = CONTAINER_LISTS.iter().flat_map(|list| items(&pod["spec"], list));
        let mounts = containers.flat_map(|container| items(container, "volumeMounts"));
        for name in mounts.filter_map(|mount| mount["name"].as_str()) {
            facts.own_volumes.entry(name.to_owned()).or_insert(Value::Null);
        }
        Ok(facts)
    }

    /// A volume of the pod, or of the policy under the name that it has in the pod.
    pub(super) fn volume(&self, name: &str) -> Option<&Value> {
        self.own_volumes.get(name).or_else(|| self.volumes.in_pod(name))
    }

    /// Counts bytes that are added to the annotations. A pod without space for everything that the policy adds is left
    /// unchanged rather than injected in part.
    pub(super) fn count_annotation(&mut self, key: &str, bytes: usize) -> OrReason {
        self.annotation_bytes = self.annotation_bytes.saturating_add(bytes);
        if self.annotation_bytes > MAX_ANNOTATIONS {
            return Err(Reason::AnnotationLimit { key: key.to_owned() });
        }
        Ok(())
    }

    /// Collects the names of the pod's claims.
    pub(super) fn note_claims(&mut self, pod: &Value) {
        let claims = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
        self.claims = claims.filter_map(|claim| claim["name"].as_str().map(str::to_owned)).collect();
    }

    /// Collects the values that exclusions name by a path from the pod: the host network, and annotations that
    /// Kubernetes reads as fields. Few pods have any.
    pub(super) fn note_outside(&mut self, pod: &Value) {
        let is_field = |key: &str| key.contains("alpha.kubernetes.io") || key.contains("beta.kubernetes.io");
        let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
        let annotations: Map<String, Value> = annotations
            .filter(|(key, _)| is_field(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let host_network = pod["spec"]["hostNetwork"].as_bool() == Some(true);
        self.outside = if annotations.is_empty() && !host_network {
            Value::Null
        } else {
            json!({"metadata": {"annotations": annotations}, "spec": {"hostNetwork": host_network}})
        };
    }
}

/// The resources that the containers of a pod request, and the container that is merged now.
#[derive(Debug, Default)]
pub(super) struct Requested {
    /// By name, with the first start of a container that requests it.
    resources: HashMap<String, usize>,
    current: RunningTime,
}

/// The time for which a container runs.
#[derive(Debug, Default)]
struct RunningTime {
    /// The index of an init container; other containers start after all of these.
    start: usize,
    /// True for an init container other than a native sidecar: it ends before any later container starts.
    ends: bool,
}

impl Requested {
    /// Collects what the containers of a pod request.
    pub(super) fn collect(pod: &Value) -> Self {
        let mut requested = Self::default();
        for list in CONTAINER_LISTS {
            for (index, container) in pod["spec"][list].as_array().into_iter().flatten().enumerate() {
                requested.current = RunningTime::new(list, index, container);
                for amounts in AMOUNT_LISTS {
                    let amounts = container["resources"][amounts].as_object().into_iter().flatten();
                    let devices = amounts.filter(|(name, amount)| name.contains('/') && !is_zero(amount));
                    devices.for_each(|(name, _)| requested.add(name));
                }
            }
        }
        requested
    }

    /// Goes to the container that is merged next.
    pub(super) fn go_to(&mut self, pod: &Value, (list, index): Place) {
        self.current = RunningTime::new(list, index, &pod["spec"][list][index]);
    }

    /// Notes that the current container requests a resource.
    pub(super) fn add(&mut self, resource: &str) {
        if !self.current.ends && resource.contains('/') {
            let first = self.resources.entry(resource.to_owned()).or_insert(usize::MAX);
            *first = self.current.start.min(*first);
        }
    }

    /// Returns whether another container, which runs next to the current one, requests a resource that this one does
    /// not.
    pub(super) fn by_another(&self, resource: &str) -> bool {
        let first = self.resources.get(resource);
        first.is_some_and(|first| !self.current.ends || *first < self.current.start)
    }
}

impl RunningTime {
    fn new(list: &str, index: usize, container: &Value) -> Self {
        let is_init = list == "initContainers";
        Self { start: if is_init { index } else { usize::MAX }, ends: is_init && !is_sidecar(container) }
    }
}
