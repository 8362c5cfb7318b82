//! The examination of an installation: from what was read of a cluster to one line for each check.
//!
//! [`crate::shell::cluster`] reads the objects. An object that may not be read costs the lines that need it.

mod namespaces;
mod pod_security;
mod probe;
mod registration;
mod release;
mod servers;

use core::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::core::policy_set::PolicySet;

pub use namespaces::probe_namespace;
pub use probe::{DryRun, Probe};
pub use release::{Release, WEBHOOK};

/// An object or a list; `null` if there is none, a sentence if it cannot be read.
pub type Read<T = Value> = Result<T, String>;

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    /// Something to know, or a check that cannot be made.
    Warn,
    Fail,
}

/// The line of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    pub check: &'static str,
    pub status: Status,
    pub seen: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// What was read of a cluster.
#[derive(Debug)]
pub struct Facts {
    /// The version of the API server.
    pub version: Read,
    /// The list of all MutatingWebhookConfigurations.
    pub webhooks: Read,
    /// The list of the Deployments that may be the servers.
    pub deployments: Read,
    /// The list of all namespaces.
    pub namespaces: Read,
    /// The list of the EndpointSlices of the Service.
    pub endpoints: Read,
    pub certificate: Read<Certificate>,
    /// The policies of the Deployment, compiled by this version.
    pub policies: Read<PolicySet>,
    /// ValidatingAdmissionPolicy and binding of the guard.
    pub guard: [Read; 2],
    /// The same for the token of the servers.
    pub token: [Read; 2],
    /// `/readyz?verbose` of a server.
    pub ready: Read<String>,
    /// `/policies` of a server.
    pub in_use: Read,
    pub dry_run: Read<DryRun>,
}

/// The serving certificate.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The Secret that has it.
    pub secret: String,
    /// Whether API servers accept it with the registered CAs.
    pub accepted: Result<(), String>,
    /// The time of its expiry (RFC 3339).
    pub expires: String,
    /// The time until then.
    pub left: Duration,
    /// The time for which it is valid in all.
    pub duration: Duration,
}

/// Examines an installation: `wanted` is the name of the release or of its objects.
pub fn inspect(facts: &Facts, wanted: Option<&str>, probe: &Probe) -> Vec<Line> {
    let release = Release::find(&facts.webhooks, &facts.deployments, wanted);
    let mut lines = vec![release::kubernetes(&facts.version), release::servers(facts, &release)];
    lines.extend(release::version(&release));
    lines.push(registration::webhook(facts, &release));
    lines.push(registration::endpoints(facts, &release));
    lines.push(registration::certificate(facts, &release));
    lines.push(registration::conditions(facts, &release));
    lines.push(registration::guard(facts, &release));
    lines.extend(registration::token(facts, &release));
    lines.push(servers::policies(facts, &release));
    lines.extend(servers::state(facts));
    // The nodes of the cluster come here.
    lines.push(namespaces::pod_security(facts, &release));
    lines.push(namespaces::other_webhooks(facts, &release));
    lines.push(probe::line(facts, &release, probe));
    lines
}

impl Line {
    fn new(check: &'static str, status: Status, seen: impl Into<String>, remedy: &str) -> Self {
        let remedy = (!remedy.is_empty()).then(|| remedy.to_owned());
        Self { check, status, seen: seen.into(), remedy }
    }

    fn ok(check: &'static str, seen: impl Into<String>) -> Self {
        Self::new(check, Status::Ok, seen, "")
    }

    fn warn(check: &'static str, seen: impl Into<String>, remedy: &str) -> Self {
        Self::new(check, Status::Warn, seen, remedy)
    }

    fn fail(check: &'static str, seen: impl Into<String>, remedy: &str) -> Self {
        Self::new(check, Status::Fail, seen, remedy)
    }

    /// A check without the object that it needs.
    fn unread(check: &'static str, error: &str) -> Self {
        let remedy = if is_forbidden(error) {
            "grant this right to the user who runs the check; a Role or ClusterRole that only reads is enough"
        } else {
            ""
        };
        Self::warn(check, format!("not checked: {error}"), remedy)
    }

    /// A check of an installation that was not found.
    fn without(check: &'static str, what: &str) -> Self {
        Self::warn(check, format!("not checked: {what} was not found"), "")
    }
}

/// Returns whether RBAC is the reason for an error.
fn is_forbidden(error: &str) -> bool {
    error.contains(r#"" cannot "#) && error.contains(r#" resource ""#)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Names in backticks, the first of many.
fn names<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    const SHOWN: usize = 5;
    let all: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    let more = all.len().saturating_sub(SHOWN);
    let shown = all[..all.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}
