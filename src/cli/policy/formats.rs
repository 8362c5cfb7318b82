//! Errors and warnings in files as text, as JSON, and for code scanning and continuous integration.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use fabric_policy::{Diagnostic, Severity, SourceError};

/// The text of an error with its code.
pub(super) fn text(error: &SourceError) -> String {
    let severity = severity(&error.diagnostic);
    let text = error.to_string();
    let rest = text.strip_prefix(severity).unwrap_or(&text);
    format!("{severity}[{}]{rest}\n\n", error.diagnostic.code)
}

fn severity(diagnostic: &Diagnostic) -> &'static str {
    match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

pub(super) fn object(error: &SourceError) -> Value {
    let Diagnostic { code, message, span, hint, .. } = &*error.diagnostic;
    json!({
        "file": error.file,
        "line": span.line.max(1),
        "column": span.column.max(1),
        "length": span.length.max(1),
        "severity": severity(&error.diagnostic),
        "code": code,
        "message": message,
        "hint": hint,
        "source": error.line(),
    })
}

pub(super) fn sarif(found: &[SourceError]) -> String {
    sarif_log(found.iter().map(|error| {
        let Diagnostic { code, message, span, hint, .. } = &*error.diagnostic;
        let hint = hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let (line, column) = (span.line.max(1), span.column.max(1));
        let region = json!({
            "startLine": line, "startColumn": column, "endColumn": column + span.length.max(1),
            "snippet": {"text": error.line()},
        });
        sarif_result(severity(&error.diagnostic), &error.file, &region, code, &format!("{message}{hint}"))
    }))
}

/// A result of a SARIF log, at a place in a file.
pub(crate) fn sarif_result(level: &str, file: &str, region: &Value, code: &str, message: &str) -> Value {
    json!({
        "ruleId": code,
        "level": level,
        "message": {"text": message},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri(file)}, "region": region}}],
    })
}

/// A SARIF 2.1.0 log, with a rule for each code of the results.
pub(crate) fn sarif_log(results: impl Iterator<Item = Value>) -> String {
    let results: Vec<Value> = results.collect();
    let codes: BTreeSet<&str> = results.iter().filter_map(|result| result["ruleId"].as_str()).collect();
    let rules: Vec<Value> = codes.iter().map(|code| json!({"id": code})).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": env!("CARGO_PKG_NAME"),
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    format!("{log:#}\n")
}

/// A path as a URI: relative ones are relative to the checkout.
fn uri(path: &str) -> String {
    let mut uri = String::from(if path.starts_with('/') { "file://" } else { "" });
    let path = path.strip_prefix("./").unwrap_or(path);
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            other => _ = write!(uri, "%{other:02X}"),
        }
    }
    uri
}

/// A workflow command of GitHub Actions.
pub(super) fn command(error: &SourceError) -> String {
    let Diagnostic { code, message, span, hint, .. } = &*error.diagnostic;
    let hint = hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    let (line, column) = (span.line.max(1), span.column.max(1));
    let place = format!("line={line},col={column},endColumn={}", column + span.length.max(1));
    workflow_command(severity(&error.diagnostic), &error.file, &place, code, &format!("{message}{hint}"))
}

/// A workflow command of GitHub Actions about a place in a file.
pub(crate) fn workflow_command(command: &str, file: &str, place: &str, title: &str, message: &str) -> String {
    format!("::{command} file={},{place},title={title}::{}\n", property(file), escaped(message))
}

fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    escaped(text).replace(':', "%3A").replace(',', "%2C")
}
