//! The labels of series, and the values that the program knows.

use std::borrow::Cow;

use prometheus_client::encoding::EncodeLabelSet;

/// A label value that the program or a policy defines.
pub(super) type Label = Cow<'static, str>;

/// Labels by name, whose values the program defines if they are of no other type.
pub(super) type Labels<const N: usize, V = &'static str> = [(&'static str, V); N];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReviewLabels {
    pub(super) policy: Label,
    pub(super) outcome: &'static str,
    pub(super) reason: Label,
    pub(super) mode: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct MissedLabels {
    pub(super) pod_namespace: String,
    pub(super) outcome: &'static str,
    pub(super) reason: Label,
    pub(super) mode: &'static str,
}

/// The reason why a review was answered without evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shed {
    /// Too many requests in flight.
    InFlight,
    /// Too many requests of one namespace that wait for their evaluation.
    Namespace,
    /// Too much memory in request or response bodies.
    Memory,
    /// The timeout of the API server.
    Deadline,
}

impl Shed {
    pub(super) const ALL: [Self; 4] = [Self::InFlight, Self::Namespace, Self::Memory, Self::Deadline];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Namespace => "namespace",
            Self::Memory => "memory",
            Self::Deadline => "deadline",
        }
    }
}

/// The files that are reloaded when they change, by their name in metrics, logs and `/readyz`.
pub(crate) type Reloaded = &'static str;

/// The certificate with its key, and the client CA.
pub(crate) const CERTIFICATE: Reloaded = "certificate";
/// Policies and values.
pub(crate) const POLICIES: Reloaded = "policies";

/// The code of a rejected request.
pub(crate) type Answered = &'static str;

/// The code of a request that is rejected because of a fault of the program.
pub(crate) const INTERNAL: Answered = "internal";

/// The codes of rejected requests.
pub(super) const REJECTED: &[Answered] = &[
    "not_json",
    "not_a_review",
    "no_request",
    "content_type",
    "method",
    "path",
    "too_large",
    "body_timeout",
    "body_incomplete",
    INTERNAL,
];
