//! `fabric-injector policy check`: every error and warning in policy files.

use std::path::Path;

use clap::Args;
use serde_json::Value;

use crate::builtin;
use crate::policy_sources::{each_policy_text, notes};
use fabric_allocator::held;
use fabric_policy::source::{UNKNOWN_BASE, UNREADABLE_FILE, WARNINGS};
use fabric_policy::work::Work;
use fabric_policy::{Diagnostic, Severity, SourceError};
use fabric_tools::policy_check::{check, has_errors};
use fabric_yaml::Span;
use fabric_yaml::counted;

use super::super::ExitStatus;
use super::super::fail_on::{FindingArguments, FindingFormat};
use super::super::output::Output;
use super::formats;

/// Report every error and warning in policies. The exit status is 2 for errors, 1 for warnings with
/// `--fail-on-warning` or `--fail-on`, else 0
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Policy files, folders of them, and names of built-in policies, which are checked together
    #[arg(value_name = "FILE|DIR|NAME", required = true)]
    policies: Vec<String>,
    #[command(flatten)]
    findings: FindingArguments,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let fail_on = arguments.findings.fail_on.given();
    fail_on.map_or(Ok(()), |fail_on| fail_on.validate(WARNINGS.iter().copied()))?;
    let mut files: Vec<(String, String)> = Vec::new();
    let mut found: Vec<SourceError> = Vec::new();
    let mut others = Vec::new();
    for name in &arguments.policies {
        for (file, text) in each_policy_text(name, true, &mut others)? {
            let is_same = |known: &str| Path::new(known) == Path::new(&file);
            // A file can be named twice, by itself and by its folder.
            if files.iter().any(|(known, _)| is_same(known)) || found.iter().any(|error| is_same(&error.file))
            {
                continue;
            }
            match text {
                Ok(text) => files.push((file, text)),
                Err(error) => found.push(unreadable(&file, &error)),
            }
        }
    }
    for message in notes("checked", &others) {
        output.message(&message);
    }
    let of_files = check(&files, builtin::files(), &Work::of_loading().measured_by(held)).into_iter();
    let (all_read, count) = (found.is_empty(), files.len() + found.len());
    // A base may seem to be missing because its file could not be read.
    found.extend(of_files.filter(|error| all_read || error.diagnostic.code != UNKNOWN_BASE));
    let text: String = match arguments.findings.output {
        FindingFormat::Text => found.iter().map(formats::text).collect(),
        FindingFormat::Json => format!("{:#}\n", found.iter().map(formats::object).collect::<Value>()),
        FindingFormat::Sarif => formats::sarif(&found),
        FindingFormat::Github => found.iter().map(formats::command).collect(),
    };
    output.text(&text)?;
    output.message(&summary(&found, count));
    Ok(match found.as_slice() {
        found if has_errors(found) => ExitStatus::Bad,
        found if found.iter().any(|found| fail_on.is_some_and(|on| on.counts(found.diagnostic.code))) => {
            ExitStatus::Warned
        }
        _ => ExitStatus::Done,
    })
}

/// The error of a file that cannot be read. The others are still checked.
fn unreadable(file: &str, error: &anyhow::Error) -> SourceError {
    let message = format!("{error:#}");
    let diagnostic = Diagnostic::error(UNREADABLE_FILE, Span { line: 1, column: 1, length: 1 }, message);
    SourceError::new(file, "", diagnostic.hint("a policy is a file in UTF-8 of at most 4 MiB"))
}

fn summary(found: &[SourceError], files: usize) -> String {
    let of = |severity| found.iter().filter(|error| error.diagnostic.severity == severity).count();
    format!(
        "{} and {} in {}",
        counted(of(Severity::Error), "error"),
        counted(of(Severity::Warning), "warning"),
        counted(files, "file")
    )
}
