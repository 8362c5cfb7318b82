//! Reviews of workloads: advice, and nothing else.

use fabric_engine::admission::{Mode, OnError};
use fabric_injector::server::{AppState, Limits, MAX_BODY};
use serde_json::{Value, json};

use crate::answers::warnings;
use crate::reviews::{TRIGGER, UID, large_pod, pod, pod_with_env, with};
use crate::scrape::{ANSWERED, reviews};
use crate::server::{LAB, Reply, Server, load, policies, post};

const PATH: &str = "/validate-workloads";

/// A Job with this template.
fn job(template: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "team"},
        "spec": {"template": {"metadata": template["metadata"], "spec": template["spec"]}},
    })
}

/// A LeaderWorkerSet with these templates.
fn leader_worker_set(leader: &Value, worker: &Value) -> Value {
    json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "serve"},
        "spec": {"leaderWorkerTemplate": {"leaderTemplate": leader, "workerTemplate": worker}},
    })
}

fn review_of(workload: &Value) -> Value {
    let (group, version) = workload["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": UID, "operation": "CREATE", "namespace": "team", "name": workload["metadata"]["name"],
            "kind": {"group": group, "version": version, "kind": workload["kind"]}, "object": workload,
        },
    })
}

async fn send(server: &Server, review: &Value) -> Reply {
    server.send(post(PATH, review.to_string())).await
}

/// The warnings about a workload, whose review changes nothing and denies nothing.
async fn advice(server: &Server, workload: &Value) -> Vec<String> {
    let response = send(server, &review_of(workload)).await.response(UID);
    assert_eq!(response["allowed"], true, "{response}");
    for other in ["patch", "patchType", "status"] {
        assert!(response.get(other).is_none(), "{response}");
    }
    let warnings = response.get("warnings").map(|_| warnings(&response)).unwrap_or_default();
    warnings.into_iter().map(str::to_owned).collect()
}

fn without_trigger() -> Value {
    with(pod(), "/metadata/annotations", json!({}))
}

/// With `--warnings-as-errors`, kubectl fails for each warning.
#[tokio::test]
async fn a_workload_that_is_as_it_should_be_or_does_not_ask_is_told_nothing() {
    let server = Server::lab();
    for quiet in [
        job(&pod()),
        leader_worker_set(&pod(), &pod()),
        job(&without_trigger()),
        leader_worker_set(&without_trigger(), &without_trigger()),
    ] {
        assert_eq!(advice(&server, &quiet).await, Vec::<String>::new());
    }
    // What controllers watch, but no pods come from.
    let other = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "odd"}, "spec": 7});
    assert_eq!(advice(&server, &other).await, Vec::<String>::new());
}

#[tokio::test]
async fn faults_of_a_workload_are_named_with_their_place() {
    let server = Server::lab();
    let on_the_job = with(job(&without_trigger()), "/metadata/annotations", json!({TRIGGER: "on"}));
    let elsewhere =
        with(pod(), "/spec/nodeSelector", json!({"node.kubernetes.io/instance-type": "lab-whole"}));
    let few = with(pod(), "/spec/containers/0/resources/limits/nvidia.com~1gpu", json!("4"));
    let refused = pod_with_env("LAB_SEAL", "open");
    let lws = "spec.leaderWorkerTemplate";
    for (workload, wanted) in [
        (on_the_job, "move `lab.example/fabric: \"on\"` from `metadata.annotations` to `spec.template.metadata.annotations`".to_owned()),
        (leader_worker_set(&pod(), &without_trigger()), format!("add `lab.example/fabric: \"on\"` to `{lws}.workerTemplate.metadata.annotations`")),
        (leader_worker_set(&without_trigger(), &pod()), format!("add `lab.example/fabric: \"on\"` to `{lws}.leaderTemplate.metadata.annotations`")),
        (leader_worker_set(&pod(), &elsewhere), format!("select the same nodes in `{lws}.workerTemplate.spec.nodeSelector` and in `{lws}.leaderTemplate.spec.nodeSelector`")),
        (job(&few), "`spec.template`: the pod has fewer GPUs than a node".to_owned()),
        (job(&refused), "`spec.template`: refused: ".to_owned()),
    ] {
        let advice = advice(&server, &workload).await;
        // What needs action comes before what is injected.
        assert!(advice[0].starts_with(&format!("fabric-injector: {wanted}")), "{wanted}: {advice:?}");
    }
}

#[tokio::test]
async fn values_that_stay_are_no_advice() {
    let advice = advice(&Server::lab(), &job(&pod_with_env("NCCL_SOCKET_IFNAME", "eth"))).await;
    assert_eq!(advice, Vec::<String>::new());
}

/// Their pods are made of other fields than a template, and one of them is of the cluster.
#[tokio::test]
async fn kinds_without_a_template_and_of_the_cluster_get_advice() {
    let server = Server::new(AppState::new(load("aws-efa", &[]), OnError::Deny, Limits::default()));
    let gpus = json!({"limits": {"nvidia.com/gpu": "8"}});
    let template = json!({"spec": {"containers": [{"name": "node", "resources": gpus}]}});
    let job = json!({"name": "node", "template": {"spec": {"template": template}}});
    for (api_version, kind, spec, place) in [
        (
            "apps.nvidia.com/v1alpha1",
            "NIMService",
            json!({"resources": gpus, "multiNode": {"parallelism": {"pipeline": 2}}}),
            "spec.annotations",
        ),
        (
            "nvidia.com/v1alpha1",
            "DynamoGraphDeployment",
            json!({"services": {"w": {"resources": {"limits": {"gpu": "8"}}, "multinode": {"nodeCount": 2}}}}),
            "spec.services",
        ),
        (
            "trainer.kubeflow.org/v1alpha1",
            "ClusterTrainingRuntime",
            json!({"mlPolicy": {"numNodes": 2}, "template": {"spec": {"replicatedJobs": [job]}}}),
            "spec.template.spec.replicatedJobs[node].template.spec.template.metadata.annotations",
        ),
    ] {
        let workload =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": spec});
        let mut review = review_of(&workload);
        review["request"].as_object_mut().unwrap().remove("namespace");
        let response = send(&server, &review).await.response(UID);
        let advice = warnings(&response);
        assert!(advice.len() == 1 && advice[0].contains(place), "{kind}: {advice:?}");
        assert_eq!(response["auditAnnotations"]["warnings"], "workload_without_trigger", "{response}");
    }
}

#[tokio::test]
async fn advice_is_short() {
    let mut set = job(&pod());
    let few = with(pod(), "/spec/containers/0/resources/limits/nvidia.com~1gpu", json!("4"));
    let group = json!({"name": "x".repeat(300), "template": {"spec": {"template": few}}});
    set["spec"] = json!({"replicatedJobs": vec![group; 50]});
    let advice = advice(&Server::lab(), &set).await;
    assert_eq!(advice.len(), 7, "{advice:?}");
    assert!(advice.iter().all(|line| line.len() <= 256), "{advice:?}");
    assert_eq!(advice[6], "fabric-injector: and 44 more, which `fabric-injector lint` shows");
}

#[tokio::test]
async fn in_audit_mode_it_says_that_no_pod_changes() {
    let state = AppState::new(policies(&[LAB]), OnError::Deny, Limits::default()).in_mode(Mode::Audit);
    let server = Server::new(state);
    let advice = advice(&server, &job(&pod())).await;
    assert_eq!(advice, Vec::<String>::new());
    let few = with(pod(), "/spec/containers/0/resources/limits/nvidia.com~1gpu", json!("4"));
    let advice = self::advice(&server, &job(&few)).await;
    let begin = "fabric-injector: audit mode, no pod is changed: `spec.template`: the pod has fewer GPUs";
    assert!(advice.len() == 1 && advice[0].starts_with(begin), "{advice:?}");
}

#[tokio::test]
async fn a_review_is_counted_apart_from_those_of_pods() {
    let server = Server::lab();
    let on_the_job = with(job(&without_trigger()), "/metadata/annotations", json!({TRIGGER: "on"}));
    for (workload, outcome, code) in [
        (job(&pod()), "unadvised", None),
        (job(&without_trigger()), "unadvised", None),
        (on_the_job, "advised", Some("trigger_on_workload")),
        (job(&pod_with_env("LAB_SEAL", "open")), "advised", Some("seal")),
    ] {
        let before = server.scrape();
        advice(&server, &workload).await;
        let (series, code) =
            (reviews("", outcome, ""), code.map(|code| format!("warnings_total{{code=\"{code}\"}}")));
        let mut wanted = vec![(series.as_str(), 1), (ANSWERED, 1)];
        wanted.extend(code.iter().map(|code| (code.as_str(), 1)));
        server.scrape().rose(&before, &wanted);
    }
}

/// A failed call would be ignored, but take the API server's time, and count as a fault of the webhook.
#[tokio::test]
async fn under_overload_a_workload_is_allowed_without_advice() {
    for on_error in [OnError::Deny, OnError::Allow] {
        let server = Server::limited(on_error, Limits { in_flight: 0, ..Limits::default() });
        let response = send(&server, &review_of(&job(&large_pod()))).await.response(UID);
        assert_eq!(response, json!({"uid": UID, "allowed": true}));
        assert_eq!(server.scrape().value(&reviews("", "unadvised", "overload")), 1);
    }
}

#[tokio::test]
async fn the_limits_are_those_of_the_other_webhook() {
    let server = Server::lab();
    let large = server.send(post(PATH, vec![b' '; MAX_BODY + 1])).await;
    assert_eq!(large.status, 413);
    let broken = server.send(post(PATH, "{")).await;
    assert_eq!(broken.status, 400);
    let get = hyper::Request::get(PATH).body(crate::bodies::Body::from("")).unwrap();
    assert_eq!(server.send(get).await.status, 405);
    // A pod goes to the other path.
    let pods = server.post(review_of(&job(&pod())).to_string()).await.response(UID);
    assert_eq!(pods, json!({"uid": UID, "allowed": true}));
}
