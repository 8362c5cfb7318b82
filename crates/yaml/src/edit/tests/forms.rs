//! Edits of texts in every form: block and flow style, explicit keys, anchors, trailing commas, and comments in every
//! possible place.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::super::{flow::Flow, write};
use super::super::edit;
use super::{any_map, assert_reads, joined};

/// Writes a value in forms that a seed chooses.
struct Writer {
    seed: u64,
    out: String,
    comments: usize,
    anchors: usize,
}

impl Writer {
    fn choose(&mut self, choices: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % choices
    }

    fn comment(&mut self) {
        self.comments += 1;
        self.out.push_str(&format!("#c{}", self.comments));
    }

    fn line(&mut self, column: usize) {
        self.out.push('\n');
        write::blanks(&mut self.out, column);
    }

    /// White space between two tokens in flow style.
    fn gap(&mut self, column: usize) {
        match self.choose(8) {
            0 => self.out.push(' '),
            1 => self.line(column),
            2 => {
                self.out.push(' ');
                self.comment();
                self.line(column);
            }
            3 => {
                self.line(column);
                self.comment();
                self.line(column + 1);
            }
            _ => {}
        }
    }

    /// The end of a line in block style.
    fn end(&mut self, column: usize) {
        if self.choose(4) == 0 {
            self.out.push(' ');
            self.comment();
        }
        if self.choose(6) == 0 {
            self.line(column);
            self.comment();
        }
        self.out.push('\n');
    }

    fn anchor(&mut self) {
        if self.choose(8) == 0 {
            self.anchors += 1;
            self.out.push_str(&format!("&a{} ", self.anchors));
        }
    }

    fn flow(&mut self, value: &Value, column: usize) {
        match value {
            Value::Object(map) => {
                let entries: Vec<_> = map.iter().map(Some).collect();
                self.flow_items('{', '}', &entries, column, |writer, (key, value)| {
                    match writer.choose(4) {
                        0 => writer.out.push_str(&format!("\"{key}\":")),
                        1 => {
                            writer.out.push_str(&format!("? {key}"));
                            writer.gap(column + 1);
                            writer.out.push_str(" : ");
                        }
                        _ => writer.out.push_str(&format!("{key}: ")),
                    }
                    writer.anchor();
                    writer.flow(value, column);
                });
            }
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(Some).collect();
                self.flow_items('[', ']', &items, column, |writer, item| {
                    writer.anchor();
                    writer.flow(item, column);
                });
            }
            Value::String(text) if self.choose(3) == 0 && !text.contains(char::is_control) => {
                self.out.push_str(&format!("'{}'", text.replace('\'', "''")));
            }
            scalar => Flow::YAML.write(&mut self.out, scalar, ""),
        }
    }

    fn flow_items<T: Copy>(
        &mut self,
        open: char,
        close: char,
        items: &[Option<T>],
        column: usize,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.out.push(open);
        self.gap(column + 1);
        for (at, item) in items.iter().flatten().enumerate() {
            write(self, *item);
            self.gap(column + 1);
            if at + 1 < items.len() || self.choose(3) == 0 {
                self.out.push(',');
                self.out.push(' ');
                self.gap(column + 1);
            }
        }
        self.out.push(close);
    }

    /// A value after a key or a dash, and the end of its line.
    fn value(&mut self, value: &Value, column: usize) {
        self.out.push(' ');
        self.anchor();
        let is_block = match value {
            Value::Object(map) => !map.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => false,
        };
        if let Value::String(text) = value
            && text.contains('\n')
            && write::is_block_safe(text)
        {
            self.literal(value, column - 2);
        } else if is_block && self.choose(3) > 0 {
            self.end(column);
            self.block(value, column);
        } else {
            self.flow(value, column);
            self.end(column);
        }
    }

    /// A string of several lines, in a map or list at `column`.
    fn literal(&mut self, value: &Value, column: usize) {
        let mut block = String::new();
        write::write_scalar(&mut block, value, column);
        if let Some((header, lines)) = block.split_once('\n') {
            self.out.push_str(header);
            if self.choose(2) == 0 {
                self.out.push(' ');
                self.comment();
            }
            self.out.push_str(&format!("\n{lines}"));
        } else {
            self.out.push_str(&block);
        }
        if self.choose(3) == 0 {
            self.line(column);
            self.comment();
        }
        self.out.push('\n');
    }

    fn block(&mut self, value: &Value, column: usize) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    write::blanks(&mut self.out, column);
                    if self.choose(5) == 0 {
                        self.out.push_str(&format!("? {key}"));
                        self.end(column);
                        write::blanks(&mut self.out, column);
                        self.out.push(':');
                    } else {
                        self.out.push_str(&format!("{key}:"));
                    }
                    self.value(value, column + 2);
                }
            }
            Value::Array(items) => {
                for item in items {
                    write::blanks(&mut self.out, column);
                    self.out.push('-');
                    self.value(item, column + 2);
                }
            }
            _ => {}
        }
    }
}

/// The text of a value in the forms of a seed, and the number of its comments.
fn written(value: &Value, seed: u64) -> (String, usize) {
    let mut writer = Writer { seed, out: String::new(), comments: 0, anchors: 0 };
    if writer.choose(5) == 0 {
        writer.flow(value, 0);
        writer.end(0);
    } else {
        writer.block(value, 0);
    }
    let crlf = writer.choose(6) == 0;
    if writer.choose(6) == 0 && !writer.out.contains('|') {
        writer.out.pop();
    }
    let text = if crlf { writer.out.replace('\n', "\r\n") } else { writer.out };
    (text, writer.comments)
}

/// The numbers of the comments that a text has, in rising order.
fn comments(text: &str) -> Vec<usize> {
    let number = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    let mut numbers: Vec<usize> = text.split("#c").skip(1).filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, rng_seed: proptest::test_runner::RngSeed::Fixed(2026), ..ProptestConfig::default() })]

    #[test]
    fn additions_keep_every_comment(before in any_map(), added in any_map(), seed in any::<u64>()) {
        let (text, count) = written(&before, seed);
        assert_reads(&text, &before)?;
        let after = joined(&before, &added);
        let edited = edit(&text, &after, false).ok_or_else(|| TestCaseError::fail(format!("{after}\n{text}")))?;
        assert_reads(&edited.text, &after)?;
        prop_assert_eq!(comments(&edited.text), (1..=count).collect::<Vec<_>>(), "{}\nfrom\n{}", edited.text, text);
        prop_assert!(edited.lost.is_empty(), "{:?}", edited.lost);
        let is_block = edited.text.contains('|');
        prop_assert!(edited.text.ends_with('\n') == text.ends_with('\n') || is_block, "{}", edited.text);
        if text.contains("\r\n") {
            prop_assert_eq!(edited.text.matches('\n').count(), edited.text.matches("\r\n").count(), "{:?}", edited.text);
        }
    }

    #[test]
    fn a_comment_is_kept_or_reported(before in any_map(), after in any_map(), seed in any::<u64>()) {
        let (text, count) = written(&before, seed);
        let Some(edited) = edit(&text, &after, false) else { return Ok(()) };
        assert_reads(&edited.text, &after)?;
        let mut left = comments(&edited.text);
        left.extend(edited.lost.iter().flat_map(|comment| comments(&comment.text)));
        left.sort_unstable();
        prop_assert_eq!(left, (1..=count).collect::<Vec<_>>(), "{}\nfrom\n{}", edited.text, text);
    }

    #[test]
    fn an_alias_and_its_comments_stay(shared in any_map(), added in any_map(), seed in any::<u64>()) {
        let (text, _) = written(&json!({"a": shared}), seed);
        let Some(anchored) = text.strip_prefix("a:") else { return Ok(()) };
        if anchored.trim_start().starts_with('&') {
            return Ok(());
        }
        let line_end = if anchored.ends_with('\n') { "" } else { "\n" };
        let text = format!("a: &x{anchored}{line_end}b: *x # same\nc: {{<<: *x, # merged\n z: 1}}\n");
        let both = |shared: &Value| {
            let mut merged = shared.clone();
            merged["z"] = json!(1);
            json!({"a": shared, "b": shared, "c": merged})
        };
        assert_reads(&text, &both(&shared))?;
        let after = both(&joined(&shared, &added));
        let edited = edit(&text, &after, false).ok_or_else(|| TestCaseError::fail(format!("{after}\n{text}")))?;
        assert_reads(&edited.text, &after)?;
        prop_assert_eq!(comments(&edited.text), comments(&text), "{}\nfrom\n{}", edited.text, text);
        prop_assert!(edited.text.contains("b: *x # same\n") && edited.text.contains("<<: *x, # merged"), "{}", edited.text);
    }
}
