//! `fabric-injector policy check`: every error and warning in policy files.

mod formats;

use std::path::Path;

use anyhow::bail;
use clap::{Args, ValueEnum};

use crate::core::check::{check, has_errors};
use crate::core::counted;
use crate::core::policy::{Foreign, Severity, SourceError};
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
    let mut skipped = Vec::new();
    for name in &arguments.policies {
        for (file, text) in policies_of(name, &mut skipped)? {
            // A file can be named twice, by itself and by its folder.
            if !files.iter().any(|(known, _)| Path::new(known) == Path::new(&file)) {
                files.push((file, text));
            }
        }
    }
    for message in notes(&skipped) {
        output.message(&message);
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

/// The texts of a file or of a built-in policy, and those of a folder that are no other files.
fn policies_of(name: &str, skipped: &mut Vec<(String, Foreign)>) -> anyhow::Result<Vec<(String, String)>> {
    let texts = policy_texts(name)?;
    if !Path::new(name).is_dir() {
        return Ok(texts);
    }
    let before = skipped.len();
    let mut policies = Vec::new();
    for (file, text) in texts {
        match Foreign::of(&text) {
            Some(foreign) => skipped.push((file, foreign)),
            None => policies.push((file, text)),
        }
    }
    if policies.is_empty() {
        let notes = notes(&skipped[before..]).join("\n");
        bail!("{name} has no policy in it; a policy has `kind: FabricPolicy`\n{notes}");
    }
    Ok(policies)
}

/// A note about the files of cases, and one about the other files that are no policies.
fn notes(skipped: &[(String, Foreign)]) -> Vec<String> {
    const SHOWN: usize = 5;
    let (cases, others): (Vec<_>, Vec<_>) = skipped.iter().partition(|(_, foreign)| foreign.is_cases());
    let listed = |files: &[&(String, Foreign)]| {
        let kind =
            |foreign: &Foreign| foreign.kind.as_ref().map(|kind| format!(" ({kind})")).unwrap_or_default();
        let mut shown: Vec<String> =
            files.iter().take(SHOWN).map(|(file, foreign)| format!("{file}{}", kind(foreign))).collect();
        if files.len() > SHOWN {
            shown.push(format!("{} more", files.len() - SHOWN));
        }
        shown.join(", ")
    };
    let mut notes = Vec::new();
    if let [(first, _), ..] = cases.as_slice() {
        let folder = Path::new(first).parent().unwrap_or(Path::new("."));
        notes.push(format!(
            "not checked, cases: {}; run `fabric-injector policy test {}`",
            listed(&cases),
            folder.display()
        ));
    }
    if !others.is_empty() {
        notes.push(format!("not checked, no policies: {}", listed(&others)));
    }
    notes
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
