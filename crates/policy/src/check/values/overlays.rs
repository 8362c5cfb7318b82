//! Parts of overlays that do not fit together.

use crate::definition::Definition;
use crate::overlay::{Target, Tree};
use crate::schema::is_extended_resource;
use crate::source::{
    DEVICE_WITHOUT_IPC_LOCK, Diagnostic, REQUEST_WITHOUT_LIMIT, SIDECAR_KEEPS_JOB, UNKNOWN_ENUM_VALUE,
    closest,
};
use fabric_yaml::Span;

use crate::check::writes;

pub(crate) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    sidecars(definition, &mut found);
    devices(definition, &mut found);
    requests_without_limit(definition, &mut found);
    media(definition, &mut found);
    found
}

/// Containers that a rule adds next to those of the pod.
fn sidecars(definition: &Definition, found: &mut Vec<Diagnostic>) {
    let owners = &definition.matcher.owner_kinds;
    let is_job = |owner: &String| owner.split('.').next().is_some_and(|kind| kind.ends_with("Job"));
    if !owners.is_empty() && !owners.iter().any(is_job) {
        return;
    }
    for container in definition.rules.iter().flat_map(|rule| &rule.pod.containers) {
        let adds = container.list == "containers" && container.image().is_some();
        let Some(name) = container.name.as_str() else { continue };
        if adds {
            let message =
                format!("a Job completes when all its containers have ended, and `{name}` is one of them");
            let hint = "write it under `initContainers` with `restartPolicy: Always`, as a native sidecar";
            found.push(Diagnostic::warning(SIDECAR_KEEPS_JOB, container.name.span, message).hint(hint));
        }
    }
}

/// Devices of a fabric, whose libraries pin memory.
fn devices(definition: &Definition, found: &mut Vec<Diagnostic>) {
    let mut first: Option<(&str, Span)> = None;
    let mut may_lock = false;
    for write in writes(definition) {
        match (write.target, write.field.name) {
            _ if write.is_amount() => {
                let name = write.name().filter(|name| is_pinned(definition, name));
                if let Some(name) = name.filter(|name| is_extended_resource(name)) {
                    first.get_or_insert((name, write.span()));
                }
            }
            (Target::Item(_), "add") => may_lock |= write.value.as_str().is_none_or(locks_memory),
            (Target::Whole, "privileged" | "securityContext" | "capabilities" | "add") => {
                may_lock |= !write.value.is_empty();
            }
            _ => {}
        }
    }
    if may_lock {
        return;
    }
    if let Some((device, span)) = first {
        let message = format!("the policy adds `{device}`, and no rule adds the capability `IPC_LOCK`");
        let hint = "libraries for RDMA pin memory: add `IPC_LOCK` to `securityContext.capabilities.add`, unless \
                    the nodes do not limit locked memory";
        found.push(Diagnostic::warning(DEVICE_WITHOUT_IPC_LOCK, span, message).hint(hint));
    }
}

/// Requests of devices and huge pages without the limit, which has to be equal.
fn requests_without_limit(definition: &Definition, found: &mut Vec<Diagnostic>) {
    let containers = definition.rules.iter().flat_map(|rule| {
        [&rule.container].into_iter().chain(rule.pod.containers.iter().map(|named| &named.fields))
    });
    for resources in containers.filter_map(|container| container.get("resources")) {
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

/// Volume media that no kubelet knows. The API server accepts any.
fn media(definition: &Definition, found: &mut Vec<Diagnostic>) {
    let volumes = definition.rules.iter().flat_map(|rule| &rule.pod.volumes);
    for tree in volumes.filter_map(|volume| volume.at(&["emptyDir", "medium"])) {
        let Some(medium) = tree.as_str() else { continue };
        if !["", "Memory", "HugePages"].contains(&medium) && !medium.starts_with("HugePages-") {
            let message = format!("no kubelet knows the medium `{medium}`, so the pod does not start");
            let hint = "write `Memory`, or `HugePages`";
            found.push(Diagnostic::warning(UNKNOWN_ENUM_VALUE, tree.span, message).hint(hint));
        }
    }
}
