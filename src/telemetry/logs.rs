//! The log: plain lines on a terminal, JSON lines elsewhere.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::thread;
use std::time::Duration;

use anyhow::{anyhow, ensure};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::util::SubscriberInitExt;

use fabric_yaml::escape;

/// The default filter. The program logs each failure of the client of the API server itself, once.
pub const DEFAULT_FILTER: &str = "info,kube_client=off,kube_runtime=off";

/// The limit on lines that wait for the reader of the log; beyond it, lines are lost.
const MAX_BUFFERED_LINES: usize = 4_096;

/// Parses a filter. `EnvFilter` would take a misspelled level for the name of a module, and log nothing.
fn parse(filter: &str) -> anyhow::Result<EnvFilter> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    for part in filter.split(',').map(str::trim).filter(|part| !part.is_empty() && !part.contains(['=', '[']))
    {
        let is_level = LEVELS.iter().any(|level| part.eq_ignore_ascii_case(level));
        ensure!(is_level || part.starts_with("fabric_injector"), "there is no level `{part}`");
    }
    Ok(EnvFilter::try_new(filter)?)
}

/// How long the log thread sleeps after it has written the queued lines. Without that, each review would wake it.
const REST: Duration = Duration::from_millis(20);

/// A stream that is flushed when no line is queued, and then pauses.
struct Unhurried<W: Write>(BufWriter<W>);

impl<W: Write> Write for Unhurried<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()?;
        thread::sleep(REST);
        Ok(())
    }
}

/// Logs to `stream` what `filter` selects (`info`, `fabric_injector=debug`, …), until the guard is dropped.
///
/// A separate thread writes the lines, so no review waits for a slow reader. Panics are logged too, so they do not
/// break the sequence of JSON lines.
pub fn install<W>(filter: &str, stream: W) -> anyhow::Result<WorkerGuard>
where
    W: Write + IsTerminal + Send + 'static,
{
    let filter = parse(filter).map_err(|error| {
        anyhow!("`--log {filter}`: {error}\nhint: write a level (error, warn, info, debug, trace), or `fabric_injector=debug`")
    })?;
    let to_terminal = stream.is_terminal();
    let (writer, guard) = NonBlockingBuilder::default()
        .thread_name("log")
        .buffered_lines_limit(MAX_BUFFERED_LINES)
        .finish(Unhurried(BufWriter::new(stream)));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    if to_terminal {
        let has_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        lines.fmt_fields(fields()).with_target(false).with_ansi(has_colour).finish().try_init()?;
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

/// The fields of an event on one line.
fn fields() -> impl for<'w> FormatFields<'w> {
    let fields = debug_fn(|writer, field, value| {
        let text = format!("{value:?}");
        let text = escape::line(&text);
        match field.name() {
            "message" => writer.write_str(&text),
            name => write!(writer, "{name}={text}"),
        }
    });
    fields.delimited(" ")
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_value_forges_a_line_of_the_log() {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt()
            .fmt_fields(fields())
            .without_time()
            .with_target(false)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        let hostile = "a\u{1b}[31m\r\nforged\u{9b}";
        tracing::subscriber::with_default(log, || {
            tracing::warn!(plain = 1, text = hostile, shown = %hostile, "seen {hostile}");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let shown = r"a\u001b[31m\r\nforged\u009b";
        let quoted = format!("{hostile:?}");
        assert_eq!(text, format!(" WARN seen {shown} plain=1 text={quoted} shown={shown}\n"));
    }
}
