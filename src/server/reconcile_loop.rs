//! The reconciliation of certificate and registration while the server runs.

use std::pin::pin;
use std::sync::Arc;

use tokio::time::{Duration, sleep, timeout};

use crate::cluster::{Reconciler, is_conflict};
use fabric_engine::registration::{differing_condition, webhook_conditions};

use super::readiness::REGISTRATION;
use super::state::AppState;

/// The longest time until the attempt after a conflict.
const BACKOFF: Duration = Duration::from_millis(200);

/// The time between two comparisons of the registered conditions with those of the policies, which may be reloaded.
const COMPARISON: Duration = Duration::from_secs(3);

/// The number of conflicts in a row that count as a failure: replicas that compete do not conflict so often.
const MAX_CONFLICTS: u32 = 20;

/// Reconciles until the task is aborted.
pub(super) async fn run(mut reconciler: Reconciler, state: Arc<AppState>) {
    let mut failure: Option<String> = None;
    let mut conflicts = 0;
    loop {
        let result = reconciler.reconcile().await;
        for object in reconciler.take_changes() {
            state.metrics.registration_changes.count(object);
        }
        match result {
            Ok(()) => {
                state.readiness.failure(REGISTRATION, None);
                compare_conditions(&reconciler, &state);
                failure = None;
                conflicts = 0;
            }
            Err(error) if is_conflict(&error) && conflicts < MAX_CONFLICTS => {
                conflicts += 1;
                tracing::debug!(reason = %error, "reconciliation met a conflict, trying again");
                sleep(BACKOFF.mul_f64(fastrand::f64())).await;
                continue;
            }
            Err(error) => {
                let error = format!("{error:#}");
                state.metrics.registration_failures.inc();
                // Only the first of equal failures is logged.
                if failure.as_ref() != Some(&error) {
                    tracing::error!(error, "reconciliation failed");
                    state.readiness.failure(REGISTRATION, Some(error.clone()));
                }
                failure = Some(error);
            }
        }
        let mut next = pin!(reconciler.wait());
        while timeout(COMPARISON, &mut next).await.is_err() {
            compare_conditions(&reconciler, &state);
        }
    }
}

/// Reports a registered condition that is not that of the policies in use, which servers may not write.
fn compare_conditions(reconciler: &Reconciler, state: &AppState) {
    let wanted = webhook_conditions(&state.policies.load());
    let differing = differing_condition(reconciler.configuration(), &wanted);
    state.metrics.conditions_differ.set(i64::from(differing.is_some()));
    if !state.readiness.conditions(differing) {
        return;
    }
    let Some(condition) = differing else { return state.change.ends() };
    state.change.begins();
    tracing::warn!(condition, "the registered condition differs from that of the policies in use");
}
