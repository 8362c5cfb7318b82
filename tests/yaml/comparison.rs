//! What became of a document, by this program and by kubectl.

use fabric_injector::core::manifest::{Document, RawDocument};
use serde_json::{Value, json};

/// What this program makes of a document, and the document after an edit.
pub(crate) struct Reading {
    pub(crate) value: Result<Value, String>,
    /// True if a key is repeated: kubectl takes its last value, and this program changes no such document.
    pub(crate) repeats: bool,
    pub(crate) edited: Option<(String, Value)>,
}

impl Reading {
    pub(crate) fn of(text: &str) -> Self {
        let piece = RawDocument::new(text.as_bytes().to_vec());
        let document = match Document::read(&piece) {
            Ok(document) => document,
            Err(error) => return Self { value: Err(error.to_string()), repeats: false, edited: None },
        };
        let value = document.value.clone().unwrap_or_default();
        let mut after = value.clone();
        let edited = after.as_object_mut().map(|map| map.insert("zz".to_owned(), json!({"y": [1, "x"]}))).and_then(|_| {
            let edited = document.edited(&piece, &after).ok()?;
            Some((String::from_utf8(edited.bytes).unwrap(), after))
        });
        Self { value: Ok(value), repeats: piece_repeats(&piece), edited }
    }
}

fn piece_repeats(piece: &RawDocument) -> bool {
    fabric_injector::core::yaml::read_value(std::str::from_utf8(&piece.bytes).unwrap())
        .is_ok_and(|manifest| manifest.duplicate_key.is_some())
}

/// A message without what is special to a document.
pub(crate) fn kind(message: &str) -> String {
    let mut kind = String::new();
    for (at, part) in message.split('`').enumerate() {
        kind.push_str(if at % 2 == 0 { part } else { "…" });
    }
    let digits = |c: char| if c.is_ascii_digit() { '#' } else { c };
    let mut kind: String = kind.chars().map(digits).collect();
    while kind.contains("##") {
        kind = kind.replace("##", "#");
    }
    kind
}

/// True for the same value; a number is the same in each form.
pub(crate) fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(ours), Value::Number(theirs)) => {
            ours == theirs || (ours.is_f64() || theirs.is_f64()) && ours.as_f64() == theirs.as_f64()
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().all(|(key, ours)| theirs.get(key).is_some_and(|theirs| same(ours, theirs)))
        }
        _ => ours == theirs,
    }
}
