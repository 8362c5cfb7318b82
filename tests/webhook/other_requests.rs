//! Requests that are not about a new pod, and new pods that are not as in the books.

use fabric_engine::admission::OnError;
use fabric_injector::server::{AppState, Limits};
use serde_json::{Value, json};

use crate::answers::{assert_unmatched, denied, patched, warnings};
use crate::reviews::{UID, other_pod, pod, pod_with, review_of, review_with, unmatched_pod, with};
use crate::scrape::{ANSWERED, reviews};
use crate::server::{LAB, Server, lab_with, policies};

/// Reviews of a pod with the trigger that are none of our business.
fn others() -> Vec<Value> {
    let kind = |group: &str, kind: &str| json!({"group": group, "version": "v1", "kind": kind});
    let mut others = vec![
        review_with("operation", json!("UPDATE")),
        review_with("operation", json!("DELETE")),
        review_with("operation", json!("CONNECT")),
        review_with("operation", json!("create")),
        review_with("operation", json!("")),
        review_with("subResource", json!("binding")),
        review_with("subResource", json!("ephemeralcontainers")),
        review_with("subResource", json!("status")),
        review_with("subResource", json!("resize")),
        review_with("kind", kind("apps", "Deployment")),
        review_with("kind", kind("", "PodTemplate")),
        review_with("kind", kind("", "Service")),
        review_with("kind", kind("metrics.example", "Pod")),
        review_with("kind", json!({"kind": "pod"})),
    ];
    // As an API server sends them: nothing is left of what is deleted, and a binding is no pod.
    let mut deleted = review_with("operation", json!("DELETE"));
    deleted["request"]["object"] = Value::Null;
    deleted["request"]["oldObject"] = pod();
    others.push(deleted);
    let mut bound = review_with("subResource", json!("binding"));
    bound["request"]["kind"] = kind("", "Binding");
    bound["request"]["object"] = json!({"kind": "Binding", "apiVersion": "v1", "target": {"name": "node"}});
    others.push(bound);
    let mut connected = review_with("operation", json!("CONNECT"));
    connected["request"]["kind"] = kind("", "PodExecOptions");
    connected["request"]["subResource"] = json!("exec");
    connected["request"]["object"] = json!({"kind": "PodExecOptions", "command": ["sh"]});
    others.push(connected);
    let mut updated = review_with("operation", json!("UPDATE"));
    updated["request"]["oldObject"] = pod();
    others.push(updated);
    others
}

#[tokio::test]
async fn what_is_no_new_pod_is_allowed_as_it_is() {
    // Also where a fault would be denied: none can happen.
    for on_error in [OnError::Deny, OnError::Allow] {
        let server = Server::on_error(on_error);
        for review in others() {
            let before = server.scrape();
            assert_eq!(server.review(&review).await, json!({"uid": UID, "allowed": true}), "{review}");
            let series = reviews("", "unchanged", "not_a_new_pod");
            server.scrape().rose(&before, &[(&series, 1), (ANSWERED, 1)]);
        }
    }
}

#[tokio::test]
async fn what_is_no_new_pod_is_not_evaluated() {
    let server = Server::evaluating(OnError::Deny, Box::new(|_, _, _| panic!("nobody asked")));
    for review in others() {
        assert_eq!(server.review(&review).await, json!({"uid": UID, "allowed": true}), "{review}");
    }
}

#[tokio::test]
async fn a_subresource_that_is_empty_is_none() {
    let server = Server::lab();
    for none in [json!(""), Value::Null] {
        let response = server.review(&review_with("subResource", none)).await;
        assert!(response.get("patch").is_some(), "{response}");
    }
}

#[tokio::test]
async fn a_review_in_another_version_is_refused_with_its_uid_and_told_what_to_set() {
    for on_error in [OnError::Deny, OnError::Allow] {
        let server = Server::on_error(on_error);
        for pod in [pod(), other_pod()] {
            for version in ["admission.k8s.io/v1beta1", "admission.k8s.io/v2"] {
                let review = with(review_of(&pod), "/apiVersion", json!(version));
                // In its own version, since it is sent by someone who reads no other.
                let response = server.post(review.to_string()).await.response_in(version, UID);
                let message = denied(&response, 400);
                assert!(message.contains(version), "{message}");
                assert!(message.contains("admissionReviewVersions: [\"v1\"]"), "{message}");
            }
        }
    }
}

#[tokio::test]
async fn a_pod_whose_name_will_be_made_of_a_prefix_is_served() {
    let server = Server::lab();
    let mut unnamed = pod_with("/metadata/generateName", json!("trainer-"));
    unnamed["metadata"].as_object_mut().unwrap().remove("name");
    let mut review = review_of(&unnamed);
    for name in [Value::Null, json!("")] {
        review["request"]["name"] = name;
        assert!(patched(&unnamed, &server.review(&review).await)["spec"]["volumes"].is_array());
    }
    review["request"].as_object_mut().unwrap().remove("name");
    let response = server.review(&review).await;
    assert_eq!(patched(&unnamed, &response)["metadata"]["generateName"], "trainer-");
}

/// Networks are named by their namespace; without one, it is that of the pod.
#[tokio::test]
async fn the_namespace_of_the_request_is_that_of_the_pod() {
    let annotations = "      pod:\n        metadata:\n          annotations:\n            k8s.v1.cni.cncf.io/networks: lab-net\n        spec:\n";
    let server = Server::serving(&[&lab_with("      pod:\n        spec:\n", annotations)]);
    let pod = pod_with("/metadata/annotations/k8s.v1.cni.cncf.io~1networks", json!("team/lab-net"));
    let named = with(pod.clone(), "/metadata/namespace", json!("team"));
    for pod in [pod, named] {
        for (namespace, wanted) in [("team", "team/lab-net"), ("other", "team/lab-net,lab-net")] {
            let mut review = review_of(&pod);
            review["request"]["namespace"] = json!(namespace);
            let now = patched(&pod, &server.review(&review).await);
            assert_eq!(now["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"], wanted);
        }
    }
}

#[tokio::test]
async fn a_policy_may_read_the_namespace_of_the_request() {
    let text = lab_with("RANK: ${string(rank)}", "RANK: ${podNamespace}");
    let response = Server::serving(&[&text]).review(&review_of(&pod())).await;
    let now = patched(&pod(), &response);
    let env = now["spec"]["containers"][0]["env"].as_array().unwrap();
    assert!(env.contains(&json!({"name": "LAB_RANK", "value": "team"})), "{env:?}");
}

#[tokio::test]
async fn a_policy_for_one_namespace_finds_it_in_the_request() {
    let text = lab_with("    exceptAnnotation:", "    namespaces: [team]\n    exceptAnnotation:");
    let server = Server::serving(&[&text]);
    let response = server.review(&review_of(&pod())).await;
    assert_eq!(response["patchType"], "JSONPatch");
    assert_unmatched(&server.review(&review_with("namespace", json!("other"))).await);
}

#[tokio::test]
async fn a_policy_without_a_trigger_serves_by_labels_owners_and_namespace() {
    let trigger = "    anyAnnotation:\n      lab.example/fabric: \"on\"\n    exceptAnnotation:\n      lab.example/no-fabric: \"true\"\n";
    let cases = [
        ("    labels: {fabric: lab}\n", pod_with("/metadata/labels", json!({"fabric": "lab"}))),
        ("    ownerKinds: [Job]\n", pod_with("/metadata/ownerReferences", json!([{"kind": "Job"}]))),
        ("    namespaces: [team]\n", unmatched_pod()),
    ];
    for (part, mut mine) in cases {
        let labels = "    labels: {fabric: lab}\n";
        let text =
            lab_with(trigger, &if part == labels { part.to_owned() } else { format!("{labels}{part}") });
        mine["metadata"]["labels"] = json!({"fabric": "lab"});
        let server = Server::serving(&[&text]);
        mine["metadata"]["annotations"] = Value::Null;
        let response = server.review(&review_of(&mine)).await;
        assert!(patched(&mine, &response)["spec"]["volumes"].is_array(), "{part}");
        let mut others = review_of(&other_pod());
        others["request"]["namespace"] = json!("elsewhere");
        assert_eq!(server.review(&others).await, json!({"uid": UID, "allowed": true}), "{part}");
    }
}

#[tokio::test]
async fn a_new_pod_of_which_nothing_is_there_is_allowed() {
    let server = Server::lab();
    for object in [Value::Null, json!({}), json!([]), json!("pod"), json!({"metadata": "none"})] {
        let response = server.review(&review_with("object", object)).await;
        assert_eq!(response, json!({"uid": UID, "allowed": true}));
    }
    let mut review = review_of(&pod());
    review["request"].as_object_mut().unwrap().remove("object");
    assert_eq!(server.review(&review).await, json!({"uid": UID, "allowed": true}));
}

#[tokio::test]
async fn no_policy_at_all_allows_everything() {
    let server = Server::serving(&[]);
    assert_eq!(server.review(&review_of(&pod())).await, json!({"uid": UID, "allowed": true}));
    assert!(LAB.contains("lab.example/fabric: \"on\""));
}

#[tokio::test]
async fn the_sample_review_of_every_policy_is_served() {
    for text in
        [LAB.to_owned(), lab_with("    exceptAnnotation:", "    ownerKinds: [Job]\n    exceptAnnotation:")]
    {
        let set = policies(&[&text]);
        let mut review = fabric_engine::admission::sample_review(&set.policies()[0]);
        review["request"]["object"]["metadata"]["ownerReferences"] = json!([{"kind": "Job"}]);
        let server = Server::new(AppState::new(set, OnError::Deny, Limits::default()));
        let uid = review["request"]["uid"].as_str().unwrap().to_owned();
        let response = server.post(review.to_string()).await.response(&uid);
        let warnings = warnings(&response);
        assert!(warnings.iter().any(|warning| warning.contains("added to a: ")), "{warnings:?}");
    }
}
