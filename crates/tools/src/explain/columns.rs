//! Lines of text for people: sections, rows in columns, and long values on several lines.

use serde_json::Value;

use fabric_policy::interpolation::text_of;
use fabric_yaml::escape;

/// The longest line, except where one word is longer.
const WIDTH: usize = 118;

/// Text that grows by sections and rows.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// A line.
    pub(crate) fn line(&mut self, line: &str) {
        self.0.push_str(&escape::line(line.trim_end()));
        self.0.push('\n');
    }

    /// A heading after a blank line.
    pub fn section(&mut self, heading: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.line(heading);
    }

    /// A section of rows, if there are any.
    pub(crate) fn table<const N: usize>(&mut self, heading: &str, rows: &[[String; N]]) {
        if !rows.is_empty() {
            self.section(heading);
            self.rows(2, rows);
        }
    }

    /// Rows in columns. The last column continues on further lines below itself.
    pub fn rows<const N: usize>(&mut self, indent: usize, rows: &[[String; N]]) {
        let mut widths = [0; N];
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in rows {
            let mut line = " ".repeat(indent);
            for (cell, width) in row.iter().zip(widths).take(N - 1) {
                line.push_str(&format!("{cell:<width$}  "));
            }
            let start = line.chars().count();
            let mut last = wrap(&row[N - 1], WIDTH.saturating_sub(start).max(40)).into_iter();
            line.push_str(&last.next().unwrap_or_default());
            self.line(&line);
            for rest in last {
                self.line(&format!("{}{rest}", " ".repeat(start)));
            }
        }
    }

    pub fn finish(self) -> String {
        self.0
    }
}

/// The words of a text on lines of at most this many characters.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// A value on one line, cut where it is long.
pub(super) fn on_one_line(value: &Value) -> String {
    cut(value, 160)
}

/// A value for a column that others follow.
pub(super) fn cell(value: &Value) -> String {
    cut(value, 48)
}

fn cut(value: &Value, length: usize) -> String {
    let text = one_line(&text_of(value));
    match text.char_indices().nth(length) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None if text.is_empty() => "\"\"".to_owned(),
        None => text,
    }
}

/// The value of a field in words: without the name that its path has.
pub(super) fn value(path: &str, value: &Value) -> String {
    let Value::Object(map) = value else {
        // The path of a capability has the value.
        let named = value.as_str().is_some_and(|value| path.ends_with(&format!("[{value}]")));
        return if named { String::new() } else { on_one_line(value) };
    };
    let is = |list: &str| path.contains(&format!("{list}["));
    if is("env") && map.contains_key("value") {
        return on_one_line(&map["value"]);
    }
    if is("volumeMounts") {
        let read_only = if value["readOnly"] == true { ", read-only" } else { "" };
        return format!("volume {}{read_only}", on_one_line(&value["name"]));
    }
    let mut rest = map.clone();
    if path.ends_with(']') {
        rest.shift_remove("name");
    }
    match (rest.len(), rest.iter().next()) {
        (0, _) => String::new(),
        (1, Some((key, value))) => format!("{key} {}", on_one_line(value)),
        _ => on_one_line(&Value::Object(rest)),
    }
}

/// A row of a name and a text.
pub(super) fn row(name: &str, text: &str) -> [String; 2] {
    [name.to_owned(), text.to_owned()]
}

pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_leave_out_what_their_path_says() {
        assert_eq!(value("volumeMounts[/x]", &json!({"name": "v", "readOnly": true})), "volume v, read-only");
        assert_eq!(
            value("spec.volumes[v]", &json!({"name": "v", "hostPath": {"path": "/x"}})),
            r#"hostPath {"path":"/x"}"#
        );
        assert_eq!(value("securityContext.capabilities.add[A]", &json!("A")), "");
    }

    #[test]
    fn the_last_column_continues_below_itself() {
        let mut text = Text::default();
        text.rows(2, &[["a".to_owned(), "word ".repeat(40)], ["bb".to_owned(), "x".to_owned()]]);
        let text = text.finish();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("  a   word") && lines[1].starts_with("      word"));
        assert_eq!(lines[2], "  bb  x");
    }
}
