//! Hearing at once of a change to the webhook configuration: every pod in between may be refused.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Duration, sleep};

use super::api::Objects;

/// How long to wait before the next watch, when one has failed.
const PAUSE: Duration = Duration::from_secs(3);

/// Tells of each change, for ever. Without permission to watch, the rounds have to do.
pub(super) fn begin(objects: Arc<Objects>, name: String, changed: Arc<Notify>) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            if let Err(error) = objects.watch_webhook(&name, &changed).await {
                let error = format!("{error:#}");
                tracing::debug!(error, "the webhook configuration cannot be watched");
            }
            sleep(PAUSE).await;
        }
    })
}
