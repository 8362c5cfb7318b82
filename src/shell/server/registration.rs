//! Looking after certificate and registration while serving.

use std::sync::Arc;

use tokio::time::{Duration, sleep};

use crate::shell::cluster::{Keeper, was_outrun};

use super::state::State;

/// Whoever was outrun tries again within this time.
const AGAIN: Duration = Duration::from_millis(200);

/// Whoever is outrun more often than this in a row has not lost a race: something is wrong.
const RACES: u32 = 20;

/// Looks after them for ever.
pub(super) async fn keep(mut keeper: Keeper, state: Arc<State>) {
    let mut failure: Option<String> = None;
    let mut outrun = 0;
    loop {
        let policies = state.policies.load_full();
        let round = keeper.round(Some(&policies)).await;
        for object in keeper.take_changes() {
            state.metrics.registration_changed(object);
        }
        match round {
            Ok(()) => {
                state.status.registration(None);
                failure = None;
                outrun = 0;
            }
            Err(error) if was_outrun(&error) && outrun < RACES => {
                outrun += 1;
                tracing::debug!(reason = %error, "registration, trying again");
                sleep(AGAIN.mul_f64(fastrand::f64())).await;
                continue;
            }
            Err(error) => {
                let error = format!("{error:#}");
                state.metrics.registration_failed();
                // Once, not every time that it is tried again.
                if failure.as_ref() != Some(&error) {
                    tracing::error!(error, "the registration cannot be looked after");
                    state.status.registration(Some(error.clone()));
                }
                failure = Some(error);
            }
        }
        keeper.wait().await;
    }
}
