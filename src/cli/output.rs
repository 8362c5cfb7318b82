//! Standard output, for data, and standard error, for everything else. No other module prints.

use std::fs::File;
use std::io::{self, BufWriter, StderrLock, StdoutLock, Write};
use std::os::fd::AsFd;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use anyhow::Context;
use serde::Serialize;

use fabric_engine::policy_set::LoadError;
use fabric_policy::{SourceError, SourceErrors};
use fabric_yaml::escape;

/// The form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

const UNWRITABLE: &str = "standard output cannot be written; a closed one counts as full";

pub(super) struct Output {
    /// Colors are not removed: a manifest may contain escape sequences.
    data: BufWriter<StdoutLock<'static>>,
    messages: BufWriter<AutoStream<StderrLock<'static>>>,
}

impl Output {
    pub(super) fn standard() -> Self {
        Self {
            data: BufWriter::with_capacity(64 * 1024, io::stdout().lock()),
            messages: BufWriter::new(AutoStream::auto(io::stderr().lock())),
        }
    }

    /// Writes data unchanged.
    pub(super) fn data(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.data.write_all(bytes).context(UNWRITABLE)
    }

    /// Writes lines of a report to standard output, for people or as JSON, XML and the like. A value that may have line
    /// ends is escaped by [`escape::line`].
    pub(super) fn text(&mut self, text: &str) -> anyhow::Result<()> {
        self.data(escape::lines(text).as_bytes())
    }

    /// Writes a value to standard output, on lines with indentation.
    pub(super) fn json(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        self.text(&(serde_json::to_string_pretty(value)? + "\n"))
    }

    /// Writes one line to standard error, and ignores an error: standard error may have no reader.
    pub(super) fn message(&mut self, line: &str) {
        let _ = writeln!(self.messages, "{}", escape::line(line));
    }

    /// Writes an error on one line, and its hint on another.
    pub(super) fn failure(&mut self, text: &str, hint: Option<&str>) {
        let hint = hint.map(|hint| format!("\nhint: {}", escape::line(hint)));
        self.labelled(&format!("{}{}", escape::line(text), hint.unwrap_or_default()));
    }

    /// Writes an error with its hint. Those in policies have the lines of the file.
    pub(super) fn error(&mut self, error: &anyhow::Error) {
        let text = format!("{error:#}");
        match text.rsplit_once("\nhint: ") {
            _ if is_of_source(error) => self.labelled(&escape::lines(&text)),
            Some((text, hint)) => self.failure(text, Some(hint)),
            None => self.failure(&text, None),
        }
    }

    fn labelled(&mut self, text: &str) {
        let style = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
        let text = text.strip_prefix("error: ").unwrap_or(text);
        let _ = writeln!(self.messages, "{style}error{style:#}: {text}");
        let _ = self.messages.flush();
    }

    /// Flushes the data first: a terminal shows it before the messages.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        self.data.flush().context(UNWRITABLE)?;
        let _ = self.messages.flush();
        Ok(())
    }

    /// Returns whether standard output is a terminal and `NO_COLOR` is not set.
    pub(super) fn data_has_colour() -> bool {
        AutoStream::choice(&io::stdout()) != ColorChoice::Never
    }
}

/// Returns whether an error shows lines of a policy, a values file or cases.
fn is_of_source(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<SourceErrors>()
            || cause.is::<SourceError>()
            || matches!(cause.downcast_ref(), Some(LoadError::Source(_)))
    })
}

/// Standard error for log lines, without its lock, which a thread would hold while the reader is slow.
pub(super) fn log_stream() -> io::Result<File> {
    io::stderr().as_fd().try_clone_to_owned().map(File::from)
}

/// Returns whether an error means that the reader of the output has closed it.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
