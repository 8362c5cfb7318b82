//! The operations of a JSON Patch.

use serde::Serialize;
use serde_json::Value;

use super::summary;

/// One operation of a JSON Patch (RFC 6902).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Operation<'a> {
    /// `add`, `replace` or `remove`.
    pub op: &'static str,
    /// JSON Pointer from the pod's root.
    #[serde(rename = "path")]
    pub pointer: &'a str,
    /// The value; none if it is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<&'a Value>,
}

/// The operations that change the pod as it came into the pod as it is now, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Operations<'a> {
    /// The pod as it is now.
    pub(crate) pod: &'a Value,
    pub list: Vec<Operation<'a>>,
}

impl Operations<'_> {
    /// The JSON Patch as text, without copying the values first.
    pub fn to_json(&self) -> Vec<u8> {
        // Serialising a `Value` into memory cannot fail.
        serde_json::to_vec(&self.list).unwrap_or_default()
    }

    /// The additions in words: one line for each container that was changed, and one for the pod.
    pub fn summary(&self) -> Vec<String> {
        summary::summarize(self)
    }
}
