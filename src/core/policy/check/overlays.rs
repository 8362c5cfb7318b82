//! Pieces of overlays that do not go together.

use serde_json::Value;

use crate::core::policy::NETWORKS;
use crate::core::policy::definition::Definition;
use crate::core::policy::diagnostic::{
    ALWAYS_FALSE, DEVICE_WITHOUT_IPC_LOCK, MOUNT_WITHOUT_VOLUME, NETWORKS_AS_TEXT, REQUEST_WITHOUT_LIMIT,
    SIDECAR_KEEPS_JOB, UNKNOWN_ENUM_VALUE, VOLUME_WITHOUT_MOUNT,
};
use crate::core::policy::matcher::ANY_VALUE;
use crate::core::policy::overlay::{Element, Template, Write, Written, writes_of_rule};
use crate::core::policy::suggestion::closest;
use crate::core::schema::is_extended_resource;

use super::Finding;

pub(super) fn findings(definition: &Definition) -> Vec<Finding> {
    let mut found = Vec::new();
    volumes(definition, &mut found);
    sidecars(definition, &mut found);
    devices(definition, &mut found);
    networks_as_text(definition, &mut found);
    media(definition, &mut found);
    owners(definition, &mut found);
    no_pod(definition, &mut found);
    found
}

/// Every write of the rules, except for claims and volumes.
pub(super) fn writes(definition: &Definition) -> impl Iterator<Item = Write<'_>> {
    definition.rules.iter().flat_map(|rule| writes_of_rule(&rule.container, &rule.pod))
}

/// The names of elements; `None` if an expression yields one.
fn names<'e>(elements: impl IntoIterator<Item = &'e Element>) -> Option<Vec<&'e str>> {
    elements.into_iter().map(|element| element.0.literal("name")).collect()
}

/// Volumes that no container mounts, which are not added, and mounts of volumes that no rule has.
fn volumes(definition: &Definition, found: &mut Vec<Finding>) {
    let mut mounts: Vec<&Element> = Vec::new();
    let mut all_known = true;
    for write in writes(definition).filter(|write| write.field() == "volumeMounts") {
        match write.value {
            Written::Entry(mount) => mounts.push(mount),
            _ => all_known = false,
        }
    }
    let volumes = names(definition.rules.iter().flat_map(|rule| &rule.pod.volumes));
    let mounted = names(mounts);
    let (Some(volumes), Some(mounted), true) = (volumes, mounted, all_known) else { return };
    let is_mounted = |volume: &&str| mounted.contains(volume);
    for volume in distinct(volumes.iter().copied().filter(|volume| !is_mounted(volume))) {
        let message = format!("no rule mounts the volume `{volume}`, so that it is not added");
        let hint = "add `volumeMounts` to `container` of a rule, or remove the volume";
        found.push(Finding::warning(VOLUME_WITHOUT_MOUNT, &format!("name: {volume}"), message, hint));
    }
    for volume in distinct(mounted.iter().copied().filter(|volume| !volumes.contains(volume))) {
        let message = format!(
            "no rule has the volume `{volume}` of this mount, which only pods with such a volume get"
        );
        let hint = "add the volume to `pod.spec.volumes` of a rule";
        found.push(Finding::warning(MOUNT_WITHOUT_VOLUME, &format!("name: {volume}"), message, hint));
    }
}

fn distinct<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<&'t str> {
    let mut known = Vec::new();
    for text in texts {
        if !known.contains(&text) {
            known.push(text);
        }
    }
    known
}

/// Containers that a rule adds next to those of the pod.
fn sidecars(definition: &Definition, found: &mut Vec<Finding>) {
    let owners = &definition.matcher.owner_kinds;
    let is_job = |owner: &String| owner.split('.').next().is_some_and(|kind| kind.ends_with("Job"));
    if !owners.is_empty() && !owners.iter().any(is_job) {
        return;
    }
    for container in definition.rules.iter().flat_map(|rule| &rule.pod.containers) {
        let adds = container.list == "containers" && container.image().is_some();
        let Template::Constant(Value::String(name)) = &container.name else { continue };
        if adds {
            let message =
                format!("a Job completes when all its containers have ended, and `{name}` is one of them");
            let hint = "write it under `initContainers` with `restartPolicy: Always`, as a native sidecar";
            found.push(Finding::warning(SIDECAR_KEEPS_JOB, &format!("name: {name}"), message, hint));
        }
    }
}

/// Devices of a fabric, whose libraries pin memory.
fn devices(definition: &Definition, found: &mut Vec<Finding>) {
    let mut devices: Vec<&str> = Vec::new();
    let mut may_lock = false;
    let mut prefixed: Option<&str> = None;
    for write in writes(definition) {
        match (write.value, write.field()) {
            (Written::Amount(amount), _) => {
                let Some(name) = write.name() else { continue };
                let is_device = is_extended_resource(name);
                if definition.gpu_resources.iter().any(|gpu| gpu == name)
                    || !(is_device || name.starts_with("hugepages-"))
                {
                    continue;
                }
                if is_device {
                    devices.push(name);
                }
                if amount.limit.is_none() {
                    let message =
                        format!("the request of `{name}` has no limit, and Kubernetes wants the two equal");
                    let hint = "write the same amount under `limits`";
                    found.push(Finding::warning(REQUEST_WITHOUT_LIMIT, name, message, hint));
                }
            }
            (Written::Names(list), "add") => {
                let names = texts(list);
                may_lock |= names.as_ref().is_none_or(|names| names.iter().any(|name| locks_memory(name)));
                let is_prefixed = |name: &&str| name.eq_ignore_ascii_case("CAP_IPC_LOCK");
                prefixed = prefixed.or(names.into_iter().flatten().find(is_prefixed));
            }
            (Written::Value(_), "privileged")
            | (Written::Computed { .. }, "securityContext" | "capabilities") => may_lock = true,
            _ => {}
        }
    }
    if may_lock {
        return;
    }
    if let Some(device) = devices.first() {
        let message = format!("the policy adds `{device}`, and no rule adds the capability `IPC_LOCK`");
        let hint = "libraries for RDMA pin memory: add `IPC_LOCK` to `securityContext.capabilities.add`, unless the nodes \
                    set no limit for locked memory";
        found.push(match prefixed {
            Some(name) => {
                let hint = "write `IPC_LOCK`: Kubernetes names capabilities without `CAP_`";
                Finding::warning(DEVICE_WITHOUT_IPC_LOCK, name, message, hint)
            }
            None => Finding::warning(DEVICE_WITHOUT_IPC_LOCK, device, message, hint),
        });
    }
}

/// The names in a list; `None` if an expression may yield some.
fn texts(list: &Template) -> Option<Vec<&str>> {
    match list {
        Template::Constant(Value::Array(items)) => items.iter().map(Value::as_str).collect(),
        Template::List(items) => items.iter().map(|Element(item)| item.as_text()).collect(),
        _ => None,
    }
}

/// Returns whether a name is that of the capability, or a misspelling of it, which has a warning of its own.
fn locks_memory(name: &str) -> bool {
    let name = name.to_uppercase().replace('-', "_");
    name == "ALL" || closest(&name, ["IPC_LOCK"]).is_some()
}

/// Networks that are not added to those of the pod.
fn networks_as_text(definition: &Definition, found: &mut Vec<Finding>) {
    for write in writes(definition) {
        if write.field() == "annotations"
            && write.name() == Some(NETWORKS)
            && matches!(write.value, Written::Value(_))
        {
            let message =
                format!("`{NETWORKS}` is set as one text, so that a pod with networks does not get both");
            let hint = "attach networks by `$networks`, which adds to those of the pod";
            found.push(Finding::warning(NETWORKS_AS_TEXT, &format!("{NETWORKS}:"), message, hint));
        }
    }
}

/// Media of volumes that no kubelet knows. The API server accepts any.
fn media(definition: &Definition, found: &mut Vec<Finding>) {
    for Element(volume) in definition.rules.iter().flat_map(|rule| &rule.pod.volumes) {
        let Some(source) = volume.field("emptyDir") else { continue };
        let Some(medium) = source.literal("medium") else { continue };
        if !["", "Memory", "HugePages"].contains(&medium) && !medium.starts_with("HugePages-") {
            let message = format!("no kubelet knows the medium `{medium}`, so that the pod does not start");
            let hint = "write `Memory`, or `HugePages`";
            found.push(Finding::warning(UNKNOWN_ENUM_VALUE, &format!("medium: {medium}"), message, hint));
        }
    }
}

/// A policy that leaves every pod alone that has one of its triggers.
fn no_pod(definition: &Definition, found: &mut Vec<Finding>) {
    let matcher = &definition.matcher;
    let excepted = |(key, value): &(String, String)| {
        matcher
            .except_annotation
            .iter()
            .any(|(known, seen)| known == key && (seen == ANY_VALUE || seen == value))
    };
    if !matcher.any_annotation.is_empty() && matcher.any_annotation.iter().all(excepted) {
        let message =
            "`exceptAnnotation` has each annotation of `anyAnnotation`, so that no pod matches".to_owned();
        let hint = "remove it from one of the two";
        found.push(Finding::warning(ALWAYS_FALSE, "exceptAnnotation:", message, hint));
    }
}

/// Kinds of owners in lower case, as resources are written.
fn owners(definition: &Definition, found: &mut Vec<Finding>) {
    for owner in &definition.matcher.owner_kinds {
        if !owner.starts_with(|first: char| first.is_ascii_lowercase()) {
            continue;
        }
        let message = format!("no owner has the kind `{owner}`: a kind begins with a capital letter");
        let mut kind = owner.clone();
        kind[..1].make_ascii_uppercase();
        let hint = format!("write the kind as a manifest has it, such as `{kind}`");
        found.push(Finding::warning(ALWAYS_FALSE, owner, message, &hint));
    }
}
