//! When the values of names are known.

/// When a value is known. An expression of a later phase can read the values of all earlier ones, but
/// [`Phase::Container`] and [`Phase::Injected`] are independent of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Parameters and `node`: the same for all pods that select the same nodes.
    Fixed,
    /// The pod before anything is injected.
    Pod,
    /// One container of it.
    Container,
    /// The pod after its containers were injected.
    Injected,
}

impl Phase {
    /// Returns whether an expression of this phase can read a name of `other`.
    pub(crate) fn may_read(self, other: Phase) -> bool {
        other <= self && !(self == Phase::Injected && other == Phase::Container)
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Phase::Fixed | Phase::Pod => "everywhere",
            Phase::Container => "for a container (`containers`, `env` and `container`)",
            Phase::Injected => "after the containers were injected (`pod` and `checks`)",
        }
    }
}
