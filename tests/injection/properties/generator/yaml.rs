//! YAML as a person writes it, of a JSON value.

use serde_json::Value;

/// A document in block style, every string in double quotes.
pub(crate) fn text(value: &Value) -> String {
    let mut out = String::new();
    block(value, 0, &mut out);
    out
}

fn block(value: &Value, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'$');
                let plain = plain && key.bytes().any(|byte| byte.is_ascii_alphabetic()) && key.len() > 1;
                let key = if plain { key.clone() } else { Value::from(key.as_str()).to_string() };
                out.push_str(&format!("{pad}{key}:"));
                nested(value, indent + 2, out);
            }
        }
        Value::Array(items) => {
            for item in items {
                out.push_str(&format!("{pad}-"));
                nested(item, indent + 2, out);
            }
        }
        scalar => out.push_str(&format!("{pad}{scalar}\n")),
    }
}

fn nested(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            block(value, indent, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            block(value, indent, out);
        }
        flat => out.push_str(&format!(" {flat}\n")),
    }
}
