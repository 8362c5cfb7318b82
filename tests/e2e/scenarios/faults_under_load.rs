//! Faults that follow each other while pods are made all the time: in each round, another certificate and other policies
//! or values, every other time broken. In one of four rounds, a server is killed; now and then, one has too few descriptors
//! or too little memory, or the API server restarts.
//!
//! Four rounds, or as many as `FAULTS` says: `FAULTS=200` takes half an hour.

use std::env;
use std::time::{Duration, SystemTime};

use fabric_injector::authority::Authority;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::broken_policies::{GOOD, issue, make_secret};
use super::certificates::{Clients, SLACK, kill_one, restarts};
use super::values;
use crate::cluster::{Cluster, VALUES, metric};
use crate::eventually;
use crate::workloads::{annotated_template, pod};

const POLICIES: &str = "/api/v1/namespaces/fabric-injector/configmaps/fabric-injector-policies";
const BROUGHT: &str = "/api/v1/namespaces/fabric-injector/secrets/brought";
/// How long a server has little of something.
const FOR: Duration = Duration::from_secs(3);

pub(super) async fn no_pod_is_admitted_as_it_came(cluster: &Cluster) {
    let rounds = env::var("FAULTS").map_or(4, |rounds| rounds.parse().unwrap());
    let authority = start(cluster).await;
    let clients = Clients::start(&cluster.api);
    // From when until when pods may be refused.
    let (mut windows, mut killed) = (Vec::new(), 0);
    for round in 0..rounds {
        let before = loads(cluster, "certificate").await;
        cluster.api.merge(BROUGHT, &json!({"data": issue(&authority)})).await.ok();
        each_has_loaded(cluster, "certificate", &before).await;
        set_policies(cluster, round).await;
        if round % 4 == 2 {
            windows.push(kill_one(cluster).await);
            killed += 1;
        }
        let begun = Instant::now();
        match round % 20 {
            0 => with_little(cluster, "--nofile=24").await,
            2 => with_little(cluster, "--as=120000000").await,
            3 => cluster.restart_api_server().await,
            _ => continue,
        }
        // API servers hear of endpoints a moment later.
        windows.push((begun - SLACK, Instant::now() + Duration::from_secs(1)));
    }
    sleep(Duration::from_secs(2)).await;
    let tally = clients.stop().await;
    let (injected, refused) = (tally.injected, tally.refused.len());
    eprintln!("{rounds} rounds, {killed} servers killed: {injected} pods injected, {refused} refused");
    tally.assert_injected_except(&windows);
    cluster.uninstall().await;
    cluster.api.delete(BROUGHT).await.ok();
}

/// Installs the chart with a certificate and a policy of the operator, and returns the authority.
async fn start(cluster: &Cluster) -> Authority {
    let authority = Authority::new(SystemTime::now()).unwrap();
    make_secret(cluster, "brought", &authority).await;
    let mut values = values();
    values["tls"] = json!({"secretName": "brought", "caBundle": authority.cert});
    values["extraPolicies"] = json!({"lab.yaml": policy()});
    // It would refuse what is broken.
    values["policyReview"] = json!({"enabled": false});
    cluster.ensure(&values).await;
    authority
}

/// A policy beside that of the provider.
fn policy() -> String {
    GOOD.replace("provider: lab", "provider: aws")
}

/// Writes policies or values that are right in even rounds, and waits until each server has read them.
async fn set_policies(cluster: &Cluster, round: usize) {
    let enabled = if round % 4 == 1 { "maybe" } else { "true" };
    let values = format!("multinodeNetworking: {{aws: {{enabled: {enabled}}}}} # {round}\n");
    let policy = if round % 4 == 3 { policy().replace("A: b", "A: '${nothing}'") } else { policy() };
    let policy = json!({"lab.yaml": format!("{policy}# {round}\n")});
    let before = loads(cluster, "policies").await;
    cluster.api.merge(POLICIES, &json!({"data": policy})).await.ok();
    cluster.api.merge(VALUES, &json!({"data": {"values.yaml": values}})).await.ok();
    each_has_loaded(cluster, "policies", &before).await;
}

/// How often each server has loaded something, with success or without.
async fn loads(cluster: &Cluster, what: &str) -> Vec<(Value, Option<u64>)> {
    let mut loads = Vec::new();
    for server in cluster.servers().await {
        let series = format!("fabric_injector_reloads_total{{what=\"{what}\"");
        loads.push((server["metadata"]["name"].clone(), metric(&server, &series).await));
    }
    loads
}

async fn each_has_loaded(cluster: &Cluster, what: &str, before: &[(Value, Option<u64>)]) {
    eventually("each server has read what has changed", async || {
        let now = loads(cluster, what).await;
        now.iter().all(|server| server.1.is_some() && !before.contains(server))
    })
    .await;
}

/// Has a server run with little of something for a while. It may end of that, and start again.
async fn with_little(cluster: &Cluster, limit: &str) {
    let server = cluster.servers().await.remove(0);
    let name = server["metadata"]["name"].as_str().unwrap();
    cluster.kubelet.limit(&[limit]);
    cluster.kubelet.signal(name, Signal::KILL);
    eventually("a server has little", async || restarts(&cluster.servers().await[0]) > restarts(&server))
        .await;
    let mut large = annotated_template();
    let container = |number| {
        let mut container = annotated_template()["spec"]["containers"][0].clone();
        container["name"] = json!(format!("c-{number}"));
        container["env"] = json!([{"name": "LONG", "value": "x".repeat(2_000)}]);
        container
    };
    large["spec"]["containers"] = (0..400).map(container).collect();
    let large = pod("default", "large", &large);
    let end = Instant::now() + FOR;
    while Instant::now() < end {
        // Injected or refused: it takes more memory than there is.
        cluster.api.post("/api/v1/namespaces/default/pods?dryRun=All", &large).await;
    }
    cluster.kubelet.limit(&[]);
    kill_one(cluster).await;
}
