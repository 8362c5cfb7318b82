//! Parts of overlays that do not fit together.

use std::collections::BTreeMap;

use crate::check::named_containers;
use crate::definition::Definition;
use crate::overlay::{Addition, ContainerName, Target, Tree, Write};
use crate::schema::{self, is_extended_resource};
use crate::source::{
    DEVICE_WITHOUT_IPC_LOCK, Diagnostic, INCOMPLETE_CONTAINER, REQUEST_WITHOUT_LIMIT, SIDECAR_KEEPS_JOB,
    closest, did_you_mean,
};
use fabric_yaml::Span;

pub(crate) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    sidecars(definition, &mut found);
    incomplete(definition, &mut found);
    devices(definition, &mut found);
    requests_without_limit(definition, &mut found);
    found
}

/// Containers that a rule adds next to those of the pod.
fn sidecars(definition: &Definition, found: &mut Vec<Diagnostic>) {
    let owners = &definition.matcher.owner_kinds;
    let is_job = |owner: &String| owner.split('.').next().is_some_and(|kind| kind.ends_with("Job"));
    if !owners.is_empty() && !owners.iter().any(is_job) {
        return;
    }
    let added = named_containers(definition).filter(|(_, addition)| addition.image().is_some());
    for (container, _) in added.filter(|(container, _)| container.list == "containers") {
        let Some(name) = container.name.as_str() else { continue };
        let message =
            format!("a Job completes when all its containers have ended, and `{name}` is one of them");
        let hint = "write it under `initContainers` with `restartPolicy: Always`, as a native sidecar";
        found.push(Diagnostic::warning(SIDECAR_KEEPS_JOB, container.name.span, message).hint(hint));
    }
}

/// Containers that rules write and that lack what they need to start.
fn incomplete(definition: &Definition, found: &mut Vec<Diagnostic>) {
    let mut all: BTreeMap<(&str, &str), Vec<(&ContainerName, &Addition)>> = BTreeMap::new();
    for (container, addition) in named_containers(definition) {
        if let Some(name) = container.name.as_str() {
            all.entry((container.list, name)).or_default().push((container, addition));
        }
    }
    let added = || {
        let all = all.iter().filter(|(_, parts)| parts.iter().any(|(_, part)| part.image().is_some()));
        all.map(|((_, name), _)| *name)
    };
    for ((list, name), parts) in &all {
        let has = |field: &str| parts.iter().any(|(_, part)| part.tree.get(field).is_some());
        let probe = ["startupProbe", "livenessProbe", "readinessProbe"].into_iter().find(|probe| has(probe));
        let (message, hint) = if !added().any(|added| added == *name) {
            let message = format!("no rule gives `{name}` an `image`, so no pod gets this container");
            let own = || "write its `image`, unless it is a container of the pods themselves".to_owned();
            (message, closest(name, added()).map_or_else(own, did_you_mean))
        } else if let Some(probe) = probe.filter(|_| *list == "initContainers" && !is_native(parts)) {
            let message =
                format!("the init container `{name}` has a `{probe}`, which only a native sidecar can have");
            (message, "write `restartPolicy: Always`, or leave the probe out".to_owned())
        } else {
            continue;
        };
        found.push(Diagnostic::warning(INCOMPLETE_CONTAINER, parts[0].0.name.span, message).hint(hint));
    }
}

/// Returns whether an init container is a native sidecar, or may be one.
fn is_native(parts: &[(&ContainerName, &Addition)]) -> bool {
    let policies = parts.iter().filter_map(|(_, part)| part.tree.get("restartPolicy"));
    policies.into_iter().any(|policy| policy.as_str().is_none_or(|policy| policy == "Always"))
}

/// Devices of a fabric, whose libraries pin memory, in the containers of the pod and in each that a rule adds.
fn devices(definition: &Definition, found: &mut Vec<Diagnostic>) {
    let mut holders: BTreeMap<Option<&str>, Holder> = BTreeMap::new();
    for rule in &definition.rules {
        for addition in &rule.additions {
            let named = addition.container_name().filter(|_| addition.image().is_some());
            let holder = holders.entry(named.and_then(|container| container.name.as_str())).or_default();
            for write in addition.writes().iter().filter(|write| *write.object == *schema::container()) {
                holder.add(write, rule.device.is_some(), definition);
            }
        }
    }
    let unlocked = holders.into_values().filter(|holder| !holder.may_lock);
    for (device, span) in unlocked.filter_map(|holder| holder.device) {
        let message = format!(
            "the policy adds `{device}`, and no rule adds the capability `IPC_LOCK` to its container"
        );
        let hint = "libraries for RDMA pin memory: add `IPC_LOCK` to `securityContext.capabilities.add`, unless \
                    the nodes do not limit locked memory";
        found.push(Diagnostic::warning(DEVICE_WITHOUT_IPC_LOCK, span, message).hint(hint));
    }
}

/// The containers that get a device.
#[derive(Default)]
struct Holder {
    /// The first device, and its place.
    device: Option<(String, Span)>,
    may_lock: bool,
}

impl Holder {
    /// Notes a write; one of `devices.add` adds devices also by a computed name.
    fn add(&mut self, write: &Write<'_>, adds_devices: bool, definition: &Definition) {
        match (write.target, write.field.name) {
            (Target::Entry(entry), _) if write.is_amount() => {
                let is_device = |name: &str| is_extended_resource(name) && is_pinned(definition, name);
                if write.name().map_or(adds_devices, is_device) {
                    self.device.get_or_insert_with(|| (entry.source(), write.span()));
                }
            }
            (Target::Item(_), "add") => self.may_lock |= write.value.as_str().is_none_or(locks_memory),
            (Target::Whole, "privileged" | "securityContext" | "capabilities" | "add") => {
                self.may_lock |= !write.value.is_empty();
            }
            _ => {}
        }
    }
}

/// Requests of devices and huge pages without the limit, which has to be equal.
fn requests_without_limit(definition: &Definition, found: &mut Vec<Diagnostic>) {
    let additions = definition.rules.iter().flat_map(|rule| &rule.additions);
    for resources in additions.filter_map(|addition| addition.tree.get("resources")) {
        let limits = resources.get("limits");
        for request in resources.get("requests").map_or(&[][..], Tree::entries) {
            let name = request.name().filter(|name| is_pinned(definition, name));
            let Some(name) = name.filter(|name| limits.and_then(|limits| limits.get(name)).is_none()) else {
                continue;
            };
            let message =
                format!("the request of `{name}` has no limit, but Kubernetes requires both to be equal");
            let hint = "write the same amount under `limits`";
            found.push(Diagnostic::warning(REQUEST_WITHOUT_LIMIT, request.value.span, message).hint(hint));
        }
    }
}

/// Returns whether a resource is a device other than a GPU, or huge pages.
fn is_pinned(definition: &Definition, name: &str) -> bool {
    let is_gpu = definition.gpus.resources.iter().any(|gpu| gpu == name);
    !is_gpu && (is_extended_resource(name) || name.starts_with("hugepages-"))
}

/// Returns whether a name is that of the capability, or a misspelling of it, which has a warning of its own.
fn locks_memory(name: &str) -> bool {
    let name = name.to_uppercase().replace('-', "_");
    let name = name.strip_prefix("CAP_").unwrap_or(&name);
    name == "ALL" || closest(name, ["IPC_LOCK"]).is_some()
}
