//! The metrics, named by the conventions of Prometheus. Every series exists from the start, and no label has a value
//! that the author of a pod chooses, except for the pods without the fabric by their namespace.

mod labels;
mod registering;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::cluster::{WatchState, WatchedKind};
use fabric_engine::Reason;
use fabric_engine::admission::{Mode, Record, ReviewOutcome};
use fabric_engine::policy_set::PolicySet;
use fabric_policy::objects::ObjectKind;
use fabric_policy::{Effect, PolicyCheck};
use fabric_tools::lint::codes;

use super::process::Process;
use labels::{Label, Labels, MissedLabels, REJECTED, ReviewLabels};
use registering::{Counters, Registering};

pub(crate) use labels::{Answered, CERTIFICATE, INTERNAL, POLICIES, Reloaded, Shed};

/// From 10 microseconds, because a review takes tens of them, to the longest timeout of an API server.
const BUCKETS: &[f64] = &[
    1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0,
];

/// The limit on namespaces in labels. The pods of further ones have an empty one.
const MOST_NAMESPACES: usize = 100;
/// The time for which a namespace keeps its label without a pod. Alerts and the dashboard look back at most that far.
const KEPT: Duration = Duration::from_hours(1);

/// All metrics of a server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// The label that distinguishes injected pods from those that would be.
    mode: Mode,
    reviews: Family<ReviewLabels, Counter>,
    without_fabric: Family<MissedLabels, Counter>,
    /// The namespaces in the labels of the pods without the fabric, with the time of the last pod and the series of each.
    namespaces: Mutex<HashMap<String, (Instant, HashSet<MissedLabels>)>>,
    duration: Histogram,
    in_flight: Gauge,
    operations: Counter,
    warnings: Family<Labels<1, Label>, Counter>,
    /// The series of reviews and warnings that are there because of the policies in use.
    of_policies: Mutex<(HashSet<ReviewLabels>, HashSet<Labels<1, Label>>)>,
    /// Rejected requests.
    pub(crate) rejected: Counters,
    /// Reviews that were answered without evaluation.
    pub(crate) shed: Counters,
    /// TLS handshakes.
    pub(crate) handshakes: Counter,
    pub(crate) handshake_failures: Counters,
    connections: Gauge,
    /// The connections that the server closes, by the reason.
    pub(crate) closed: Counters,
    /// The expiry of the serving certificate, in seconds since the epoch.
    pub(crate) certificate_expiry: Gauge<f64, AtomicU64>,
    reloads: Family<Labels<2>, Counter>,
    last_reload: Family<Labels<1>, Gauge>,
    reload_started: Family<Labels<1>, Gauge<f64, AtomicU64>>,
    policies: Family<Labels<3, String>, Gauge>,
    /// The changes to objects of the cluster.
    pub(crate) registration_changes: Counters,
    /// Failed reconciliations.
    pub(crate) registration_failures: Counter,
    pub(crate) conditions_differ: Gauge,
    /// The events on owners of pods.
    pub(crate) events: Counters,
    nodes: Gauge,
    node_watch: Family<Labels<1>, Gauge>,
    nodes_age: Family<Labels<1>, Gauge<f64, AtomicU64>>,
    over_bound: Family<Labels<1>, Gauge>,
    absent_objects: Family<Labels<1>, Gauge>,
}

impl Metrics {
    /// The metrics of a server in a mode.
    pub(crate) fn new(mode: Mode) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Process));
        let mut ours = Registering(registry.sub_registry_with_prefix("fabric_injector"));
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        ours.0.register("build", "Version of the program", build);
        let metrics = Self {
            mode,
            reviews: ours.added("reviews", "Reviews by policy, outcome, reason and mode"),
            without_fabric: ours.added(
                "pods_without_fabric",
                "Pods that requested the fabric and do not get it, by namespace",
            ),
            namespaces: Mutex::default(),
            duration: ours.in_seconds(
                "review_duration",
                "Time from the head of a request to its response",
                Histogram::new(BUCKETS.iter().copied()),
            ),
            in_flight: ours.added("requests_in_flight", "Requests in flight"),
            operations: ours.added("patch_operations", "Patch operations"),
            warnings: ours.added("warnings", "Warnings by code"),
            of_policies: Mutex::default(),
            rejected: ours.counters("rejected_requests", "Requests that are not reviews", "reason", REJECTED),
            shed: ours.counters(
                "shed_requests",
                "Requests that were not evaluated because of overload",
                "reason",
                &Shed::ALL.map(Shed::name),
            ),
            handshakes: ours.added("tls_handshakes", "TLS handshakes"),
            handshake_failures: ours.counters(
                "tls_handshake_failures",
                "Failed TLS handshakes",
                "reason",
                &["timeout", "client_certificate", "protocol", "closed"],
            ),
            connections: ours.added("connections", "Open connections to the webhook"),
            closed: ours.counters(
                "connections_closed",
                "Connections that the server closed",
                "reason",
                &["age", "evicted"],
            ),
            certificate_expiry: ours.in_seconds(
                "certificate_expiry_timestamp",
                "Expiry of the serving certificate, in seconds since the epoch",
                Gauge::default(),
            ),
            reloads: ours.added("reloads", "Reloads by what and result"),
            last_reload: ours.added("last_reload_successful", "Whether the version on disk is in use"),
            reload_started: ours.in_seconds(
                "reload_started_timestamp",
                "Start of the current reload, in seconds since the epoch; 0 if none runs",
                Family::default(),
            ),
            policies: ours.added("policy_info", "The policies in use"),
            registration_changes: ours.counters(
                "registration_changes",
                "Changes to the objects that the server manages",
                "object",
                &["webhook", "advice", "secret"],
            ),
            registration_failures: ours.added("registration_failures", "Failed reconciliations"),
            conditions_differ: ours.added(
                "registered_conditions_differ",
                "Whether a registered condition is not that of the policies in use",
            ),
            events: ours.counters(
                "events",
                "Events on the owners of pods",
                "result",
                &["created", "failed", "dropped"],
            ),
            nodes: ours.added("nodes", "Nodes that reviews use"),
            node_watch: ours.added("node_watch", "Whether the watch of the nodes is in this state"),
            nodes_age: ours.in_seconds(
                "nodes_age",
                "Time for which the nodes in use have not been watched; 0 while they are",
                Family::default(),
            ),
            over_bound: ours
                .added("namespaces_over_bound", "Namespaces with more objects of a kind than are kept"),
            absent_objects: ours.added(
                "absent_objects",
                "Objects that pods have named for two minutes and that the cluster does not have",
            ),
            registry,
        };
        metrics.fill();
        metrics
    }

    /// Creates the other series whose labels the program knows.
    fn fill(&self) {
        for labels in self.series_of("") {
            drop(self.reviews.get_or_create(&labels));
        }
        // One, with which the family begins: namespaces are not known before their pods.
        drop(self.missed("", ReviewOutcome::Failed, Label::Borrowed("panic"), Instant::now()));
        for code in codes() {
            drop(self.warnings.get_or_create(&[("code", Label::Borrowed(code))]));
        }
        for what in [CERTIFICATE, POLICIES] {
            for result in ["success", "failure"] {
                drop(self.reloads.get_or_create(&[("what", what), ("result", result)]));
            }
            self.last_reload.get_or_create(&[("what", what)]).set(1);
            self.reload_started.get_or_create(&[("what", what)]).set(0.0);
        }
        self.nodes_in_use(WatchState::Off, 0);
        for kind in WatchedKind::all() {
            self.nodes_age(&kind.api().resource, Duration::ZERO);
        }
        for kind in ObjectKind::all() {
            self.absent_objects(&kind.api().resource, 0);
        }
        for kind in WatchedKind::all().filter(|kind| kind.api().namespaced) {
            self.over_bound(&kind.api().resource, 0);
        }
    }

    /// The labels of the reviews by a policy, or by none if its name is empty, with the reasons of the program.
    fn series_of<'a>(&'a self, policy: &'a str) -> impl Iterator<Item = ReviewLabels> + 'a {
        let of_program = [
            (Reason::SKIPPED, ReviewOutcome::Skipped),
            (Reason::LEFT_ALONE, ReviewOutcome::Unchanged),
            (Reason::REFUSED, ReviewOutcome::Refused),
            (Reason::FAULTS, ReviewOutcome::Failed),
        ];
        let of_program = of_program
            .into_iter()
            .flat_map(|(reasons, outcome)| reasons.iter().map(move |reason| (*reason, outcome)));
        let others: &[_] = if policy.is_empty() { Record::REASONS } else { &[("", ReviewOutcome::Mutated)] };
        of_program
            .chain(others.iter().copied())
            .map(|(reason, outcome)| self.review(policy, outcome, Label::Borrowed(reason)))
    }

    fn review(&self, policy: &str, outcome: ReviewOutcome, reason: Label) -> ReviewLabels {
        let mode = self.mode.name();
        ReviewLabels { policy: policy.to_owned().into(), outcome: outcome.name(), reason, mode }
    }

    /// Records the policies in use. The series of those that are gone end.
    pub(crate) fn policies_in_use(&self, set: &PolicySet) {
        self.policies.clear();
        let (mut reviews, mut warnings) = (HashSet::new(), HashSet::new());
        for policy in set.policies() {
            let definition = policy.definition();
            reviews.extend(self.series_of(policy.name()));
            for PolicyCheck { code, effect, .. } in &definition.checks {
                let code: Label = code.clone().into();
                let outcome = match effect {
                    Effect::Warn | Effect::WarnOfTcp => None,
                    Effect::Refuse => Some(ReviewOutcome::Refused),
                    Effect::Skip => Some(ReviewOutcome::Skipped),
                };
                reviews.extend(outcome.map(|outcome| self.review(policy.name(), outcome, code.clone())));
                warnings.insert([("code", code)]);
            }
            let labels =
                [("policy", policy.name()), ("provider", &definition.provider), ("digest", policy.digest())];
            self.policies.get_or_create(&labels.map(|(name, value)| (name, value.to_owned()))).set(1);
        }
        let mut before = self.of_policies.lock();
        for gone in before.0.difference(&reviews) {
            self.reviews.remove(gone);
        }
        // A check may have the code of a warning of the program.
        let of_program = |[(_, of_check)]: &Labels<1, Label>| codes().any(|code| code == of_check);
        for gone in before.1.difference(&warnings).filter(|labels| !of_program(labels)) {
            self.warnings.remove(gone);
        }
        for labels in &reviews {
            drop(self.reviews.get_or_create(labels));
        }
        for labels in &warnings {
            drop(self.warnings.get_or_create(labels));
        }
        *before = (reviews, warnings);
    }

    /// Counts an answered review.
    pub(crate) fn reviewed(&self, record: &Record, took: Duration) {
        self.duration.observe(took.as_secs_f64());
        // No pod comes of a dry run, such as those of `check`.
        let is_workload = matches!(record.outcome, ReviewOutcome::Advised | ReviewOutcome::Unadvised);
        if record.dry_run && !is_workload {
            return;
        }
        if self.mode == Mode::Inject {
            self.operations.inc_by(record.operations as u64);
        }
        let policy = record.policy.as_deref().unwrap_or_default();
        // A review that began before a reload would give a policy that is gone its series again.
        let of_policies = self.of_policies.lock();
        if policy.is_empty() || of_policies.0.iter().any(|of| of.policy == policy) {
            let labels = self.review(policy, record.outcome, record.reason.clone().unwrap_or_default());
            self.reviews.get_or_create(&labels).inc();
            for code in &record.warnings {
                self.warnings.get_or_create(&[("code", code.clone().into())]).inc();
            }
        }
        drop(of_policies);
        if let Some(reason) = &record.without_fabric {
            let namespace = record.namespace.as_deref().unwrap_or_default();
            self.missed(namespace, record.outcome, reason.clone(), Instant::now()).inc();
        }
    }

    /// The pods of a namespace that do not get the fabric for a reason. The label is its name, or nothing if there are too
    /// many, or if it is no name: any client can send a review. A namespace keeps its label as long as it has pods; one
    /// without, for [`KEPT`], gives it to a new one, so that nobody can take all labels for good.
    fn missed(&self, namespace: &str, outcome: ReviewOutcome, reason: Label, now: Instant) -> Counter {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let mut known = self.namespaces.lock();
        if known.len() >= MOST_NAMESPACES && !known.contains_key(namespace) {
            let is_over = |_: &String, (last, _): &mut (Instant, _)| now.duration_since(*last) >= KEPT;
            for labels in known.extract_if(is_over).flat_map(|(_, (_, series))| series) {
                self.without_fabric.remove(&labels);
            }
        }
        let is_new = known.len() < MOST_NAMESPACES && namespace.len() < 64 && namespace.bytes().all(is_name);
        let pod_namespace = if is_new || known.contains_key(namespace) { namespace } else { "" };
        let (outcome, mode) = (outcome.name(), self.mode.name());
        let labels = MissedLabels { pod_namespace: pod_namespace.to_owned(), outcome, reason, mode };
        let (last, series) = known.entry(pod_namespace.to_owned()).or_insert((now, HashSet::new()));
        *last = now;
        series.insert(labels.clone());
        self.without_fabric.get_or_create_owned(&labels)
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

    /// Records the start of the current reload, in seconds since the epoch, or that none is running.
    pub(crate) fn loading(&self, what: Reloaded, since: Option<f64>) {
        self.reload_started.get_or_create(&[("what", what)]).set(since.unwrap_or_default());
    }

    /// Counts a reload.
    pub(crate) fn reloaded(&self, what: Reloaded, success: bool) {
        let result = if success { "success" } else { "failure" };
        self.reloads.get_or_create(&[("what", what), ("result", result)]).inc();
        self.last_reload.get_or_create(&[("what", what)]).set(i64::from(success));
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

    /// Records how many objects of a kind pods name that have been absent for long.
    pub(crate) fn absent_objects(&self, resource: &'static str, objects: usize) {
        let objects = i64::try_from(objects).unwrap_or(i64::MAX);
        self.absent_objects.get_or_create(&[("resource", resource)]).set(objects);
    }

    /// Records how many namespaces have more objects of a kind than are kept.
    pub(crate) fn over_bound(&self, resource: &'static str, namespaces: usize) {
        let namespaces = i64::try_from(namespaces).unwrap_or(i64::MAX);
        self.over_bound.get_or_create(&[("resource", resource)]).set(namespaces);
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
