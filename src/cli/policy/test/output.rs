//! The results of cases as text, as JSON, and as XML that CI systems read.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;

use fabric_policy::{Diagnostic, SourceError};
use fabric_tools::explain::Text;
use fabric_tools::policy_test::{Difference, Kind, Seen};
use fabric_yaml::Span;
use fabric_yaml::escape::line;

use super::{CaseReport, Report};

/// One line for each case, the differences of those that fail, the coverage, and the totals.
pub(super) fn text(report: &Report<'_>, with_coverage: bool) -> String {
    let mut out = String::new();
    for case in &report.cases {
        if case.differences.is_empty() {
            let _ = writeln!(out, "ok    {}", line(&format!("{}: {}", case.file, case.name)));
        } else {
            let _ = writeln!(out, "FAIL  {}", line(&format!("{}:{}: {}", case.file, case.line, case.name)));
            out.push_str(&differences(case));
        }
    }
    for file in &report.unused {
        let _ = writeln!(out, "FAIL  {}: no case uses this file", line(file));
    }
    if with_coverage {
        out.push_str(&coverage(report));
    }
    let failed = report.failing().count();
    let passed = report.cases.len() - failed;
    let _ = write!(out, "{passed} passed, {failed} failed");
    if !report.unused.is_empty() {
        let _ = write!(out, ", {} not used", report.unused.len());
    }
    out.push('\n');
    out
}

fn differences(case: &CaseReport<'_>) -> String {
    let mut out = String::new();
    for Difference { at, expected, actual } in &case.differences {
        let _ = writeln!(out, "        {}", line(at));
        for (sign, value) in [('-', expected), ('+', actual)] {
            for part in value.iter().flat_map(|value| value.lines()) {
                let _ = writeln!(out, "      {sign}   {part}");
            }
        }
    }
    out
}

fn coverage(report: &Report<'_>) -> String {
    let unseen: Vec<[String; 3]> = report
        .unseen()
        .map(|(policy, _, seen)| [policy.to_owned(), seen.describe(), seen.lacking().to_owned()])
        .collect();
    let mut table = Text::default();
    table.rows(0, &unseen);
    let mut out = table.finish();
    let parts = report.coverage.policies().flat_map(|(_, _, parts)| parts);
    let (rows, others): (Vec<&Seen>, Vec<&Seen>) = parts.partition(|part| part.kind == Kind::Row);
    let seen: usize = others.iter().map(|part| usize::from(part.yes > 0) + usize::from(part.no > 0)).sum();
    let _ = write!(out, "coverage: {seen} of {} values of rules and conditions", 2 * others.len());
    if !rows.is_empty() {
        let seen = rows.iter().filter(|row| row.is_complete()).count();
        let _ = write!(out, ", {seen} of {} values of machines", rows.len());
    }
    out.push('\n');
    out
}

pub(super) fn json(report: &Report<'_>) -> String {
    let cases = report.cases.iter().map(|case| {
        let differences = case.differences.iter().map(|difference| {
            json!({"at": difference.at, "expected": difference.expected, "actual": difference.actual})
        });
        json!({
            "file": case.file,
            "line": case.line,
            "name": case.name,
            "passed": case.differences.is_empty(),
            "differences": differences.collect::<Vec<_>>(),
        })
    });
    let policies = report.coverage.policies().map(|(policy, file, seen)| {
        let parts = seen.iter().map(|part| json!({"part": part.describe(), "yes": part.yes, "no": part.no}));
        json!({"policy": policy, "file": file, "parts": parts.collect::<Vec<_>>()})
    });
    let report = json!({
        "passed": report.cases.len() - report.failing().count(),
        "failed": report.failing().count(),
        "cases": cases.collect::<Vec<_>>(),
        "unused": report.unused,
        "coverage": policies.collect::<Vec<_>>(),
    });
    format!("{report}\n")
}

pub(super) fn junit(report: &Report<'_>, lacking: &[(&str, &str, &Seen)]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let others = report.unused.len() + lacking.len();
    let (failures, tests) = (report.failing().count() + others, report.cases.len() + others);
    let _ = writeln!(out, "<testsuites tests=\"{tests}\" failures=\"{failures}\">");
    let mut files: Vec<&str> = report.cases.iter().map(|case| case.file).collect();
    files.dedup();
    for file in files {
        let cases: Vec<_> = report.cases.iter().filter(|case| case.file == file).collect();
        let failed = cases.iter().filter(|case| !case.differences.is_empty()).count();
        let (name, count) = (attribute(file), cases.len());
        let time: Duration = cases.iter().map(|case| case.time).sum();
        let time = time.as_secs_f64();
        let _ = writeln!(
            out,
            "  <testsuite name=\"{name}\" tests=\"{count}\" failures=\"{failed}\" time=\"{time:.3}\">"
        );
        for case in cases {
            let (own, time) = (attribute(case.name), case.time.as_secs_f64());
            let head = format!("<testcase classname=\"{name}\" name=\"{own}\" time=\"{time:.3}\"");
            if case.differences.is_empty() {
                let _ = writeln!(out, "    {head}/>");
            } else {
                let first = case.differences.first().map(|first| first.at.as_str()).unwrap_or_default();
                let message = attribute(&format!("{}:{}: {first} is not as expected", case.file, case.line));
                let text = escaped(&differences(case));
                let _ = writeln!(out, "    {head}>\n      <failure message=\"{message}\">{text}</failure>");
                let _ = writeln!(out, "    </testcase>");
            }
        }
        out.push_str("  </testsuite>\n");
    }
    let unused = report.unused.iter().map(|file| ("files", file.clone(), "no case uses this file"));
    let lacking = lacking.iter().map(|(policy, _, seen)| (*policy, seen.describe(), seen.lacking()));
    for (suite, found) in [("files", unused.collect::<Vec<_>>()), ("coverage", lacking.collect())] {
        if found.is_empty() {
            continue;
        }
        let count = found.len();
        let _ = writeln!(out, "  <testsuite name=\"{suite}\" tests=\"{count}\" failures=\"{count}\">");
        for (class, name, message) in found {
            let (class, name) = (attribute(class), attribute(&name));
            let _ = writeln!(
                out,
                "    <testcase classname=\"{class}\" name=\"{name}\"><failure message=\"{message}\"/></testcase>"
            );
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

/// The cases that fail, the files that no case uses and the coverage that is missing, each as an error in its file.
pub(super) fn failures(report: &Report<'_>, lacking: &[(&str, &str, &Seen)]) -> Vec<SourceError> {
    let error = |file: &str, line: usize, code: &'static str, message: String| {
        let span = Span { line, column: 1, length: 1 };
        SourceError::new(file, "", Diagnostic::error(code, span, message))
    };
    let failed = report.failing().map(|case| {
        error(case.file, case.line, "case_failed", format!("{}\n{}", line(case.name), differences(case)))
    });
    let unused =
        report.unused.iter().map(|file| error(file, 1, "unused_file", "no case uses this file".to_owned()));
    let lacking = lacking.iter().map(|(_, _, seen)| {
        error(&seen.file, seen.line, "not_covered", format!("{}: {}", seen.describe(), seen.lacking()))
    });
    failed.chain(unused).chain(lacking).collect()
}

/// A value of an attribute.
fn attribute(text: &str) -> String {
    escaped(&line(text))
}

/// Text for an attribute or the content of an element.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
