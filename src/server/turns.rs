//! The turns of reviews that take long. All that are evaluated together are bounded by their memory, and each namespace has
//! one at a time, so that none takes the turns of the others.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, Weak};

use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

/// Reviews that are evaluated together at most.
pub(crate) const EVALUATIONS: usize = 8;
/// The bytes of reviews that are evaluated together: a parsed pod takes up to a hundred times its size in JSON. A larger
/// review is evaluated alone.
const BYTES: usize = 3 << 20;

/// The turns of reviews that take long.
#[derive(Debug)]
pub(super) struct Turns {
    bytes: Arc<Semaphore>,
    /// By namespace, as long as a review of it waits or is evaluated.
    namespaces: std::sync::Mutex<HashMap<String, Weak<Mutex<()>>>>,
}

/// The turn of one review.
#[derive(Debug)]
pub(super) struct Turn {
    _bytes: OwnedSemaphorePermit,
    _of_namespace: OwnedMutexGuard<()>,
}

impl Default for Turns {
    fn default() -> Self {
        Self { bytes: Arc::new(Semaphore::new(BYTES)), namespaces: std::sync::Mutex::default() }
    }
}

impl Turns {
    /// Waits for the turn of a review of this size. Those of one namespace wait for each other first.
    pub(super) async fn wait(&self, namespace: String, size: usize) -> Option<Turn> {
        let of_namespace = self.of_namespace(namespace).lock_owned().await;
        let size = u32::try_from(size.clamp(BYTES / EVALUATIONS, BYTES)).ok()?;
        let bytes = Arc::clone(&self.bytes).acquire_many_owned(size).await.ok()?;
        Some(Turn { _bytes: bytes, _of_namespace: of_namespace })
    }

    fn of_namespace(&self, namespace: String) -> Arc<Mutex<()>> {
        let mut known = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = known.get(&namespace).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::default();
        known.insert(namespace, Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    async fn turn(turns: &Turns, namespace: &str, size: usize) -> Turn {
        turns.wait(namespace.to_owned(), size).await.unwrap()
    }

    #[tokio::test]
    async fn a_namespace_has_one_turn_and_leaves_the_others() {
        let turns = Turns::default();
        let first = turn(&turns, "a", 1).await;
        let mut waiting = Box::pin(turn(&turns, "a", 1));
        assert!(waiting.as_mut().now_or_never().is_none());
        let others: Vec<Turn> =
            (1..EVALUATIONS).map(|at| turn(&turns, &at.to_string(), 1).now_or_never().unwrap()).collect();
        assert!(turn(&turns, "b", 1).now_or_never().is_none());
        drop(first);
        assert!(waiting.now_or_never().is_some());
        drop(others);
        assert!(turn(&turns, "b", 1).now_or_never().is_some());
        assert_eq!(turns.namespaces.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn the_largest_reviews_are_evaluated_alone() {
        let turns = Turns::default();
        let large = turn(&turns, "a", usize::MAX).await;
        assert!(turn(&turns, "b", 1).now_or_never().is_none());
        drop(large);
        assert!(turn(&turns, "b", 1).now_or_never().is_some());
    }
}
