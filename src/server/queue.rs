//! The queue of the reviews that take long. The reviews that are evaluated together are limited by their memory, and each
//! namespace has one of them at a time and a share of those that wait, so that no namespace delays or excludes the others.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, Weak};

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
    namespaces: std::sync::Mutex<HashMap<String, Weak<Namespace>>>,
}

/// The limits of one namespace.
#[derive(Debug)]
struct Namespace {
    /// One permit, for the review that is evaluated.
    turn: Arc<Semaphore>,
    places: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

/// The place of a review in the queue.
#[derive(Debug)]
pub(super) struct Place {
    namespace: Arc<Namespace>,
    size: usize,
    _number: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
}

/// The permit to evaluate one review.
#[derive(Debug)]
pub(super) struct EvaluationPermit {
    _bytes: OwnedSemaphorePermit,
    _turn: OwnedSemaphorePermit,
    _place: Place,
}

impl EvaluationQueue {
    pub(super) fn new(limits: Limits) -> Self {
        Self { bytes: Arc::new(Semaphore::new(BYTES)), limits, namespaces: std::sync::Mutex::default() }
    }

    /// The place of a review of this size; none if its namespace has its share.
    pub(super) fn place(&self, namespace: String, size: usize) -> Option<Place> {
        let namespace = self.namespace(namespace);
        let place = Arc::clone(&namespace.places).try_acquire_owned().ok()?;
        let bytes = u32::try_from(size).ok()?;
        let bytes = Arc::clone(&namespace.bytes).try_acquire_many_owned(bytes).ok()?;
        Some(Place { namespace, size, _number: place, _bytes: bytes })
    }

    /// Waits for the permit of a review. The reviews of one namespace wait for each other first.
    pub(super) async fn permit(&self, place: Place) -> Option<EvaluationPermit> {
        let turn = Arc::clone(&place.namespace.turn).acquire_owned().await.ok()?;
        let size = u32::try_from(place.size.clamp(BYTES / EVALUATIONS, BYTES)).ok()?;
        let bytes = Arc::clone(&self.bytes).acquire_many_owned(size).await.ok()?;
        Some(EvaluationPermit { _bytes: bytes, _turn: turn, _place: place })
    }

    fn namespace(&self, name: String) -> Arc<Namespace> {
        let mut known = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
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
        queue.permit(queue.place(namespace.to_owned(), size).unwrap()).await.unwrap()
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
        assert_eq!(queue.namespaces.lock().unwrap().len(), 1);
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
        let place = |namespace: &str, size| queue.place(namespace.to_owned(), size);
        let held = [place("a", 1).unwrap(), place("a", 1).unwrap()];
        assert!(place("a", 1).is_none() && place("b", 1).is_some());
        drop(held);
        let large = place("a", MAX_BODY).unwrap();
        assert!(place("a", MAX_BODY).is_none() && place("b", MAX_BODY).is_some());
        drop(large);
        assert!(place("a", MAX_BODY).is_some());
    }
}
