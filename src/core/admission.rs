//! AdmissionReview, `admission.k8s.io/v1`: a request in, the answer to it out.
//!
//! Pure: bytes in, an [`Answer`] out. What carries the bytes, counts and logs is [`crate::shell::server`].

mod answer;
mod object;
mod response;
mod review;

pub use answer::{Answer, Evaluate, Record, answer, answer_without_evaluation};
pub use response::{OnError, Response, respond};
pub(crate) use review::creates_pod;
pub use review::{BadReview, sample as sample_review};

/// What became of a request, as far as logs and metrics tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// The pod was served.
    Mutated,
    /// The object is as it came.
    Unchanged,
    /// The pod must not be created; its author can mend it.
    Refused,
    /// A fault of the policy or of this program kept the pod from being served.
    Failed,
}

impl Outcome {
    /// The stable name, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutated => "mutated",
            Self::Unchanged => "unchanged",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}
