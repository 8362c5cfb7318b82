//! Logs: plain lines for a person at a terminal, JSON for everything else.

use std::io::{BufWriter, IsTerminal, Write};

use anyhow::{anyhow, ensure};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

/// What is logged unless somebody says otherwise. What `h2` warns of, any client can bring about; what `kube_client`
/// tells of a failure, we tell as well, and once.
pub const DEFAULT_FILTER: &str = "info,h2=error,kube_client=off";

/// Lines that wait for whoever reads the log; beyond them, lines are lost.
const MOST_WAITING: usize = 4_096;

/// A filter as it is written. A word that is no level would be taken for the name of a module, and everything else be
/// silent.
fn read(filter: &str) -> anyhow::Result<EnvFilter> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    for part in filter.split(',').map(str::trim).filter(|part| !part.is_empty() && !part.contains(['=', '[']))
    {
        let is_level = LEVELS.iter().any(|level| part.eq_ignore_ascii_case(level));
        ensure!(is_level || part.starts_with("fabric_injector"), "there is no level `{part}`");
    }
    Ok(EnvFilter::try_new(filter)?)
}

/// Logs to `stream` from now on, what `filter` lets through (`info`, `fabric_injector=debug`, …), until the guard is
/// dropped.
///
/// Lines are written by a thread of their own: no review waits for whoever reads the log, or stops reading it.
/// Panics are logged as well, so that they do not stand between the lines of JSON.
pub fn install<W>(filter: &str, stream: W) -> anyhow::Result<WorkerGuard>
where
    W: Write + IsTerminal + Send + 'static,
{
    let filter = read(filter).map_err(|error| {
        anyhow!("`--log {filter}`: {error}\nhint: write a level (error, warn, info, debug, trace), or `fabric_injector=debug`")
    })?;
    let to_terminal = stream.is_terminal();
    let (writer, guard) = NonBlockingBuilder::default()
        .thread_name("log")
        .buffered_lines_limit(MOST_WAITING)
        .finish(BufWriter::new(stream));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    if to_terminal {
        let has_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        lines.with_target(false).with_ansi(has_colour).finish().try_init()?;
    } else {
        lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .finish()
            .try_init()?;
    }
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let detail = panic.payload_as_str().unwrap_or_default();
        tracing::error!(place, detail, "panic");
    }));
    Ok(guard)
}
