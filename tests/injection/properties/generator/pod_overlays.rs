//! Overlays for pods.

use serde_json::{Map, Value, json};

use super::author::{Author, Phase};
use super::container_overlays;
use super::expressions::literal;
use super::pools::{CONTAINERS, INTERFACES, NETWORKS, SIDECARS, WRITTEN_ANNOTATIONS, WRITTEN_LABELS, volume};
use super::{same_places, set, wild};

/// A piece of a pod. `volumes` are those that the rule brings.
pub(crate) fn overlay(author: &mut Author<'_>, volumes: &[&str]) -> Value {
    let mut pod = json!({});
    if !volumes.is_empty() {
        let list = volumes.iter().map(|name| volume_of_policy(author, name)).collect();
        set(&mut pod, &["spec", "volumes"], list);
    }
    if author.dice.chance(25) {
        set(&mut pod, &["metadata", "annotations"], annotations(author));
    }
    if author.dice.chance(6) {
        let selector = same_places::map(author, "fabric", &["rdma", "own"]);
        set(&mut pod, &["spec", "nodeSelector"], selector);
    }
    if author.dice.chance(10) {
        let key = author.dice.pick(&WRITTEN_LABELS);
        set(&mut pod, &["metadata", "labels", key], json!(author.dice.pick(&["yes", "own"])));
    }
    if author.dice.chance(15) {
        sidecar(author, &mut pod);
    }
    if author.dice.chance(12) {
        let name = author.dice.pick(&CONTAINERS);
        let mut entry = json!({"name": name});
        entry.as_object_mut().unwrap().extend(container_overlays::overlay(author, Phase::Final, &[]));
        let list = if author.dice.chance(75) { "containers" } else { "initContainers" };
        set(&mut pod, &["spec", list], json!([entry]));
    }
    if author.dice.chance(25) {
        other_field(author, &mut pod);
    }
    if author.dice.chance(author.wild) {
        let (key, value) = wild::field(author.dice, true);
        set(&mut pod, &["spec", &key], value);
    }
    pod
}

/// A volume; all rules of a policy have the same one under a name.
fn volume_of_policy(author: &mut Author<'_>, name: &str) -> Value {
    let mut volume = volume(name, false);
    let quantity = author.known.iter().find(|known| known.kind == super::author::Kind::Quantity);
    if name == "shm"
        && let Some(quantity) = quantity
    {
        volume["emptyDir"]["sizeLimit"] = format!("${{{}}}", quantity.name).into();
        author.expressions.insert(quantity.name.clone(), super::expressions::name(&quantity.name));
    }
    volume
}

fn annotations(author: &mut Author<'_>) -> Value {
    let mut annotations = Map::new();
    if author.dice.chance(40) {
        let edit = author.dice.pick(&[
            json!("net/rdma-net"),
            json!("rdma-net"),
            json!(["rdma-net", "net/rail-0", "net/rail-1"]),
            json!(["team/storage", "rdma-net"]),
        ]);
        annotations.insert(NETWORKS.to_owned(), edit);
    }
    if author.dice.chance(25) {
        let net = author.perhaps(Phase::Final);
        let net = json!(author.write(net));
        let net = author.dice.pick(&[json!("r1"), json!(1), net]);
        let entries =
            json!([{"i": "eth0", "net": "default"}, {"i": "eth1", "net": net, "of": {"more": [true]}}]);
        annotations.insert(format!("{INTERFACES}[i]"), entries);
    }
    if annotations.is_empty() || author.dice.chance(50) {
        let mut key = author.dice.pick(&WRITTEN_ANNOTATIONS).to_owned();
        match author.dice.below(4) {
            0 => key = author.write(literal(key)),
            1 => key = format!("net.test/{}", author.write(literal("interfaces"))),
            _ => {}
        }
        let value = author.text_field(Phase::Final);
        annotations.insert(key, value);
    }
    annotations.into()
}

/// A container that the policy brings, its volumes with it.
fn sidecar(author: &mut Author<'_>, pod: &mut Value) {
    let name = author.dice.pick(&SIDECARS);
    let mut entry = json!({"name": name, "image": "registry.test/daemon:1"});
    if author.dice.chance(85) {
        entry["restartPolicy"] = json!("Always");
    }
    let mut overlay = container_overlays::overlay(author, Phase::Final, &[]);
    if entry["restartPolicy"].is_null() {
        for key in ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle"] {
            overlay.remove(key);
        }
    }
    entry.as_object_mut().unwrap().extend(overlay);
    if author.dice.chance(30) {
        entry["volumeMounts"] = json!([{"name": "scratch", "mountPath": "/scratch"}]);
        let scratch = volume("scratch", false);
        match pod["spec"]["volumes"].as_array_mut() {
            Some(list) if list.iter().all(|known| known["name"] != "scratch") => list.push(scratch),
            Some(_) => {}
            None => set(pod, &["spec", "volumes"], json!([scratch])),
        }
    }
    let list = if author.dice.chance(93) { "initContainers" } else { "containers" };
    if list == "containers" {
        entry.as_object_mut().map(|entry| entry.remove("restartPolicy"));
    }
    set(pod, &["spec", list], json!([entry]));
}

/// Any other field of a pod.
fn other_field(author: &mut Author<'_>, pod: &mut Value) {
    let name = author.perhaps(Phase::Final);
    let name = author.write(name);
    let choices: [(&[&str], Value); 23] = [
        (&["spec", "tolerations"], json!([{"key": "fabric", "operator": "Exists", "effect": "NoSchedule"}])),
        (
            &["spec", "tolerations"],
            json!([{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "x", "value": "y"}]),
        ),
        (&["spec", "nodeSelector"], json!({"fabric": "rdma"})),
        (&["spec", "hostAliases"], json!([{"ip": "10.0.0.1", "hostnames": ["a", "b"]}])),
        (&["spec", "imagePullSecrets"], json!([{"name": "fabric"}])),
        (
            &["spec", "dnsConfig"],
            json!({"options": [{"name": "ndots", "value": "2"}], "searches": ["x.test"]}),
        ),
        (&["spec", "hostIPC"], json!(true)),
        (&["spec", "hostPID"], json!(true)),
        (&["spec", "hostNetwork"], json!(true)),
        (&["spec", "shareProcessNamespace"], json!(true)),
        (&["spec", "terminationGracePeriodSeconds"], json!(120)),
        (&["spec", "schedulerName"], json!("fabric")),
        (&["spec", "schedulerName"], json!(name)),
        (&["spec", "dnsPolicy"], json!("ClusterFirstWithHostNet")),
        (&["spec", "enableServiceLinks"], json!(false)),
        (&["spec", "securityContext"], json!({"fsGroup": 3000, "supplementalGroups": [2, 44]})),
        (&["spec", "securityContext", "sysctls"], json!([{"name": "net.ipv4.tcp_syncookies", "value": "1"}])),
        (
            &["spec", "topologySpreadConstraints"],
            json!([{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}]),
        ),
        (&["spec", "resourceClaims"], json!([{"name": "fabric", "resourceClaimTemplateName": "t"}])),
        (
            &["spec", "affinity"],
            json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
            [{"weight": 1, "podAffinityTerm": {"topologyKey": "rack"}}]}}),
        ),
        (&["spec", "schedulingGates"], json!([{"name": "fabric.test/gate"}])),
        (&["spec", "resources"], json!({"limits": {"memory": "512Gi"}})),
        (&["spec", "subdomain"], json!("fabric")),
    ];
    let (path, value) = author.dice.pick(&choices);
    set(pod, path, value);
}
