//! ConfigMaps with policies and values that are wrong: refused when they are applied.

use std::path::Path;

use serde_json::{Value, json};

use super::outages::scale;
use super::values;
use crate::api::Reply;
use crate::cluster::{Cluster, DEPLOYMENT};
use crate::eventually;
use crate::helm::RELEASE;
use crate::processes::outcome;

const CONFIG_MAPS: &str = "/api/v1/namespaces/fabric-injector/configmaps";
const POLICIES: &str = "fabric-injector-policies";

const GOOD: &str = "apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata: {name: lab}
spec:
  extends: aws-efa
  description: For a test
  rules:
    - {name: own, env: {A: b}}
";

fn config_map(name: &str, namespace: &str, policy: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
        "data": {"lab.yaml": policy}})
}

/// Returns whether a ConfigMap is refused, at the place of its fault.
fn is_refused(reply: &Reply) -> bool {
    let message = reply.body["message"].as_str().unwrap_or_default();
    reply.status == 422 && message.contains("policies.fabric-injector.io") && message.contains("lab.yaml:8:")
}

pub(super) async fn policies_that_are_wrong_are_refused_when_they_are_applied(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let broken = GOOD.replace("env:", "enw:");
    let object = config_map(POLICIES, "fabric-injector", &broken);
    let dry = format!("{CONFIG_MAPS}?dryRun=All");
    // Until the API server knows the CA of the servers, it asks none.
    eventually("it is refused", async || is_refused(&cluster.api.post(&dry, &object).await)).await;
    assert!(is_refused(&cluster.api.post(CONFIG_MAPS, &object).await));
    // Other ConfigMaps, and those of other namespaces, are not sent.
    let others = [config_map("others", "fabric-injector", &broken), config_map(POLICIES, "default", &broken)];
    for other in &others {
        let namespace = other["metadata"]["namespace"].as_str().unwrap();
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        cluster.api.post(&path, other).await.ok();
        cluster.api.delete(&format!("{path}/{}", other["metadata"]["name"].as_str().unwrap())).await.ok();
    }
    // By kubectl, as a file and with a kustomization.
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let file = |folder: &Path, name: &str| folder.join(name).to_str().unwrap().to_owned();
    write("map.json", &object.to_string());
    write("kustomization.yaml", "resources: [map.json]\n");
    let (of_file, of_folder) = (file(folder.path(), "map.json"), file(folder.path(), ""));
    for arguments in [["apply", "-f", &of_file], ["apply", "-k", &of_folder]] {
        let (succeeded, said) = outcome(&mut cluster.kubectl(&arguments)).await;
        assert!(!succeeded && said.contains("lab.yaml:8:"), "{said}");
    }
    write("map.json", &config_map(POLICIES, "fabric-injector", GOOD).to_string());
    let (succeeded, said) = outcome(&mut cluster.kubectl(&["apply", "-f", &of_file])).await;
    assert!(succeeded, "{said}");
    cluster.api.delete(&format!("{CONFIG_MAPS}/{POLICIES}")).await.ok();

    // What only another object makes wrong is said.
    let mut together = config_map("fabric-injector-values", "fabric-injector", "");
    let text = json!({"multinodeNetworking": {"aws": {"enabled": true, "efaDevicesPerGpu": 1}}}).to_string();
    together["data"] = json!({"values.yaml": text});
    // A server that has no time for it says so in place of that.
    let values_path = format!("{CONFIG_MAPS}/fabric-injector-values?dryRun=All");
    eventually("a value that no policy takes is told", async || {
        let reply = cluster.api.merge(&values_path, &together).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.warnings.iter().any(|text| text.contains("with the other policies and values: "))
    })
    .await;
    let with_trigger = config_map(POLICIES, "fabric-injector", &policy("depth", "lab.example/fabric"));
    eventually("a trigger that is not registered is told", async || {
        let reply = cluster.api.post(&dry, &with_trigger).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.warnings.iter().any(|text| text.contains("pods with `lab.example/fabric: \"true\"`"))
    })
    .await;

    // By Helm, which leaves the release as it was.
    let mut upgrade = values();
    upgrade["extraPolicies"] = json!({"lab.yaml": broken});
    let (succeeded, said) = cluster.helm.run_with(&["upgrade", "--install", RELEASE], &upgrade).await;
    assert!(!succeeded && said.contains("policies.fabric-injector.io"), "{said}");
    upgrade["policyReview"] = json!({"enabled": false});
    upgrade["extraPolicies"] = json!({"lab.yaml": GOOD});
    cluster.ensure(&upgrade).await;
    let object = config_map(POLICIES, "fabric-injector", &GOOD.replace("env:", "enw:"));
    let reply = cluster.api.merge(&format!("{CONFIG_MAPS}/{POLICIES}?dryRun=All"), &object).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    cluster.ensure(&values()).await;
}

/// A broken ConfigMap is refused by the servers that go and those that come.
async fn refused_while_servers_roll(cluster: &Cluster, dry: &str, broken: &Value) {
    let annotations = json!({"example.com/round": "2"});
    let template = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
    let generation = cluster.api.merge(DEPLOYMENT, &template).await.ok()["metadata"]["generation"].clone();
    let (mut refused, mut taken) = (0, Vec::new());
    eventually("all servers are new", async || {
        let reply = cluster.api.merge(dry, broken).await;
        if is_refused(&reply) {
            refused += 1;
        } else {
            taken.push(reply);
        }
        let status = &cluster.api.get(DEPLOYMENT).await.ok()["status"];
        let are = |field: &str| status[field] == 2;
        status["observedGeneration"] == generation
            && are("updatedReplicas")
            && are("readyReplicas")
            && are("replicas")
    })
    .await;
    assert!(refused > 5 && taken.is_empty(), "{refused} refused, {taken:?}");
}

/// A policy with a parameter of this name, for pods with this annotation.
fn policy(parameter: &str, trigger: &str) -> String {
    format!(
        "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: lab}}\nspec:\n  extends: \
         aws-efa\n  description: For a test\n  match: {{anyAnnotation: {{{trigger}: \"true\"}}}}\n  parameters:\n    \
         {parameter}: {{description: For a test, default: 1}}\n  rules:\n    - {{name: own, env: {{DEPTH: \
         \"${{{parameter}}}\"}}}}\n"
    )
}

pub(super) async fn releases_with_other_policies_are_not_refused(cluster: &Cluster) {
    let release = |parameter: &str, trigger: &str| {
        let mut release = values();
        release["extraPolicies"] = json!({"lab.yaml": policy(parameter, trigger)});
        release["multinodeNetworking"]["aws"][parameter] = json!(2);
        release
    };
    cluster.ensure(&release("depth", "lab.example/fabric")).await;
    let object = config_map(POLICIES, "fabric-injector", &GOOD.replace("env:", "enw:"));
    let dry = format!("{CONFIG_MAPS}/{POLICIES}?dryRun=All");
    eventually("a broken one is refused", async || is_refused(&cluster.api.merge(&dry, &object).await)).await;
    // A parameter that has another name in both ConfigMaps, and pods that ask in another way.
    cluster.ensure(&release("level", "lab.example/fabric")).await;
    cluster.ensure(&release("level", "lab.example/network")).await;
    // Back by two revisions, which has the first name in both.
    let list = cluster.helm.run(&["history", RELEASE, "-o", "json"]).await.1;
    let history: Value = serde_json::from_str(list.lines().next().unwrap_or_default()).unwrap();
    let revisions = history.as_array().unwrap();
    let before = revisions[revisions.len() - 3]["revision"].to_string();
    let rollback = ["rollback", RELEASE, &before, "--wait", "--timeout", "90s"];
    let (succeeded, said) = cluster.helm.run(&rollback).await;
    assert!(succeeded, "{said}");
    // Of an upgrade that is refused, nothing stays.
    let mut broken = release("depth", "lab.example/fabric");
    broken["extraPolicies"]["lab.yaml"] = json!(GOOD.replace("env:", "enw:"));
    let upgrade = ["upgrade", RELEASE, "--atomic", "--timeout", "90s"];
    let (succeeded, said) = cluster.helm.run_with(&upgrade, &broken).await;
    assert!(!succeeded && said.contains("policies.fabric-injector.io"), "{said}");
    let status = cluster.helm.run(&["status", RELEASE]).await.1;
    assert!(status.contains("STATUS: deployed"), "{status}");
    // Of another release, a server says only what it finds.
    let mut newer = object.clone();
    newer["metadata"]["labels"] = json!({"app.kubernetes.io/version": "9.9.9"});
    let reply = cluster.api.merge(&dry, &newer).await;
    assert!(reply.status == 200 && !reply.warnings.is_empty(), "{reply:?}");
    refused_while_servers_roll(cluster, &dry, &object).await;
    // While no server runs, all are taken.
    scale(cluster, 0).await;
    let reply = cluster.api.merge(&dry, &object).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    scale(cluster, 2).await;
    cluster.uninstall().await;
    cluster.api.post(&format!("{CONFIG_MAPS}?dryRun=All"), &object).await.ok();
    cluster.ensure(&values()).await;
}
