//! Values in the flow style of YAML, and in JSON.

use serde_json::Value;

use super::write;

/// The form of values between brackets and braces.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    /// JSON has all strings and keys in double quotes.
    pub(super) json: bool,
    /// The text between a colon and its value.
    pub(super) after_colon: &'static str,
    /// The text between a comma and the next entry on the same line.
    pub(super) after_comma: &'static str,
    /// The indentation of a level, if each entry is on a line of its own.
    pub(super) unit: Option<String>,
}

impl Flow {
    /// The form of a JSON text.
    pub(super) fn of_json(text: &str) -> Self {
        let lines = text.trim().contains('\n');
        let spaced = text.contains("\": ") || lines && !text.contains("\":");
        Self {
            json: true,
            after_colon: if spaced { " " } else { "" },
            after_comma: if [", \"", ", {", ", ["].iter().any(|comma| text.contains(comma)) {
                " "
            } else {
                ""
            },
            unit: lines.then(|| {
                let indented = text.lines().find(|line| line.starts_with([' ', '\t']));
                let blanks = |line: &str| line[..line.len() - line.trim_start().len()].to_owned();
                indented.map_or_else(|| "  ".to_owned(), blanks)
            }),
        }
    }

    /// The form for YAML, which is on one line.
    pub(super) const YAML: Self = Self { json: false, after_colon: " ", after_comma: " ", unit: None };

    /// The text of a value.
    pub(super) fn text(&self, value: &Value, margin: &str) -> String {
        let mut out = String::new();
        self.write(&mut out, value, margin);
        out
    }

    /// Writes a value. `margin` is the indentation of the line on which it begins.
    pub(super) fn write(&self, out: &mut String, value: &Value, margin: &str) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                out.push('{');
                let inner = self.inner(margin);
                for (at, (key, value)) in map.iter().enumerate() {
                    self.separate(out, at, &inner);
                    self.entry(out, key, value, &inner);
                }
                self.close(out, margin, '}');
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('[');
                let inner = self.inner(margin);
                for (at, item) in items.iter().enumerate() {
                    self.separate(out, at, &inner);
                    self.write(out, item, &inner);
                }
                self.close(out, margin, ']');
            }
            Value::String(text) => self.string(out, text),
            _ => write::write_scalar(out, value, 0),
        }
    }

    pub(super) fn entry(&self, out: &mut String, key: &str, value: &Value, margin: &str) {
        self.string(out, key);
        out.push(':');
        out.push_str(self.after_colon);
        self.write(out, value, margin);
    }

    fn string(&self, out: &mut String, text: &str) {
        if self.json {
            out.push_str(&Value::from(text).to_string());
        } else if write::is_plain_safe(text)
            && !text.contains([',', '[', ']', '{', '}', ':', '?'])
            // saphyr-parser rejects a `-` between a space and a bracket.
            && !text.ends_with(" -")
        {
            out.push_str(text);
        } else {
            write::write_quoted(out, text);
        }
    }

    fn inner(&self, margin: &str) -> String {
        format!("{margin}{}", self.unit.as_deref().unwrap_or_default())
    }

    fn separate(&self, out: &mut String, at: usize, inner: &str) {
        out.push_str(if at > 0 { "," } else { "" });
        match self.unit {
            Some(_) => out.push_str(&format!("\n{inner}")),
            None => out.push_str(if at > 0 { self.after_comma } else { "" }),
        }
    }

    fn close(&self, out: &mut String, margin: &str, bracket: char) {
        if self.unit.is_some() {
            out.push_str(&format!("\n{margin}"));
        }
        out.push(bracket);
    }
}
