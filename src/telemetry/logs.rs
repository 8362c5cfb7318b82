//! Logs: plain lines for a person at a terminal, JSON for everything else.

use std::io::IsTerminal;

use anyhow::anyhow;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

/// What is logged unless somebody says otherwise.
pub const DEFAULT_FILTER: &str = "info";

/// Logs to `writer` from now on, what `filter` lets through (`info`, `fabric_injector=debug`, …).
///
/// Also panics are logged, so that they do not stand between the lines of JSON.
pub fn install<W>(filter: &str, writer: W, terminal: &impl IsTerminal) -> anyhow::Result<()>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        anyhow!("`--log {filter}`: {error}\nhint: write a level (error, warn, info, debug, trace), or `fabric_injector=debug`")
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    if terminal.is_terminal() {
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
        let why = panic.payload_as_str().unwrap_or_default();
        tracing::error!(place, why, "panic");
    }));
    Ok(())
}
