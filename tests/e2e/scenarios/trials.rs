//! What `check` tries: pods for the nodes of the cluster, each server, and the workloads that run.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::examination::{check, reports};
use super::node_watch::{CLOUDS, all_know, start};
use super::values;
use crate::cluster::{Cluster, DEPLOYMENT};
use crate::workloads::{TRIGGER, annotated_template, job};
use crate::{eventually, kubelet, nodes};

const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

pub(super) async fn a_pod_is_tried_for_the_nodes_of_each_policy(cluster: &Cluster) {
    cluster.ensure(&json!({"server": {"log": "debug"}})).await;
    // Of two pools for a policy, that with more nodes: the four nodes that every scenario has.
    let tried = [("aws-efa", "p5.48xlarge"), ("gcp-gib", "a3-ultragpu-8g")];
    let pools = || CLOUDS.iter().filter(|pool| ["p5en", "a3-ultra"].contains(&pool.name));
    for pool in pools() {
        start(cluster, &format!("tried-{}", pool.name), pool, Some(pool.offered)).await;
    }
    nodes::heartbeat(&cluster.api).await;
    all_know(cluster).await;
    let mut said = Vec::new();
    eventually("a pod of each policy is injected", async || {
        said = check(cluster, &[]).await;
        let pods = said.iter().filter(|(name, ..)| name == "pod");
        tried.iter().all(|(policy, machine)| {
            pods.clone().any(|(_, status, text)| {
                let injected = format!("`{INSTANCE_TYPE}: {machine}`) is injected by {policy}@");
                status == "ok" && text.contains(&injected)
            })
        })
    })
    .await;
    let warned = said.iter().find(|(name, _, text)| name == "pod" && text.contains("is assumed"));
    assert!(warned.is_none(), "{said:#?}");
    for pool in pools() {
        cluster.api.delete(&format!("/api/v1/nodes/tried-{}", pool.name)).await.ok();
    }
}

pub(super) async fn check_fails_until_every_server_answers_in_the_configured_mode(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    // The Deployment is changed, and its servers are not replaced yet.
    let deployment = cluster.api.get(DEPLOYMENT).await.ok();
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let place = arguments.as_array().unwrap().iter().position(|one| one == "--mode=inject").unwrap();
    let change = |mode: &str, paused: bool| {
        json!([
            {"op": "add", "path": "/spec/paused", "value": paused},
            {"op": "replace", "path": format!("/spec/template/spec/containers/0/args/{place}"),
                "value": format!("--mode={mode}")},
        ])
    };
    cluster.api.patch(DEPLOYMENT, &change("audit", true)).await.ok();
    let mut names: Vec<String> = Vec::new();
    for server in cluster.servers().await {
        names.push(server["metadata"]["name"].as_str().unwrap().to_owned());
    }
    names.sort();
    let told = format!("each of `{}` is in the mode `inject`, and `audit` is configured", names.join("`, `"));
    reports(cluster, &[], &[("servers", "fail", told.as_str()), ("release", "warn", "0 updated")]).await;
    cluster.api.patch(DEPLOYMENT, &change("inject", false)).await.ok();
    let both = "2 servers in the mode `inject`: ";
    eventually("both servers are in the configured mode", async || {
        let lines = check(cluster, &[]).await;
        lines.iter().any(|(name, status, text)| name == "servers" && status == "ok" && text.starts_with(both))
    })
    .await;
}

/// A policy that refuses pods with a label, in its second version.
fn policy(refuses: bool) -> Value {
    let warnings = "  checks:\n    - name: too_old\n      when: \"pod.metadata.?labels[?'age'].orValue('') == 'old'\"\n      \
                    action: refuse\n      message: the pod is too old; remove the label\n";
    let text = format!(
        "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: lab}}\nspec:\n  provider: lab\n  \
         description: For a test\n  gpus: {{resources: [nvidia.com/gpu]}}\n  match: {{anyAnnotation: {{{TRIGGER}: \"true\"}}}}\n\
         {}  rules: [{{name: a, env: {{A: b}}}}]\n",
        if refuses { warnings } else { "" }
    );
    json!({"extraPolicies": {"lab.yaml": text}, "server": {"log": "debug"}})
}

pub(super) async fn running_workloads_that_would_be_refused_are_listed(cluster: &Cluster) {
    cluster.ensure(&policy(false)).await;
    let namespace = cluster.namespace("running").await;
    let mut old = annotated_template();
    old["metadata"]["labels"] = json!({"age": "old"});
    for (name, template) in [("old", &old), ("young", &annotated_template())] {
        cluster.api.create(&job(&namespace, name, 2, template)).await.ok();
    }
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    eventually("the pods are there", async || cluster.api.list(&pods).await.len() == 4).await;
    let line = async || {
        let lines = check(cluster, &[]).await;
        let (_, status, text) = lines.into_iter().find(|(name, ..)| name == "workloads").unwrap();
        (status, text)
    };
    let (status, text) = line().await;
    assert!(
        status == "ok" && text.contains("running pods that a policy decides about would be refused now"),
        "{text}"
    );
    cluster.ensure(&policy(true)).await;
    let (status, text) = line().await;
    let wanted =
        format!("\n`Job {namespace}/old`: the pod is too old; remove the label\ncorrect these workloads");
    assert!(
        status == "warn" && text.starts_with("new pods of 1 workload would be refused now, with "),
        "{text}"
    );
    assert!(text.contains(&wanted), "{text}");
    cluster.remove(&namespace).await;
}

pub(super) async fn policies_of_another_team_are_in_use_and_check_compares_their_triggers(cluster: &Cluster) {
    let maps = "/api/v1/namespaces/fabric-injector/configmaps";
    let text = policy(false)["extraPolicies"]["lab.yaml"].as_str().unwrap().to_owned();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-a-team"}, "data": {"lab.yaml": text}});
    cluster.api.post(maps, &map).await.ok();
    let trigger = json!({
        "provider": "lab", "gpus": {"resources": ["nvidia.com/gpu"]}, "match": {"anyAnnotation": {TRIGGER: "true"}},
    });
    cluster
        .ensure(&json!({
            "extraPoliciesConfigMap": "of-a-team", "extraPoliciesTriggers": {"lab": trigger},
            "server": {"log": "debug"},
        }))
        .await;
    let line = async |check_name: &str| {
        let lines = check(cluster, &[]).await;
        let (_, status, text) = lines.into_iter().find(|(name, ..)| name == check_name).unwrap();
        (status, text)
    };
    for name in ["conditions", "guard", "policies"] {
        let (status, text) = line(name).await;
        assert_eq!(status, "ok", "{name}: {text}");
    }
    let changed = json!({"data": {"lab.yaml": text.replace(TRIGGER, "team.example/fabric")}});
    let reloads = "fabric_injector_reloads_total{what=\"policies\",result=\"success\"}";
    let before = cluster.metric(reloads).await;
    cluster.api.merge(&format!("{maps}/of-a-team"), &changed).await.ok();
    for name in ["conditions", "guard"] {
        let (status, text) = line(name).await;
        assert!(status == "fail" && text.contains("is not that of the policies"), "{name}: {text}");
    }
    eventually("both servers use the changed policy", async || cluster.metric(reloads).await == before + 2)
        .await;
    let reloaded = Instant::now();
    for server in cluster.servers().await {
        let address = server["status"]["podIP"].as_str().unwrap();
        eventually("the server reports the conditions", async || {
            let (_, report) = kubelet::get(address, 8080, "/readyz?verbose").await.unwrap();
            report.contains("[!]conditions: the registered ones differ")
        })
        .await;
    }
    // Sooner than it reads its objects again.
    assert!(reloaded.elapsed() < Duration::from_secs(15), "{:?}", reloaded.elapsed());
    cluster.uninstall().await;
    cluster.api.delete(&format!("{maps}/of-a-team")).await.ok();
}
