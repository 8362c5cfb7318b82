//! What this program makes of a stream, and whether that is what kubectl makes of it.

use fabric_injector::stream::RawDocuments;
use fabric_workloads::manifest::{Document, RawDocument};
use serde_json::{Map, Value, json};

/// What this program makes of a stream.
pub(crate) struct Reading {
    /// The values that are not null, or why there are none.
    pub(crate) values: Result<Vec<Value>, String>,
    /// The stream with a change of each of its maps, and the values that it should have then.
    pub(crate) edited: Option<(String, Vec<Value>)>,
}

impl Reading {
    pub(crate) fn of(stream: &str) -> Self {
        Self::changed(stream, &mut |map| {
            map.insert("zz".to_owned(), json!({"y": [1, "x"]}));
        })
    }

    /// The same, with another change of each map.
    pub(crate) fn changed(stream: &str, change: &mut dyn FnMut(&mut Map<String, Value>)) -> Self {
        let documents: Result<Vec<_>, String> = RawDocuments::new(stream.as_bytes())
            .map(|piece| {
                let piece = piece.map_err(|error| error.to_string())?;
                let document = Document::read(&piece).map_err(|error| error.to_string())?;
                Ok((piece, document))
            })
            .collect();
        let documents = match documents {
            Ok(documents) => documents,
            Err(error) => return Self { values: Err(error), edited: None },
        };
        let edits: Option<Vec<_>> =
            documents.iter().map(|(piece, document)| edit(piece, document, change)).collect();
        let edited = edits.map(|edits| {
            let (texts, values): (Vec<_>, Vec<_>) = edits.into_iter().unzip();
            (texts.concat(), values.into_iter().filter(|value| !value.is_null()).collect())
        });
        Self {
            values: Ok(documents.into_iter().filter_map(|(_, document)| document.value).collect()),
            edited,
        }
    }
}

/// A document with a change. `None` if the program changes it in no way.
fn edit(
    piece: &RawDocument,
    document: &Document,
    change: &mut dyn FnMut(&mut Map<String, Value>),
) -> Option<(String, Value)> {
    let text = std::str::from_utf8(&piece.bytes).unwrap();
    let Some(Value::Object(map)) = &document.value else {
        return Some((text.to_owned(), document.value.clone().unwrap_or_default()));
    };
    if document.repeats() {
        return None;
    }
    let mut after = map.clone();
    change(&mut after);
    let after = Value::Object(after);
    let edited = document.edited(piece, &after).ok()?;
    Some((String::from_utf8(edited.bytes).unwrap(), after))
}

/// A message without what is special to a stream.
pub(crate) fn kind(message: &str) -> String {
    let mut kind = String::new();
    for (at, part) in message.split('`').enumerate() {
        kind.push_str(if at % 2 == 0 { part } else { "`…`" });
    }
    let mut kind: String = kind.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    while kind.contains("00") {
        kind = kind.replace("00", "0");
    }
    kind
}

/// True for the same values; a number is the same in each form.
pub(crate) fn all_same(ours: &[Value], theirs: &[Value]) -> bool {
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs))
}

fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(ours), Value::Number(theirs)) => {
            ours == theirs || (ours.is_f64() || theirs.is_f64()) && ours.as_f64() == theirs.as_f64()
        }
        (Value::Array(ours), Value::Array(theirs)) => all_same(ours, theirs),
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().all(|(key, ours)| theirs.get(key).is_some_and(|theirs| same(ours, theirs)))
        }
        _ => ours == theirs,
    }
}
