//! The webhook and `mutate` agree on every pod, which the API server's dry run tells.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use fabric_engine::Outcome;
use fabric_injector::stream::RawDocuments;
use fabric_policy::PodContext;
use fabric_policy::nodes::Nodes;
use fabric_workloads::manifest::{Document, Wanted, find, inject};
use serde_json::{Map, Value, json};

use super::values;
use crate::cluster::Cluster;
use crate::golden_cases::{Case, cases};
use crate::workloads::{is_injected, pod};

const NAMESPACE: &str = "dry-runs";

/// The pods that come from the templates of a workload: by the templates as they are, and as `mutate` makes them, or the
/// reason for which it refuses them.
fn pods(case: &Case, nodes: &Arc<Nodes>) -> Vec<(Value, Result<Value, String>)> {
    let policies = case.policies();
    let bytes = fs::read(&case.workload).unwrap();
    let mut pods = Vec::new();
    for piece in RawDocuments::new(bytes.as_slice()) {
        let piece = piece.unwrap();
        let mut document = Document::read(&piece).unwrap();
        let Some(before) = document.value.clone() else { continue };
        let wanted = Wanted { nodes: Some(nodes), ..Wanted::default() };
        let served = inject(&policies, &mut document, &piece, wanted).unwrap();
        let after = served.value.unwrap_or_else(|| before.clone());
        for found in find(&before, None) {
            let of = |document: &Value| pod_of(document.pointer(&found.pointer).unwrap(), &found.request);
            let template = served.templates.iter().find(|template| template.pointer == found.pointer);
            let after = match template.map(|template| &template.mutation.outcome) {
                Some(Outcome::Refused { reason }) => Err(reason.to_string()),
                _ => Ok(of(&after)),
            };
            pods.push((of(&before), after));
        }
    }
    pods
}

/// The pod that a controller makes of a template: owner, labels, and the volumes of claims are in it by then.
fn pod_of(template: &Value, about: &PodContext) -> Value {
    let mut pod = pod(NAMESPACE, "pod", template);
    let owner = |kind: &String| json!({"apiVersion": "v1", "kind": kind, "name": "owner", "uid": "owner"});
    pod["metadata"]["ownerReferences"] = about.owner_kinds.iter().map(owner).collect();
    for (key, value) in &about.labels {
        pod["metadata"]["labels"][key.as_str()] = json!(value);
    }
    let mut volumes = claims(&pod);
    volumes.extend(pod["spec"]["volumes"].as_array().into_iter().flatten().cloned());
    pod["spec"]["volumes"] = volumes.into();
    pod
}

/// Volumes for what containers mount that is no volume of the template.
fn claims(pod: &Value) -> Vec<Value> {
    let list = |object: &Value, key: &str| object[key].as_array().cloned().unwrap_or_default();
    let names =
        |objects: Vec<Value>| objects.into_iter().map(|object| object["name"].as_str().unwrap().to_owned());
    let there: Vec<String> = names(list(&pod["spec"], "volumes")).collect();
    let containers = ["containers", "initContainers"].map(|key| list(&pod["spec"], key)).concat();
    let mounted: BTreeSet<String> =
        containers.iter().flat_map(|container| names(list(container, "volumeMounts"))).collect();
    let missing = mounted.into_iter().filter(|name| !there.contains(name));
    missing.map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}})).collect()
}

/// The block of values that does what `--policy` and `--set` do for a case.
fn block(case: &Case) -> Value {
    let provider = case.policy.split_once('-').unwrap().0;
    let mut parameters = Map::from_iter([("enabled".to_owned(), json!(true))]);
    for set in &case.sets {
        let (key, text) = set.split_once('=').unwrap();
        let value = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
        parameters.insert(key.to_owned(), value);
    }
    json!({provider: parameters})
}

/// What the API server makes of a pod that it is asked for as a dry run, without what is different each time: names
/// and times, and the token of the service account, which it adds before it asks webhooks, and so in another place of
/// a pod that was served before it came.
async fn created(cluster: &Cluster, pod: &Value) -> Result<Value, String> {
    let reply = cluster.api.post(&format!("/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"), pod).await;
    if reply.status != 201 {
        return Err(reply.message().to_owned());
    }
    let mut pod = reply.body;
    let metadata = pod["metadata"].as_object_mut().unwrap();
    for key in ["uid", "creationTimestamp", "managedFields"] {
        metadata.remove(key);
    }
    let is_token = |named: &Value| named["name"].as_str().unwrap().starts_with("kube-api-access-");
    let without_token =
        |list: &mut Value| list.as_array_mut().map(|list| list.retain(|named| !is_token(named)));
    without_token(&mut pod["spec"]["volumes"]);
    for containers in ["containers", "initContainers"] {
        for container in pod["spec"][containers].as_array_mut().into_iter().flatten() {
            without_token(&mut container["volumeMounts"]);
        }
    }
    // Those that the API server adds come before those of the webhook.
    if let Some(tolerations) = pod["spec"]["tolerations"].as_array_mut() {
        tolerations.sort_by_key(ToString::to_string);
    }
    Ok(pod)
}

pub(super) async fn every_workload_comes_out_as_mutate_says(cluster: &Cluster) {
    let namespace = cluster.namespace(NAMESPACE).await;
    // Those that the servers watch.
    let nodes = Arc::new(Nodes::read(&cluster.api.get("/api/v1/nodes").await.ok()).unwrap());
    let mut by_values: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    for case in cases() {
        by_values.entry(block(&case).to_string()).or_default().push(case);
    }
    let (mut served, mut problems, mut provider) = (0, Vec::new(), None);
    for (block, cases) in by_values {
        let block: Value = serde_json::from_str(&block).unwrap();
        let name = block.as_object().unwrap().keys().next().cloned();
        if name == provider {
            cluster.reload(&block).await;
        } else {
            let mut values = values();
            values["multinodeNetworking"] = block;
            cluster.ensure(&values).await;
            provider = name;
        }
        for case in cases {
            for (before, after) in pods(&case, &nodes) {
                cluster.service_account(&namespace, &before["spec"]["serviceAccountName"]).await;
                let by_webhook = created(cluster, &before).await;
                let by_mutate = match after {
                    Ok(after) => created(cluster, &after).await,
                    Err(reason) => Err(reason),
                };
                match (by_webhook, by_mutate) {
                    (Err(by_webhook), Err(by_mutate)) if by_webhook.contains(&by_mutate) => {}
                    // The servers have all policies of GKE, and this one is named to `mutate`.
                    (Err(by_webhook), Ok(_))
                        if case.policy.starts_with("gcp-")
                            && by_webhook.contains("`fabric` depends on the node") => {}
                    (Ok(by_webhook), Ok(by_mutate)) if by_webhook == by_mutate => {
                        served += usize::from(is_injected(&by_webhook));
                    }
                    (Ok(by_webhook), Ok(by_mutate)) => {
                        let difference = json_patch::diff(&by_mutate, &by_webhook);
                        problems.push(format!("{}: {difference}", case.name()));
                    }
                    (by_webhook, by_mutate) => {
                        let errors = [by_webhook.err(), by_mutate.err()];
                        problems.push(format!("{}: {errors:?}", case.name()));
                    }
                }
            }
        }
    }
    assert!(problems.is_empty(), "{served} are served: {problems:#?}");
    assert!(served > 50, "most of them are served: {served}");
    cluster.remove(&namespace).await;
}
