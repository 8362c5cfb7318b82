//! What holds when no server answers, and when nobody asks one.

use fabric_engine::{SKIPPED, STAMP};
use serde_json::{Value, json};

use super::values;
use crate::cluster::{Cluster, DEPLOYMENT};
use crate::eventually;
use crate::processes::outcome;
use crate::workloads::{
    TRIGGER, annotated_template, efa_devices, is_injected, job, plain_template, pod, template,
};

pub(super) const WEBHOOK: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fabric-injector";
/// What `check` says when the API server ignored a failed call.
const NO_REPLICA: &str = "the Service `fabric-injector/fabric-injector` has no ready replica";
/// The guard's message about a pod that was not injected.
const NOT_INJECTED: &str = "this pod requests multi-node networking and fabric-injector did not inject it";

/// Has the Deployment run so many servers, and waits until those that are too many are gone.
pub(super) async fn scale(cluster: &Cluster, replicas: u64) {
    cluster.api.merge(DEPLOYMENT, &json!({"spec": {"replicas": replicas}})).await.ok();
    eventually("the servers are as many as they should be", async || {
        let all = cluster.api.list(crate::cluster::SERVERS).await.len() as u64;
        let deployment = cluster.api.get(DEPLOYMENT).await.ok();
        all == replicas && deployment["status"]["readyReplicas"].as_u64().unwrap_or_default() == replicas
    })
    .await;
}

pub(super) async fn without_servers_annotated_pods_are_refused_and_all_others_start(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let namespace = cluster.namespace("outage").await;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    scale(cluster, 0).await;

    let reply = cluster.api.post(&pods, &pod(&namespace, "annotated", &annotated_template())).await;
    assert_eq!(reply.status, 500, "{reply:?}");
    let said = reply.message();
    assert!(said.contains("failed calling webhook \"pods.fabric-injector.io\""), "{said}");
    assert!(said.contains("no endpoints available for service \"fabric-injector\""), "{said}");

    // What nobody asked a fast network for starts, with GPUs and without.
    cluster.api.create(&job(&namespace, "plain", 2, &plain_template())).await.ok();
    cluster.api.post(&pods, &pod(&namespace, "gpus", &template(false, "p5.48xlarge"))).await.ok();
    // A controller tries again until it is injected, or until the deadline of its Job, which does not wait for pods.
    cluster.api.create(&job(&namespace, "train", 2, &annotated_template())).await.ok();
    let mut late = job(&namespace, "late", 2, &annotated_template());
    late["spec"]["activeDeadlineSeconds"] = json!(5);
    cluster.api.create(&late).await.ok();
    eventually("three pods run", async || running(&cluster.api.list(&pods).await) == 3).await;
    let events = format!("/api/v1/namespaces/{namespace}/events?fieldSelector=reason%3DFailedCreate");
    eventually("the Job says why it has no pods", async || {
        let events = cluster.api.list(&events).await;
        events.iter().any(|event| event["message"].as_str().unwrap().contains("failed calling webhook"))
    })
    .await;

    eventually("the other Job is over", async || {
        let late = cluster.api.get(&format!("/apis/batch/v1/namespaces/{namespace}/jobs/late")).await.ok();
        let conditions = late["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let failed = conditions.iter().find(|condition| condition["type"] == "Failed");
        // No pod was there to fail.
        failed.is_some_and(|failed| failed["reason"] == "DeadlineExceeded")
            && late["status"]["failed"].is_null()
    })
    .await;

    scale(cluster, 2).await;
    eventually("the pods of the Job run", async || running(&cluster.api.list(&pods).await) == 5).await;
    let all = cluster.api.list(&pods).await;
    let annotated = all.iter().filter(|pod| pod["metadata"]["annotations"][TRIGGER].is_string());
    assert!(annotated.clone().all(is_injected) && annotated.count() == 2);
    cluster.remove(&namespace).await;
}

fn running(pods: &[Value]) -> usize {
    pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count()
}

/// Asks for an annotated GPU pod until the guard answers, with whatever it does.
async fn guard_answers(cluster: &Cluster, status: u16) {
    let path = "/api/v1/namespaces/default/pods?dryRun=All";
    let asked = pod("default", "not-injected", &annotated_template());
    eventually("the guard notices a pod that was not injected", async || {
        let reply = cluster.api.post(path, &asked).await;
        let told = reply.warnings.iter().any(|warning| warning.contains(NOT_INJECTED));
        reply.status == status && (told || reply.message().contains(NOT_INJECTED))
    })
    .await;
}

pub(super) async fn the_guard_reports_pods_that_were_not_injected(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    cluster.api.delete(WEBHOOK).await.ok();
    cluster.forget().await;
    guard_answers(cluster, 201).await;
    let path = "/api/v1/namespaces/default/pods?dryRun=All";
    let mut without_gpus = template(true, "p5.48xlarge");
    without_gpus["spec"]["containers"][0].as_object_mut().unwrap().remove("resources");
    for quiet in [plain_template(), template(false, "p5.48xlarge"), without_gpus] {
        let reply = cluster.api.post(path, &pod("default", "quiet", &quiet)).await;
        assert!(reply.status == 201 && reply.warnings.is_empty(), "{reply:?}");
    }
}

pub(super) async fn the_guard_denies_pods_that_were_not_injected(cluster: &Cluster) {
    let mut values = values();
    values["guard"] = json!({"action": "Deny"});
    cluster.ensure(&values).await;
    // The webhook marks a pod without GPUs whose claim may bring some, for all that the guard knows.
    let mut with_claim = plain_template();
    with_claim["metadata"]["annotations"] = json!({TRIGGER: "true"});
    with_claim["spec"]["resourceClaims"] = json!([{"name": "nic", "resourceClaimName": "nic"}]);
    with_claim["spec"]["containers"][0]["resources"] = json!({"claims": [{"name": "nic"}]});
    let with_claim = pod("default", "with-claim", &with_claim);
    let path = "/api/v1/namespaces/default/pods?dryRun=All";
    let admitted = cluster.api.post(path, &with_claim).await.ok();
    assert!(admitted["metadata"]["annotations"][SKIPPED].is_string(), "{admitted}");
    // A server goes by the pod, whatever its annotations say.
    let mut forged = pod("default", "forged", &annotated_template());
    forged["metadata"]["annotations"][STAMP] = json!("aws-efa@000000000000");
    let reply = cluster.api.post(path, &forged).await.ok();
    assert_eq!(efa_devices(&reply), "32", "{reply}");
    // A mirror pod is known by its requester, too.
    let mut mirror = pod("default", "mirror", &annotated_template());
    mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"] = json!("a");
    mirror["spec"]["nodeName"] = json!("a");
    let reply = cluster.api.post(path, &mirror).await.ok();
    assert_eq!(efa_devices(&reply), "32", "{reply}");
    cluster.api.post_as_kubelet(path, &mirror).await.ok();
    cluster.api.delete(WEBHOOK).await.ok();
    cluster.forget().await;
    guard_answers(cluster, 403).await;
    let reply = cluster.api.post(path, &mirror).await;
    assert!(reply.status == 403 && reply.message().contains(NOT_INJECTED), "{reply:?}");
    let reply = cluster.api.post_as_kubelet(path, &mirror).await.ok();
    assert_eq!(efa_devices(&reply), "0", "{reply}");
    let reply = cluster.api.post(path, &with_claim).await;
    assert!(reply.status == 403 && reply.message().contains(NOT_INJECTED), "{reply:?}");
    // The guard believes what servers write, so that it is no defence against an author of pods.
    let admitted = cluster.api.post(path, &forged).await.ok();
    assert_eq!(efa_devices(&admitted), "0", "{admitted}");
}

pub(super) async fn ignoring_failures_lets_pods_through_with_a_warning_of_the_guard(cluster: &Cluster) {
    let mut values = values();
    values["webhook"] = json!({"failurePolicy": "Ignore"});
    cluster.ensure(&values).await;
    scale(cluster, 0).await;
    guard_answers(cluster, 201).await;
    let (succeeded, said) = outcome(&mut cluster.program(&["check"])).await;
    assert!(!succeeded && said.contains(NO_REPLICA), "{said}");
    scale(cluster, 2).await;
}
