//! Cases of a policy: pods or workloads, and the expected result.
//!
//! `case` reads a file, `run` runs it by the engine of `mutate`, and `coverage` counts what the cases saw. Files are
//! opened, and results printed, elsewhere.

mod case;
mod compare;
mod context;
mod coverage;
mod expectation;
pub(crate) mod keys;
mod path;
mod run;
mod update;

pub use case::{Case, CaseFile, Subject, WithSettings};
pub use compare::Difference;
pub use coverage::{Coverage, Kind, Seen};
pub use expectation::Reference;
pub use keys::KIND;
pub use run::{CaseResult, run};
pub use update::updated;
