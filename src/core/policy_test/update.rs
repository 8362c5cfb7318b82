//! Rewrites the expected codes, patches and objects of cases, and nothing else of their file.

use serde_json::{Value, json};

use crate::core::engine::Reason;
use crate::core::yaml::{self, Span};

use super::case::CaseFile;
use super::check::{Actual, CaseResult};
use super::expectation::Expectation;

/// The replacement of a range of bytes.
struct Edit {
    start: usize,
    end: usize,
    text: String,
}

/// The text of a file with the expectations that its cases declare as `results` has them, one for each case. `None` if
/// nothing changes.
pub fn updated(file: &CaseFile, results: &[Option<CaseResult>]) -> Option<String> {
    let mut edits = Vec::new();
    for (case, result) in file.cases.iter().zip(results) {
        let Some(result) = result.as_ref().filter(|result| !result.differences.is_empty()) else { continue };
        for (expectation, actual) in case.expectations.iter().zip(&result.actual) {
            if let Some(actual) = actual {
                edits.extend(edits_of(&file.text, expectation, actual));
            }
        }
    }
    edits.sort_by_key(|edit| std::cmp::Reverse(edit.start));
    let mut text = file.text.clone();
    for Edit { start, end, text: new } in edits {
        text.replace_range(start..end, &new);
    }
    (text != file.text).then_some(text)
}

fn edits_of(text: &str, expectation: &Expectation, actual: &Actual) -> Vec<Edit> {
    let mut edits = Vec::new();
    if let Some(outcome) = expectation.outcome.as_ref().filter(|outcome| outcome.value != actual.outcome) {
        edits.push(scalar(text, outcome.at, actual.outcome));
    }
    if let Some(reason) = &expectation.reason {
        match actual.reason.as_ref().map(Reason::code) {
            Some(code) if code == reason.value => {}
            Some(code) => edits.push(scalar(text, reason.at, code)),
            None => edits.extend(entry(text, reason.key).map(|(start, end)| {
                let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
                Edit { start: line, end: (end + 1).min(text.len()), text: String::new() }
            })),
        }
    }
    if let Some(warnings) = &expectation.warnings {
        let mut expected = warnings.value.clone();
        expected.sort();
        if expected != actual.warnings {
            let list = format!("[{}]", actual.warnings.join(", "));
            edits.extend(value(text, warnings.key, warnings.at, &json!(actual.warnings), Some(list)));
        }
    }
    if let Some(patch) = expectation.patch.as_ref().filter(|patch| patch.value != actual.patch) {
        edits.extend(value(text, patch.key, patch.at, &actual.patch, None));
    }
    if let (Some(object), Some(pod)) = (&expectation.object, &actual.pod)
        && object.value != *pod
    {
        edits.extend(value(text, object.key, object.at, pod, None));
    }
    edits
}

/// Replaces a scalar.
fn scalar(text: &str, at: Span, new: &str) -> Edit {
    let start = offset(text, at);
    let end = start + text[start..].chars().take(at.length).map(char::len_utf8).sum::<usize>();
    Edit { start, end, text: new.to_owned() }
}

/// Replaces a list or map. One in brackets is written as `flow` if there is such a form of the new value.
fn value(text: &str, key: Span, at: Span, new: &Value, flow: Option<String>) -> Option<Edit> {
    let start = offset(text, at);
    if let Some(flow) = flow.filter(|_| text[start..].starts_with('[')) {
        let end = start + text[start..].find(']')? + 1;
        return Some(Edit { start, end, text: flow });
    }
    let (start, end) = entry(text, key)?;
    let indent = " ".repeat(key.column + 1);
    let is_empty =
        new.as_array().is_some_and(Vec::is_empty) || new.as_object().is_some_and(serde_json::Map::is_empty);
    let mut written = text[start..start + key.length].to_owned();
    written.push(':');
    if is_empty {
        written.push_str(&format!(" {new}"));
    } else {
        for line in yaml::write(new).lines() {
            let blanks = if line.is_empty() { "" } else { &indent };
            written.push_str(&format!("\n{blanks}{line}"));
        }
    }
    Some(Edit { start, end, text: written })
}

/// The bytes from a key of a block map to the end of its value, without the last line break. `None` within braces.
fn entry(text: &str, key: Span) -> Option<(usize, usize)> {
    let start = offset(text, key);
    let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
    if !text[line..start].chars().all(|c| c == ' ' || c == '-') {
        return None;
    }
    let indent = key.column - 1;
    let mut end = start + text[start..].find('\n').unwrap_or(text.len() - start);
    let mut at = end;
    while at < text.len() {
        let next = &text[at + 1..];
        let line = next.split('\n').next().unwrap_or_default();
        let content = line.trim_start();
        let depth = line.len() - content.len();
        let is_item = depth == indent && (content.starts_with("- ") || content == "-");
        let is_blank = content.is_empty() || content.starts_with('#');
        if !(is_blank || depth > indent || is_item) {
            break;
        }
        at += 1 + line.len();
        if !is_blank || depth > indent && !content.is_empty() {
            end = at;
        }
        if next.len() == line.len() {
            break;
        }
    }
    Some((start, end))
}

fn offset(text: &str, at: Span) -> usize {
    let start: usize = text.split_inclusive('\n').take(at.line - 1).map(str::len).sum();
    start + text[start..].chars().take(at.column - 1).map(char::len_utf8).sum::<usize>()
}
