//! The examination of an installation: from the objects of a cluster to one line for each check.
//!
//! `src/cluster` reads the objects. An object that may not be read costs the lines that need it.

mod edited;
mod installers;
mod namespaces;
mod objects;
mod pod_security;
mod probe;
mod registration;
mod release;
mod servers;
mod trials;
mod workloads;

use core::fmt::Display;
use core::time::Duration;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use fabric_engine::policy_set::PolicySet;
use fabric_policy::Policy;
use fabric_policy::nodes::Nodes;
use fabric_yaml::first_names;

pub use edited::other_selectors;
pub use namespaces::is_restricted;
pub use objects::of_absent;
pub use probe::{DryRun, Probe};
pub use release::Release;
pub use servers::{Endpoint, Server, endpoints};
pub use workloads::{Change, Refused, Workloads, change, last_time};

/// An object or a list; `null` if there is none.
pub type Read<T = Value> = Result<T, Unread>;

/// Why an object cannot be read, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// The user may not read it.
    #[error("{0}")]
    Forbidden(String),
    /// The API server, or the server behind it, has not answered this once.
    #[error("{0}")]
    Unanswered(String),
    /// What was read is not as it should be, or is not known.
    #[error("{0}")]
    Failed(String),
}

impl<T: Into<String>> From<T> for Unread {
    fn from(message: T) -> Self {
        Self::Failed(message.into())
    }
}

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    /// Information, or a check that cannot be made.
    Warn,
    Fail,
}

/// The line of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    pub check: &'static str,
    pub status: Status,
    pub seen: String,
    /// Empty if there is nothing to do.
    pub remedy: String,
}

/// The objects that were read from a cluster.
#[derive(Debug)]
pub struct Facts {
    /// The version of the API server.
    pub version: Read,
    /// The list of all webhook configurations for mutation.
    pub webhooks: Read,
    /// The `ValidatingWebhookConfiguration` of the advice on workloads.
    pub advice: Read,
    /// The list of the Deployments that may be the servers.
    pub deployments: Read,
    /// The list of the servers' pods.
    pub pods: Read,
    /// The list of the warnings about pods in their namespace.
    pub pod_events: Read,
    /// The list of all namespaces.
    pub namespaces: Read,
    /// The list of the `EndpointSlices` of the Service.
    pub endpoints: Read,
    pub certificate: Read<Certificate>,
    /// The policies of the Deployment, compiled by this version.
    pub policies: Read<PolicySet>,
    /// ValidatingAdmissionPolicy and binding of the guard.
    pub guard: [Read; 2],
    /// Those that restrict the account of the servers.
    pub token: [Read; 2],
    /// The list of all `DaemonSets`.
    pub daemon_sets: Read,
    /// The nodes, which are only read where the servers watch them.
    pub nodes: Read<Arc<Nodes>>,
    /// The answer of each server that has an address.
    pub servers: Vec<Server>,
    /// The workloads whose pods are not injected, or would be refused now.
    pub workloads: Read<Refused>,
    /// The list of recent Events about pods that could not be created.
    pub events: Read,
    pub dry_runs: Read<Vec<DryRun>>,
}

/// The serving certificate.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The Secret that has it.
    pub secret: String,
    /// Whether API servers accept it with the registered CAs.
    pub accepted: Result<(), String>,
    /// The same with the CAs of the webhook for advice.
    pub accepted_for_advice: Result<(), String>,
    /// The time of its expiry (RFC 3339).
    pub expires: String,
    /// The time until then.
    pub left: Duration,
    /// Its total validity.
    pub duration: Duration,
}

/// The checks of which each has one line.
const EXAMINATIONS: [(&str, Check); 19] = [
    ("kubernetes", release::kubernetes),
    ("release", release::servers),
    ("version", release::version),
    ("webhook", registration::webhook),
    ("endpoints", registration::endpoints),
    ("certificate", registration::certificate),
    ("advice", registration::advice),
    ("conditions", registration::conditions),
    ("guard", registration::guard),
    ("token", registration::token),
    ("policies", servers::policies),
    ("servers", servers::state),
    ("nodes", servers::nodes),
    ("installers", installers::releases),
    ("pod-security", namespaces::pod_security),
    ("other-webhooks", namespaces::other_webhooks),
    ("workloads", workloads::refused),
    ("not-injected", workloads::uninjected),
    ("objects", objects::absent),
];

/// The checks that say why the servers get no pod, and none with a fault of the pod.
const CAUSES: [&str; 6] = ["release", "webhook", "endpoints", "certificate", "conditions", "servers"];

/// The names of all checks.
pub fn checks() -> impl Iterator<Item = &'static str> {
    EXAMINATIONS.iter().map(|(check, _)| *check).chain(["pod", "rights"])
}

/// Examines an installation: `wanted` is the name of the release or of its objects.
pub fn inspect(facts: &Facts, wanted: Option<&str>, probe: &Probe) -> Vec<Line> {
    let release = Release::find(&facts.webhooks, &facts.deployments, wanted);
    let seen = Seen { facts, release, probe };
    let line = |check: &'static str, found: Found| {
        let (status, seen, remedy) = found.unwrap_or_else(|unmade| unmade);
        Line { check, status, seen, remedy }
    };
    let checks = EXAMINATIONS.iter().map(|(check, examine)| line(check, examine(&seen)));
    // One for each pod that was tried.
    let mut lines: Vec<Line> =
        checks.chain(probe::examine(&seen).into_iter().map(|found| line("pod", found))).collect();
    lines.push(line("rights", rights(&lines)));
    lines
}

/// A result in which most checks are missing is not one.
fn rights(lines: &[Line]) -> Found {
    let (all, unmade) = (lines.len(), lines.iter().filter(|line| line.seen.starts_with(NOT_CHECKED)).count());
    let made = format!("{} of {all} checks were made", all - unmade);
    let remedy = if lines.iter().any(|line| line.remedy == AGAIN) { AGAIN } else { GRANT };
    if 2 * unmade > all { fail(made, format!("too few for a result: {remedy}")) } else { ok(made) }
}

/// The subject of a check.
struct Seen<'f> {
    facts: &'f Facts,
    release: Release<'f>,
    probe: &'f Probe,
}

/// The outcome of a check, the observation, and the remedy.
type Finding = (Status, String, String);
/// The result of a check, or why it cannot be made.
type Found = Result<Finding, Finding>;

/// A check, by what it examines.
type Check = fn(&Seen<'_>) -> Found;

#[allow(clippy::unnecessary_wraps, reason = "the last value of a check")]
fn found(status: Status, seen: impl Into<String>, remedy: impl Into<String>) -> Found {
    Ok((status, seen.into(), remedy.into()))
}

fn ok(seen: impl Into<String>) -> Found {
    found(Status::Ok, seen, "")
}

fn warn(seen: impl Into<String>, remedy: impl Into<String>) -> Found {
    found(Status::Warn, seen, remedy)
}

fn fail(seen: impl Into<String>, remedy: impl Into<String>) -> Found {
    found(Status::Fail, seen, remedy)
}

/// The text before the reason why a check was not made.
const NOT_CHECKED: &str = "not checked: ";
/// The remedy for a missing right.
const GRANT: &str =
    "run `check` as a user who may read this, or grant this right; it only reads, and creates nothing";

/// The remedy for a request without an answer.
const AGAIN: &str =
    "run `check` again: the other lines are not about this; if it stays, see the log of what does not answer";

/// The remedy for a certificate that is not valid yet.
const CLOCKS: &str = "synchronize the clocks of the nodes: that of the server which made the certificate is ahead, and API \
                      servers accept the certificate only when its validity has begun; or delete the Secret, if the \
                      servers manage it";

/// A check without the object that it needs.
fn unread(error: &Unread) -> Finding {
    let remedy = match error {
        Unread::Forbidden(_) => GRANT,
        Unread::Unanswered(_) => AGAIN,
        Unread::Failed(_) => "",
    };
    (Status::Warn, format!("{NOT_CHECKED}{error}"), remedy.to_owned())
}

/// A check of an object that was not found, which another line reports.
fn absent(what: &str) -> Finding {
    (Status::Warn, format!("not applicable: {what} was not found"), String::new())
}

/// The same of an object in a list, which may not be readable.
fn missing(list: &Read, what: &str, line: &str) -> Finding {
    match list {
        Ok(_) => absent(what),
        Err(_) => unread(&format!("{what} is not known: see the line `{line}`").into()),
    }
}

/// Returns whether an object was read and is wrong, or is not there.
fn is_wrong(error: &Unread) -> bool {
    matches!(error, Unread::Failed(_))
}

impl<'f> Seen<'f> {
    fn webhook(&self) -> Result<&'f Value, Finding> {
        self.release.webhook.ok_or_else(|| missing(&self.facts.webhooks, "the webhook", "webhook"))
    }

    fn deployment(&self) -> Result<&'f Value, Finding> {
        self.release.deployment.ok_or_else(|| missing(&self.facts.deployments, "the Deployment", "release"))
    }

    /// The policies, which the Deployment names.
    fn policies(&self) -> Result<&'f PolicySet, Finding> {
        self.deployment()?;
        let unread = |error: &Unread| {
            if is_wrong(error) { absent("a policy that can be loaded") } else { unread(error) }
        };
        self.facts.policies.as_ref().map_err(unread)
    }

    /// Name and namespace of the Service that the API server calls.
    fn service(&self) -> Result<(&'f str, &'f str), Finding> {
        self.release.service().ok_or_else(|| missing(&self.facts.webhooks, "the Service", "webhook"))
    }

    /// What to see first about a pod that is not injected: the checks that fail for a reason of their own.
    fn causes(&self) -> Option<String> {
        let of_causes = EXAMINATIONS.iter().filter(|(check, _)| CAUSES.contains(check));
        let failed = of_causes.filter(|(_, examine)| matches!(examine(self), Ok((Status::Fail, ..))));
        let failed: Vec<&str> = failed.map(|(check, _)| *check).collect();
        (!failed.is_empty()).then(|| format!("correct what {} reports", names(failed)))
    }

    /// The policies that inject pods in this cluster: where the nodes choose the provider, those of the dry runs.
    fn chosen(&self, policies: &'f PolicySet) -> impl Iterator<Item = &'f Policy> {
        let tried = self.facts.dry_runs.iter().flatten();
        let stamps: Vec<&str> = tried.filter_map(DryRun::stamp).collect();
        let is_chosen = move |policy: &&Policy| stamps.contains(&policy.stamp());
        let chooses = policies.several_providers && policies.policies().iter().any(|one| is_chosen(&one));
        policies.policies().iter().filter(move |policy| !chooses || is_chosen(policy))
    }
}

fn list<'v>(object: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    object[key].as_array().into_iter().flatten()
}

fn text<'v>(object: &'v Value, key: &str) -> &'v str {
    object[key].as_str().unwrap_or_default()
}

fn name(object: &Value) -> &str {
    text(&object["metadata"], "name")
}

/// Names in backticks, the first of many.
fn names(names: impl IntoIterator<Item = impl Display>) -> String {
    first_names(names, 5)
}
