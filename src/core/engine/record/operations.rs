//! The operations of a JSON Patch.

use serde::Serialize;
use serde_json::Value;

use super::summary;

/// One operation of a JSON Patch (RFC 6902).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Operation<'a> {
    /// JSON Pointer from the pod's root.
    pub pointer: &'a str,
    /// True if it replaces another value.
    pub replaces: bool,
    /// The value; none if it is removed.
    pub value: Option<&'a Value>,
}

/// The operations that change the pod as it came into the pod as it is now, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Operations<'a> {
    /// The pod as it is now.
    pub(in crate::core::engine) pod: &'a Value,
    pub list: Vec<Operation<'a>>,
}

impl Operations<'_> {
    /// The JSON Patch as text, without copying the values first.
    pub fn to_json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Line<'a> {
            op: &'static str,
            path: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            value: Option<&'a Value>,
        }
        let mut text = Vec::with_capacity(160 * self.list.len() + 2);
        text.push(b'[');
        for (index, operation) in self.list.iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            let op = match operation.value {
                None => "remove",
                Some(_) if operation.replaces => "replace",
                Some(_) => "add",
            };
            let line = Line { op, path: operation.pointer, value: operation.value };
            // Serialising a `Value` into memory cannot fail.
            let _ = serde_json::to_writer(&mut text, &line);
        }
        text.push(b']');
        text
    }

    /// The additions in words: one line for each container that was changed, and one for the pod.
    pub fn summary(&self) -> Vec<String> {
        summary::summarize(self)
    }
}
