//! The queue of the reviews that take long. The reviews that are evaluated together are limited by their memory, and each
//! namespace has one of them at a time, so that no namespace delays the others.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, Weak};

use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

/// Reviews that are evaluated together at most.
pub(crate) const EVALUATIONS: usize = 8;
/// The bytes of reviews that are evaluated together: a parsed pod takes up to a hundred times its size in JSON. A larger
/// review is evaluated alone.
const BYTES: usize = 3 << 20;

/// The queue of the reviews that take long.
#[derive(Debug)]
pub(super) struct EvaluationQueue {
    bytes: Arc<Semaphore>,
    /// By namespace, as long as a review of it waits or is evaluated.
    namespaces: std::sync::Mutex<HashMap<String, Weak<Mutex<()>>>>,
}

/// The permit to evaluate one review.
#[derive(Debug)]
pub(super) struct EvaluationPermit {
    _bytes: OwnedSemaphorePermit,
    _of_namespace: OwnedMutexGuard<()>,
}

impl Default for EvaluationQueue {
    fn default() -> Self {
        Self { bytes: Arc::new(Semaphore::new(BYTES)), namespaces: std::sync::Mutex::default() }
    }
}

impl EvaluationQueue {
    /// Waits for the permit of a review of this size. The reviews of one namespace wait for each other first.
    pub(super) async fn permit(&self, namespace: String, size: usize) -> Option<EvaluationPermit> {
        let of_namespace = self.of_namespace(namespace).lock_owned().await;
        let size = u32::try_from(size.clamp(BYTES / EVALUATIONS, BYTES)).ok()?;
        let bytes = Arc::clone(&self.bytes).acquire_many_owned(size).await.ok()?;
        Some(EvaluationPermit { _bytes: bytes, _of_namespace: of_namespace })
    }

    fn of_namespace(&self, namespace: String) -> Arc<Mutex<()>> {
        let mut known = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = known.get(&namespace).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::default();
        known.insert(namespace, Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    async fn permit(queue: &EvaluationQueue, namespace: &str, size: usize) -> EvaluationPermit {
        queue.permit(namespace.to_owned(), size).await.unwrap()
    }

    #[tokio::test]
    async fn a_namespace_has_one_permit_and_leaves_the_others() {
        let queue = EvaluationQueue::default();
        let first = permit(&queue, "a", 1).await;
        let mut waiting = Box::pin(permit(&queue, "a", 1));
        assert!(waiting.as_mut().now_or_never().is_none());
        let others: Vec<_> =
            (1..EVALUATIONS).map(|at| permit(&queue, &at.to_string(), 1).now_or_never().unwrap()).collect();
        assert!(permit(&queue, "b", 1).now_or_never().is_none());
        drop(first);
        assert!(waiting.now_or_never().is_some());
        drop(others);
        assert!(permit(&queue, "b", 1).now_or_never().is_some());
        assert_eq!(queue.namespaces.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn the_largest_reviews_are_evaluated_alone() {
        let queue = EvaluationQueue::default();
        let large = permit(&queue, "a", usize::MAX).await;
        assert!(permit(&queue, "b", 1).now_or_never().is_none());
        drop(large);
        assert!(permit(&queue, "b", 1).now_or_never().is_some());
    }
}
