//! What requests share.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::core::admission::{Evaluate, OnError};
use crate::core::policy_set;
use crate::core::policy_set::PolicySet;
use crate::shell::telemetry::Metrics;

use super::status::Status;

/// How much is taken on at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests whose body has arrived, and that are being answered.
    pub in_flight: usize,
    /// Bytes of the bodies of all requests together.
    pub body_bytes: usize,
}

impl Limits {
    /// Requests in flight by default. An API server has 200 changing requests in flight by default
    /// (`--max-mutating-requests-inflight`), and a large cluster a few API servers.
    pub const IN_FLIGHT: usize = 512;
    /// Room for four of the largest requests, or for thousands of usual ones.
    pub const BODY_BYTES: usize = 32 << 20;
}

impl Default for Limits {
    fn default() -> Self {
        Self { in_flight: Self::IN_FLIGHT, body_bytes: Self::BODY_BYTES }
    }
}

/// Bytes of all answers that nobody has read yet.
const ANSWER_BYTES: usize = 32 << 20;

/// Everything that requests share. A review in flight finishes with the policies that it began with.
pub struct State {
    pub(super) policies: ArcSwap<PolicySet>,
    pub(super) on_error: OnError,
    pub(super) metrics: Arc<Metrics>,
    pub(super) status: Status,
    evaluate: Box<Evaluate>,
    in_flight: Arc<Semaphore>,
    body_bytes: Arc<Semaphore>,
    spare: Arc<Semaphore>,
    answer_bytes: Arc<Semaphore>,
    /// Large pods are served one at a time, and off the threads that drive connections: built up in memory, a pod
    /// takes a good ten times the bytes that it came in.
    pub(super) large: Arc<Semaphore>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("on_error", &self.on_error).finish_non_exhaustive()
    }
}

impl State {
    /// The state of a server that serves pods by these policies.
    pub fn new(policies: PolicySet, on_error: OnError, limits: Limits) -> Self {
        let metrics = Metrics::default();
        metrics.policies_in_use(&policies);
        Self {
            policies: ArcSwap::from_pointee(policies),
            on_error,
            metrics: Arc::new(metrics),
            status: Status::default(),
            evaluate: Box::new(policy_set::mutate),
            in_flight: Arc::new(Semaphore::new(limits.in_flight)),
            body_bytes: Arc::new(Semaphore::new(limits.body_bytes)),
            spare: Arc::new(Semaphore::new(1)),
            answer_bytes: Arc::new(Semaphore::new(ANSWER_BYTES)),
            large: Arc::new(Semaphore::new(1)),
        }
    }

    /// Serves pods by something else than the engine: how a fault of it is answered can be seen so.
    #[must_use]
    pub fn with_evaluate(self, evaluate: Box<Evaluate>) -> Self {
        Self { evaluate, ..self }
    }

    /// The metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What `/readyz` tells.
    pub fn status(&self) -> &Status {
        &self.status
    }

    pub(super) fn evaluate(&self) -> &Evaluate {
        &*self.evaluate
    }

    /// A place for a request whose body has arrived, if there is one.
    pub(super) fn enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.in_flight).try_acquire_owned().ok()
    }

    /// Waits for the room that is kept for one body more than there is room for.
    pub(super) async fn spare_room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.spare).acquire_owned().await.ok()
    }

    /// Room for so many bytes of an answer, until it was sent, if there is some.
    pub(super) fn room_for_answer(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes).ok()?;
        Arc::clone(&self.answer_bytes).try_acquire_many_owned(bytes).ok()
    }

    /// Room for so many bytes of a body, if there is some.
    pub(super) fn room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes).ok()?;
        Arc::clone(&self.body_bytes).try_acquire_many_owned(bytes).ok()
    }
}

/// The time within which an API server wants its answer, as it says itself in `?timeout=`.
pub(super) fn patience(query: Option<&str>) -> Duration {
    let pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let asked = pairs
        .filter(|(key, _)| *key == "timeout")
        .find_map(|(_, value)| humantime::parse_duration(value).ok());
    // The API's own bounds for `timeoutSeconds`; 10 s is its default.
    let asked = asked.filter(|asked| !asked.is_zero());
    let asked = asked.unwrap_or(Duration::from_secs(10)).min(Duration::from_secs(30));
    // A tenth is for the way back.
    asked.mul_f64(0.9)
}
