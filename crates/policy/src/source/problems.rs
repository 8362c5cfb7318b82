//! Errors, collected so that one does not hide the others.

use super::diagnostic::Diagnostic;

/// The errors that reading a part of a policy found.
///
/// An empty list is the error of something that could not be read because of a part whose error is reported elsewhere.
#[derive(Debug, Clone, Default)]
pub struct Problems(Vec<Diagnostic>);

/// A value that was read, or every error in it.
pub type Checked<T> = Result<T, Problems>;

/// The error of a value that could not be read, whose problems are already in the collection.
#[derive(Debug, Clone, Copy)]
pub struct Reported;

impl Problems {
    pub fn add(&mut self, problems: impl Into<Self>) {
        self.0.extend(problems.into().0);
    }

    /// The value, or `None` after adding its problems.
    pub fn take<T, E: Into<Self>>(&mut self, result: Result<T, E>) -> Option<T> {
        result.map_err(|problems| self.add(problems)).ok()
    }

    /// The problems with every position moved down by a number of lines.
    pub(crate) fn moved(&self, lines: usize) -> Self {
        self.clone().map(|mut diagnostic| {
            diagnostic.span.line += lines;
            diagnostic
        })
    }

    pub(crate) fn map(self, change: impl Fn(Diagnostic) -> Diagnostic) -> Self {
        Self(self.0.into_iter().map(change).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value, if there is no problem.
    pub fn result<T>(self, value: T) -> Checked<T> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl From<Diagnostic> for Problems {
    fn from(diagnostic: Diagnostic) -> Self {
        Self(vec![diagnostic])
    }
}

impl From<Reported> for Problems {
    fn from(Reported: Reported) -> Self {
        Self::default()
    }
}

impl IntoIterator for Problems {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// All values, or the problems of all that have some.
pub fn all<T, E: Into<Problems>, C: FromIterator<T>>(
    results: impl IntoIterator<Item = Result<T, E>>,
) -> Checked<C> {
    let mut problems = Problems::default();
    let values = results.into_iter().filter_map(|result| problems.take(result)).collect();
    problems.result(values)
}
