//! The answer to an AdmissionReview, `admission.k8s.io/v1`.
//!
//! Written by hand rather than by `kube`'s type: that one writes the patch as a list of numbers, where the API
//! documents base64.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Value, json};

use crate::engine::{Mutation, Outcome};

/// The API asks for warnings of at most 120 characters, and cuts all of them at 4,096.
const MAX_WARNING: usize = 120;
const MAX_WARNINGS: usize = 4_096;

/// The `response` of an AdmissionReview.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    /// The request's.
    pub uid: String,
    /// Whether the pod may be created.
    pub allowed: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
    /// `JSONPatch`, with a patch only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<&'static str>,
    /// The JSON Patch, base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// What `kubectl` shows to the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What the audit log keeps.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub audit_annotations: BTreeMap<String, String>,
}

/// The answer to a request that is not ours to change: an update, a subresource, another kind.
pub fn allow(uid: &str) -> Response {
    Response {
        uid: uid.to_owned(),
        allowed: true,
        status: None,
        patch_type: None,
        patch: None,
        warnings: Vec::new(),
        audit_annotations: BTreeMap::new(),
    }
}

/// The answer for one pod.
pub fn respond(uid: &str, mutation: &Mutation) -> Response {
    let mut response = allow(uid);
    let mut messages: Vec<String> = mutation.warnings.iter().map(ToString::to_string).collect();
    let outcome = match &mutation.outcome {
        Outcome::Mutated(mutated) => {
            response.patch_type = Some("JSONPatch");
            response.patch = Some(STANDARD.encode(mutated.patch_json()));
            format!("mutated by {}", mutated.stamp)
        }
        Outcome::Unchanged { reason, .. } => {
            // Somebody asked for the fabric and does not get it: say so.
            if mutation.policy.is_some() || reason.code() == "trigger_value" {
                messages.push(format!("left alone: {reason}"));
            }
            format!("unchanged: {}", reason.code())
        }
        Outcome::Refused { reason } => {
            response.allowed = false;
            response.status = Some(json!({
                "status": "Failure",
                "message": format!("fabric-injector: {reason}"),
                "reason": "Forbidden",
                "code": 403,
            }));
            format!("refused: {}", reason.code())
        }
    };
    response.warnings = within_limits(&messages);
    if mutation.policy.is_some() || !response.allowed {
        response.audit_annotations.insert("outcome".to_owned(), outcome);
        let codes: Vec<&str> = mutation.warnings.iter().map(crate::engine::Warning::code).collect();
        if !codes.is_empty() {
            response.audit_annotations.insert("warnings".to_owned(), codes.join(","));
        }
    }
    response
}

/// The whole AdmissionReview around a response.
pub fn review(response: &Response) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

fn within_limits(messages: &[String]) -> Vec<String> {
    let mut left = MAX_WARNINGS;
    let mut warnings = Vec::new();
    for message in messages {
        let mut warning: String = format!("fabric-injector: {message}");
        if warning.len() > MAX_WARNING {
            let mut end = MAX_WARNING - '…'.len_utf8();
            while !warning.is_char_boundary(end) {
                end -= 1;
            }
            warning.truncate(end);
            warning.push('…');
        }
        if warning.len() > left {
            break;
        }
        left -= warning.len();
        warnings.push(warning);
    }
    warnings
}
