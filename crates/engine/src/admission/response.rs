//! The response of an AdmissionReview.
//!
//! It does not use the type of `kube-core`, which writes the patch as a list of numbers, 2.5 times as long as base64, and
//! a `status` also where none is needed. The crate would bring 13 others into this one.

use std::collections::BTreeMap;
use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::{self as engine, Mutation};

use super::ReviewOutcome;
use super::review::V1;

/// The length of a warning, beyond which the API server may cut it.
const MAX_WARNING: usize = 256;
/// The length of all warnings together, beyond which the API server cuts them.
const MAX_WARNINGS: usize = 4_096;
/// The length of a message. Messages contain values of the pod, which may have any length.
pub(super) const MAX_MESSAGE: usize = 1_024;

/// The length of a line of a message with several.
const MAX_LINE: usize = 512;

/// The response for a pod that cannot be injected because of a fault in the policy or in this program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnError {
    /// The pod is denied: a multi-node job that silently runs on TCP costs more than one that does not start.
    #[default]
    Deny,
    /// The pod is admitted unchanged, with a warning.
    Allow,
}

/// The use of an answer: to change the pod, or to report only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// It injects them.
    #[default]
    Inject,
    /// Allows every pod unchanged, and reports what [`Mode::Inject`] would do.
    Audit,
}

impl Mode {
    /// The stable name, for options, logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inject => "inject",
            Self::Audit => "audit",
        }
    }
}

/// The prefix of messages and warnings.
const NAME: &str = "fabric-injector: ";
/// The prefix of a warning about a pod that [`Mode::Audit`] leaves unchanged.
pub const UNCHANGED: &str = "fabric-injector: audit mode, the pod is unchanged: ";
/// The same after the name.
const IN_AUDIT_MODE: &str = UNCHANGED.split_at(NAME.len()).1;
/// The prefix of a warning, after the name, about a pod that is admitted without the fabric.
pub(super) const NOT_INJECTED: &str = "NOT injected, the pod has no fast network: ";
/// The continuation for a pod that would be injected, before its stamp.
pub const WOULD_BE_INJECTED: &str = "it would be injected by ";

/// The `response` of an AdmissionReview.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    /// The uid of the request.
    pub uid: String,
    /// If true, the API server may create the object.
    pub allowed: bool,
    /// Why the object is denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ResponseStatus>,
    /// `JSONPatch` if there is a patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<&'static str>,
    /// The JSON Patch in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// The warnings, which `kubectl` shows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The annotations of the event in the audit log.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub audit_annotations: BTreeMap<&'static str, String>,
}

/// The `status` of a response that denies, of the API's kind `Status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResponseStatus {
    /// Always `Failure`.
    pub status: &'static str,
    /// The reason and the remedy, which the API server shows to its client.
    pub message: String,
    /// The API's name for `code`.
    pub reason: &'static str,
    /// The HTTP status that the API server returns to its client.
    pub code: u16,
}

impl Response {
    /// Allows the object unchanged.
    pub fn allow(uid: &str) -> Self {
        Self { uid: uid.to_owned(), allowed: true, ..Self::default() }
    }

    /// Denies the object; `reason` is the API's name for the HTTP status `code`.
    pub(super) fn deny(uid: &str, code: u16, reason: &'static str, why: &dyn Display) -> Self {
        Self::denied(uid, code, reason, cut(format!("{NAME}{why}"), MAX_MESSAGE))
    }

    /// Denies an object for what it says, with a line for each reason.
    pub(super) fn invalid(uid: &str, reasons: &[String]) -> Self {
        let lines: Vec<String> = reasons.iter().map(|reason| cut(reason.clone(), MAX_LINE)).collect();
        Self::denied(uid, 422, "Invalid", format!("{NAME}{}", lines.join("\n")))
    }

    fn denied(uid: &str, code: u16, reason: &'static str, message: String) -> Self {
        let status = Some(ResponseStatus { status: "Failure", message, reason, code });
        Self { allowed: false, status, ..Self::allow(uid) }
    }

    /// The response to a fault, which `on_error` decides.
    pub(super) fn fault(uid: &str, on_error: OnError, why: &dyn Display) -> Self {
        match on_error {
            OnError::Deny => Self::deny(uid, 500, "InternalError", why),
            OnError::Allow => {
                let warnings = within_limits([format!("{NOT_INJECTED}{why}")]);
                Self { warnings, ..Self::allow(uid) }
            }
        }
    }

    /// The response of a mode: in [`Mode::Audit`], the object is allowed unchanged.
    pub(super) fn in_mode(self, mode: Mode) -> Self {
        if mode == Mode::Inject {
            return self;
        }
        let warnings = match &self.status {
            Some(status) => within_limits([would_be_denied(&status.message.trim_start_matches(NAME))]),
            None => self.warnings,
        };
        let outcome = |(key, text)| (key, if key == "outcome" { format!("audit: {text}") } else { text });
        let audit_annotations = self.audit_annotations.into_iter().map(outcome).collect();
        Self { warnings, audit_annotations, ..Self::allow(&self.uid) }
    }

    /// The AdmissionReview with the response, as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        self.to_json_of(V1)
    }

    /// The same in another version of AdmissionReview, for a client that does not read `v1`.
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
        let review = Review { api_version, kind: "AdmissionReview", response: self };
        // Serializing strings into memory cannot fail.
        let _ = serde_json::to_writer(&mut text, &review);
        text
    }
}

/// The response for one pod.
pub fn respond(uid: &str, mutation: &Mutation, on_error: OnError) -> Response {
    respond_in(Mode::Inject, uid, mutation, on_error)
}

/// The response for one pod in a mode.
pub(super) fn respond_in(mode: Mode, uid: &str, mutation: &Mutation, on_error: OnError) -> Response {
    let mut messages: Vec<String> = mutation.warnings.iter().map(ToString::to_string).collect();
    let mut response = Response::allow(uid);
    if let Some(changed) = mutation.outcome.changed().filter(|changed| changed.operation_count() > 0) {
        response.patch_type = Some("JSONPatch");
        response.patch = Some(STANDARD.encode(changed.patch_as_json()));
    }
    let (outcome, reason) = ReviewOutcome::of_injection(&mutation.outcome);
    match &mutation.outcome {
        engine::Outcome::Mutated(mutated) => {
            let verb = match mode {
                Mode::Inject => "added",
                Mode::Audit => {
                    messages.insert(0, format!("{IN_AUDIT_MODE}{WOULD_BE_INJECTED}{}", mutated.stamp));
                    "would add"
                }
            };
            // Warnings come before the additions, because the list may be cut.
            messages.extend(mutated.summary().iter().map(|line| format!("{verb} to {line}")));
        }
        engine::Outcome::Skipped { reason, .. } => messages.push(format!("left alone: {reason}")),
        engine::Outcome::Unchanged { reason, .. } => {
            // The pod requests the fabric and does not get it. If another webhook changes an injected pod, the API
            // server calls again. The message of the first call stays, and nothing is added to it.
            let is_repeated = matches!(reason, engine::Reason::NothingToAdd);
            if !is_repeated && (mutation.policy.is_some() || reason.is_near_miss()) {
                messages.push(format!("left alone: {reason}"));
            }
        }
        engine::Outcome::Refused { reason } if outcome == ReviewOutcome::Failed => {
            response = Response::fault(uid, on_error, reason);
        }
        engine::Outcome::Refused { reason } if mode == Mode::Audit => {
            messages.insert(0, would_be_denied(reason));
        }
        engine::Outcome::Refused { reason } => response = Response::deny(uid, 403, "Forbidden", reason),
    }
    if response.warnings.is_empty() {
        response.warnings = within_limits(messages);
    }
    let concerns_pod = mutation.policy.is_some() || mutation.outcome.changed().is_some();
    if concerns_pod || !response.allowed {
        let outcome = match (&mutation.outcome, reason) {
            (engine::Outcome::Mutated(mutated), _) => format!("mutated by {}", mutated.stamp),
            (_, reason) => format!("{}: {}", outcome.name(), reason.map_or("", engine::Reason::code)),
        };
        response.audit_annotations.insert("outcome", outcome);
        let codes: Vec<&str> = mutation.warnings.iter().map(engine::Warning::code).collect();
        if !codes.is_empty() {
            response.audit_annotations.insert("warnings", codes.join(","));
        }
    }
    response
}

/// The text about a pod that only [`Mode::Audit`] allows, without the name.
pub(super) fn would_be_denied(why: &dyn Display) -> String {
    format!("{IN_AUDIT_MODE}it would be denied: {why}")
}

/// The first warnings with the name of the program, within the limits of the API, and the number of the others.
pub(super) fn within_limits(messages: impl IntoIterator<Item = String>) -> Vec<String> {
    const MORE: usize = "fabric-injector: and 18446744073709551615 more".len();
    let mut left = MAX_WARNINGS - MORE;
    let mut warnings = Vec::new();
    let mut messages = messages.into_iter();
    while let Some(message) = messages.next() {
        let warning = cut(format!("{NAME}{message}"), MAX_WARNING);
        if warning.len() > left {
            warnings.push(format!("{NAME}and {} more", messages.count() + 1));
            break;
        }
        left -= warning.len();
        warnings.push(warning);
    }
    warnings
}

/// Truncates a string to a number of bytes, and replaces control characters with spaces.
pub(super) fn cut(mut text: String, most: usize) -> String {
    // The control characters beyond ASCII begin with this byte.
    if text.bytes().any(|byte| byte.is_ascii_control() || byte == 0xc2) {
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
