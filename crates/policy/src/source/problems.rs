//! Errors, collected so that one does not hide the others.

use super::diagnostic::Diagnostic;

/// The most errors that are shown, and the most findings of one code: for each, the file is searched for its line.
pub const MOST_SHOWN: usize = 100;

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

    /// Reads items until there are as many problems as are shown: a hint compares a name with all of the policy.
    pub(crate) fn each<T>(&mut self, items: impl IntoIterator<Item = T>, mut read: impl FnMut(&mut Self, T)) {
        let mut items = items.into_iter();
        while self.0.len() < MOST_SHOWN
            && let Some(item) = items.next()
        {
            read(self, item);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
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

/// All values, or the problems of all that have some, or of the first.
pub fn all<T, E: Into<Problems>, C: FromIterator<T>>(
    results: impl IntoIterator<Item = Result<T, E>>,
) -> Checked<C> {
    let (mut problems, mut values) = (Problems::default(), Vec::new());
    problems.each(results, |problems, result| values.extend(problems.take(result)));
    problems.result(values.into_iter().collect())
}
