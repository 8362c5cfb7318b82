//! The rules of a policy: the containers that each applies to, what it adds, and whose value stays in a conflict.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::expression::Expression;
use crate::interpolation::Interpolation;
use crate::overlay::{Addition, Section, Tree, Write};
use fabric_yaml::Span;

/// The containers that a rule applies to.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Containers {
    /// Those with GPUs.
    #[default]
    Gpus,
    /// Those with GPUs, and the launcher of a job.
    Ranks,
    /// Those that meet this condition.
    If(Interpolation),
}

/// The condition for the ranks of a job, and that for containers with GPUs.
#[expect(clippy::expect_used, reason = "the sources are constant")]
static CONDITIONS: LazyLock<[Interpolation; 2]> = LazyLock::new(|| {
    ["ranks", "gpus > 0"].map(|source| {
        let expression = Expression::compile(source).expect("an expression that compiles");
        Interpolation::Expression(expression.bare().into())
    })
});

impl Containers {
    /// The condition for each container.
    pub fn condition(&self) -> &Interpolation {
        match self {
            Self::If(condition) => condition,
            Self::Ranks => &CONDITIONS[0],
            Self::Gpus => &CONDITIONS[1],
        }
    }

    /// The condition that the policy writes out.
    pub fn written(&self) -> Option<&Interpolation> {
        if let Self::If(condition) = self { Some(condition) } else { None }
    }
}

/// The treatment of a value of the pod that differs from the policy's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// The pod's value stays and is reported.
    #[default]
    Keep,
    /// The policy's value replaces it.
    Replace,
    /// The pod is refused.
    Refuse,
}

impl OnConflict {
    /// What the words of `onConflict` mean, in their order.
    pub(crate) const WRITTEN: [Self; 2] = [Self::Keep, Self::Replace];
}

#[derive(Debug, Clone, Default)]
pub struct Rule {
    pub span: Span,
    pub name: String,
    pub when: Option<Interpolation>,
    pub containers: Containers,
    pub on_conflict: OnConflict,
    pub additions: Vec<Addition>,
    /// Of an entry of `devices.add`.
    pub device: Option<AddsDevices>,
    /// The parameters that it depends on.
    pub parameters: BTreeSet<String>,
    /// The position of its file, 0 for a part: an extension has a higher one than its base, and a policy than its parts.
    pub rank: usize,
}

/// An entry of `devices.add`. A pod that brings its own devices gets nothing from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddsDevices {
    /// True if the devices are attached to the pod's own network, not to the host network.
    pub to_network: bool,
    pub has_resources: bool,
}

impl Rule {
    /// The number of its values.
    pub(crate) fn size(&self) -> usize {
        self.writes().count()
    }

    /// Its additions to a section of the pod.
    pub fn additions_to(&self, section: &Section) -> impl Iterator<Item = &Addition> {
        self.additions.iter().filter(move |addition| addition.section == *section)
    }

    /// The value that it gives `spec.hostNetwork`.
    pub fn host_network(&self) -> Option<&Tree> {
        self.additions_to(&Section::Pod).find_map(|addition| addition.tree.at(&["spec", "hostNetwork"]))
    }

    pub fn writes(&self) -> impl Iterator<Item = Write<'_>> {
        self.additions.iter().flat_map(Addition::writes)
    }

    /// Calls `visit` with every interpolation of the rule.
    pub fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.when.iter().chain([self.containers.condition()]).for_each(&mut *visit);
        self.additions.iter().for_each(|addition| addition.texts(visit));
    }
}
