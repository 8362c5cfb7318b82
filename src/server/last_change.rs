//! The time of the last change of the policies in use, or of the registered conditions.

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

/// The time for which a pod that no policy matches is retried after a change. The kubelet updates a mounted ConfigMap
/// within its sync period of a minute.
const RECENT: Duration = Duration::from_mins(1);

/// The time without a review that shows a difference, after which the next one is the first sign of another change.
const QUIET: Duration = Duration::from_mins(10);

/// The last change after which policies and registered conditions may differ.
#[derive(Debug, Default)]
pub(super) struct Change(Mutex<Option<Last>>);

#[derive(Debug, Clone, Copy)]
struct Last {
    change: Instant,
    /// The last sign of it: itself, or a review that shows the difference.
    sign: Instant,
}

impl Last {
    fn now() -> Self {
        let now = Instant::now();
        Self { change: now, sign: now }
    }
}

impl Change {
    /// Records a change of either.
    pub(super) fn begins(&self) {
        *self.0.lock() = Some(Last::now());
    }

    /// Records that they agree again. A later difference is a new change.
    pub(super) fn ends(&self) {
        *self.0.lock() = None;
    }

    /// Returns whether a review that shows a difference comes soon after a change. If none is known, or the signs of the
    /// last one are old, the review is the first sign of one: the server may not have seen the registration yet, or may
    /// not read it.
    pub(super) fn is_recent(&self) -> bool {
        let mut last = self.0.lock();
        let known = last.filter(|last| last.sign.elapsed() < QUIET).unwrap_or_else(Last::now);
        *last = Some(Last { sign: Instant::now(), ..known });
        known.change.elapsed() < RECENT
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
        // Such reviews go on, and never become a change of their own.
        for _ in 0..100 {
            advance(Duration::from_mins(9)).await;
            assert!(!change.is_recent());
        }
        // They end, and begin anew.
        advance(Duration::from_mins(10)).await;
        assert!(change.is_recent());
        change.begins();
        advance(Duration::from_mins(2)).await;
        assert!(!change.is_recent());
        change.ends();
        assert!(change.is_recent());
    }
}
