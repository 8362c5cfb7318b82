//! Changes of JSON texts by their values, because hardly a change of a byte leaves one.

use std::cell::RefCell;

use fastrand::Rng;
use libfuzzer_sys::fuzzer_mutate;
use serde_json::{Map, Value, json};

/// As many values of earlier inputs are kept, to be put into others.
const MOST_KEPT: usize = 4096;

/// Strings that are read as something else, or written in a special way.
const TEXTS: &[&str] = &[
    "",
    "0",
    "1",
    "8",
    "-1",
    "1e3",
    "8Gi",
    "0.5",
    "9223372036854775807",
    "18446744073709551616",
    "true",
    "on",
    "null",
    "~",
    "=",
    "<<",
    "*",
    "a",
    "A=B",
    "a: b",
    "- a",
    "# a",
    " a",
    "a ",
    "a,b",
    "[]",
    "{}",
    "/",
    "//dev/shm/",
    "$(A)",
    "$$(A)",
    "${a}",
    "${pod.spec}",
    "x\ny",
    "x\n",
    "\n",
    "\t",
    "\u{1}",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
    "é",
    "😀",
    "'",
    "\"",
    "\\",
    "0x1F",
    "0o7",
    "1_000",
    "1:30",
    "2001-01-01",
    ".inf",
    "&a",
    "!a",
    "|",
    ">",
    "%",
    "@",
    "`",
    "---",
    "...",
];

/// Random choices for one change.
struct Dice {
    random: Rng,
    /// Whether the fuzzer may change texts, as it does in another way each time.
    by_fuzzer: bool,
}

impl Dice {
    fn new(seed: u64, by_fuzzer: bool) -> Self {
        Self { random: Rng::with_seed(seed), by_fuzzer }
    }

    fn below(&mut self, most: usize) -> usize {
        self.random.usize(..most.max(1))
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn text(&mut self) -> String {
        TEXTS[self.below(TEXTS.len())].to_owned()
    }

    /// A small value of any type.
    fn value(&mut self) -> Value {
        match self.below(16) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(false),
            3 => json!(self.below(20)),
            4 => json!(-1),
            5 => json!(i64::MAX),
            6 => json!(u64::MAX),
            7 => json!(0.5),
            8 => json!([]),
            9 => json!({}),
            10 => json!([self.text(), self.text()]),
            11 => json!({self.text(): self.text()}),
            _ => json!(self.text()),
        }
    }

    /// Changes one place of a value. `other` gives a value of somewhere else.
    fn change(&mut self, root: &mut Value, other: &mut dyn FnMut(&mut Self) -> Value) {
        let values = count(root);
        let at = self.below(values);
        let own = clone_of(root, self.below(values));
        let Some(place) = nth(root, &mut { at }) else { return };
        let new = match self.below(3) {
            0 => own,
            1 => other(self),
            _ => self.value(),
        };
        match place {
            Value::Object(map) if self.chance(75) => {
                let keys: Vec<String> = map.keys().cloned().collect();
                let key = keys.get(self.below(keys.len())).cloned();
                match (self.below(4), key) {
                    (0, Some(key)) => drop(map.shift_remove(&key)),
                    (1, Some(key)) => drop(map.insert(key, new)),
                    (2, Some(key)) => {
                        let renamed = self.text();
                        let value = map[&key].clone();
                        map.insert(renamed, value);
                    }
                    _ => match new {
                        Value::Object(new) => map.extend(new),
                        new => drop(map.insert(self.text(), new)),
                    },
                }
            }
            Value::Array(list) if self.chance(75) => {
                let at = self.below(list.len() + 1);
                match (self.below(4), list.get(at).cloned()) {
                    (0, Some(_)) => drop(list.remove(at)),
                    (1, Some(same)) => list.insert(at, same),
                    (2, Some(_)) => {
                        let to = self.below(list.len());
                        list.swap(at, to);
                    }
                    _ => list.insert(at, new),
                }
            }
            Value::String(text) if self.by_fuzzer && self.chance(60) => {
                let mut bytes = text.clone().into_bytes();
                let length = bytes.len();
                bytes.resize(length + 16, 0);
                let length = fuzzer_mutate(&mut bytes, length, length + 16);
                *text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            }
            Value::Number(number) if self.chance(50) => {
                let number = number.as_i64().unwrap_or_default();
                *place = json!(number.wrapping_add(if self.chance(50) { 1 } else { -1 }));
            }
            place => *place = new,
        }
    }
}

/// The values within a value, and itself.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Object(map) => map.values().map(count).sum(),
        Value::Array(list) => list.iter().map(count).sum(),
        _ => 0,
    }
}

fn nth<'v>(value: &'v mut Value, at: &mut usize) -> Option<&'v mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Object(map) => map.values_mut().find_map(|value| nth(value, at)),
        Value::Array(list) => list.iter_mut().find_map(|value| nth(value, at)),
        _ => None,
    }
}

fn clone_of(value: &mut Value, at: usize) -> Value {
    nth(value, &mut { at }).map_or(Value::Null, |value| value.clone())
}

/// Changes a JSON text of a fuzzer. What is no JSON, and a tenth of the rest, is changed by bytes.
pub fn mutate(data: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    thread_local! {
        static KEPT: RefCell<Vec<Value>> = RefCell::default();
    }
    let mut dice = Dice::new(seed.into(), true);
    let Ok(mut value) = serde_json::from_slice::<Value>(&data[..size]) else {
        return fuzzer_mutate(data, size, most);
    };
    if dice.chance(10) {
        return fuzzer_mutate(data, size, most);
    }
    KEPT.with_borrow_mut(|kept| {
        let at = dice.below(count(&value));
        let part = clone_of(&mut value, at);
        let at = if kept.len() < MOST_KEPT { kept.len() } else { dice.below(MOST_KEPT) };
        kept.truncate(MOST_KEPT);
        if at == kept.len() {
            kept.push(part)
        } else {
            kept[at] = part
        }
        for _ in 0..=dice.below(4) {
            dice.change(&mut value, &mut |dice| kept[dice.below(kept.len())].clone());
        }
    });
    let text = value.to_string();
    if text.len() > most {
        return fuzzer_mutate(data, size, most);
    }
    data[..text.len()].copy_from_slice(text.as_bytes());
    text.len()
}

/// Adds, replaces or removes something in a map, as a text decides.
pub fn change_by(text: &str, map: &mut Map<String, Value>) {
    let seed =
        text.bytes().fold(17_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut dice = Dice::new(seed, false);
    let mut value = Value::Object(std::mem::take(map));
    for _ in 0..=dice.below(2) {
        dice.change(&mut value, &mut |dice| dice.value());
    }
    match value {
        Value::Object(changed) => *map = changed,
        value => drop(map.insert("a".to_owned(), value)),
    }
}
