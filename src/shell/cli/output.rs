//! Standard output, for data, and standard error, for everything else. No other module prints.

use std::fs::File;
use std::io::{self, BufWriter, StderrLock, StdoutLock, Write};
use std::os::fd::AsFd;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

/// The form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people
    Text,
    /// For programs: one JSON object
    Json,
}

pub(super) struct Output {
    /// No colours are removed: a manifest may contain escape sequences.
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
        Ok(self.data.write_all(bytes)?)
    }

    /// Writes one line to standard error, and ignores an error: standard error may have no reader.
    pub(super) fn message(&mut self, line: &str) {
        let _ = writeln!(self.messages, "{line}");
    }

    pub(super) fn error(&mut self, error: &anyhow::Error) {
        let style = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
        let text = format!("{error:#}");
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        self.message(&format!("{style}error{style:#}: {text}"));
        let _ = self.messages.flush();
    }

    /// Flushes the data first, so that a terminal shows it before the messages.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        self.data.flush()?;
        let _ = self.messages.flush();
        Ok(())
    }

    /// Returns whether standard output is a terminal and `NO_COLOR` is not set.
    pub(super) fn data_has_colour() -> bool {
        AutoStream::choice(&io::stdout()) != ColorChoice::Never
    }
}

/// Standard error for log lines, without its lock, which a thread would hold for as long as the reader is slow.
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
