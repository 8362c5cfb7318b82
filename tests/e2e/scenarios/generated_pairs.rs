//! Generated policies and pods on the real API server: it accepts with the webhook what it accepts without.
//!
//! `FABRIC_SEED` begins with another seed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fabric_engine::policy_set::PolicySet;
use fabric_policy::Definition;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::api::Api;
use crate::cluster::Cluster;
use crate::generator::pools::{NAMESPACES, REFUSAL, TRIGGER};
use crate::generator::{Dice, pods, policies, yaml};
use crate::workloads::is_injected;

/// Policies that are in use together, each with a value of its own for the annotation that triggers it.
const POLICIES: u64 = 100;
/// Pods for each policy.
const PODS: u64 = 24;
/// Requests at a time.
const CONNECTIONS: usize = 8;

/// A policy and a pod.
struct Pair {
    policy: String,
    pod: Value,
}

/// The answers of the API server to a pair.
#[derive(Debug)]
enum Verdict {
    /// It refuses the pod as it is.
    Invalid(String),
    Injected,
    Unchanged,
    /// The webhook denies the pod, as a refusal says, or because it would come out
    /// differently on nodes that it selects.
    Denied,
    /// A fault, and the case.
    Fault(String),
}

/// Policies that load, with the annotation that each is triggered by, and pods for each.
fn pairs() -> (BTreeMap<String, String>, Vec<Pair>) {
    let (mut files, mut pairs) = (BTreeMap::new(), Vec::new());
    let mut seed = std::env::var("FABRIC_SEED").map_or(0, |seed| seed.parse().unwrap());
    while (files.len() as u64) < POLICIES {
        seed += 1;
        let mut dice = Dice::new(seed);
        let mut policy = policies::policy(&mut dice).document;
        let name = format!("generated-{seed}");
        policy["metadata"]["name"] = json!(name);
        // The cluster of these tests has one provider, which is of AWS.
        policy["spec"]["provider"] = json!("aws");
        policy["spec"]["match"] = json!({"anyAnnotation": {TRIGGER: name}});
        let text = yaml::text(&policy);
        let definition = Definition::read(&name, &text).ok();
        let loads =
            definition.is_some_and(|definition| PolicySet::new(vec![(definition, BTreeMap::new())]).is_ok());
        if !loads {
            continue;
        }
        for at in 0..PODS {
            let mut pod = pods::pod(&mut dice);
            pod["metadata"]["name"] = json!(format!("pod-{seed}-{at}"));
            pod["metadata"]["annotations"][TRIGGER] = json!(name);
            pod["metadata"].as_object_mut().unwrap().shift_remove("generateName");
            if pod["metadata"]["namespace"].is_null() {
                pod["metadata"]["namespace"] = json!("default");
            }
            pairs.push(Pair { policy: text.clone(), pod });
        }
        files.insert(format!("{name}.yaml"), text);
    }
    (files, pairs)
}

/// The pod as the API server returns it from a dry run, without what is different each time.
async fn created(api: &Api, pod: &Value) -> Result<Value, String> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap();
    let reply = api.post(&format!("/api/v1/namespaces/{namespace}/pods?dryRun=All"), pod).await;
    if reply.status != 201 {
        return Err(reply.message().to_owned());
    }
    let mut pod = reply.body;
    pod.as_object_mut().unwrap().shift_remove("status");
    for key in ["uid", "creationTimestamp", "managedFields"] {
        pod["metadata"].as_object_mut().unwrap().shift_remove(key);
    }
    Ok(pod)
}

async fn verdict(api: &Api, pair: &Pair) -> Verdict {
    let mut without = pair.pod.clone();
    without["metadata"]["annotations"].as_object_mut().unwrap().shift_remove(TRIGGER);
    if let Err(why) = created(api, &without).await {
        return Verdict::Invalid(why);
    }
    let first = match created(api, &pair.pod).await {
        Ok(first) => first,
        Err(why)
            if why.contains("denied the request")
                && ["` requires `", "depends on the node", REFUSAL]
                    .iter()
                    .any(|reason| why.contains(reason)) =>
        {
            return Verdict::Denied;
        }
        Err(why) => return Verdict::Fault(format!("refused with the webhook: {why}")),
    };
    match created(api, &first).await {
        Ok(second) if second == first => {}
        Ok(second) => return Verdict::Fault(format!("changed again: {}", json_patch::diff(&first, &second))),
        Err(why) => return Verdict::Fault(format!("refused when sent again: {why}")),
    }
    if is_injected(&first) { Verdict::Injected } else { Verdict::Unchanged }
}

pub(super) async fn the_api_server_accepts_each_generated_pod_with_the_webhook(cluster: &Cluster) {
    for namespace in NAMESPACES.iter().filter(|name| **name != "default") {
        cluster.namespace(namespace).await;
    }
    let (files, pairs) = pairs();
    let all = pairs.len();
    cluster.ensure(&json!({
        "multinodeNetworking": {"aws": {"enabled": true}}, "extraPolicies": files, "guard": {"enabled": false},
    }))
    .await;
    let mut shares: Vec<Vec<Pair>> = (0..CONNECTIONS).map(|_| Vec::new()).collect();
    for (at, pair) in pairs.into_iter().enumerate() {
        shares[at % CONNECTIONS].push(pair);
    }
    let mut workers = JoinSet::new();
    for share in shares {
        let api = cluster.api.clone();
        workers.spawn(async move {
            let mut verdicts = Vec::new();
            for pair in share {
                verdicts.push((verdict(&api, &pair).await, pair));
                crate::step();
            }
            verdicts
        });
    }
    let (mut counts, mut report) = (BTreeMap::<&str, usize>::new(), String::new());
    for (verdict, pair) in workers.join_all().await.into_iter().flatten() {
        let kind = match &verdict {
            Verdict::Invalid(why) => {
                report_case(&mut report, "the generator makes valid pods", why, &pair);
                "invalid"
            }
            Verdict::Fault(why) => {
                report_case(&mut report, "a fault", why, &pair);
                "fault"
            }
            Verdict::Injected => "injected",
            Verdict::Unchanged => "unchanged",
            Verdict::Denied => "denied",
        };
        *counts.entry(kind).or_default() += 1;
    }
    eprintln!("{all} pairs: {counts:?}");
    assert!(report.is_empty(), "{counts:?} of {all}\n{report}");
    let count = |kind: &str| counts.get(kind).copied().unwrap_or_default();
    assert!(count("injected") * 2 > all, "most of them are injected: {counts:?}");
    for namespace in NAMESPACES.iter().filter(|name| **name != "default") {
        cluster.remove(namespace).await;
    }
}

/// Adds a case to the report, unless it is long already.
fn report_case(report: &mut String, what: &str, why: &str, pair: &Pair) {
    if report.len() < 100_000 {
        let _ = write!(
            report,
            "\n=== {what}: {why}\n--- policy\n{}--- pod\n{}",
            pair.policy,
            yaml::text(&pair.pod)
        );
    }
}
