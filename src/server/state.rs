//! The state that all requests share.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use tokio::sync::Semaphore;

use crate::cluster::{Events, Watched};
use crate::policy_sources::PolicySources;
use crate::telemetry::Metrics;
use fabric_engine::admission::{Evaluate, Mode, OnError};
use fabric_engine::policy_set;
use fabric_engine::policy_set::PolicySet;

use super::absent::AbsentObjects;
use super::connections::Connections;
use super::last_change::Change;
use super::limits::Limits;
use super::memory::Memory;
use super::queue::EvaluationQueue;
use super::readiness::{EVENTS, Readiness};

/// The state that all requests share. A review in flight finishes with the policies with which it began.
pub struct AppState {
    pub(super) policies: ArcSwap<PolicySet>,
    pub(super) nodes: ArcSwap<Watched>,
    pub(super) mode: Mode,
    pub(super) on_error: OnError,
    pub(super) metrics: Arc<Metrics>,
    pub(super) readiness: Readiness,
    pub(super) change: Change,
    /// The destination of advice for the owners of pods, if events are on.
    pub(super) events: OnceLock<Arc<Events>>,
    /// What pods name and the cluster does not have yet.
    pub(super) absent: AbsentObjects,
    pub(super) evaluate: Box<Evaluate>,
    /// The connections of the HTTPS port.
    pub(super) connections: Arc<Connections>,
    pub(super) memory: Memory,
    pub(super) queue: EvaluationQueue,
    /// The files of the policies in use.
    pub(super) sources: OnceLock<PolicySources>,
    /// One permit, for the ConfigMap with policies that is reviewed.
    pub(super) policy_reviews: Arc<Semaphore>,
}

impl AppState {
    /// The state of a server with these policies.
    pub fn new(policies: PolicySet, on_error: OnError, limits: Limits) -> Self {
        let metrics = Metrics::new(Mode::Inject);
        metrics.policies_in_use(&policies);
        let connections = Arc::<Connections>::default();
        Self {
            policies: ArcSwap::from_pointee(policies),
            nodes: ArcSwap::default(),
            mode: Mode::Inject,
            on_error,
            metrics: Arc::new(metrics),
            readiness: Readiness::default(),
            change: Change::default(),
            events: OnceLock::new(),
            absent: AbsentObjects::default(),
            evaluate: Box::new(policy_set::mutate),
            memory: Memory::new(limits.body_bytes, Arc::clone(&connections)),
            connections,
            queue: EvaluationQueue::new(limits),
            sources: OnceLock::new(),
            policy_reviews: Arc::new(Semaphore::new(1)),
        }
    }

    /// Chooses the mode. [`Mode::Audit`] allows every pod, also one on which the policy or the program fails.
    #[must_use]
    pub fn in_mode(self, mode: Mode) -> Self {
        let on_error = if mode == Mode::Audit { OnError::Allow } else { self.on_error };
        let metrics = Metrics::new(mode);
        metrics.policies_in_use(&self.policies.load());
        Self { mode, on_error, metrics: Arc::new(metrics), ..self }
    }

    /// Replaces the engine, for tests of its failures.
    #[must_use]
    pub fn with_evaluate(self, evaluate: Box<Evaluate>) -> Self {
        Self { evaluate, ..self }
    }

    /// Records whether an Event is new, or why it cannot be created. The first of failures is logged.
    pub(super) fn event(&self, result: Result<bool, String>) {
        match result {
            Ok(true) => self.metrics.events.count("created"),
            Ok(false) => {}
            Err(_) => self.metrics.events.count("failed"),
        }
        let error = result.err();
        if self.readiness.failure(EVENTS, error.clone()).is_none()
            && let Some(error) = error
        {
            tracing::warn!(error, "an event cannot be created");
        }
    }

    /// The metrics of this server.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}
