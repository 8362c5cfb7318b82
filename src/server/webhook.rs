//! `POST /mutate` for pods, `POST /validate-workloads` for the workloads that they come from, and `POST /validate-policies`
//! for the ConfigMaps with policies and values.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Instant;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use bytes::Bytes;
use serde::de::IgnoredAny;
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;

use crate::builtin;
use crate::telemetry::Shed;
use fabric_allocator::held;
use fabric_engine::admission::{self, Answer, BadReview, OnError, Reviewer, WorkloadReview};
use fabric_engine::policy_set::{LoadError, PolicySet};
use fabric_policy::PodContext;
use fabric_policy::work::Work;
use fabric_tools::lint;
use fabric_tools::policy_review::{Change, PolicyReviewer, lines, unchecked, unregistered};

use super::rejection::{Rejection, overload};
use super::review::Review;
use super::sources::compiled;
use super::state::AppState;
use super::trace::Outcome;

/// The objects that a path reviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    /// New pods, which are injected.
    Pods,
    /// Workloads with pod templates, which stay as they are.
    Workloads,
    /// ConfigMaps with policies and values, which are refused if they are wrong.
    Policies,
}

/// An answer whose body holds its memory until the client has read it.
type Reviewed = ([(HeaderName, &'static str); 1], Extension<Outcome>, Bytes);

pub(super) async fn mutate(state: State<Arc<AppState>>, review: Review) -> Result<Reviewed, Rejection> {
    respond(Endpoint::Pods, state, review).await
}

pub(super) async fn advise(state: State<Arc<AppState>>, review: Review) -> Result<Reviewed, Rejection> {
    respond(Endpoint::Workloads, state, review).await
}

pub(super) async fn check_policies(
    state: State<Arc<AppState>>,
    review: Review,
) -> Result<Reviewed, Rejection> {
    respond(Endpoint::Policies, state, review).await
}

async fn respond(
    endpoint: Endpoint,
    State(state): State<Arc<AppState>>,
    Review { body, deadline, request }: Review,
) -> Result<Reviewed, Rejection> {
    let Answer { body, mut record } = answer_in_time(endpoint, &state, body, deadline).await?;
    // A response may be larger than its request, and the client may never read it.
    let Some(permit) = state.memory.permit(body.len(), &request).await else {
        return Err(Rejection::overloaded(&state.metrics, Shed::Memory));
    };
    state.absent.note(std::mem::take(&mut record.absent), Instant::now().into());
    if let (Some(events), Some(advice)) = (state.events.get(), record.for_owner.take())
        && !events.offer(*advice)
    {
        state.metrics.events.count("dropped");
    }
    let media_type = [(header::CONTENT_TYPE, "application/json")];
    Ok((media_type, Extension(Outcome::Reviewed(Arc::new(record))), permit.hold(body.into())))
}

/// Evaluates a review, unless its time is over.
async fn answer_in_time(
    endpoint: Endpoint,
    state: &Arc<AppState>,
    body: Bytes,
    deadline: Instant,
) -> Result<Answer, Rejection> {
    if deadline <= Instant::now() {
        return shed(endpoint, state, Shed::Deadline, body).await;
    }
    tracing::trace!(body = %String::from_utf8_lossy(&body), "review");
    match timeout_at(deadline.into(), evaluate(endpoint, state, body.clone())).await {
        Ok(answer) => answer,
        Err(_) => shed(endpoint, state, Shed::Deadline, body).await,
    }
}

/// Ends an evaluation that no request waits for any more: its time is over, or the client has disconnected.
#[derive(Debug)]
struct StopOnDrop(Work);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The largest review that is evaluated at once.
pub const SHORT: usize = 32 << 10;
/// The most steps of such an evaluation. It takes at most 3 ms on two cores, which `tests/injection/cost/at_once.rs` measures.
pub const SHORT_STEPS: u64 = 200_000;

/// Evaluates a review: at once if that is short, since another thread takes longer to wake than most reviews. Others wait
/// in the queue, and begin again on another thread. They hold their memory and their turn until they end or notice that
/// they are stopped.
async fn evaluate(endpoint: Endpoint, state: &Arc<AppState>, body: Bytes) -> Result<Answer, Rejection> {
    if endpoint == Endpoint::Policies {
        return evaluate_policies(state, body).await;
    }
    let work = StopOnDrop(Work::of_input(body.len()));
    if body.len() <= SHORT {
        let short = work.0.with_most_steps(SHORT_STEPS).measured_by(held);
        let answer = answer(endpoint, state, &body, &short);
        if short.ended().is_none() {
            return answer;
        }
    }
    let permit = match state.queue.permit(admission::namespace(&body), body.len()).await {
        Ok(permit) => permit,
        Err(why) => return shed(endpoint, state, why, body).await,
    };
    let (state, work) = (Arc::clone(state), work.0.clone());
    on_another_thread(move || {
        let answer = answer(endpoint, &state, &body, &work.measured_by(held));
        drop((body, permit));
        answer
    })
    .await
}

/// Evaluates a ConfigMap, so that no pod waits for policies: one at a time, and of others the client hears that they were
/// not checked, instead of waiting with their memory.
async fn evaluate_policies(state: &Arc<AppState>, body: Bytes) -> Result<Answer, Rejection> {
    let Ok(turn) = Arc::clone(&state.policy_reviews).try_acquire_owned() else {
        return unchecked(&body, "overload", "since the server checks others").map_err(bad_review);
    };
    let work = StopOnDrop(Work::of_loading());
    let (state, loading) = (Arc::clone(state), work.0.clone());
    on_another_thread(move || {
        let answer = answer(Endpoint::Policies, &state, &body, &loading.measured_by(held));
        drop((body, turn));
        answer
    })
    .await
}

/// Runs what would keep other requests waiting. A panic goes on in the caller.
async fn on_another_thread<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    spawn_blocking(run).await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

fn answer(endpoint: Endpoint, state: &AppState, bytes: &[u8], work: &Work) -> Result<Answer, Rejection> {
    let policies = state.policies.load();
    let watched = state.nodes.load();
    let (nodes, objects) = (watched.nodes.clone(), watched.objects.clone());
    let context = PodContext { work: Some(work.clone()), nodes, objects, ..PodContext::default() };
    let answer = match endpoint {
        Endpoint::Pods => {
            let reviewer = Reviewer {
                policies: &policies,
                evaluate: &*state.evaluate,
                mode: state.mode,
                on_error: state.on_error,
                has_changed: &|| state.change.is_recent(),
            };
            reviewer.answer(bytes, context)
        }
        Endpoint::Workloads => lint::answer(&policies, state.mode, bytes, &context),
        Endpoint::Policies => {
            let together = |change: &Change| {
                let Some(sources) = state.sources.get() else { return Vec::new() };
                let changed = sources.read().and_then(|sources| compiled(&sources.changed(change), work));
                beside_others(&policies, changed)
            };
            let version = env!("CARGO_PKG_VERSION");
            PolicyReviewer { version, built_in: builtin::files(), together: &together }.answer(bytes, work)
        }
    };
    answer.map_err(bad_review)
}

/// What is wrong with changed policies and values beside those of other objects, or what they wait for.
fn beside_others(current: &PolicySet, changed: anyhow::Result<PolicySet>) -> Vec<String> {
    let found = match changed.map_err(anyhow::Error::downcast) {
        Ok(changed) => return unregistered(current, &changed),
        Err(Ok(LoadError::Source(errors))) => lines(&errors.into_iter().collect::<Vec<_>>()),
        Err(Ok(error)) => vec![error.to_string()],
        Err(Err(error)) => vec![error.to_string()],
    };
    found.into_iter().map(|line| format!("with the other policies and values: {line}")).collect()
}

/// The response under overload: `429` with `Retry-After`, or the pod admitted unchanged with a warning. A workload does
/// not depend on its review.
async fn shed(
    endpoint: Endpoint,
    state: &Arc<AppState>,
    why: Shed,
    body: Bytes,
) -> Result<Answer, Rejection> {
    if endpoint == Endpoint::Pods {
        let rejection = Rejection::overloaded(&state.metrics, why);
        if state.on_error == OnError::Deny {
            return Err(rejection);
        }
    }
    let is_short = body.len() <= SHORT;
    let state = Arc::clone(state);
    let read = move || match endpoint {
        Endpoint::Pods => {
            let AppState { policies, mode, on_error, .. } = &*state;
            let why = overload(why);
            admission::answer_without_evaluation(&policies.load(), *mode, *on_error, &body, why)
        }
        Endpoint::Workloads => {
            Ok(WorkloadReview::<IgnoredAny>::read(&body)?.unadvised("overload", state.mode))
        }
        Endpoint::Policies => unchecked(&body, "overload", "since the server has no time for it"),
    };
    let answer = if is_short { read() } else { on_another_thread(read).await };
    answer.map_err(bad_review)
}

#[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
fn bad_review(error: BadReview) -> Rejection {
    Rejection::new(StatusCode::BAD_REQUEST, error.code(), error.to_string())
}
