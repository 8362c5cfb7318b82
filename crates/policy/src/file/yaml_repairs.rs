//! The line that causes an error of YAML, which the parser often notices only later: the first of a few small changes to
//! one line with which the parser gets further.

use fabric_yaml::{self as yaml, Error, Span};

use crate::source::{closest, did_you_mean};

/// What is wrong with a line.
pub(super) struct Repair {
    pub(super) span: Span,
    pub(super) cause: String,
    pub(super) hint: String,
}

/// The longest beginning of a file that is read again, in bytes.
const LONGEST: usize = 64 * 1024;

/// The lines before an error that may cause it, without empty ones, and those of them whose indentation may.
const BEFORE: usize = 8;
const INDENTED: usize = 4;

/// The lines after an error that the parser has to read without another one.
const AFTER: usize = 2;

/// The first change that helps.
pub(super) fn first(text: &str, error: &Error) -> Option<Repair> {
    if let Some(repair) = anchor(text, error) {
        return Some(repair);
    }
    // What kubectl does not read, and aliases, are not matters of one line.
    if ["kubectl", "alias"].iter().any(|word| error.message.contains(word)) {
        return None;
    }
    let lines: Vec<&str> = text.lines().take(error.span.line + AFTER + 1).collect();
    let is_full = |at: &usize| lines.get(*at).is_some_and(|line| !line.trim().is_empty());
    let near: Vec<usize> = (0..=error.span.line).rev().filter(is_full).take(BEFORE + 2).collect();
    let around = |nth: usize| {
        let before = near.get(nth + 1).map_or("", |before| lines[*before]);
        (before, nth.checked_sub(1).map_or("", |after| lines[near[after]]))
    };
    let written = near.iter().enumerate().find_map(|(nth, at)| {
        let changes = changes(lines[*at], around(nth)).into_iter();
        let change = changes.into_iter().find(|change| helps(text, error, *at, &change.line))?;
        Some(change.repair(lines[*at], *at))
    });
    // A key in the column of the `-` before it, of which there may be several. Where a list begins in the column of its
    // own key, the next key is right there.
    let at_dash = || {
        let is_item = |line: &str| line.trim_start().starts_with("- ");
        let (nth, at) = near.iter().enumerate().take(INDENTED).find(|(nth, at)| {
            let (line, (before, _)) = (lines[**at], around(*nth));
            let full = lines[..**at].iter().rev().filter(|line| !line.trim().is_empty());
            let mut of_list = full.take_while(|other| blanks(other) >= blanks(line));
            is_item(before)
                && !is_item(line)
                && blanks(line) == blanks(before)
                && of_list.all(|other| is_item(other) || blanks(other) > blanks(line))
        })?;
        let column = content(around(nth).0);
        let change =
            columns(lines[*at], around(nth)).into_iter().find(|change| blanks(&change.line) == column)?;
        Some(change.repair(lines[*at], *at))
    };
    let indented = || {
        near.iter().enumerate().take(INDENTED + 1).rev().find_map(|(nth, at)| {
            let changes = columns(lines[*at], around(nth)).into_iter();
            let change = changes.into_iter().find(|change| helps(text, error, *at, &change.line))?;
            Some(change.repair(lines[*at], *at))
        })
    };
    written.or_else(at_dash).or_else(indented)
}

/// Returns whether the parser gets further with another line in place of one, by its index.
pub(super) fn helps(text: &str, error: &Error, at: usize, changed: &str) -> bool {
    let mut lines: Vec<&str> = text.lines().take(error.span.line + AFTER + 1).collect();
    if lines.iter().map(|line| line.len()).sum::<usize>() > LONGEST || at >= lines.len() {
        return false;
    }
    lines[at] = changed;
    yaml::read_unique(&lines.join("\n"))
        .map_or_else(|later| later.span.line > error.span.line + AFTER, |_| true)
}

/// Another form of a line, and what is wrong with the one that it has.
struct Change {
    line: String,
    cause: String,
    hint: String,
}

impl Change {
    /// With the text that is right as the hint.
    fn to(line: String, cause: &str) -> Self {
        let hint = format!("write `{}`", line.trim());
        Self { line, cause: cause.to_owned(), hint }
    }

    fn repair(self, line: &str, at: usize) -> Repair {
        let written = line.trim();
        let column = line.chars().count() - line.trim_start().chars().count() + 1;
        let span = Span { line: at + 1, column, length: written.chars().count() };
        Repair { span, cause: self.cause, hint: self.hint }
    }
}

/// Changes to the text of a line, between the lines before and after it.
fn changes(line: &str, (before, after): (&str, &str)) -> Vec<Change> {
    let (indent, written) = line.split_at(line.len() - line.trim_start().len());
    let item = written.strip_prefix("- ").unwrap_or(written);
    let start = &line[..line.len() - item.len()];
    let mut all = blank(line, before);
    if let Some(rest) = written.strip_prefix('-').filter(|rest| rest.starts_with(char::is_alphabetic)) {
        all.push(Change::to(format!("{indent}- {rest}"), "`-` has no space after it"));
    }
    if let Some((key, value)) = item.split_once(':').filter(|(key, value)| is_word(key) && !value.is_empty())
    {
        let line = format!("{start}{key}: {}", value.trim_start());
        all.push(Change::to(line, "a colon has no space after it"));
    }
    let assigned = item.split_once('=').filter(|(key, _)| is_word(key.trim()));
    let (key, value) = assigned.or_else(|| item.split_once(' ')).unwrap_or((item, ""));
    let is_key = !item.contains(": ") && !item.ends_with(':') && !begins_text(before);
    if is_word(key.trim()) && (is_key || value.is_empty() || is_word(value)) {
        let line = format!("{start}{}: {}", key.trim(), value.trim());
        all.push(Change::to(line.trim_end().to_owned(), "a key has no colon after it"));
    }
    // An item whose keys are below it in another column is one of a list.
    if written.starts_with("- ") && (item.starts_with('{') || blanks(after) >= content(line)) {
        let inner = item.trim().trim_start_matches('{').trim_end_matches('}');
        let mut pairs = inner.split(", ").filter_map(|pair| pair.split_once(": "));
        if let Some((_, name)) = pairs.next().filter(|(key, _)| *key == "name") {
            let value = pairs.find(|(key, _)| *key == "value").map_or("", |(_, value)| value);
            let line = format!("{indent}{name}: {value}");
            all.push(Change::to(line.trim_end().to_owned(), "an item of a list is among keys"));
        }
    }
    if line.contains("class: ") {
        let hint = "write `class:NAME` as one word".to_owned();
        let cause = "`class:` has a space after it".to_owned();
        all.push(Change { line: line.replace("class: ", "class:"), cause, hint });
    }
    all
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./,".contains(&byte))
}

/// A line with spaces in place of other white space, in each column in which it may begin.
fn blank(line: &str, before: &str) -> Vec<Change> {
    let Some(other) = line.chars().find(|c| c.is_whitespace() && *c != ' ') else { return Vec::new() };
    let name = if other == '\t' { "a tab".to_owned() } else { format!("U+{:04X}", u32::from(other)) };
    let (indent, written) = line.split_at(line.len() - line.trim_start().len());
    let hint = if indent.contains(other) {
        if other == '\t' { "indent with spaces: YAML allows no tabs there" } else { "indent with spaces" }
    } else {
        "write a space in its place"
    };
    let spaced = written.replace(char::is_whitespace, " ");
    let change = |column: usize| Change {
        line: format!("{}{spaced}", " ".repeat(column)),
        cause: format!("{name} is no space"),
        hint: hint.to_owned(),
    };
    [indent.chars().count(), content(before), content(before) + 2].into_iter().map(change).collect()
}

/// Returns whether the text of a value is on the lines after this one.
fn begins_text(line: &str) -> bool {
    line.trim_end().ends_with(['>', '|', '-'])
}

/// A line in each other column in which it may begin, by the lines around it.
fn columns(line: &str, (before, after): (&str, &str)) -> Vec<Change> {
    let (own, written) = (blanks(line), line.trim_start());
    let is_text = begins_text(before) && !written.starts_with("- ");
    let change = |column: usize| {
        let hint = if is_text && column > own {
            "indent the text of a value more than its key".to_owned()
        } else {
            format!("begin the keys of one entry in one column: indent this one by {column}")
        };
        let cause = format!("this line begins after {own} spaces, and fits after {column}");
        Change { line: format!("{}{written}", " ".repeat(column)), cause, hint }
    };
    let mut columns = vec![blanks(after), content(before), blanks(before), content(before) + 2];
    // Of an item that begins anywhere, the column is most likely that of another one.
    columns.extend(written.starts_with("- ").then_some([2, 4, 6, 8, 10, 12]).into_iter().flatten());
    columns.retain(|column| *column != own);
    columns.sort_by_key(|column| column.abs_diff(own));
    columns.into_iter().map(change).collect()
}

/// The number of spaces before a line.
fn blanks(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// The number of characters before the first key of a line, which may be an item of a list.
fn content(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '-']).len()
}

/// An alias for which the file has no anchor.
fn anchor(text: &str, error: &Error) -> Option<Repair> {
    let line = text.lines().nth(error.span.line.checked_sub(1)?)?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let names = |text: &'_ str, mark: char| -> Vec<String> {
        let parts = text.split(mark).skip(1);
        parts.map(|rest| rest.chars().take_while(|c| is_name(*c)).collect()).collect()
    };
    let known = names(text, '&');
    let alias = names(line, '*').into_iter().find(|name| !name.is_empty() && !known.contains(name));
    let alias = alias.filter(|_| error.message.contains("anchor"))?;
    let near = closest(&alias, known.iter().map(String::as_str));
    let hint = near.map_or_else(
        || "put quotes around a text that begins with `*`, or write the value out".to_owned(),
        |near| did_you_mean(&format!("*{near}")),
    );
    Some(Repair { span: error.span, cause: format!("there is no anchor `&{alias}` in this file"), hint })
}
