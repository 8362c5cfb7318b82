//! Finds settings that make a job slow or hang despite its fabric, which a policy or the pod itself requests.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Value, json};

use fabric_engine::{CONTAINER_LISTS, requests};
use fabric_yaml::json::items;
use fabric_yaml::quantity::Quantity;

use super::by_hand::{requests_device, shows_adapters};
use super::kinds::{self, Nixl};
use super::signs::containers;
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

/// Checks a pod with a fabric, whose interfaces of InfiniBand are those of a policy's checks if one is known.
pub(super) fn check(pod: &Pod<'_>, has_policy: bool, found: &mut Vec<Finding>) {
    found.extend(mesh::sidecar(pod));
    found.extend(data_over_tcp(pod));
    found.extend(nixl_over_ucx(pod));
    found.extend(small_shared_memory(pod, has_policy));
    found.extend(capability_prefix(pod));
    for (place, container) in pod.containers(&["containers"]) {
        found.extend(interface_not_in_pod(pod, has_policy, container, &place));
        found.extend(other_gloo_interface(pod, container, &place));
    }
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

fn interface_not_in_pod(pod: &Pod<'_>, has_policy: bool, container: &Value, place: &str) -> Option<Finding> {
    let has = interfaces(pod)?;
    let is_none = |name: &str| {
        let is_told = has_policy && name.starts_with("ib");
        !is_told && has.iter().all(|interface| !interface.starts_with(name))
    };
    kinds::table().injected.interface_variables.iter().find_map(|name| {
        let (pointer, value) = variable(container, place, name)?;
        let is_other = !value.is_empty() && !value.starts_with('^');
        let mut names = value.trim_start_matches('=').split(',');
        (is_other && names.all(is_none)).then(|| {
            let has = has.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ");
            let message = format!(
                "write an interface of the pod in `{}`, or leave it out: the pod has {has}, and no `{value}`, so \
                 its ranks do not find each other",
                pod.path(&pointer)
            );
            Finding::warning("interface_not_in_pod", pointer, message)
        })
    })
}

/// The interfaces of a pod in a network of its own; `None` if they are not known. Multus counts those without a name:
/// `net1` is the first.
fn interfaces(pod: &Pod<'_>) -> Option<Vec<String>> {
    let spec = &pod.value["spec"];
    if spec["hostNetwork"] == true || spec["resourceClaims"].is_array() {
        return None;
    }
    let mut all = kinds::table().injected.interfaces.clone();
    for name in &kinds::table().by_hand.annotations {
        let Some(networks) = pod.value["metadata"]["annotations"][name.as_str()].as_str() else { continue };
        let listed: Vec<Value> = if networks.trim_start().starts_with('[') {
            serde_json::from_str(networks).ok()?
        } else if networks == "true" {
            return None;
        } else {
            let name = |entry: &str| entry.split_once('@').map(|(_, name)| json!({"interface": name.trim()}));
            networks.split(',').map(|entry| name(entry).unwrap_or_default()).collect()
        };
        all.extend(listed.iter().enumerate().map(|(at, network)| {
            let named = ["interface", "interfaceName"].iter().find_map(|key| network[*key].as_str());
            named.map_or_else(|| format!("net{}", at + 1), str::to_owned)
        }));
    }
    Some(all)
}

/// NCCL's names are prefixes, and Gloo's are whole names.
fn other_gloo_interface(pod: &Pod<'_>, container: &Value, place: &str) -> Option<Finding> {
    if pod.value["spec"]["hostNetwork"] != true {
        return None;
    }
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

fn small_shared_memory(pod: &Pod<'_>, has_policy: bool) -> Option<Finding> {
    let spec = &pod.value["spec"];
    let mounts = items(spec, "containers").iter().flat_map(|container| items(container, "volumeMounts"));
    let is_memory = |mount: &&Value| {
        mount["mountPath"].as_str().is_some_and(|path| path.trim_end_matches('/') == "/dev/shm")
    };
    let names: HashSet<&str> = mounts.filter(is_memory).filter_map(|mount| mount["name"].as_str()).collect();
    let requests = requests(pod.value);
    let gpus = pod.gpus.iter().filter_map(|resource| requests[*resource].as_i64()).max()?;
    // Whoever did not ask is told only below what is too little for all GPUs together.
    let least =
        Quantity::parse(&kinds::table().injected.shared_memory)?.times(if has_policy { gpus } else { 1 })?;
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

/// If no device is requested, the pod gets its adapters through the path, and policies add it themselves. A privileged
/// container has all adapters in any case.
pub(super) fn adapters_by_path(pod: &Pod<'_>) -> Option<Finding> {
    let spec = &pod.value["spec"];
    let at = items(spec, "volumes").iter().position(shows_adapters)?;
    let is_privileged = |container: &Value| container["securityContext"]["privileged"] == true;
    if !requests_device(pod.gpus, pod.value) || containers(spec).any(is_privileged) {
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
fn keeps_ucx_on_tcp(variable: &Value, has_nvlink: bool) -> bool {
    let value = variable["value"].as_str().unwrap_or_default();
    let is_fast = |transport: &str| {
        ["all", "dc", "ib", "rc", "ud"].iter().any(|kind| transport.starts_with(kind))
            || has_nvlink && transport == "cuda_ipc"
    };
    match variable["name"].as_str() {
        Some("UCX_TLS") => value.split(',').any(|one| one == "tcp") && !value.split(',').any(is_fast),
        Some("UCX_NET_DEVICES") => value == "eth0" && !has_nvlink,
        _ => false,
    }
}

/// Returns whether the variables of a container turn on `NVLink` between nodes, where data needs no adapter.
fn has_nvlink(container: &Value) -> bool {
    items(container, "env").iter().any(|one| {
        let is_on = one["value"].as_str().is_some_and(|value| !value.starts_with(['0', 'n']));
        is_on && ["UCX_CUDA_IPC_ENABLE_MNNVL", "NCCL_MNNVL_ENABLE"].iter().any(|name| one["name"] == *name)
    })
}

fn data_over_tcp(pod: &Pod<'_>) -> Option<Finding> {
    pod.containers(&["containers"]).find_map(|(place, container)| {
        let image = container["image"].as_str()?;
        let name = kinds::table().injected.ucx_images.iter().find(|name| image.contains(name.as_str()))?;
        let has_nvlink = has_nvlink(container);
        let at = items(container, "env").iter().position(|one| keeps_ucx_on_tcp(one, has_nvlink))?;
        let pointer = format!("{place}/env/{at}/value");
        let message = format!(
            "name the transports and adapters of the fabric in `{}`, or leave `UCX_TLS` and `UCX_NET_DEVICES` out (`--set \
             ucxTls= --set ucxNetDevices=`): an image with `{name}` in its name moves data with UCX, and TCP is slow",
            pod.path(&pointer)
        );
        Some(Finding::warning("data_over_tcp", pointer, message))
    })
}

fn nixl_over_ucx(pod: &Pod<'_>) -> Option<Finding> {
    let Nixl { devices, words, variable: name, backend } = &kinds::table().injected.nixl;
    pod.containers(&["containers"]).find_map(|(place, container)| {
        let texts = ["command", "args"].into_iter().flat_map(|list| items(container, list));
        let line = texts.filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
        let set = variable(container, &place, name).map_or("", |(_, value)| value);
        let is_named = line.contains(backend) || set.contains(backend);
        let is_used = words.iter().any(|word| line.contains(word));
        let has_device = keys(&container["resources"]["limits"]).any(|device| devices.contains(device));
        (is_used && !is_named && has_device).then(|| {
            let message = format!(
                "name NIXL's backend in `{}`: it takes UCX, which emulates its RDMA writes on this fabric; for vLLM, write \
                 `\"backends\":[\"{backend}\"]` in `kv_connector_extra_config` (`NIXL_BACKEND` has no effect), for SGLang, \
                 set `{name}={backend}`",
                pod.path(&place)
            );
            Finding::warning("nixl_over_ucx", place.clone(), message)
        })
    })
}
