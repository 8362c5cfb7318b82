//! Advice on workloads, as `kubectl apply` shows it.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::Instant;

use super::node_watch::take_binding_of;
use super::outages::scale;
use super::values;
use crate::api::collection;
use crate::cluster::Cluster;
use crate::processes::outcome;
use crate::workloads::{TRIGGER, annotated_template, job, plain_template, pod, stateful_set, template};
use crate::{eventually, step};

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
    assert!(!said.contains("Warning"), "{said}");
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
    assert!(!said.contains("Warning"), "{said}");
    assert_eq!(reviews(cluster).await, before + 1);
    // The API server sends no `CompanyJob`, so that this Job is the first object that can be reviewed.
    let mut of_an_operator = misplaced(&namespace, "of-an-operator");
    of_an_operator["metadata"]["ownerReferences"] = json!([{"apiVersion": "example.com/v1", "kind": "CompanyJob",
        "name": "train", "uid": set_now["metadata"]["uid"], "controller": true}]);
    let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All");
    let reply = cluster.api.post(&path, &of_an_operator).await;
    assert!(reply.warnings.iter().any(|warning| MOVE.ends_with(warning)), "{reply:?}");

    let mut file = NamedTempFile::new().unwrap();
    file.write_all(job_as_it_should_be(&namespace).to_string().as_bytes()).unwrap();
    let strictly = ["apply", "--warnings-as-errors", "-f", file.path().to_str().unwrap()];
    let (succeeded, said) = outcome(&mut cluster.kubectl(&strictly)).await;
    assert!(succeeded, "{said}");

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

/// Sends advice to a server where the kernel accepts connections, and nobody reads what is sent.
async fn silence(cluster: &Cluster) -> TcpListener {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let silent = socket.listen(64).unwrap();
    let url = format!("https://{}/validate-workloads", silent.local_addr().unwrap());
    let change = json!([{"op": "replace", "path": "/webhooks/0/clientConfig", "value": {"url": url}}]);
    cluster.api.patch(ADVICE, &change).await.ok();
    cluster.forget().await;
    silent
}

/// Workloads of each kind whose templates have one place, plain ones and those with GPUs, and whether they wait for advice.
fn each_workload(namespace: &str) -> Vec<(Value, bool)> {
    let mut workloads = Vec::new();
    for (name, template, waits) in
        [("plain", plain_template(), false), ("gpus", template(false, "p5.48xlarge"), true)]
    {
        let set = stateful_set(namespace, name, 1, &template);
        for kind in ["Deployment", "DaemonSet"] {
            let mut other = set.clone();
            other["kind"] = json!(kind);
            let fields =
                ["serviceName", "podManagementPolicy", if kind == "DaemonSet" { "replicas" } else { "" }];
            other["spec"].as_object_mut().unwrap().retain(|field, _| !fields.contains(&field.as_str()));
            workloads.push((other, waits));
        }
        let job = job(namespace, name, 1, &template);
        let mut cron = job.clone();
        cron["kind"] = json!("CronJob");
        cron["spec"] = json!({"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job["spec"]}});
        workloads.extend([set, job, cron].map(|workload| (workload, waits)));
    }
    workloads
}

/// How long the slowest of ten dry runs takes.
async fn slowest_creation(cluster: &Cluster, workload: &Value) -> Duration {
    let path = format!("{}?dryRun=All", collection(workload));
    let mut slowest = Duration::ZERO;
    for _ in 0..10 {
        let begun = Instant::now();
        cluster.api.post(&path, workload).await.ok();
        slowest = slowest.max(begun.elapsed());
    }
    step();
    slowest
}

/// A Deployment with so many containers and init containers, the last of which has GPUs or not.
fn very_many_containers(namespace: &str, count: usize, gpus: bool) -> Value {
    let container = |number: usize| {
        json!({
            "name": format!("c{number}"), "image": "registry.example/web:1",
            "resources": {"limits": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi", "example.com/fuse": "1"}},
        })
    };
    let mut set = stateful_set(namespace, "many", 1, &plain_template());
    set["kind"] = json!("Deployment");
    set["spec"]
        .as_object_mut()
        .unwrap()
        .retain(|field, _| ["selector", "template"].contains(&field.as_str()));
    let pod = &mut set["spec"]["template"]["spec"];
    pod["containers"] = (0..count).map(container).collect();
    pod["initContainers"] = (count..2 * count).map(container).collect();
    if gpus {
        pod["initContainers"][count - 1]["resources"]["limits"]["nvidia.com/gpu"] = json!("1");
    }
    set
}

/// Asserts that the API server evaluates the conditions for 500 containers and 500 init containers to the end. It would send
/// no workload whose conditions cost too much.
pub(super) async fn five_hundred_containers_are_within_the_budget_of_the_api_server(cluster: &Cluster) {
    const FAULTS: &str = "apiserver_admission_match_condition_evaluation_errors_total";
    // The policies of all clouds have the most resources.
    let mut values = values();
    values["multinodeNetworking"] = json!({});
    cluster.ensure(&values).await;
    let namespace = cluster.namespace("many").await;
    advises(cluster, &namespace).await;
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments?dryRun=All");
    for (gpus, wanted) in [(true, 1), (false, 0)] {
        let before = reviews(cluster).await;
        cluster.api.post(&path, &very_many_containers(&namespace, 500, gpus)).await.ok();
        assert_eq!(reviews(cluster).await - before, wanted, "GPUs: {gpus}");
    }
    let metrics = cluster.api.get("/metrics").await.body;
    assert!(!metrics.as_str().unwrap().contains(&format!("{FAULTS}{{")), "a condition cost too much");
    cluster.remove(&namespace).await;
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

    let _silent = silence(cluster).await;
    let mut number = 0;
    eventually("the API server waits for the silent server, and not for long", async || {
        number += 1;
        let (said, took) = applied(cluster, &misplaced(&namespace, &format!("silent-{number}"))).await;
        eprintln!("with a silent server, `kubectl apply` took {took:?}");
        assert!(said.contains("created") && took < Duration::from_millis(2_500), "{took:?} {said}");
        took > Duration::from_secs(1)
    })
    .await;
    for (workload, waits) in each_workload(&namespace) {
        let (kind, name) = (&workload["kind"], workload["metadata"]["name"].as_str().unwrap());
        let took = slowest_creation(cluster, &workload).await;
        eprintln!("with a silent server, the slowest of 10 {kind} `{name}` took {took:?}");
        assert_eq!(took > Duration::from_secs(1), waits, "{kind} {name}: {took:?}");
        assert!(waits || took < Duration::from_millis(500), "{kind} {name}: {took:?}");
    }
    cluster.remove(&namespace).await;
    // An upgrade would leave the address.
    cluster.api.delete(ADVICE).await.ok();
    scale(cluster, 2).await;
}

pub(super) async fn the_job_of_a_pod_gets_an_event(cluster: &Cluster) {
    cluster.ensure(&values()).await;
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
    without_the_right(cluster, &namespace).await;
    cluster.remove(&namespace).await;
}

/// Servers that may not create Events say so, and so does `check`, until they may again.
async fn without_the_right(cluster: &Cluster, namespace: &str) {
    let binding = take_binding_of(cluster, "events").await;
    cluster.api.create(&job(namespace, "untold", 1, &template(true, "p99.metal"))).await.ok();
    let events = "[!]events: the last one cannot be created";
    let told = async || outcome(&mut cluster.program(&["check"])).await.1;
    eventually("a server says that it cannot create Events", async || told().await.contains(events)).await;
    let said = told().await;
    assert!(
        said.contains("warn  servers") && said.contains("compare the ClusterRole of the release"),
        "{said}"
    );
    cluster.api.create(&binding).await.ok();
    eventually("the servers create Events", async || {
        let name = format!("told-{}", fastrand::u32(..));
        cluster.api.create(&job(namespace, &name, 4, &template(true, "p99.metal"))).await.ok();
        !told().await.contains(events)
    })
    .await;
}

/// A Job of which nothing is to be said.
fn job_as_it_should_be(namespace: &str) -> Value {
    job(namespace, "good", 2, &annotated_template())
}
