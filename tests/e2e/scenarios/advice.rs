//! Advice on workloads, as `kubectl apply` shows it.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::net::TcpSocket;
use tokio::time::Instant;

use super::outages::scale;
use super::values;
use crate::cluster::Cluster;
use crate::eventually;
use crate::processes::outcome;
use crate::workloads::{TRIGGER, annotated_template, job, pod, stateful_set, template};

const ADVICE: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/fabric-injector";
const MOVE: &str = "Warning: fabric-injector: move `nmp.nvidia.com/enable-multi-node-networking: \"true\"` from \
                    `metadata.annotations` to `spec.template.metadata.annotations`: pods do not get the annotations of a Job";

/// `kubectl apply` of an object: what it says, and how long it takes.
async fn applied(cluster: &Cluster, object: &Value) -> (String, Duration) {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(object.to_string().as_bytes()).unwrap();
    let begun = Instant::now();
    let (succeeded, said) =
        outcome(&mut cluster.kubectl(&["apply", "-f", file.path().to_str().unwrap()])).await;
    let took = begun.elapsed();
    assert!(succeeded, "{said}");
    (said, took)
}

/// A Job with the annotation on itself instead of its template.
fn misplaced(namespace: &str, name: &str) -> Value {
    let mut job = job(namespace, name, 2, &template(false, "p5.48xlarge"));
    job["metadata"]["annotations"] = json!({TRIGGER: "true"});
    job
}

/// Waits until advice comes: API servers hear of a registration a moment after it was written.
async fn advises(cluster: &Cluster, namespace: &str) {
    let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All");
    eventually("advice is given, to a dry run, too", async || {
        !cluster.api.post(&path, &misplaced(namespace, "dry")).await.warnings.is_empty()
    })
    .await;
}

/// The reviews of workloads so far.
async fn reviews(cluster: &Cluster) -> u64 {
    let of = async |outcome: &str| {
        let series = format!("fabric_injector_reviews_total{{policy=\"\",outcome=\"{outcome}\",reason=\"\"");
        cluster.metric(&series).await
    };
    of("advised").await + of("unadvised").await
}

/// The kind LeaderWorkerSet without its operator.
fn leader_worker_sets() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "leaderworkersets.leaderworkerset.x-k8s.io"},
        "spec": {
            "group": "leaderworkerset.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "LeaderWorkerSet", "plural": "leaderworkersets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

pub(super) async fn kubectl_apply_prints_the_advice(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let namespace = cluster.namespace("advice").await;
    advises(cluster, &namespace).await;
    let (said, _) = applied(cluster, &misplaced(&namespace, "misplaced")).await;
    assert!(said.contains(MOVE) && said.contains("job.batch/misplaced created"), "{said}");

    let set = stateful_set(&namespace, "serve", 1, &annotated_template());
    let (said, _) = applied(cluster, &set).await;
    let injected = "Warning: fabric-injector: `spec.template`: aws-efa injects these pods: main: vpc.amazonaws.com/efa 32, ";
    assert!(said.contains(injected), "{said}");
    let before = reviews(cluster).await;
    let (said, _) = applied(cluster, &set).await;
    assert!(!said.contains("Warning"), "{said}");
    let mut scaled = set.clone();
    scaled["spec"]["replicas"] = json!(2);
    let (said, _) = applied(cluster, &scaled).await;
    assert!(said.contains("configured") && !said.contains("Warning"), "{said}");
    // A controller makes what is owned, here and for the ReplicaSets of Deployments.
    let set_now =
        cluster.api.get(&format!("/apis/apps/v1/namespaces/{namespace}/statefulsets/serve")).await.ok();
    let mut owned = misplaced(&namespace, "owned");
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "serve",
        "uid": set_now["metadata"]["uid"], "controller": true}]);
    let (said, _) = applied(cluster, &owned).await;
    assert!(!said.contains("Warning"), "{said}");
    assert_eq!(reviews(cluster).await, before, "none of these was sent to a server");
    scaled["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example/train:2");
    let (said, _) = applied(cluster, &scaled).await;
    assert!(said.contains(injected), "{said}");

    cluster.api.create(&leader_worker_sets()).await.ok();
    let lws = json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
        "metadata": {"name": "lws", "namespace": namespace},
        "spec": {"leaderWorkerTemplate": {"size": 2, "leaderTemplate": annotated_template(),
            "workerTemplate": template(false, "p5.48xlarge")}},
    });
    let path =
        format!("/apis/leaderworkerset.x-k8s.io/v1/namespaces/{namespace}/leaderworkersets?dryRun=All");
    eventually("the kind is served", async || cluster.api.post(&path, &lws).await.status == 201).await;
    let (said, _) = applied(cluster, &lws).await;
    let add = "to `spec.leaderWorkerTemplate.workerTemplate.metadata.annotations`: the pods of \
               `spec.leaderWorkerTemplate.leaderTemplate` use the fabric, and these GPU pods do not";
    assert!(said.contains(add), "{said}");
    cluster.remove(&namespace).await;
    let kind =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/leaderworkersets.leaderworkerset.x-k8s.io";
    cluster.api.delete(kind).await.ok();
}

pub(super) async fn no_workload_depends_on_the_advice(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let namespace = cluster.namespace("unadvised").await;
    advises(cluster, &namespace).await;
    scale(cluster, 0).await;
    let (said, took) = applied(cluster, &misplaced(&namespace, "stopped")).await;
    eprintln!("without servers, `kubectl apply` took {took:?}");
    assert!(
        said.contains("created") && !said.contains("Warning") && took < Duration::from_millis(900),
        "{said}"
    );

    // The kernel accepts connections, and nobody reads what is sent.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let silent = socket.listen(16).unwrap();
    let url = format!("https://{}/validate-workloads", silent.local_addr().unwrap());
    let change = json!([{"op": "replace", "path": "/webhooks/0/clientConfig", "value": {"url": url}}]);
    cluster.api.patch(ADVICE, &change).await.ok();
    cluster.forget().await;
    let mut number = 0;
    eventually("the API server waits for the silent server, and not for long", async || {
        number += 1;
        let (said, took) = applied(cluster, &misplaced(&namespace, &format!("silent-{number}"))).await;
        eprintln!("with a silent server, `kubectl apply` took {took:?}");
        assert!(said.contains("created") && took < Duration::from_millis(2_500), "{took:?} {said}");
        took > Duration::from_secs(1)
    })
    .await;
    cluster.remove(&namespace).await;
    // An upgrade would leave the address.
    cluster.api.delete(ADVICE).await.ok();
    scale(cluster, 2).await;
}

pub(super) async fn the_job_of_a_pod_gets_an_event(cluster: &Cluster) {
    let mut values = values();
    values["events"] = json!({"enabled": true});
    cluster.ensure(&values).await;
    let namespace = cluster.namespace("events").await;
    let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let ours = async || {
        let mut events = cluster.api.list(&path).await;
        events.retain(|event| event["reportingController"] == "fabric-injector.io/webhook");
        events
    };
    // A machine that no policy knows.
    let mut pod = pod(&namespace, "dry", &template(true, "p99.metal"));
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "dry", "uid": "u", "controller": true}]);
    let dry = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    assert!(!cluster.api.post(&dry, &pod).await.warnings.is_empty());
    let guessed = job(&namespace, "guessed", 4, &template(true, "p99.metal"));
    let job = cluster.api.create(&guessed).await.ok();
    cluster.api.create(&job_as_it_should_be(&namespace)).await.ok();
    eventually("the Job has an event", async || !ours().await.is_empty()).await;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    eventually("all pods are there", async || cluster.api.list(&pods).await.len() == 6).await;
    let (_, described) =
        outcome(&mut cluster.kubectl(&["describe", "job", "guessed", "--namespace", &namespace])).await;
    assert!(described.contains("ParameterAssumed") && described.contains("efaDevicesPerGPU"), "{described}");
    // One for four pods and two servers, and none for the dry run.
    let events = ours().await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["regarding"]["uid"], job["metadata"]["uid"]);
    assert_eq!(cluster.metric("fabric_injector_events_total{result=\"created\"}").await, 1);
    assert_eq!(cluster.metric("fabric_injector_events_total{result=\"failed\"}").await, 0);
    cluster.remove(&namespace).await;
}

/// A Job of which nothing is to be said.
fn job_as_it_should_be(namespace: &str) -> Value {
    job(namespace, "good", 2, &annotated_template())
}
