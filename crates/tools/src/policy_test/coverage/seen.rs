//! A part of a policy that cases cover, and the results that they saw.

use fabric_policy::Definition;
use fabric_yaml::Span;

/// The part of a policy that cases cover: a row when it gives a value, the others when they had both of theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A rule applies to a pod, or it does not.
    Rule,
    /// `match.when`.
    Match,
    /// `when` of a rule.
    When,
    /// `containers` of a rule.
    Containers,
    /// `when` of an entry of `files`.
    File,
    /// The conditions of a check.
    Check,
    /// A value of `machines` is that of the parameter or variable for a pod.
    Row,
}

/// A part of a policy, and the values that it had.
#[derive(Debug, Clone)]
pub struct Seen {
    pub kind: Kind,
    /// The rule, the path of the file, the code, or the parameter and the machine; empty for `match.when`.
    pub name: String,
    /// The file that has it, which is that of the policy or of a part.
    pub file: String,
    pub line: usize,
    /// The label of a row. Rows of two labels have one place by an alias.
    pub(super) label: String,
    /// The place in all files of the policy.
    pub(super) span: Span,
    /// The number of times that the rule applied, that the condition was true, or that the row gave a value.
    pub yes: usize,
    /// The number of times that the rule did not apply, or that the condition was false.
    pub no: usize,
}

impl Seen {
    pub(super) fn new(definition: &Definition, kind: Kind, name: &str, (label, span): (&str, Span)) -> Self {
        let (file, line) = definition.line_in_file(span);
        let (file, line, label) = (file.to_owned(), line.max(1), label.to_owned());
        Self { kind, name: name.to_owned(), file, line, label, span, yes: 0, no: 0 }
    }

    pub(super) fn record(&mut self, value: bool) {
        if value {
            self.yes += 1;
        } else {
            self.no += 1;
        }
    }

    /// Returns whether the cases cover it.
    pub fn is_complete(&self) -> bool {
        self.yes > 0 && (self.no > 0 || self.kind == Kind::Row)
    }

    /// The rule or condition as reports name it.
    pub fn describe(&self) -> String {
        let name = &self.name;
        match self.kind {
            Kind::Rule => format!("rule `{name}`"),
            Kind::Match => "`match.when`".to_owned(),
            Kind::When => format!("`when` of rule `{name}`"),
            Kind::Containers => format!("`containers` of rule `{name}`"),
            Kind::File => format!("`when` of the file `{name}`"),
            Kind::Check => format!("check `{name}`"),
            Kind::Row => format!("row {name}"),
        }
    }

    /// The values that no case has seen, in words.
    pub fn lacking(&self) -> &'static str {
        match (self.kind, self.yes > 0, self.no > 0) {
            (Kind::Row, true, _) | (_, true, true) => "",
            (Kind::Row, false, _) => "never gives a value",
            (Kind::Rule, false, false) => "never evaluated",
            (Kind::Rule, false, true) => "never applies",
            (Kind::Rule, true, false) => "always applies",
            (_, false, false) => "never evaluated",
            (_, false, true) => "never true",
            (_, true, false) => "never false",
        }
    }
}
