//! `--fail-on`: the warnings that count as a failure, for continuous integration.

use std::collections::BTreeSet;

use anyhow::bail;

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
            let known: Vec<&str> = known.into_iter().collect();
            bail!("--fail-on: no warning has the code `{code}`; the codes are {}", known.join(", "));
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
