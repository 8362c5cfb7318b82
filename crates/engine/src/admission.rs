//! AdmissionReview, `admission.k8s.io/v1`: from the bytes of a request to an [`Answer`].
//!
//! The server in `src/server` transports the bytes, logs and counts.

mod answer;
mod bounds;
mod for_owner;
mod response;
mod review;
mod workload;

pub use answer::{Answer, Evaluate, Record, Reviewer, answer_without_evaluation, namespace};
pub use bounds::{BOUNDS, Most};
pub use for_owner::{Absent, ForOwner};
pub use response::{Mode, OnError, Response, UNCHANGED, WOULD_BE_INJECTED, respond};
pub use review::{BadReview, creates_pod, sample as sample_review};
pub use workload::WorkloadReview;

use crate::{Outcome, Reason};

/// The outcome of a review in logs and metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReviewOutcome {
    /// The pod is injected.
    Mutated,
    /// The pod is left alone on purpose, and marked as such.
    Skipped,
    /// The object is admitted unchanged.
    #[default]
    Unchanged,
    /// The pod is denied, and its author can correct it.
    Refused,
    /// A fault in the policy or in this program keeps the pod from being injected.
    Failed,
    /// The object is a workload, and the response has advice.
    Advised,
    /// The object is a workload, and there is no advice about it.
    Unadvised,
}

impl ReviewOutcome {
    /// The outcome for a pod, and its reason.
    fn of_injection(outcome: &Outcome) -> (Self, Option<&Reason>) {
        match outcome {
            Outcome::Mutated(_) => (Self::Mutated, None),
            Outcome::Skipped { reason, .. } => (Self::Skipped, Some(reason)),
            Outcome::Unchanged { reason, .. } => (Self::Unchanged, Some(reason)),
            Outcome::Refused { reason } if reason.is_fault() => (Self::Failed, Some(reason)),
            Outcome::Refused { reason } => (Self::Refused, Some(reason)),
        }
    }

    /// The stable name, for logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutated => "mutated",
            Self::Skipped => "skipped",
            Self::Unchanged => "unchanged",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Advised => "advised",
            Self::Unadvised => "unadvised",
        }
    }
}
