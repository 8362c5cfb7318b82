//! The checks that a policy declares: warnings for the author of a pod, refusals, and pods to skip.

use fabric_yaml::Span;

use crate::definition::Containers;
use crate::interpolation::Interpolation;
use crate::keys::ACTIONS;

#[derive(Debug, Clone)]
pub struct PolicyCheck {
    pub code: String,
    pub span: Span,
    pub effect: Effect,
    pub about: About,
    /// The condition for the pod, or for each container with the variable. Only a check of containers can lack it.
    pub when: Option<Interpolation>,
    pub message: Interpolation,
}

/// The consequence of a check for the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Warn,
    /// A warning that the data of the pod uses TCP all the same.
    WarnOfTcp,
    Refuse,
    /// The pod gets nothing of the policy.
    Skip,
}

impl Effect {
    /// What the words of `action` mean, in their order.
    pub(crate) const ALL: [Self; 4] = [Self::Warn, Self::WarnOfTcp, Self::Refuse, Self::Skip];

    /// Those of checks that warn.
    pub const WARNINGS: [Self; 2] = [Self::Warn, Self::WarnOfTcp];

    /// The value of `action`.
    pub fn key(self) -> &'static str {
        ACTIONS.iter().zip(Self::ALL).find(|(_, effect)| *effect == self).map_or("", |(word, _)| word)
    }
}

/// The subject of a check.
#[derive(Debug, Clone, PartialEq)]
pub enum About {
    /// The pod after injection.
    Pod,
    /// Each of these containers.
    Containers(Interpolation),
    /// A variable that one of these containers sets itself.
    Variable(String, Containers),
}

impl PolicyCheck {
    /// The conditions, in the order in which they are evaluated.
    pub fn conditions(&self) -> impl Iterator<Item = &Interpolation> {
        let of_containers = match &self.about {
            About::Pod => None,
            About::Containers(condition) => Some(condition),
            About::Variable(_, containers) => Some(containers.condition()),
        };
        of_containers.into_iter().chain(&self.when)
    }

    /// Calls `visit` with every interpolation.
    pub fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.conditions().for_each(&mut *visit);
        visit(&self.message);
    }
}
