//! `--fail-on`: the warnings that count as a failure, for continuous integration; and the related options.

use std::collections::BTreeSet;

use anyhow::bail;
use clap::{Args, ValueEnum};

use fabric_policy::source::closest;

/// The options of a command that prints findings.
#[derive(Debug, Args)]
pub(super) struct FindingArguments {
    /// The format of standard output
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t = FindingFormat::Text)]
    pub(super) output: FindingFormat,
    #[command(flatten)]
    pub(super) fail_on: FailOnArguments,
}

/// The options for warnings that count as a failure.
#[derive(Debug, Args)]
pub(super) struct FailOnArguments {
    /// Exit with status 1 if there are warnings, and no errors
    #[arg(long, conflicts_with = "fail_on")]
    fail_on_warning: bool,
    /// Exit with status 1 if there are warnings, or warnings with these codes, and no errors
    #[arg(long, value_name = "warning[=CODE,…]", value_parser = fail_on)]
    fail_on: Option<FailOn>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FindingFormat {
    /// For people
    Text,
    /// One JSON array
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Workflow commands of GitHub Actions
    Github,
}

impl FailOnArguments {
    pub(super) fn given(&self) -> Option<&FailOn> {
        if self.fail_on_warning { Some(&FailOn::Any) } else { self.fail_on.as_ref() }
    }
}

#[derive(Debug, Clone)]
pub(super) enum FailOn {
    Any,
    Codes(Vec<String>),
}

pub(super) fn fail_on(text: &str) -> Result<FailOn, String> {
    match text.split_once('=') {
        None if text == "warning" => Ok(FailOn::Any),
        Some(("warning", codes)) if codes.split(',').all(|code| !code.trim().is_empty()) => {
            Ok(FailOn::Codes(codes.split(',').map(|code| code.trim().to_owned()).collect()))
        }
        _ => Err("write `warning`, or `warning=CODE,…` with the codes of a report".to_owned()),
    }
}

impl FailOn {
    /// Fails for a code that no warning has: it would never count.
    pub(super) fn validate<'a>(&self, known: impl IntoIterator<Item = &'a str>) -> anyhow::Result<()> {
        let Self::Codes(codes) = self else { return Ok(()) };
        let known: BTreeSet<&str> = known.into_iter().collect();
        if let Some(code) = codes.iter().find(|code| !known.contains(code.as_str())) {
            let has_words = |known: &&str| code.split('_').all(|word| known.contains(word));
            let words = || known.iter().copied().find(has_words);
            let hint = match closest(code, known.iter().copied()).or_else(words) {
                Some(closest) => format!("did you mean `{closest}`?"),
                None => "a report has the code of each warning next to it".to_owned(),
            };
            bail!("--fail-on: no warning has the code `{code}`\nhint: {hint}");
        }
        Ok(())
    }

    pub(super) fn counts(&self, code: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Codes(codes) => codes.iter().any(|known| known == code),
        }
    }
}
