//! Reads JSON into values that take as little memory as possible: the maps of `serde_json` reserve four entries.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The bytes of a value in memory, without those within it; and of an entry of a map, without its key's text and its
/// value.
const BYTES_OF_VALUE: usize = 80;
const BYTES_OF_ENTRY: usize = 48;

/// The value of a field of a map; `null` if there is none, or if this is not a map.
///
/// Most maps of a pod have few keys: comparing each of them takes less time than hashing one.
pub fn field<'v>(value: &'v Value, key: &str) -> &'v Value {
    const FEW: usize = 8;
    let Value::Object(map) = value else { return &Value::Null };
    let found = if map.len() <= FEW {
        map.iter().find_map(|(known, value)| (known == key).then_some(value))
    } else {
        map.get(key)
    };
    found.unwrap_or(&Value::Null)
}

/// The bytes that a value takes in memory, about: in a list or a map, or as a value of CEL.
pub fn bytes_of(value: &Value) -> usize {
    BYTES_OF_VALUE
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(bytes_of).sum(),
            Value::Object(map) => {
                map.iter().map(|(key, value)| BYTES_OF_ENTRY + key.len() + bytes_of(value)).sum()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

/// The items of a list in a field of a map.
pub fn items<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    field(value, key).as_array().map_or(&[], Vec::as_slice)
}

/// Reads a whole JSON text, and whether a map has a key twice.
pub fn read(text: &str) -> serde_json::Result<(Value, bool)> {
    let state = State { goes_on: &|| true, repeats: Cell::new(false) };
    Ok((read_at(text, Position::Elsewhere, &state)?, state.repeats.get()))
}

/// Reads the JSON text of an object, without its `managedFields`, which are a third of a request and are not used. A
/// patch consists of changes, so fields that were not read stay. `goes_on` is asked before each value; once it returns
/// false, no other value is built.
pub fn read_while(text: &str, goes_on: &dyn Fn() -> bool) -> serde_json::Result<Value> {
    read_at(text, Position::Root, &State { goes_on, repeats: Cell::new(false) })
}

fn read_at(text: &str, position: Position, state: &State<'_>) -> serde_json::Result<Value> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Reader { position, state }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// The position of a value in the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Root,
    Metadata,
    Elsewhere,
}

/// What all readers of a text have in common.
struct State<'l> {
    /// Returns whether another value may be built.
    goes_on: &'l dyn Fn() -> bool,
    /// True if a map has a key twice.
    repeats: Cell<bool>,
}

/// Reads one value and the values in it.
#[derive(Clone, Copy)]
struct Reader<'l> {
    position: Position,
    state: &'l State<'l>,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if (self.state.goes_on)() {
            deserializer.deserialize_any(self)
        } else {
            deserializer.deserialize_ignored_any(IgnoredAny).map(|_| Value::Null)
        }
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number without a value"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Reader { position: Position::Elsewhere, ..self })? {
            if (self.state.goes_on)() {
                list.push(item);
            }
        }
        list.shrink_to_fit();
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let Some(mut key) = entries.next_key::<String>()? else { return Ok(Map::new().into()) };
        // The many maps of a large pod are its variables and mounts, which have two entries.
        let mut map = Map::with_capacity(2);
        loop {
            if self.position == Position::Metadata && key == "managedFields" {
                entries.next_value::<IgnoredAny>()?;
            } else {
                let is_metadata = self.position == Position::Root && key == "metadata";
                let position = if is_metadata { Position::Metadata } else { Position::Elsewhere };
                let value = entries.next_value_seed(Reader { position, ..self })?;
                if (self.state.goes_on)() && map.insert(key, value).is_some() {
                    self.state.repeats.set(true);
                }
            }
            match entries.next_key()? {
                Some(next) => key = next,
                None => return Ok(Value::Object(map)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_but_the_managed_fields_of_the_object_is_read() {
        let whole = json!({
            "metadata": {"name": "a", "managedFields": [{"manager": "m"}], "labels": {"managedFields": "kept"}},
            "spec": {"list": [1, -2, 1.5, "text", true, null, {}, []], "managedFields": 1, "metadata": {"managedFields": 2}},
            "big": 18_446_744_073_709_551_615_u64,
        });
        let read = read_while(&whole.to_string(), &|| true).unwrap();
        let mut wanted = whole;
        wanted["metadata"].as_object_mut().unwrap().shift_remove("managedFields");
        assert_eq!(read, wanted);
        assert_eq!(read.to_string(), wanted.to_string(), "in the same order");
    }

    #[test]
    fn a_text_is_read_as_the_library_does() {
        for text in [
            "{\"b\": 1, \"a\": [1.5, -2, \"x\", null, {}]}",
            "7 ",
            "{\"a\": 1e400}",
            "{} x",
            "[1,",
            "{\"a\"}",
            "",
        ] {
            let own = read(text).map(|(value, _)| value).map_err(|error| error.to_string());
            let library = serde_json::from_str::<Value>(text).map_err(|error| error.to_string());
            assert_eq!(own, library);
        }
        assert!(!read("{\"a\": {\"a\": 1}, \"b\": 1}").unwrap().1);
        assert!(read("[{\"a\": 1, \"a\": 2}]").unwrap().1);
    }

    #[test]
    fn what_is_no_object_is_read_as_it_is() {
        for text in [
            "null",
            "[1,{\"a\":2}]",
            "\"pod\"",
            "7",
            "{\"metadata\":\"x\"}",
            "{\"metadata\":[{\"managedFields\":1}]}",
        ] {
            let read = read_while(text, &|| true).unwrap();
            assert_eq!(read.to_string(), text);
        }
    }

    #[test]
    fn nothing_is_built_once_the_reader_may_not_go_on() {
        let left = Cell::new(10);
        let goes_on = || left.replace(left.get() - 1) > 0;
        let read = read_while(&format!("[{}0]", "[{}],".repeat(1_000)), &goes_on).unwrap();
        assert!(bytes_of(&read) < 10 * BYTES_OF_VALUE, "{read}");
        assert!(read_while("[0, 0}", &|| false).is_err());
    }

    #[test]
    fn the_memory_of_an_object_is_that_of_its_values() {
        let text =
            json!({"spec": {"containers": [{"name": "a", "args": ["x", 1, true, null, {}]}]}}).to_string();
        let value = read_while(&text, &|| true).unwrap();
        let strings = ["spec", "containers", "name", "a", "args", "x"].concat().len();
        assert_eq!(bytes_of(&value), 11 * BYTES_OF_VALUE + 4 * BYTES_OF_ENTRY + strings);
    }
}
