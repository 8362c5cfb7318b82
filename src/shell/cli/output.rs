//! The one module that prints. Data goes to standard output, everything else to standard error.

use std::fs::File;
use std::io::{self, BufWriter, StderrLock, StdoutLock, Write};
use std::os::fd::AsFd;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

/// Where the program writes to.
pub(super) struct Output {
    /// Bytes go out as they are: a manifest may hold escape sequences of its own.
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

    /// Writes data as it is.
    pub(super) fn data(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.data.write_all(bytes)?)
    }

    /// Writes one line to standard error. That nobody reads it is no reason to stop.
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

    /// Both streams, data first, so that on a terminal they appear in order.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        self.data.flush()?;
        let _ = self.messages.flush();
        Ok(())
    }

    /// Whether data may be coloured: a person reads it, and has not said `NO_COLOR`.
    pub(super) fn data_has_colour() -> bool {
        AutoStream::choice(&io::stdout()) != ColorChoice::Never
    }
}

/// Where log lines go to: standard error without its lock, which a thread would hold for as long as nobody reads.
pub(super) fn log_stream() -> io::Result<File> {
    io::stderr().as_fd().try_clone_to_owned().map(File::from)
}

/// Whether an error means that the reader of our output has gone away.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
