//! `fabric-injector policy check`: every error and warning in policy files.

mod formats;

use std::path::Path;

use clap::{Args, ValueEnum};

use crate::core::counted;
use crate::core::check::{check, has_errors};
use crate::core::policy::{Severity, SourceError};
use crate::shell::builtin;
use crate::shell::policy_sources::policy_texts;

use super::super::ExitStatus;
use super::super::output::Output;

/// Report every error and warning in policies. The exit status is 2 for errors, 1 for warnings with
/// `--fail-on-warning`, else 0
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Policy files, folders of them, and names of built-in policies, which are checked together
    #[arg(value_name = "FILE|DIR|NAME", required = true)]
    policies: Vec<String>,
    /// The format of standard output
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// Exit with status 1 if there are warnings, and no errors
    #[arg(long)]
    fail_on_warning: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The line of each error, with a marker and a hint
    Text,
    /// One JSON array
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Workflow commands of GitHub Actions
    Github,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let mut files: Vec<(String, String)> = Vec::new();
    for name in &arguments.policies {
        for (file, text) in policy_texts(name)? {
            // A file can be named twice, by itself and by its folder.
            if !files.iter().any(|(known, _)| Path::new(known) == Path::new(&file)) {
                files.push((file, text));
            }
        }
    }
    let found = check(&files, &builtin::files()?);
    output.data(formats::shown(arguments.output, &found)?.as_bytes())?;
    output.message(&summary(&found, files.len()));
    Ok(match found.as_slice() {
        found if has_errors(found) => ExitStatus::Bad,
        [_, ..] if arguments.fail_on_warning => ExitStatus::Warned,
        _ => ExitStatus::Done,
    })
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
