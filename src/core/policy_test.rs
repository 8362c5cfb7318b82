//! Cases of a policy: pods or workloads, and what the policy is expected to make of them.
//!
//! `case` reads a file, `check` runs it by the engine of `mutate`, and `coverage` counts what the cases saw. Files are
//! opened, and results printed, elsewhere.

mod case;
mod check;
mod compare;
mod context;
mod coverage;
mod expectation;
mod path;
mod strategic;
mod update;

pub use case::{Case, CaseFile, KIND, Reference, Subject, WithSettings};
pub use check::{CaseResult, run};
pub use compare::Difference;
pub use coverage::{Coverage, Kind, Seen};
pub(crate) use expectation::OUTCOMES;
pub use update::updated;
