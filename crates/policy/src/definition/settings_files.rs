//! Settings of libraries: environment variables for processes that a container does not start itself.
//!
//! A rank that `mpirun` starts over ssh does not inherit the environment of its container. It reads the files that its
//! libraries read.

use crate::interpolation::Interpolation;

/// Variables of one library.
#[derive(Debug, Clone)]
pub struct SettingsFile {
    /// The name of the file without its ending, for annotations, volumes and reports.
    pub name: String,
    /// Names, or beginnings of names that end in `*`.
    pub variables: Vec<String>,
    pub when: Option<Interpolation>,
    /// The path at which the library reads a file of `NAME=VALUE` lines.
    pub path: String,
    /// The variable that names another file.
    pub env: Option<String>,
}

impl SettingsFile {
    /// Returns whether a variable is one of these settings.
    pub fn include(&self, variable: &str) -> bool {
        self.variables.iter().any(|pattern| includes(pattern, variable))
    }
}

/// Returns whether a variable is one of those that a pattern names.
pub fn includes(pattern: &str, variable: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => variable.starts_with(beginning),
        None => variable == pattern,
    }
}
