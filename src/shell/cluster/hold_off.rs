//! The hold-off of a replica whose policies differ from those of another one, as during a rollout.

use tokio::time::{Duration, Instant};

use crate::core::registration::ConditionOwner;

/// The time for which a replica leaves the condition of another one registered.
const ROLLOUT: Duration = Duration::from_mins(5);

/// The registered condition as one replica sees it.
#[derive(Debug, Default)]
pub(super) struct HoldOff {
    /// The condition that this replica registered last.
    registered: Option<String>,
    /// The time since which the condition of another replica is registered.
    other_since: Option<Instant>,
}

impl HoldOff {
    /// Returns whether the replica registers its condition. The policies that were loaded last win, until the rollout
    /// that reaches this replica has had time to finish.
    pub(super) fn may_register(&mut self, owner: ConditionOwner, wanted: &str, now: Instant) -> bool {
        match owner {
            ConditionOwner::ThisReplica | ConditionOwner::Unmanaged => true,
            ConditionOwner::OtherReplica => {
                let since = *self.other_since.get_or_insert(now);
                self.registered.as_deref() != Some(wanted) || now.duration_since(since) >= ROLLOUT
            }
        }
    }

    /// Records a condition that was written; an attempt that met a conflict does not count.
    pub(super) fn record(&mut self, wanted: &str) {
        self.registered = Some(wanted.to_owned());
        self.other_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policies_that_were_loaded_last_win_until_a_rollout_is_over() {
        let start = Instant::now();
        let other = ConditionOwner::OtherReplica;
        let mut hold_off = HoldOff::default();
        assert!(hold_off.may_register(other, "old", start), "a replica that starts has the newest policies");
        assert!(hold_off.may_register(other, "old", start), "the write met a conflict");
        hold_off.record("old");
        // Another replica loads new policies.
        let later = start + Duration::from_mins(10);
        assert!(!hold_off.may_register(other, "old", later));
        assert!(!hold_off.may_register(other, "old", later + ROLLOUT / 2));
        assert!(hold_off.may_register(other, "old", later + ROLLOUT), "the other replica is gone");
        hold_off.record("old");
        // This replica loads them too.
        assert!(!hold_off.may_register(other, "old", later + ROLLOUT * 2));
        assert!(hold_off.may_register(other, "new", later + ROLLOUT * 2));
        hold_off.record("new");
        assert!(hold_off.may_register(ConditionOwner::Unmanaged, "new", later + ROLLOUT * 3));
    }
}
