//! The resources that containers request at the same time, of which none gets a device of a list that another one has.

use std::collections::HashMap;

use serde_json::Value;

use fabric_policy::overlay::is_zero;

use crate::analysis::{LISTS, is_sidecar};

/// The resources that the containers of a pod request, and the container that is merged now.
#[derive(Debug, Default)]
pub(super) struct Requested {
    /// By name; true if a native sidecar requests it.
    resources: HashMap<String, bool>,
    /// True for a native sidecar, and `None` for another init container, which ends before the others start.
    current: Option<bool>,
}

impl Requested {
    /// Collects what the containers of a pod request.
    pub(super) fn collect(pod: &Value) -> Self {
        let mut requested = Self::default();
        for list in LISTS {
            for container in pod["spec"][list].as_array().into_iter().flatten() {
                requested.current = runs_with_others(list, container);
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
        self.current = runs_with_others(list, &pod["spec"][list][index]);
    }

    /// Notes that the current container requests a resource.
    pub(super) fn add(&mut self, resource: &str) {
        if let Some(is_sidecar) = self.current.filter(|_| resource.contains('/')) {
            *self.resources.entry(resource.to_owned()).or_default() |= is_sidecar;
        }
    }

    /// Returns whether another container, which runs next to the current one, requests a resource that this one does
    /// not.
    pub(super) fn by_another(&self, resource: &str) -> bool {
        let by_sidecar = self.resources.get(resource);
        by_sidecar.is_some_and(|by_sidecar| *by_sidecar || self.current.is_some())
    }
}

/// Whether a container that runs next to others is a native sidecar.
fn runs_with_others(list: &str, container: &Value) -> Option<bool> {
    let is_init = list == "initContainers";
    (!is_init || is_sidecar(container)).then_some(is_init)
}
