//! The interface of the traces, for a program that is built without the feature `otlp`.

use hyper::{HeaderMap, Method, StatusCode};

use crate::core::admission::Record;

/// Exports nothing.
#[derive(Debug)]
pub struct Exporter;

impl Exporter {
    /// Does nothing.
    pub fn install() -> anyhow::Result<Self> {
        Ok(Self)
    }

    /// Does nothing.
    pub fn finish(self) {}
}

/// Records nothing.
#[derive(Debug)]
pub struct ReviewSpan;

impl ReviewSpan {
    /// Does nothing.
    pub fn begin(_: &Method, _: &HeaderMap) -> Self {
        Self
    }

    /// Does nothing.
    pub fn reviewed(self, _: &Record) {}

    /// Does nothing.
    pub fn rejected(self, _: StatusCode, _: &'static str) {}
}
