//! The time of the last change of the policies in use, or of the registered conditions.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::{Duration, Instant};

/// The time for which a pod that no policy matches is retried after a change. The kubelet updates a mounted ConfigMap
/// within its sync period of a minute.
const RECENT: Duration = Duration::from_mins(1);

/// The last change after which policies and registered conditions may differ.
#[derive(Debug, Default)]
pub(super) struct Change(Mutex<Option<Instant>>);

impl Change {
    /// Records a change of either.
    pub(super) fn begins(&self) {
        *self.last() = Some(Instant::now());
    }

    /// Records that they agree again. A later difference is a new change.
    pub(super) fn ends(&self) {
        *self.last() = None;
    }

    /// Returns whether a review that shows a difference comes soon after a change. If none is known, the review is the
    /// first sign of one: the server may not have seen the registration yet, or may not read it.
    pub(super) fn is_recent(&self) -> bool {
        self.last().get_or_insert_with(Instant::now).elapsed() < RECENT
    }

    fn last(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_difference_is_a_change_for_a_minute() {
        let change = Change::default();
        assert!(change.is_recent());
        advance(Duration::from_secs(59)).await;
        assert!(change.is_recent());
        advance(Duration::from_secs(1)).await;
        assert!(!change.is_recent());
        change.begins();
        assert!(change.is_recent());
        advance(Duration::from_hours(1)).await;
        assert!(!change.is_recent());
        change.ends();
        assert!(change.is_recent());
    }
}
