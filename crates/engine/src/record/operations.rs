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
    pub(crate) pod: &'a Value,
    pub list: Vec<Operation<'a>>,
}

impl<'a> Operations<'a> {
    /// The JSON Patch as text, without copying the values first.
    pub fn to_json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Line<'l> {
            op: &'static str,
            path: &'l str,
            #[serde(skip_serializing_if = "Option::is_none")]
            value: Option<&'l Value>,
        }
        let line = |operation: &Operation<'a>| Line {
            op: match operation.value {
                None => "remove",
                Some(_) if operation.replaces => "replace",
                Some(_) => "add",
            },
            path: operation.pointer,
            value: operation.value,
        };
        // Serialising a `Value` into memory cannot fail.
        serde_json::to_vec(&self.list.iter().map(line).collect::<Vec<_>>()).unwrap_or_default()
    }

    /// The additions in words: one line for each container that was changed, and one for the pod.
    pub fn summary(&self) -> Vec<String> {
        summary::summarize(self)
    }
}
