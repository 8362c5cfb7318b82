//! What every answer has to hold to, whatever was asked.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use json_patch::Patch;
use serde_json::{Map, Value, json};

use crate::server::Reply;

/// The API server takes warnings of this length, and of this length together.
const WARNING: usize = 256;
const WARNINGS: usize = 4_096;

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("a map").keys().map(String::as_str).collect()
}

impl Reply {
    /// The response of a review to the request with this uid.
    #[track_caller]
    pub(crate) fn response(&self, uid: &str) -> Value {
        self.response_in("admission.k8s.io/v1", uid)
    }

    /// The same, of a review in some version.
    #[track_caller]
    pub(crate) fn response_in(&self, version: &str, uid: &str) -> Value {
        let review = self.review();
        assert_eq!(review["apiVersion"], version);
        assert_eq!(review["response"]["uid"], uid);
        review["response"].clone()
    }

    /// A review that an API server takes for an answer.
    #[track_caller]
    fn review(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        assert_eq!(self.header("content-type"), "application/json");
        let review: Value = serde_json::from_slice(&self.body).expect("an answer is JSON");
        assert_eq!(keys(&review), ["apiVersion", "kind", "response"]);
        assert_eq!(review["kind"], "AdmissionReview");
        let response = &review["response"];
        let known = ["uid", "allowed", "status", "patchType", "patch", "warnings", "auditAnnotations"];
        assert!(keys(response).iter().all(|key| known.contains(key)), "{response}");
        let allowed = response["allowed"].as_bool().expect("`allowed` is there");
        match (response.get("patch"), response.get("patchType")) {
            (None, None) => {}
            (Some(_), Some(patch_type)) => {
                assert!(allowed, "{response}");
                assert_eq!(patch_type, "JSONPatch");
                assert!(!patch(response).0.is_empty(), "a patch changes something");
            }
            half => panic!("{half:?}"),
        }
        match response.get("status") {
            None => assert!(allowed, "{response}"),
            Some(status) => {
                assert!(!allowed, "{response}");
                assert_eq!(status["status"], "Failure");
                assert!((400..600).contains(&status["code"].as_u64().unwrap()), "{status}");
                assert_sentence(status["message"].as_str().unwrap());
            }
        }
        if let Some(warnings) = response.get("warnings") {
            let warnings: Vec<&str> =
                warnings.as_array().unwrap().iter().map(|warning| warning.as_str().unwrap()).collect();
            assert!(!warnings.is_empty());
            for warning in &warnings {
                assert_sentence(warning);
            }
            // In bytes, which are never fewer than the characters.
            assert!(warnings.iter().all(|warning| warning.len() <= WARNING), "{warnings:#?}");
            assert!(warnings.iter().map(|warning| warning.len()).sum::<usize>() <= WARNINGS);
        }
        if let Some(annotations) = response.get("auditAnnotations") {
            let annotations = annotations.as_object().unwrap();
            assert!(!annotations.is_empty());
            assert!(annotations.values().all(Value::is_string), "{annotations:?}");
        }
        review
    }

    /// The sentence of an answer to what is no review: a `Status` of the API with this code.
    #[track_caller]
    pub(crate) fn refusal(&self, code: u16) -> String {
        assert_eq!(self.status, code, "{}", self.text());
        assert_eq!(self.header("content-type"), "application/json");
        let status: Value = serde_json::from_slice(&self.body).expect("an answer is JSON");
        let message = status["message"].as_str().expect("a message").to_owned();
        let wanted = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code,
        });
        assert_eq!(status, wanted);
        assert_sentence(&message);
        message
    }

    /// Fails unless this is an answer of some kind, and one that blames the sender if any.
    #[track_caller]
    pub(crate) fn is_some_answer(&self) {
        match self.status {
            200 => drop(self.review()),
            code => {
                assert!((400..500).contains(&code), "{}", self.text());
                self.refusal(code);
            }
        }
    }
}

/// Something that a person can read on one line.
#[track_caller]
fn assert_sentence(text: &str) {
    assert!(text.split_whitespace().count() >= 2, "{text:?}");
    assert!(text.len() <= 1_024 && !text.contains(char::is_control), "{text:?}");
}

/// The patch of a response, decoded.
#[track_caller]
pub(crate) fn patch(response: &Value) -> Patch {
    let text = response["patch"].as_str().unwrap_or_else(|| panic!("no patch in {response}"));
    serde_json::from_slice(&STANDARD.decode(text).expect("base64")).expect("a JSON Patch")
}

/// The pod after the patch of a response.
#[track_caller]
pub(crate) fn patched(pod: &Value, response: &Value) -> Value {
    let mut pod = pod.clone();
    json_patch::patch(&mut pod, &patch(response)).expect("the patch fits the pod");
    pod
}

/// The message of a response that does not allow, for which this is the code.
#[track_caller]
pub(crate) fn denied(response: &Value, code: u16) -> &str {
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(code)));
    response["status"]["message"].as_str().unwrap()
}

/// Fails unless no policy in use matches a pod with GPUs.
#[track_caller]
pub(crate) fn assert_unmatched(response: &Value) {
    assert!(denied(response, 500).contains("no policy in use matches this pod with GPUs"), "{response}");
}

/// The warnings of a response.
pub(crate) fn warnings(response: &Value) -> Vec<&str> {
    let warnings = response["warnings"].as_array().map(Vec::as_slice).unwrap_or_default();
    warnings.iter().map(|warning| warning.as_str().unwrap()).collect()
}

/// The audit annotations of a response.
pub(crate) fn audit(response: &Value) -> Map<String, Value> {
    response["auditAnnotations"].as_object().cloned().unwrap_or_default()
}

/// Fails unless the object is allowed as it came, with these warnings.
#[track_caller]
pub(crate) fn assert_unchanged(response: &Value, wanted: &[&str]) {
    assert_eq!(response["allowed"], true, "{response}");
    assert_eq!(response.get("patch"), None, "{response}");
    let warnings = warnings(response);
    assert_eq!(warnings.len(), wanted.len(), "{warnings:?}");
    for (warning, part) in warnings.iter().zip(wanted) {
        assert!(warning.contains(part), "no `{part}` in {warning}");
    }
}
