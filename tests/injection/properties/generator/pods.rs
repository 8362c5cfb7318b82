//! Pods that the API server would take, and pods that it would not.

use serde_json::{Value, json};

use super::containers::{add_probes, container, without_port_conflicts};
use super::defaults;
use super::fabric::extend_pod;
use super::pools::{
    ANNOTATIONS, CONTAINERS, DEVICES, INSTANCE_TYPE, INSTANCE_TYPES, LABEL_VALUES, LABELS, NAMESPACES,
    NETWORKS, OPT_OUT, POOL, POOLS, TRIGGER, VOLUMES, WRITTEN_ANNOTATIONS, WRITTEN_LABELS, volume,
};
use super::records::{self, OTHER_TYPE};
use super::{Dice, items};

/// A pod that the API server would take, most often one that the policies of these tests match.
pub(crate) fn pod(dice: &mut Dice) -> Value {
    let names = dice.some(&VOLUMES, 35);
    let volumes: Vec<Value> = names.into_iter().map(|name| volume(name, dice.chance(50))).collect();
    let host_network = dice.chance(20);
    let mut containers: Vec<Value> = Vec::new();
    let mut init: Vec<Value> = Vec::new();
    for (at, name) in CONTAINERS.iter().enumerate() {
        if at > 0 && !dice.chance(30) {
            continue;
        }
        let mut one = container(dice, name, &volumes);
        if at == 0 || dice.chance(50) {
            add_probes(dice, &mut one);
            containers.push(one);
        } else {
            if dice.chance(50) {
                one["restartPolicy"] = json!("Always");
                add_probes(dice, &mut one);
            }
            init.push(one);
        }
    }
    without_port_conflicts(&mut containers, host_network);
    for one in &mut init {
        without_port_conflicts(std::slice::from_mut(one), host_network);
    }
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata(dice), "spec": {}});
    let spec = &mut pod["spec"];
    spec["containers"] = containers.into();
    if !init.is_empty() {
        spec["initContainers"] = init.into();
    }
    if !volumes.is_empty() || dice.chance(30) {
        spec["volumes"] = volumes.into();
    }
    if host_network {
        spec["hostNetwork"] = json!(true);
    }
    spec_fields(dice, spec);
    extend_pod(dice, &mut pod);
    if dice.chance(30) {
        defaults::complete(&mut pod);
    } else {
        sprinkle(dice, &mut pod);
    }
    records::forge(dice, &mut pod);
    // A copy of the manifest of a pod for other nodes.
    if dice.chance(15) && pod["spec"]["nodeSelector"][INSTANCE_TYPE].is_string() {
        let nodes = json!([{"labels": {INSTANCE_TYPE: OTHER_TYPE}, "gpus": 8, "resources": {"rdma/a": 4}}]);
        let annotations = &mut pod["metadata"]["annotations"];
        annotations["fabric-injector.io/injected"] = json!("generated@000000000000");
        annotations["fabric-injector.io/nodes"] = json!(nodes.to_string());
    }
    pod
}

fn metadata(dice: &mut Dice) -> Value {
    let mut metadata = if dice.chance(50) { json!({"name": "p"}) } else { json!({"generateName": "p-"}) };
    if dice.chance(40) {
        metadata["namespace"] = json!(dice.pick(&NAMESPACES));
    }
    let mut annotations = json!({});
    match dice.below(20) {
        0 => {}
        1 => annotations[TRIGGER] = json!("false"),
        2 => {
            annotations[TRIGGER] = json!("true");
            annotations[OPT_OUT] = json!("true");
        }
        _ => annotations[TRIGGER] = json!("true"),
    }
    for key in ANNOTATIONS {
        if dice.chance(25) {
            annotations[key] = json!(dice.pick(&LABEL_VALUES));
        }
    }
    for key in WRITTEN_ANNOTATIONS {
        if dice.chance(10) {
            annotations[key] = json!("own");
        }
    }
    if dice.chance(20) {
        annotations[NETWORKS] = json!(dice.pick(&[
            "team/storage",
            "rdma-net",
            "net/rdma-net, net/rdma-net@net7",
            "[{\"name\": \"storage\", \"namespace\": \"team\"}]",
            "[ {\"name\":\"rdma-net\",\"namespace\":\"net\"} ]",
            "",
            "[]",
            "[{",
        ]));
    }
    if dice.chance(6) {
        annotations["fabric-injector.io/injected"] =
            json!(dice.pick(&["other@000000000000", "generated@000000000000", "x"]));
    }
    metadata["annotations"] = annotations;
    let mut labels = json!({});
    for key in LABELS {
        if dice.chance(25) {
            labels[key] = json!(dice.pick(&LABEL_VALUES));
        }
    }
    for key in WRITTEN_LABELS {
        if dice.chance(10) {
            labels[key] = json!("own");
        }
    }
    if labels != json!({}) || dice.chance(20) {
        metadata["labels"] = labels;
    }
    if dice.chance(20) {
        let kind = dice.pick(&["Job", "StatefulSet", "MPIJob"]);
        metadata["ownerReferences"] =
            json!([{"apiVersion": "batch/v1", "kind": kind, "name": "o", "uid": "u", "controller": true}]);
    }
    metadata
}

/// The nodes that a pod selects.
fn node_labels(dice: &mut Dice, spec: &mut Value) {
    let mut terms = vec![Vec::new()];
    if dice.chance(20) {
        terms.push(Vec::new());
    }
    for (label, values, chance) in [(INSTANCE_TYPE, &INSTANCE_TYPES[..], 50), (POOL, &POOLS[..], 30)] {
        if !dice.chance(chance) {
            continue;
        }
        let value = dice.pick(values);
        if dice.chance(70) {
            let prefix = if label == INSTANCE_TYPE && dice.chance(20) { "ml." } else { "" };
            spec["nodeSelector"][label] = json!(format!("{prefix}{value}"));
            continue;
        }
        for term in &mut terms {
            if dice.chance(90) {
                let any = if dice.chance(50) { json!([value]) } else { json!(values[..2]) };
                let operator = dice.pick(&["In", "In", "In", "In", "NotIn"]);
                term.push(json!({"key": label, "operator": operator, "values": any}));
            }
        }
    }
    if terms.iter().all(|term| !term.is_empty()) {
        let terms: Vec<Value> = terms.iter().map(|term| json!({"matchExpressions": term})).collect();
        spec["affinity"] = json!({"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    }
}

fn spec_fields(dice: &mut Dice, spec: &mut Value) {
    node_labels(dice, spec);
    for (key, value) in [
        ("securityContext", json!({"runAsUser": 1000, "fsGroup": 2000})),
        ("securityContext", json!({"runAsNonRoot": true, "supplementalGroups": [1, 2]})),
        ("tolerations", json!([{"key": "nvidia.com/gpu", "operator": "Exists"}])),
        ("tolerations", json!([{"key": "fabric", "operator": "Exists", "effect": "NoSchedule"}])),
        ("restartPolicy", json!("Never")),
        ("terminationGracePeriodSeconds", json!(0)),
        ("hostIPC", json!(true)),
        ("shareProcessNamespace", json!(true)),
        ("dnsPolicy", json!("ClusterFirstWithHostNet")),
        ("hostAliases", json!([{"ip": "10.0.0.1", "hostnames": ["a"]}])),
        ("imagePullSecrets", json!([{"name": "registry"}])),
        ("schedulerName", json!("other")),
        ("subdomain", json!("workers")),
        ("enableServiceLinks", json!(false)),
        ("resourceClaims", json!([{"name": "nics", "resourceClaimName": "nics"}])),
        (
            "topologySpreadConstraints",
            json!([{"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "ScheduleAnyway"}]),
        ),
        ("resources", json!({"limits": {"cpu": "64", "memory": "256Gi"}})),
        ("resources", json!({"requests": {"cpu": "64", "memory": "256Gi"}})),
        ("os", json!({"name": "linux"})),
        ("fieldOfTheFuture", json!([null, {"a": {}}])),
    ] {
        if dice.chance(7) {
            spec[key] = value;
        }
    }
}

/// `null` where nothing is, which the API server takes for nothing.
fn sprinkle(dice: &mut Dice, pod: &mut Value) {
    for path in [
        "/spec/volumes",
        "/spec/initContainers",
        "/spec/nodeSelector",
        "/spec/tolerations",
        "/spec/securityContext",
        "/metadata/labels",
        "/metadata/namespace",
        "/metadata/creationTimestamp",
        "/status",
        "/spec/containers/0/ports",
        "/spec/containers/0/env",
        "/spec/containers/0/volumeMounts",
        "/spec/containers/0/resources/requests",
        "/spec/containers/0/securityContext",
    ] {
        let Some((parent, key)) = path.rsplit_once('/') else { continue };
        let Some(Value::Object(map)) = pod.pointer_mut(parent) else { continue };
        if !map.contains_key(key) && dice.chance(6) {
            map.insert(key.to_owned(), Value::Null);
        }
    }
}

/// Takes the limits of devices away and leaves the requests, as some manifests on disk have it. The API server refuses
/// that, unless a policy adds the limit.
pub(crate) fn request_without_limit(pod: &mut Value) {
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            for device in DEVICES {
                let limits = container["resources"].get_mut("limits").and_then(Value::as_object_mut);
                if let Some(amount) = limits.and_then(|limits| limits.shift_remove(device)) {
                    container["resources"]["requests"][device] = amount;
                }
            }
        }
    }
}

/// The pod with something of the wrong kind in it, or with something taken out.
pub(crate) fn broken(dice: &mut Dice, mut pod: Value) -> Value {
    let junk = [
        Value::Null,
        json!("text"),
        json!(7),
        json!(true),
        json!([]),
        json!({}),
        json!([1, null, "x", {}]),
        json!({"a": {"b": []}, "limits": "x", "add": "x"}),
        json!([[]]),
        json!(-0.5),
    ];
    for _ in 0..=dice.below(3) {
        replace_somewhere(dice, &mut pod, &junk);
    }
    pod
}

fn replace_somewhere(dice: &mut Dice, place: &mut Value, junk: &[Value]) {
    let stop = dice.chance(15);
    match place {
        Value::Object(map) if !map.is_empty() && !stop => {
            let at = dice.below(map.len());
            map.values_mut().skip(at).take(1).for_each(|value| replace_somewhere(dice, value, junk));
        }
        Value::Array(list) if !list.is_empty() && !stop => {
            let at = dice.below(list.len());
            replace_somewhere(dice, &mut list[at], junk);
        }
        end => *end = dice.pick(junk),
    }
}

/// The containers of a pod with the lists that they are in, init containers first.
pub(crate) fn containers(pod: &Value) -> impl Iterator<Item = (&'static str, usize, &Value)> {
    ["initContainers", "containers"].into_iter().flat_map(|list| {
        items(&pod["spec"][list]).iter().enumerate().map(move |(at, container)| (list, at, container))
    })
}
