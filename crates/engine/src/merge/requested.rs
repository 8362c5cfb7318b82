//! The resources that containers request at the same time, of which none gets a device of a list that another one has.

use std::collections::HashMap;

use serde_json::Value;

use fabric_policy::overlay::is_zero;

use crate::analysis::{CONTAINER_LISTS, is_sidecar};

/// The resources that the containers of a pod request, and the container that is merged now.
#[derive(Debug, Default)]
pub(super) struct Requested {
    /// By name, with the first start of a container that requests it.
    resources: HashMap<String, usize>,
    current: Run,
}

/// The time for which a container runs.
#[derive(Debug, Default)]
struct Run {
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
                requested.current = Run::new(list, index, container);
                for amounts in ["limits", "requests"] {
                    let amounts = container["resources"][amounts].as_object().into_iter().flatten();
                    let devices = amounts.filter(|(name, amount)| name.contains('/') && !is_zero(amount));
                    devices.for_each(|(name, _)| requested.add(name));
                }
            }
        }
        requested
    }

    /// Goes to the container that is merged next.
    pub(super) fn go_to(&mut self, pod: &Value, list: &str, index: usize) {
        self.current = Run::new(list, index, &pod["spec"][list][index]);
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

impl Run {
    fn new(list: &str, index: usize, container: &Value) -> Self {
        let is_init = list == "initContainers";
        Self { start: if is_init { index } else { usize::MAX }, ends: is_init && !is_sidecar(container) }
    }
}
