//! The queue of the reviews that take long. The reviews that are evaluated together are limited by their memory, and each
//! namespace has one of them at a time and a share of those that wait, so that no namespace delays or excludes the others.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::{Limits, MAX_BODY};

/// Reviews that are evaluated together at most.
pub(crate) const EVALUATIONS: usize = 8;
/// The bytes of reviews that are evaluated together: a parsed pod takes up to a hundred times its size in JSON. A larger
/// review is evaluated alone.
const BYTES: usize = 3 << 20;
/// The part of the requests in flight, and of the memory for bodies, that the reviews of a namespace may take while they
/// wait.
const SHARE: usize = 4;

/// The queue of the reviews that take long.
#[derive(Debug)]
pub(super) struct EvaluationQueue {
    bytes: Arc<Semaphore>,
    limits: Limits,
    /// By name, as long as a review of it waits or is evaluated.
    namespaces: Mutex<HashMap<String, Weak<Namespace>>>,
}

/// The limits of one namespace.
#[derive(Debug)]
struct Namespace {
    /// One permit, for the review that is evaluated.
    turn: Arc<Semaphore>,
    places: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

/// The permit to evaluate one review, with its place in the queue and the turn of its namespace.
#[derive(Debug)]
pub(super) struct EvaluationPermit {
    _permits: [OwnedSemaphorePermit; 4],
    _namespace: Arc<Namespace>,
}

impl EvaluationQueue {
    pub(super) fn new(limits: Limits) -> Self {
        Self { bytes: Arc::new(Semaphore::new(BYTES)), limits, namespaces: Mutex::default() }
    }

    /// Waits for the permit of a review of this size; none if its namespace has its share. The reviews of one namespace
    /// wait for each other first.
    pub(super) async fn permit(&self, namespace: String, size: usize) -> Option<EvaluationPermit> {
        let namespace = self.namespace(namespace);
        let place = Arc::clone(&namespace.places).try_acquire_owned().ok()?;
        let waiting = Arc::clone(&namespace.bytes).try_acquire_many_owned(u32::try_from(size).ok()?).ok()?;
        let turn = Arc::clone(&namespace.turn).acquire_owned().await.ok()?;
        let evaluated = u32::try_from(size.clamp(BYTES / EVALUATIONS, BYTES)).ok()?;
        let evaluated = Arc::clone(&self.bytes).acquire_many_owned(evaluated).await.ok()?;
        Some(EvaluationPermit { _permits: [place, waiting, turn, evaluated], _namespace: namespace })
    }

    fn namespace(&self, name: String) -> Arc<Namespace> {
        let mut known = self.namespaces.lock();
        known.retain(|_, namespace| namespace.strong_count() > 0);
        if let Some(namespace) = known.get(&name).and_then(Weak::upgrade) {
            return namespace;
        }
        // Any review has a place while no other one waits.
        let places = (self.limits.in_flight / SHARE).max(1);
        let bytes = (self.limits.body_bytes / SHARE).max(MAX_BODY);
        let [turn, places, bytes] = [1, places, bytes].map(|permits| Arc::new(Semaphore::new(permits)));
        let namespace = Arc::new(Namespace { turn, places, bytes });
        known.insert(name, Arc::downgrade(&namespace));
        namespace
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
        let queue = EvaluationQueue::new(Limits::default());
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
        assert_eq!(queue.namespaces.lock().len(), 1);
    }

    #[tokio::test]
    async fn the_largest_reviews_are_evaluated_alone() {
        let queue = EvaluationQueue::new(Limits::default());
        let large = permit(&queue, "a", MAX_BODY).await;
        assert!(permit(&queue, "b", 1).now_or_never().is_none());
        drop(large);
        assert!(permit(&queue, "b", 1).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_namespace_has_a_quarter_of_the_places_and_of_the_bytes() {
        let limits = Limits { in_flight: 8, body_bytes: Limits::BODY_BYTES };
        let queue = EvaluationQueue::new(limits);
        let begin = |namespace: &str, size| {
            let mut permit = Box::pin(queue.permit(namespace.to_owned(), size));
            let ended = permit.as_mut().now_or_never();
            (permit, ended)
        };
        let is_refused = |namespace, size| matches!(begin(namespace, size), (_, Some(None)));
        let held = [begin("a", 1), begin("a", 1)];
        assert!(matches!(held, [(_, Some(Some(_))), (_, None)]), "one has its turn, and one waits");
        assert!(is_refused("a", 1) && !is_refused("b", 1));
        drop(held);
        let large = begin("a", MAX_BODY);
        assert!(is_refused("a", MAX_BODY) && !is_refused("b", MAX_BODY));
        drop(large);
        assert!(!is_refused("a", MAX_BODY));
    }
}
