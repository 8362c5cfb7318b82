//! The interface of the traces, for a program that is built without the feature `otlp`.

#![expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "the interface of `traces.rs`")]

use hyper::{HeaderMap, Method, StatusCode};

use fabric_engine::admission::Record;

/// Exports nothing.
#[derive(Debug)]
pub(crate) struct Exporter;

impl Exporter {
    /// Does nothing.
    pub(crate) fn install() -> anyhow::Result<Self> {
        Ok(Self)
    }

    /// Does nothing.
    pub(crate) fn finish(self) {}
}

/// Records nothing.
#[derive(Debug)]
pub(crate) struct ReviewSpan;

impl ReviewSpan {
    /// Does nothing.
    pub(crate) fn begin(_: &str, _: &Method, _: &HeaderMap) -> Self {
        Self
    }

    /// Does nothing.
    pub(crate) fn reviewed(self, _: &Record) {}

    /// Does nothing.
    pub(crate) fn rejected(self, _: StatusCode, _: &'static str) {}
}
