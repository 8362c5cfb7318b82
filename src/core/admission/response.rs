//! The response of an AdmissionReview.
//!
//! Written by hand rather than by `kube`'s type: that one writes the patch as a list of numbers, where the API
//! documents base64.

use std::collections::BTreeMap;
use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::core::engine::{self, Mutation};

use super::review::V1;

/// The API asks for warnings of at most 120 characters, and cuts all of them at 4,096.
const MAX_WARNING: usize = 120;
const MAX_WARNINGS: usize = 4_096;
/// What is said of a refused pod repeats values of the pod, which may be of any length.
pub(super) const MAX_MESSAGE: usize = 1_024;

/// What is answered when a fault of the policy or of this program keeps a pod from being served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnError {
    /// The pod is refused: a multi-node job that silently runs on TCP costs more than one that does not start.
    #[default]
    Deny,
    /// The pod is let through as it came, with a warning.
    Allow,
}

/// The `response` of an AdmissionReview.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    /// The request's.
    pub uid: String,
    /// Whether the pod may be created.
    pub allowed: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
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
    pub audit_annotations: BTreeMap<&'static str, String>,
}

/// The `status` of a response that refuses, of the API's kind `Status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_field_names, reason = "the API calls the field so")]
pub struct Status {
    /// Always `Failure`.
    pub status: &'static str,
    /// What to change.
    pub message: String,
    /// The API's name for the code.
    pub reason: &'static str,
    /// The HTTP status that the API server gives to its client.
    pub code: u16,
}

impl Response {
    /// Allows the object as it is.
    pub fn allow(uid: &str) -> Self {
        Self {
            uid: uid.to_owned(),
            allowed: true,
            status: None,
            patch_type: None,
            patch: None,
            warnings: Vec::new(),
            audit_annotations: BTreeMap::new(),
        }
    }

    /// Refuses the object; `reason` is the API's name for the HTTP status `code`.
    pub(super) fn refuse(uid: &str, code: u16, reason: &'static str, why: &dyn Display) -> Self {
        let message = cut(format!("fabric-injector: {why}"), MAX_MESSAGE);
        let status = Some(Status { status: "Failure", message, reason, code });
        Self { allowed: false, status, ..Self::allow(uid) }
    }

    /// The answer to a fault: refused or allowed, as the operator wants it.
    pub(super) fn fault(uid: &str, on_error: OnError, why: &dyn Display) -> Self {
        match on_error {
            OnError::Deny => Self::refuse(uid, 500, "InternalError", why),
            OnError::Allow => {
                let warnings = within_limits([format!(
                    "fabric-injector: NOT served, the pod has no fast network: {why}"
                )]);
                Self { warnings, ..Self::allow(uid) }
            }
        }
    }

    /// The AdmissionReview around the response, as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        self.to_json_of(V1)
    }

    /// The same in another version of AdmissionReview, for whoever does not read `v1`.
    pub(super) fn to_json_of(&self, api_version: &str) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Review<'a> {
            api_version: &'a str,
            kind: &'static str,
            response: &'a Response,
        }
        let warnings: usize = self.warnings.iter().map(String::len).sum();
        let mut text = Vec::with_capacity(512 + warnings + self.patch.as_ref().map_or(0, String::len));
        // Serialising strings into memory cannot fail.
        let _ = serde_json::to_writer(
            &mut text,
            &Review { api_version, kind: "AdmissionReview", response: self },
        );
        text
    }
}

/// The answer for one pod.
pub fn respond(uid: &str, mutation: &Mutation, on_error: OnError) -> Response {
    let mut messages: Vec<String> =
        mutation.warnings.iter().map(|warning| format!("fabric-injector: {warning}")).collect();
    let (mut response, outcome) = match &mutation.outcome {
        engine::Outcome::Mutated(mutated) => {
            // What the user has to act on comes first, in case that not all has place.
            let operations = mutated.operations();
            let added = operations.summary();
            messages.extend(added.into_iter().map(|line| format!("fabric-injector: added to {line}")));
            let patch = Some(STANDARD.encode(operations.to_json()));
            let response = Response { patch_type: Some("JSONPatch"), patch, ..Response::allow(uid) };
            (response, format!("mutated by {}", mutated.stamp))
        }
        engine::Outcome::Unchanged { reason, .. } => {
            // Somebody asked for the fabric and does not get it: say so.
            if mutation.policy.is_some() || reason.is_near_miss() {
                messages.push(format!("fabric-injector: left alone: {reason}"));
            }
            (Response::allow(uid), format!("unchanged: {}", reason.code()))
        }
        engine::Outcome::Refused { reason } if reason.is_fault() => {
            (Response::fault(uid, on_error, reason), format!("failed: {}", reason.code()))
        }
        engine::Outcome::Refused { reason } => {
            (Response::refuse(uid, 403, "Forbidden", reason), format!("refused: {}", reason.code()))
        }
    };
    if response.warnings.is_empty() {
        response.warnings = within_limits(messages);
    }
    if mutation.policy.is_some() || !response.allowed {
        response.audit_annotations.insert("outcome", outcome);
        let codes: Vec<&str> = mutation.warnings.iter().map(engine::Warning::code).collect();
        if !codes.is_empty() {
            response.audit_annotations.insert("warnings", codes.join(","));
        }
    }
    response
}

/// Warnings as the API takes them: the first ones that have place, and how many more there are.
pub(super) fn within_limits(messages: impl IntoIterator<Item = String>) -> Vec<String> {
    const MORE: usize = "fabric-injector: and 18446744073709551615 more".len();
    let mut left = MAX_WARNINGS - MORE;
    let mut warnings = Vec::new();
    let mut messages = messages.into_iter();
    while let Some(message) = messages.next() {
        let warning = cut(message, MAX_WARNING);
        if warning.len() > left {
            warnings.push(format!("fabric-injector: and {} more", messages.count() + 1));
            break;
        }
        left -= warning.len();
        warnings.push(warning);
    }
    warnings
}

/// Cuts a text to a number of bytes, control characters out.
pub(super) fn cut(mut text: String, most: usize) -> String {
    if text.contains(char::is_control) {
        text = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    }
    if text.len() > most {
        let mut end = most - '…'.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}
