//! `-o review`: what the webhook would answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use json_patch::Patch;
use serde_json::{Value, json};

use super::{POD, POLICY, Run, aws, documents, file, folder, run_in};

const REVIEW: &str = "tests/workloads/admission-review.json";
const UID: &str = "6f1c0e3a-92d4-4b7e-a5c8-1d47be20f963";

/// The only response of a run, inside of its `AdmissionReview`.
#[track_caller]
fn response(run: &Run) -> Value {
    let lines = run.lines();
    assert_eq!(lines.len(), 1, "{}", run.text());
    assert_eq!(lines[0]["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(lines[0]["kind"], "AdmissionReview");
    lines[0]["response"].clone()
}

/// The review of the sample with something else in it.
fn review(change: impl FnOnce(&mut Value)) -> String {
    let mut review = serde_json::from_str(&file(REVIEW)).unwrap();
    change(&mut review);
    review.to_string()
}

/// The patch of a response, decoded.
#[track_caller]
fn patch(response: &Value) -> Patch {
    assert_eq!(response["patchType"], "JSONPatch");
    let bytes = STANDARD.decode(response["patch"].as_str().expect("a patch")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn the_response_allows_the_pod_with_the_uid_of_the_request() {
    let response = response(&aws(&["-o", "review", "-f", REVIEW], "").exits(0));
    assert_eq!(response["uid"], UID);
    assert_eq!(response["allowed"], true);
}

#[test]
fn the_base64_patch_turns_the_pod_of_the_request_into_the_served_one() {
    let response = response(&aws(&["-o", "review", "-f", REVIEW], "").exits(0));
    let mut pod: Value = serde_json::from_str(&file(REVIEW)).unwrap();
    let mut pod = pod["request"]["object"].take();
    json_patch::patch(&mut pod, &patch(&response)).unwrap();
    let served = aws(&["-o", "json", "-f", REVIEW], "").exits(0).values();
    assert_eq!(pod, served[0]["request"]["object"]);
    assert_eq!(super::limits(&pod)["vpc.amazonaws.com/efa"], "32");
}

#[test]
fn a_review_may_be_yaml() {
    let yaml = fabric_yaml::write(&serde_json::from_str(&file(REVIEW)).unwrap());
    let run = aws(&["-o", "review"], yaml).exits(0);
    assert_eq!(response(&run), response(&aws(&["-o", "review", "-f", REVIEW], "").exits(0)));
}

#[test]
fn warnings_are_given_to_the_user() {
    let review = file(REVIEW).replace("nvidia.com/gpu.product", "example.com/other");
    let response = response(&aws(&["-o", "review"], review).exits(0));
    let warnings = response["warnings"].as_array().expect("warnings");
    assert!(warnings[0].as_str().unwrap().contains("`efaDevicesPerGPU`"), "{warnings:?}");
}

#[test]
fn a_pod_without_the_trigger_is_allowed_as_it_is() {
    let text = review(|review| review["request"]["object"]["metadata"]["annotations"] = json!({}));
    let response = response(&aws(&["-o", "review"], text).exits(0));
    assert_eq!((&response["uid"], &response["allowed"]), (&json!(UID), &json!(true)));
    assert_eq!((response.get("patch"), response.get("patchType")), (None, None));
}

#[test]
fn every_request_has_a_response() {
    for change in [
        ("operation", json!("UPDATE")),
        ("subResource", json!("ephemeralcontainers")),
        ("object", Value::Null),
    ] {
        let text = review(|review| review["request"][change.0] = change.1.clone());
        let response = response(&aws(&["-o", "review"], text).exits(0));
        assert_eq!((&response["uid"], &response["allowed"]), (&json!(UID), &json!(true)), "{change:?}");
        assert_eq!(response.get("patch"), None, "{change:?}");
    }
}

#[test]
fn a_refused_pod_is_not_allowed_and_told_why() {
    let folder = folder(&[("lab.yaml", POLICY), ("other.yaml", &POLICY.replace("name: lab", "name: other"))]);
    let args = ["mutate", "--policy", "lab.yaml", "--policy", "other.yaml", "-o", "review"];
    let response = response(&run_in(folder.path(), &args, file(REVIEW)).exits(1));
    assert_eq!((&response["uid"], &response["allowed"]), (&json!(UID), &json!(false)));
    let message = response["status"]["message"].as_str().expect("a message");
    assert!(message.contains("`lab`") && message.contains("`other`"), "{message}");
    assert_eq!(response.get("patch"), None);
}

#[test]
fn a_pod_outside_of_a_review_is_answered_as_if_it_were_in_one() {
    let response = response(&aws(&["-o", "review"], POD).exits(0));
    let mut pod = documents(POD).remove(0);
    json_patch::patch(&mut pod, &patch(&response)).unwrap();
    assert_eq!(pod, aws(&["-o", "json"], POD).exits(0).values()[0]);
}
