//! The signals that stop a server.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::server::Stop;

/// SIGTERM, SIGINT and SIGHUP, each time they arrive.
pub(super) fn stops() -> anyhow::Result<mpsc::Receiver<Stop>> {
    let (stop, stops) = mpsc::channel(2);
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let mut signals = signal(kind).context("signals cannot be received")?;
        let stop = stop.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                // Fails when the server has ended, or has two signals already.
                let _ = stop.try_send(Stop);
            }
        });
    }
    Ok(stops)
}
