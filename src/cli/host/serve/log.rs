//! The log of a server.

use std::io::IsTerminal;
use std::sync::mpsc;
use std::thread;

use anyhow::Context;
use tokio::time::Duration;
use tracing_appender::non_blocking::WorkerGuard;

use crate::telemetry::logs;

use super::arguments::Arguments;
use crate::cli::output;

/// How long the program waits for the reader of the log when it ends.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The log, which is flushed when this is dropped.
pub(super) struct Log {
    guard: Option<WorkerGuard>,
    /// True if the lines are JSON.
    pub(super) is_json: bool,
}

impl Log {
    /// The log with the filter of the options, or with the default one and an error if that filter is invalid.
    pub(super) fn install(arguments: &Arguments) -> anyhow::Result<(Self, anyhow::Result<()>)> {
        let stream = || output::log_stream().context("standard error cannot be written to");
        let is_json = !stream()?.is_terminal();
        let (guard, installed) = match logs::install(&filter(arguments), stream()?) {
            Ok(guard) => (guard, Ok(())),
            Err(error) => (logs::install(logs::DEFAULT_FILTER, stream()?)?, Err(error)),
        };
        Ok((Self { guard: Some(guard), is_json }, installed))
    }
}

fn filter(arguments: &Arguments) -> String {
    let given = arguments.log.clone().or_else(|| std::env::var("RUST_LOG").ok());
    given.filter(|filter| !filter.is_empty()).unwrap_or_else(|| logs::DEFAULT_FILTER.to_owned())
}

impl Drop for Log {
    fn drop(&mut self) {
        let guard = self.guard.take();
        let (done, is_done) = mpsc::channel();
        // The guard waits a second for the log, and may then print to standard output, which blocks without a reader.
        thread::spawn(move || {
            drop(guard);
            let _ = done.send(());
        });
        let _ = is_done.recv_timeout(FLUSH_TIMEOUT);
    }
}
