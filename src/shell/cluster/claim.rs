//! Whose policies decide for which pods the webhook is registered, while replicas have different ones.

use tokio::time::{Duration, Instant};

use crate::core::registration::Marked;

/// A condition of a replica with other policies is left alone for so long: a rollout is under way.
const ROLLOUT: Duration = Duration::from_mins(5);

/// What a replica knows of the registered condition.
#[derive(Debug, Default)]
pub(super) struct Claim {
    /// What this replica last wanted registered, when it was.
    registered: Option<String>,
    /// Since when another's condition is registered.
    foreign_since: Option<Instant>,
}

impl Claim {
    /// Whether the condition is to be as this replica wants it. Whose policies came last decides, until it is clear
    /// that nobody else will come to have them.
    pub(super) fn holds(&mut self, marked: Marked, wanted: &str, now: Instant) -> bool {
        match marked {
            Marked::AsWanted | Marked::ByNobody => true,
            Marked::ByAnotherServer => {
                let since = *self.foreign_since.get_or_insert(now);
                self.registered.as_deref() != Some(wanted) || now.duration_since(since) >= ROLLOUT
            }
        }
    }

    /// It is as this replica wants it: known only once it was written, since somebody else may be faster.
    pub(super) fn registered(&mut self, wanted: &str) {
        self.registered = Some(wanted.to_owned());
        self.foreign_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_policies_came_last_decides_until_a_rollout_is_over() {
        let begun = Instant::now();
        let mut claim = Claim::default();
        assert!(
            claim.holds(Marked::ByAnotherServer, "old", begun),
            "what this replica begins with came last"
        );
        // Somebody else was faster.
        assert!(claim.holds(Marked::ByAnotherServer, "old", begun));
        claim.registered("old");
        // Another replica has new policies.
        let later = begun + Duration::from_mins(10);
        assert!(!claim.holds(Marked::ByAnotherServer, "old", later));
        assert!(!claim.holds(Marked::ByAnotherServer, "old", later + ROLLOUT / 2));
        assert!(claim.holds(Marked::ByAnotherServer, "old", later + ROLLOUT), "the other did not stay");
        claim.registered("old");
        // This one gets them.
        assert!(!claim.holds(Marked::ByAnotherServer, "old", later + ROLLOUT * 2));
        assert!(claim.holds(Marked::ByAnotherServer, "new", later + ROLLOUT * 2));
        claim.registered("new");
        // Somebody meddled.
        assert!(claim.holds(Marked::ByNobody, "new", later + ROLLOUT * 3));
    }
}
