//! The early end of an injection.

use super::report::Reason;

/// The early end of an injection.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The pod stays unchanged.
    Leave(Reason),
    /// The pod gets the annotation [`SKIPPED`](super::SKIPPED) of this reason.
    Skip(Reason),
    /// The pod is refused.
    Refuse(Reason),
}

impl Stop {
    pub(crate) fn reason(&self) -> &Reason {
        match self {
            Self::Refuse(reason) | Self::Leave(reason) | Self::Skip(reason) => reason,
        }
    }
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Conflict { .. }
            | Reason::EvaluationFailed { .. }
            | Reason::NotIdempotent { .. }
            | Reason::Policy { .. }
            | Reason::SettingUndecided { .. }
            | Reason::Stopped
            | Reason::Cost { .. }
            | Reason::SeveralPoliciesMatch { .. } => Self::Refuse(reason),
            _ => Self::Leave(reason),
        }
    }
}
