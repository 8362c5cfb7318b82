//! Every workload of `tests/workloads` as the pods that its controllers make of it, each in a review of its own:
//! the webhook does to them what the engine does to the workload.

#[path = "../injection/golden/cases.rs"]
mod shared;

use std::fs;
use std::sync::Arc;

use fabric_engine::policy_set::PolicySet;
use fabric_engine::{Mutation, Outcome};
use fabric_injector::stream::RawDocuments;
use fabric_policy::PodContext as About;
use fabric_workloads::manifest::{Document, find};
use serde_json::{Value, json};

use crate::answers::{denied, patch, patched, warnings};
use crate::reviews::review_of;
use crate::server::{Server, engine};

/// One workload and one policy, as `tests/golden` has them.
#[derive(Debug)]
pub(crate) struct Case(shared::Case);

impl Case {
    pub(crate) fn name(&self) -> String {
        self.0.name()
    }

    pub(crate) fn server(&self) -> Server {
        Server::built_in(&self.0.policy, &self.0.sets)
    }

    /// The same policies as those of the server.
    pub(crate) fn policies(&self) -> Arc<PolicySet> {
        self.0.policies()
    }

    /// Every document of the workload.
    fn documents(&self) -> Vec<Value> {
        let bytes = fs::read(&self.0.workload).unwrap();
        let pieces = RawDocuments::new(bytes.as_slice()).map(Result::unwrap);
        pieces.filter_map(|piece| Document::read(&piece).unwrap().value).collect()
    }

    /// Every pod template of the workload, and what is known of the pods that come from it.
    fn templates(&self) -> Vec<(Value, About)> {
        let mut templates = Vec::new();
        for document in self.documents() {
            for found in find(&document, None) {
                templates.push((document.pointer(&found.pointer).unwrap().clone(), found.request));
            }
        }
        templates
    }

    /// The pods that come from the templates, with what their controllers put into them.
    pub(crate) fn pods(&self) -> Vec<(Value, About)> {
        self.templates().into_iter().map(|(template, about)| (pod_of(&template, &about), about)).collect()
    }
}

/// Every case.
pub(crate) fn cases() -> Vec<Case> {
    shared::cases().into_iter().map(Case).collect()
}

/// The pod that a controller makes of a template: owner and labels are in it by then.
fn pod_of(template: &Value, about: &About) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod"});
    for (key, value) in template.as_object().unwrap() {
        pod[key] = value.clone();
    }
    if !about.owner_kinds.is_empty() {
        let owner = |kind: &String| json!({"kind": kind, "name": "o", "uid": "u", "controller": true});
        pod["metadata"]["ownerReferences"] = about.owner_kinds.iter().map(owner).collect();
        pod["metadata"]["generateName"] = json!("o-");
    }
    for (key, value) in &about.labels {
        pod["metadata"]["labels"][key.as_str()] = json!(value);
    }
    pod
}

/// Fails unless the response to the pod does what the engine did to its template.
fn assert_same(what: &str, template: &Value, pod: &Value, mutation: &Mutation, response: &Value) {
    match &mutation.outcome {
        Outcome::Mutated(mutated) => {
            assert_eq!(patch(response), mutated.patch(), "{what}");
            assert_eq!(patched(template, response), mutated.pod, "{what}");
            // The pod gets the same, and keeps what its controller put into it.
            let mut wanted = pod_of(&mutated.pod, &About::default());
            for key in ["ownerReferences", "generateName", "labels"] {
                if let Some(value) = pod["metadata"].get(key) {
                    wanted["metadata"][key] = value.clone();
                }
            }
            assert_eq!(patched(pod, response), wanted, "{what}");
            assert!(warnings(response).iter().any(|warning| warning.contains("added to ")), "{what}");
        }
        Outcome::Skipped { marked, .. } => {
            assert_eq!(patch(response), marked.patch(), "{what}");
            assert_eq!(patched(template, response), marked.pod, "{what}");
        }
        Outcome::Unchanged { .. } => {
            assert_eq!((&response["allowed"], response.get("patch")), (&json!(true), None), "{what}");
        }
        Outcome::Refused { .. } => drop(denied(response, 403)),
    }
}

#[tokio::test]
async fn every_workload_gets_from_the_webhook_what_it_gets_from_the_engine() {
    let (mut seen, mut mutated, mut labelled, mut owned) = (0, 0, 0, 0);
    for case in cases() {
        let (server, policies) = (case.server(), case.policies());
        for (template, about) in case.templates() {
            let mutation = engine(&policies, template.clone(), &about);
            let pod = pod_of(&template, &about);
            let mut review = review_of(&pod);
            review["request"]["namespace"] = json!(about.namespace.as_deref().unwrap_or("default"));
            let response = server.review(&review).await;
            if matches!(&mutation.outcome, Outcome::Unchanged { reason, .. } if reason.is_unmatched()) {
                // With GPUs, it is not one that the API server sends.
                assert!(response.get("patch").is_none(), "{response}");
                continue;
            }
            assert_same(&case.name(), &template, &pod, &mutation, &response);
            seen += 1;
            mutated += usize::from(matches!(mutation.outcome, Outcome::Mutated(_)));
            labelled += usize::from(!about.labels.is_empty());
            owned += usize::from(!about.owner_kinds.is_empty());
        }
    }
    assert!(seen >= 100 && mutated >= 80, "{mutated} of {seen}");
    assert!(labelled >= 10 && owned >= 60, "{labelled} with labels and {owned} with an owner of {seen}");
}

#[tokio::test]
async fn what_the_webhook_made_of_a_workload_it_leaves_as_it_is() {
    for case in cases() {
        let server = case.server();
        for (pod, _) in case.pods() {
            let response = server.review(&review_of(&pod)).await;
            if response.get("patch").is_none() {
                continue;
            }
            let again = server.review(&review_of(&patched(&pod, &response))).await;
            assert_eq!((&again["allowed"], again.get("patch")), (&json!(true), None), "{}", case.name());
        }
    }
}

#[tokio::test]
async fn a_review_in_a_file_is_answered_as_the_engine_serves_the_file() {
    let mut reviews = 0;
    for case in
        cases().iter().filter(|case| case.0.workload.extension().is_some_and(|ending| ending == "json"))
    {
        let text = fs::read_to_string(&case.0.workload).unwrap();
        let review: Value = serde_json::from_str(&text).unwrap();
        let found = find(&review, None);
        let pod = review.pointer(&found[0].pointer).unwrap();
        let mutation = engine(&case.policies(), pod.clone(), &found[0].request);
        let uid = review["request"]["uid"].as_str().unwrap();
        let response = case.server().post(text).await.response(uid);
        assert_same(&case.name(), pod, pod, &mutation, &response);
        reviews += 1;
    }
    assert!(reviews >= 4, "{reviews}");
}
