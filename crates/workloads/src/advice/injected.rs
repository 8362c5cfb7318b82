//! Finds settings that make a job slow or hang despite a correct injection.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use fabric_engine::{CONTAINER_LISTS, requests};
use fabric_yaml::json::items;
use fabric_yaml::quantity::Quantity;

use super::by_hand::{requests_device, shows_adapters};
use super::kinds::{self, OfInjected};
use super::{Finding, Pod, keys, mesh};

/// The label of a node with its zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// Returns advice about pods of a job that fit nodes of several zones, which no fabric connects.
pub(super) fn several_zones(pod: &Pod<'_>) -> Option<Finding> {
    let (spec, nodes) = (&pod.value["spec"], pod.context.nodes.as_ref()?);
    let affinity = &spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let is_placed = affinity.as_array().is_some_and(|terms| !terms.is_empty())
        || keys(&pod.value["metadata"]["annotations"]).any(|key| key.contains("required-topology"));
    let is_alone = pod.pointer.is_empty() || !pod.has_gpus;
    if is_placed || is_alone || !spec["nodeName"].is_null() {
        return None;
    }
    let fit = nodes.candidates(pod.value, &|_| false, pod.context.work.as_ref());
    let with_gpus = fit.into_iter().filter(|node| pod.gpus.iter().any(|resource| node.count(resource) > 0));
    let zones: BTreeSet<&str> = with_gpus.filter_map(|node| node.label(ZONE)).collect();
    (zones.len() > 1).then(|| {
        let named = zones.iter().take(4).map(|zone| format!("`{zone}`")).collect::<Vec<_>>().join(", ");
        let message = format!(
            "the pods fit nodes in several zones ({named}), and no fabric connects zones: add a `podAffinity` with \
             the `topologyKey` `{ZONE}`, or select one zone"
        );
        Finding::note("several_zones", pod.pointer, message)
    })
}

/// Checks a pod that a policy injects.
pub(super) fn check(pod: &Pod<'_>, found: &mut Vec<Finding>) {
    found.extend(mesh::sidecar(pod));
    found.extend(adapters_by_path(pod));
    found.extend(data_over_tcp(pod));
    found.extend(small_shared_memory(pod));
    found.extend(capability_prefix(pod));
    let interface =
        if pod.value["spec"]["hostNetwork"] == true { other_gloo_interface } else { interface_not_in_pod };
    found.extend(
        pod.containers(&["containers"]).filter_map(|(place, container)| interface(pod, container, &place)),
    );
}

/// A capability with the prefix that Kubernetes leaves out: container runtimes drop it without a message.
fn capability_prefix(pod: &Pod<'_>) -> Option<Finding> {
    pod.containers(&CONTAINER_LISTS).find_map(|(place, container)| {
        let names = items(&container["securityContext"]["capabilities"], "add").iter();
        let mut names = names.enumerate().filter_map(|(at, name)| Some((at, name.as_str()?)));
        let (at, name) = names.find(|(_, name)| name.starts_with("CAP_"))?;
        let pointer = format!("{place}/securityContext/capabilities/add/{at}");
        let message = format!(
            "write `{}` instead of `{name}` in `{}`: container runtimes drop names with `CAP_` without a message",
            name.trim_start_matches("CAP_"),
            pod.path(&pointer)
        );
        Some(Finding::warning("capability_prefix", pointer, message))
    })
}

/// The value of a variable of the container at `place`, with its JSON Pointer.
fn variable<'v>(container: &'v Value, place: &str, name: &str) -> Option<(String, &'v str)> {
    let env = items(container, "env");
    let at = env.iter().position(|one| one["name"] == name)?;
    Some((format!("{place}/env/{at}/value"), env[at]["value"].as_str()?))
}

fn interface_not_in_pod(pod: &Pod<'_>, container: &Value, place: &str) -> Option<Finding> {
    let spec = &pod.value["spec"];
    let has_networks =
        |annotation: &String| !pod.value["metadata"]["annotations"][annotation.as_str()].is_null();
    if spec["resourceClaims"].is_array() || kinds::table().by_hand.annotations.iter().any(has_networks) {
        return None;
    }
    let OfInjected { interface_variables, interfaces, .. } = &kinds::table().injected;
    // Policies say it about `ib0` themselves.
    let is_none =
        |name: &str| !name.starts_with("ib") && !interfaces.iter().any(|known| known.starts_with(name));
    interface_variables.iter().find_map(|name| {
        let (pointer, value) = variable(container, place, name)?;
        let is_other = !value.is_empty() && !value.starts_with('^');
        let mut names = value.trim_start_matches('=').split(',');
        (is_other && names.all(is_none)).then(|| {
            let has = interfaces.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ");
            let message = format!(
                "write an interface of the pod in `{}`, or leave it out: the pod has {has}, and no `{value}`, so \
                 its ranks do not find each other",
                pod.path(&pointer)
            );
            Finding::warning("interface_not_in_pod", pointer, message)
        })
    })
}

/// NCCL's names are prefixes, and Gloo's are whole names.
fn other_gloo_interface(pod: &Pod<'_>, container: &Value, place: &str) -> Option<Finding> {
    let (_, of_nccl) = variable(container, place, "NCCL_SOCKET_IFNAME")?;
    let (pointer, of_gloo) = variable(container, place, "GLOO_SOCKET_IFNAME")?;
    let excludes = of_nccl.starts_with('^');
    let mut names = of_nccl.trim_start_matches(['^', '=']).split(',').filter(|name| !name.is_empty());
    if names.any(|name| of_gloo.starts_with(name)) != excludes {
        return None;
    }
    let message = format!(
        "write the same interface in `{}` as in `NCCL_SOCKET_IFNAME`: on the network of the host, they are `{of_gloo}` and \
         `{of_nccl}`, and Gloo fails if the host has none of that name",
        pod.path(&pointer)
    );
    Some(Finding::warning("other_gloo_interface", pointer, message))
}

fn small_shared_memory(pod: &Pod<'_>) -> Option<Finding> {
    let spec = &pod.value["spec"];
    let mounts = items(spec, "containers").iter().flat_map(|container| items(container, "volumeMounts"));
    let is_memory = |mount: &&Value| {
        mount["mountPath"].as_str().is_some_and(|path| path.trim_end_matches('/') == "/dev/shm")
    };
    let names: HashSet<&str> = mounts.filter(is_memory).filter_map(|mount| mount["name"].as_str()).collect();
    let requests = requests(pod.value);
    let gpus = pod.gpus.iter().filter_map(|resource| requests[*resource].as_i64()).max()?;
    let least = Quantity::parse(&kinds::table().injected.shared_memory)?.times(gpus)?;
    items(spec, "volumes").iter().enumerate().find_map(|(at, volume)| {
        volume["name"].as_str().filter(|name| names.contains(name))?;
        let size = Quantity::from_value(&volume["emptyDir"]["sizeLimit"])?;
        let pointer = pod.pointer_to(&["spec", "volumes", &at.to_string(), "emptyDir", "sizeLimit"]);
        (size < least).then(|| {
            let message = format!(
                "leave `{}` out, or raise it to {} for each GPU or more: NCCL fails when `/dev/shm` is full",
                pod.path(&pointer),
                kinds::table().injected.shared_memory
            );
            Finding::warning("small_shared_memory", pointer, message)
        })
    })
}

/// If no device is requested, the pod gets its adapters through the path, and policies add it themselves.
pub(super) fn adapters_by_path(pod: &Pod<'_>) -> Option<Finding> {
    let at = items(&pod.value["spec"], "volumes").iter().position(shows_adapters)?;
    if !requests_device(pod.gpus, pod.value) {
        return None;
    }
    let pointer = pod.pointer_to(&["spec", "volumes", &at.to_string()]);
    let message = format!(
        "remove `{}`: it exposes all adapters of the node, and NCCL or libfabric may take one that the pod was not \
         given, or find none; the device plugin adds those of the pod",
        pod.path(&pointer)
    );
    Some(Finding::warning("adapters_by_path", pointer, message))
}

/// Returns whether a variable of UCX leaves it nothing but TCP, and memory within the node.
fn keeps_ucx_on_tcp(variable: &Value) -> bool {
    let value = variable["value"].as_str().unwrap_or_default();
    let is_rdma =
        |transport: &str| ["all", "dc", "ib", "rc", "ud"].iter().any(|kind| transport.starts_with(kind));
    match variable["name"].as_str() {
        Some("UCX_TLS") => value.split(',').any(|one| one == "tcp") && !value.split(',').any(is_rdma),
        Some("UCX_NET_DEVICES") => value == "eth0",
        _ => false,
    }
}

fn data_over_tcp(pod: &Pod<'_>) -> Option<Finding> {
    pod.containers(&["containers"]).find_map(|(place, container)| {
        let image = container["image"].as_str()?;
        let name = kinds::table().injected.ucx_images.iter().find(|name| image.contains(name.as_str()))?;
        let at = items(container, "env").iter().position(keeps_ucx_on_tcp)?;
        let pointer = format!("{place}/env/{at}/value");
        let message = format!(
            "name the transports and adapters of the fabric in `{}`, or leave `UCX_TLS` and `UCX_NET_DEVICES` out (`--set \
             ucxTls= --set ucxNetDevices=`): an image with `{name}` in its name moves data with UCX, and TCP is slow",
            pod.path(&pointer)
        );
        Some(Finding::warning("data_over_tcp", pointer, message))
    })
}
