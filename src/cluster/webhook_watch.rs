//! The watch of the webhook configuration: a wrong one may reject pods until it is reconciled.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Duration, sleep};

use super::api::Objects;

/// The time between two watches.
const PAUSE: Duration = Duration::from_secs(3);

/// Notifies of each change. Without the permission to watch, changes are found at the next reconciliation.
pub(super) fn start(objects: Arc<Objects>, name: String, changed: Arc<Notify>) -> JoinHandle<()> {
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
