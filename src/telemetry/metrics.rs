//! The metrics, named by the conventions of Prometheus. Every series exists from the start, and no label has a value
//! that the author of a pod chooses, except for the pods without the fabric by their namespace.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::cluster::{WatchState, WatchedKind};
use fabric_engine::Reason;
use fabric_engine::admission::{Mode, Record, ReviewOutcome};
use fabric_engine::policy_set::PolicySet;
use fabric_policy::{Effect, PolicyCheck};
use fabric_tools::lint::Finding;

use super::process::Process;

/// From 10 microseconds, because a review takes tens of them, to the longest timeout of an API server.
const BUCKETS: &[f64] = &[
    1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0,
];

/// A label value that the program or a policy defines.
type Label = Cow<'static, str>;

/// Labels whose values the program defines, by name.
type Labels<const N: usize> = [(&'static str, &'static str); N];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReviewLabels {
    policy: Label,
    outcome: &'static str,
    reason: Label,
    mode: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MissedLabels {
    pod_namespace: String,
    outcome: &'static str,
    reason: Label,
    mode: &'static str,
}

/// The limit on namespaces in labels. The pods of further ones have an empty one.
const MOST_NAMESPACES: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabel {
    code: Label,
}

/// The objects of the cluster that a server manages.
const REGISTERED: &[&str] = &["webhook", "advice", "secret"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabels {
    policy: String,
    provider: String,
    digest: String,
}

/// The reason why a review was answered without evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shed {
    /// Too many requests in flight.
    InFlight,
    /// Too many requests of one namespace that wait for their evaluation.
    Namespace,
    /// Too much memory in request or response bodies.
    Memory,
    /// The timeout of the API server.
    Deadline,
}

impl Shed {
    const ALL: [Self; 4] = [Self::InFlight, Self::Namespace, Self::Memory, Self::Deadline];

    fn name(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Namespace => "namespace",
            Self::Memory => "memory",
            Self::Deadline => "deadline",
        }
    }
}

/// The files that are reloaded when they change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reloaded {
    /// The certificate with its key, and the client CA.
    Certificate,
    /// Policies and values.
    Policies,
}

impl Reloaded {
    const ALL: [Self; 2] = [Self::Certificate, Self::Policies];

    /// The name in metrics, logs and `/readyz`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Policies => "policies",
        }
    }
}

/// The results of events: `dropped` if too many waited.
const EVENTS: &[&str] = &["created", "failed", "dropped"];
/// The reasons of failed TLS handshakes.
const HANDSHAKE_FAILURES: &[&str] = &["timeout", "client_certificate", "protocol", "closed"];
/// The reasons for which the server closes a connection.
const CONNECTIONS_CLOSED: &[&str] = &["age", "evicted"];

/// The code of a rejected request.
pub(crate) type Answered = &'static str;

/// The code of a request that is rejected because of a fault of the program.
pub(crate) const INTERNAL: Answered = "internal";

/// The codes of rejected requests.
const REJECTED: &[Answered] = &[
    "not_json",
    "not_a_review",
    "no_request",
    "content_type",
    "method",
    "path",
    "too_large",
    "body_timeout",
    "body_incomplete",
    INTERNAL,
];

/// All metrics of a server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// The label that distinguishes injected pods from those that would be.
    mode: Mode,
    reviews: Family<ReviewLabels, Counter>,
    without_fabric: Family<MissedLabels, Counter>,
    /// The namespaces in the labels of the pods without the fabric.
    namespaces: Mutex<BTreeSet<String>>,
    duration: Histogram,
    in_flight: Gauge,
    operations: Counter,
    warnings: Family<CodeLabel, Counter>,
    rejected: Family<Labels<1>, Counter>,
    shed: Family<Labels<1>, Counter>,
    handshakes: Counter,
    handshake_failures: Family<Labels<1>, Counter>,
    connections: Gauge,
    closed: Family<Labels<1>, Counter>,
    certificate_expiry: Gauge<f64, AtomicU64>,
    reloads: Family<Labels<2>, Counter>,
    last_reload: Family<Labels<1>, Gauge>,
    reload_started: Family<Labels<1>, Gauge<f64, AtomicU64>>,
    policies: Family<PolicyLabels, Gauge>,
    registration_changes: Family<Labels<1>, Counter>,
    registration_failures: Counter,
    events: Family<Labels<1>, Counter>,
    nodes: Gauge,
    node_watch: Family<Labels<1>, Gauge>,
    nodes_age: Family<Labels<1>, Gauge<f64, AtomicU64>>,
}

impl Metrics {
    /// The metrics of a server in a mode.
    pub(crate) fn new(mode: Mode) -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            mode,
            reviews: Family::default(),
            without_fabric: Family::default(),
            namespaces: Mutex::default(),
            duration: Histogram::new(BUCKETS.iter().copied()),
            in_flight: Gauge::default(),
            operations: Counter::default(),
            warnings: Family::default(),
            rejected: Family::default(),
            shed: Family::default(),
            handshakes: Counter::default(),
            handshake_failures: Family::default(),
            connections: Gauge::default(),
            closed: Family::default(),
            certificate_expiry: Gauge::default(),
            reloads: Family::default(),
            last_reload: Family::default(),
            reload_started: Family::default(),
            policies: Family::default(),
            registration_changes: Family::default(),
            registration_failures: Counter::default(),
            events: Family::default(),
            nodes: Gauge::default(),
            node_watch: Family::default(),
            nodes_age: Family::default(),
        };
        metrics.register();
        metrics.fill();
        metrics
    }

    fn register(&mut self) {
        self.registry.register_collector(Box::new(Process));
        let ours = self.registry.sub_registry_with_prefix("fabric_injector");
        ours.register("build", "Version of the program", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        ours.register("reviews", "Reviews by policy, outcome, reason and mode", self.reviews.clone());
        ours.register(
            "pods_without_fabric",
            "Pods that requested the fabric and do not get it, by namespace",
            self.without_fabric.clone(),
        );
        ours.register_with_unit(
            "review_duration",
            "Time from the head of a request to its response",
            Unit::Seconds,
            self.duration.clone(),
        );
        ours.register("requests_in_flight", "Requests in flight", self.in_flight.clone());
        ours.register("patch_operations", "Patch operations", self.operations.clone());
        ours.register("warnings", "Warnings by code", self.warnings.clone());
        ours.register("rejected_requests", "Requests that are not reviews", self.rejected.clone());
        ours.register(
            "shed_requests",
            "Requests that were not evaluated because of overload",
            self.shed.clone(),
        );
        ours.register("tls_handshakes", "TLS handshakes", self.handshakes.clone());
        ours.register("tls_handshake_failures", "Failed TLS handshakes", self.handshake_failures.clone());
        ours.register("connections", "Open connections to the webhook", self.connections.clone());
        ours.register("connections_closed", "Connections that the server closed", self.closed.clone());
        ours.register_with_unit(
            "certificate_expiry_timestamp",
            "Expiry of the serving certificate, in seconds since the epoch",
            Unit::Seconds,
            self.certificate_expiry.clone(),
        );
        ours.register("reloads", "Reloads by what and result", self.reloads.clone());
        ours.register(
            "last_reload_successful",
            "Whether the version on disk is in use",
            self.last_reload.clone(),
        );
        ours.register_with_unit(
            "reload_started_timestamp",
            "Start of the current reload, in seconds since the epoch; 0 if none runs",
            Unit::Seconds,
            self.reload_started.clone(),
        );
        ours.register("policy_info", "The policies in use", self.policies.clone());
        ours.register(
            "registration_changes",
            "Changes to the objects that the server manages",
            self.registration_changes.clone(),
        );
        ours.register("registration_failures", "Failed reconciliations", self.registration_failures.clone());
        ours.register("events", "Events on the owners of pods", self.events.clone());
        ours.register("nodes", "Nodes that reviews use", self.nodes.clone());
        ours.register(
            "node_watch",
            "Whether the watch of the nodes is in this state",
            self.node_watch.clone(),
        );
        ours.register_with_unit(
            "nodes_age",
            "Time for which the nodes in use have not been watched; 0 while they are",
            Unit::Seconds,
            self.nodes_age.clone(),
        );
    }

    /// Creates every series: a rate then includes the first event.
    fn fill(&self) {
        self.fill_policy("");
        // One, with which the family begins: namespaces are not known before their pods.
        self.missed("", ReviewOutcome::Failed, Label::Borrowed("panic"));
        for code in Finding::codes() {
            drop(self.warnings.get_or_create(&CodeLabel { code: Label::Borrowed(code) }));
        }
        for reason in REJECTED {
            drop(self.rejected.get_or_create(&[("reason", reason)]));
        }
        for shed in Shed::ALL {
            drop(self.shed.get_or_create(&[("reason", shed.name())]));
        }
        for reason in HANDSHAKE_FAILURES {
            drop(self.handshake_failures.get_or_create(&[("reason", reason)]));
        }
        for reason in CONNECTIONS_CLOSED {
            drop(self.closed.get_or_create(&[("reason", reason)]));
        }
        for what in Reloaded::ALL.map(Reloaded::name) {
            for result in ["success", "failure"] {
                drop(self.reloads.get_or_create(&[("what", what), ("result", result)]));
            }
            self.last_reload.get_or_create(&[("what", what)]).set(1);
            self.reload_started.get_or_create(&[("what", what)]).set(0.0);
        }
        for result in EVENTS {
            drop(self.events.get_or_create(&[("result", result)]));
        }
        for object in REGISTERED {
            drop(self.registration_changes.get_or_create(&[("object", object)]));
        }
        self.nodes_in_use(WatchState::Off, 0);
        for kind in WatchedKind::ALL {
            self.nodes_age(kind.resource(), Duration::ZERO);
        }
    }

    fn fill_policy(&self, policy: &str) {
        let review = |outcome, reason: &'static str| self.fill_review(policy, outcome, reason.into());
        for reason in Reason::SKIPPED {
            review(ReviewOutcome::Skipped, reason);
        }
        for reason in Reason::LEFT_ALONE {
            review(ReviewOutcome::Unchanged, reason);
        }
        for reason in Reason::REFUSED {
            review(ReviewOutcome::Refused, reason);
        }
        for reason in Reason::FAULTS {
            review(ReviewOutcome::Failed, reason);
        }
        if policy.is_empty() {
            for (reason, outcome) in Record::REASONS {
                review(*outcome, reason);
            }
        } else {
            review(ReviewOutcome::Mutated, "");
        }
    }

    fn fill_review(&self, policy: &str, outcome: ReviewOutcome, reason: Label) {
        let (policy, mode) = (policy.to_owned().into(), self.mode.name());
        let labels = ReviewLabels { policy, outcome: outcome.name(), reason, mode };
        drop(self.reviews.get_or_create(&labels));
    }

    /// Records the policies in use.
    pub(crate) fn policies_in_use(&self, set: &PolicySet) {
        self.policies.clear();
        for policy in set.policies() {
            let definition = policy.definition();
            self.fill_policy(policy.name());
            for PolicyCheck { code, effect, .. } in &definition.checks {
                let code: Label = code.clone().into();
                match effect {
                    Effect::Warn => {}
                    Effect::Refuse => self.fill_review(policy.name(), ReviewOutcome::Refused, code.clone()),
                    Effect::Skip => self.fill_review(policy.name(), ReviewOutcome::Skipped, code.clone()),
                }
                drop(self.warnings.get_or_create(&CodeLabel { code }));
            }
            let labels = PolicyLabels {
                policy: policy.name().to_owned(),
                provider: definition.provider.clone(),
                digest: policy.digest().to_owned(),
            };
            self.policies.get_or_create(&labels).set(1);
        }
    }

    /// Counts an answered review.
    pub(crate) fn reviewed(&self, record: &Record, took: Duration) {
        let labels = ReviewLabels {
            policy: record.policy.clone().unwrap_or_default().into(),
            outcome: record.outcome.name(),
            reason: record.reason.clone().unwrap_or_default(),
            mode: self.mode.name(),
        };
        self.reviews.get_or_create(&labels).inc();
        self.duration.observe(took.as_secs_f64());
        if self.mode == Mode::Inject {
            self.operations.inc_by(record.operations as u64);
        }
        for code in &record.warnings {
            self.warnings.get_or_create(&CodeLabel { code: code.clone().into() }).inc();
        }
        if let Some(reason) = &record.without_fabric {
            let namespace = record.namespace.as_deref().unwrap_or_default();
            self.missed(namespace, record.outcome, reason.clone()).inc();
        }
    }

    /// The pods of a namespace that do not get the fabric for a reason.
    fn missed(&self, namespace: &str, outcome: ReviewOutcome, reason: Label) -> Counter {
        let (outcome, mode) = (outcome.name(), self.mode.name());
        let labels = MissedLabels { pod_namespace: self.label_of(namespace), outcome, reason, mode };
        self.without_fabric.get_or_create_owned(&labels)
    }

    /// The label for a namespace: its name, or nothing if there are too many, or if it is no name. Any client can send
    /// a review.
    fn label_of(&self, namespace: &str) -> String {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let mut known = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MOST_NAMESPACES && namespace.len() < 64 && namespace.bytes().all(is_name) {
            known.insert(namespace.to_owned());
        }
        known.get(namespace).cloned().unwrap_or_default()
    }

    /// Counts a rejected request.
    pub(crate) fn rejected(&self, reason: Answered) {
        self.rejected.get_or_create(&[("reason", reason)]).inc();
    }

    /// Counts a review that was answered without evaluation.
    pub(crate) fn shed(&self, why: Shed) {
        self.shed.get_or_create(&[("reason", why.name())]).inc();
    }

    /// Counts a request as in flight until the guard is dropped.
    pub(crate) fn in_flight(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// Counts a connection as open until the guard is dropped.
    pub(crate) fn connection(&self) -> InFlight {
        self.connections.inc();
        InFlight(self.connections.clone())
    }

    /// Counts a TLS handshake.
    pub(crate) fn handshake(&self) {
        self.handshakes.inc();
    }

    /// Counts a failed TLS handshake.
    pub(crate) fn handshake_failed(&self, reason: &'static str) {
        self.handshake_failures.get_or_create(&[("reason", reason)]).inc();
    }

    /// Counts a connection that the server closes.
    pub(crate) fn closed(&self, reason: &'static str) {
        self.closed.get_or_create(&[("reason", reason)]).inc();
    }

    /// Records the expiry of the serving certificate, in seconds since the epoch.
    pub(crate) fn certificate_expires(&self, at: f64) {
        self.certificate_expiry.set(at);
    }

    /// Records the start of the current reload, in seconds since the epoch, or that none is running.
    pub(crate) fn loading(&self, what: Reloaded, since: Option<f64>) {
        self.reload_started.get_or_create(&[("what", what.name())]).set(since.unwrap_or_default());
    }

    /// Counts a reload.
    pub(crate) fn reloaded(&self, what: Reloaded, success: bool) {
        let (what, result) = (what.name(), if success { "success" } else { "failure" });
        self.reloads.get_or_create(&[("what", what), ("result", result)]).inc();
        self.last_reload.get_or_create(&[("what", what)]).set(i64::from(success));
    }

    /// Counts a change to an object.
    pub(crate) fn registration_changed(&self, object: &'static str) {
        self.registration_changes.get_or_create(&[("object", object)]).inc();
    }

    /// Counts an event on the owner of a pod.
    pub(crate) fn event(&self, result: &'static str) {
        self.events.get_or_create(&[("result", result)]).inc();
    }

    /// Counts a failed reconciliation.
    pub(crate) fn registration_failed(&self) {
        self.registration_failures.inc();
    }

    /// Records the state of the watch of the nodes, and how many are in use.
    pub(crate) fn nodes_in_use(&self, now: WatchState, nodes: usize) {
        self.nodes.set(i64::try_from(nodes).unwrap_or(i64::MAX));
        for state in WatchState::ALL {
            self.node_watch.get_or_create(&[("state", state.name())]).set(i64::from(state == now));
        }
    }

    /// Records the time for which the objects of a kind have not been watched.
    pub(crate) fn nodes_age(&self, resource: &'static str, age: Duration) {
        self.nodes_age.get_or_create(&[("resource", resource)]).set(age.as_secs_f64());
    }

    /// The metrics in the text format of OpenMetrics.
    pub fn encode(&self) -> String {
        let mut text = String::with_capacity(16 * 1024);
        // Writing to a string does not fail.
        let _ = text::encode(&mut text, &self.registry);
        text
    }

    /// The metrics in the text format of Prometheus, 0.0.4, in which a family has the name of its samples.
    pub fn encode_as_text(&self) -> String {
        let (mut text, mut help) = (String::new(), "");
        for line in self.encode().lines() {
            if let Some((_, rest)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
                help = rest;
            } else if let Some((name, kind)) =
                line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
            {
                let (ending, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    _ => ("", kind),
                };
                text.push_str(&format!("# HELP {name}{ending} {help}\n# TYPE {name}{ending} {kind}\n"));
            } else if !line.starts_with("# ") {
                text.push_str(&format!("{line}\n"));
            }
        }
        text
    }
}

/// A guard that decrements a gauge when it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}
