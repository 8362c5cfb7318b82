//! Webhooks of others that change the same pods, called before and after ours: see `tests/e2e/neighbours.yaml`.

use std::collections::{BTreeMap, BTreeSet};

use fabric_yaml as yaml;
use serde_json::{Map, Value, json};

use super::values;
use crate::cluster::Cluster;
use crate::workloads::{is_injected, pod, template};
use crate::{eventually, neighbour};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const NAMESPACE: &str = "neighbours";
/// The labels of a pod that a neighbour changes: which one, and when it is called.
const NAME: &str = "neighbour";
const ORDER: &str = "order";
/// Webhooks are called in the order of their names.
const ORDERS: [&str; 2] = ["before", "later"];

/// The table, by the names of the neighbours.
fn neighbours() -> BTreeMap<String, Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/neighbours.yaml");
    let table = yaml::read_value(&std::fs::read_to_string(path).unwrap()).unwrap().root.unwrap();
    serde_json::from_value(table).unwrap()
}

/// The labels of a pod that a neighbour changes.
pub(super) fn labels(name: &str, order: &str) -> Map<String, Value> {
    [(NAME, name), (ORDER, order)].map(|(key, value)| (key.to_owned(), value.into())).into_iter().collect()
}

/// The registration of a neighbour that is called before or after ours.
fn registration(name: &str, order: &str, neighbour: &Value, client: &Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        // `before` and `later` stand around `fabric-injector`.
        "metadata": {"name": format!("{order}-{name}")},
        "webhooks": [{
            "name": format!("{name}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "failurePolicy": "Fail", "clientConfig": client,
            "reinvocationPolicy": if neighbour["again"] == true { "IfNeeded" } else { "Never" },
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            "objectSelector": {"matchLabels": labels(name, order)},
        }],
    })
}

/// A pod that a neighbour changes before or after ours, or, with another order, does not.
fn asked(name: &str, order: &str, asks: &Value, template: &Value) -> Value {
    let mut pod = pod(NAMESPACE, "pod", template);
    for part in ["labels", "annotations"] {
        let own = asks[part].as_object().cloned().unwrap_or_default();
        let mut all = pod["metadata"][part].as_object().cloned().unwrap_or_default();
        all.extend(own);
        pod["metadata"][part] = all.into();
    }
    pod["metadata"]["labels"].as_object_mut().unwrap().extend(labels(name, order));
    // Its volume has another name in each pod.
    pod["spec"]["automountServiceAccountToken"] = false.into();
    let container = &mut pod["spec"]["containers"][0];
    container["env"] = json!([{"name": "OWN", "value": "own"}]);
    container["volumeMounts"] = json!([{"name": "own", "mountPath": "/own"}]);
    pod["spec"]["volumes"] = json!([{"name": "own", "emptyDir": {}}]);
    pod
}

/// What of `part` is not in `whole`, where an item of a list may stand anywhere in it.
fn missing(whole: &Value, part: &Value, path: &str, found: &mut BTreeSet<String>) {
    match (whole, part) {
        (Value::Object(_), Value::Object(map)) => {
            map.iter().for_each(|(key, value)| missing(&whole[key], value, &format!("{path}/{key}"), found));
        }
        (Value::Array(all), Value::Array(items)) => {
            let same_name = |item: &Value| {
                all.iter().find(|one| item.get("name").is_some() && one["name"] == item["name"])
            };
            for (at, item) in items.iter().enumerate().filter(|(_, item)| !all.contains(item)) {
                let step = item["name"].as_str().map_or_else(|| at.to_string(), str::to_owned);
                missing(same_name(item).unwrap_or(&Value::Null), item, &format!("{path}/{step}"), found);
            }
        }
        _ if whole == part => {}
        _ => drop(found.insert(format!("{path}: {part} is {whole}"))),
    }
}

/// The names that a list of the pod has twice.
fn twice(pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut look = |list: &Value, key: &str| {
        let mut seen = BTreeSet::new();
        let names = list.as_array().into_iter().flatten().filter_map(|item| item[key].as_str());
        found.extend(names.filter(|name| !seen.insert(*name)).map(str::to_owned));
    };
    let spec = &pod["spec"];
    look(&spec["volumes"], "name");
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array().into_iter().flatten() {
            look(&container["env"], "name");
            look(&container["volumeMounts"], "mountPath");
        }
    }
    found
}

/// The parts of a pod that a webhook may set, without the records of injections.
fn parts(pod: &Value) -> Value {
    let metadata = &pod["metadata"];
    let not_ours = |(key, _): &(&String, &Value)| {
        !key.starts_with("fabric-injector.io/") && *key != ORDER && *key != NAME
    };
    let of = |part: &str| -> Map<String, Value> {
        let entries = metadata[part].as_object().into_iter().flatten().filter(not_ours);
        entries.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    json!({"labels": of("labels"), "annotations": of("annotations"), "spec": pod["spec"]})
}

/// Registers all neighbours, before and after ours.
pub(super) async fn register(cluster: &Cluster) -> BTreeMap<String, Value> {
    let all = neighbours();
    let adds = |one: &Value| one["adds"].as_array().unwrap().clone();
    let client = neighbour::serve(all.iter().map(|(name, one)| (name.clone(), adds(one))).collect()).await;
    for (name, one) in &all {
        for order in ORDERS {
            cluster.api.create(&registration(name, order, one, &client(name))).await.ok();
        }
    }
    all
}

pub(super) async fn remove(cluster: &Cluster, all: &BTreeMap<String, Value>) {
    for name in all.keys() {
        for order in ORDERS {
            cluster.api.delete(&format!("{GROUP}/{order}-{name}")).await.ok();
        }
    }
}

pub(super) async fn pods_have_what_each_webhook_adds_whichever_is_called_first(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    cluster.namespace(NAMESPACE).await;
    let all = register(cluster).await;
    let mut faults = compared(cluster, &all, "p5.48xlarge").await;
    cluster
        .ensure(&json!({"multinodeNetworking": {"gcp": {"enabled": true}}, "server": {"log": "debug"}}))
        .await;
    faults.extend(compared(cluster, &all, "a3-megagpu-8g").await);
    assert!(faults.is_empty(), "{faults:#?}");
    requests_of_neighbours(cluster).await;
    remove(cluster, &all).await;
    cluster.ensure(&values()).await;
    cluster.remove(NAMESPACE).await;
}

/// A pod that a neighbour annotates before ours is injected, and of the others the guard says that they are not.
async fn requests_of_neighbours(cluster: &Cluster) {
    let create = async |order: &str| {
        let pod = asked("annotates", order, &Value::Null, &template(false, "a3-megagpu-8g"));
        cluster.api.post(&format!("/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"), &pod).await
    };
    let before = create("before").await;
    assert!(is_injected(&before.body), "{before:?}");
    let later = create("later").await;
    let is_told = later.warnings.iter().any(|warning| warning.contains("did not inject it"));
    assert!(later.status == 201 && !is_injected(&later.body) && is_told, "{later:?}");
}

/// What is wrong in the pods of each neighbour and order, on these machines.
async fn compared(cluster: &Cluster, all: &BTreeMap<String, Value>, machine: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let create = async |pod: &Value| {
        cluster.api.post(&format!("/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"), pod).await
    };
    let fits = |one: &Value| one["machine"].as_str().is_none_or(|wanted| wanted == machine);
    for (name, one) in all.iter().filter(|(_, one)| fits(one)) {
        let of = |order: &str, annotated| asked(name, order, &one["asks"], &template(annotated, machine));
        let ours = create(&of("never", true)).await.ok();
        assert!(is_injected(&ours), "{ours}");
        for order in ORDERS {
            let plain = create(&of("never", false)).await.ok();
            let mut theirs = plain.clone();
            eventually("the neighbour is called", async || {
                theirs = create(&of(order, false)).await.ok();
                parts(&theirs) != parts(&plain)
            })
            .await;
            let reply = create(&of(order, true)).await;
            if reply.status != 201 || !is_injected(&reply.body) {
                faults.push(format!("{machine}, {name} {order}: {reply:?}"));
                continue;
            }
            let mut found = BTreeSet::new();
            let both = parts(&reply.body);
            missing(&both, &parts(&ours), "", &mut found);
            missing(&both, &parts(&theirs), "", &mut found);
            found.extend(twice(&reply.body).into_iter().map(|name| format!("twice: {name}")));
            if let Some(said) = one["says"][order].as_str()
                && !reply.warnings.iter().any(|warning| warning.contains(said))
            {
                found.insert(format!("not said: {said}, but {:?}", reply.warnings));
            }
            let expected = one["contradicts"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let expected: BTreeSet<&str> = expected.collect();
            found.retain(|fault| !expected.iter().any(|known| fault.starts_with(known)));
            faults.extend(found.iter().map(|fault| format!("{machine}, {name} {order}: {fault}")));
        }
    }
    faults
}
