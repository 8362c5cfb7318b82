//! The queue of the reviews that take long. The reviews that are evaluated together are limited by their memory, and each
//! namespace has one of them at a time. Those that wait have a room of their own: when it is full, the namespace that takes
//! most of it gives way, so that no namespace delays or excludes the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, oneshot};

use crate::telemetry::Shed;

use super::limits::{Limits, MAX_BODY};

/// Reviews that are evaluated together at most.
pub(crate) const EVALUATIONS: usize = 8;
/// The bytes of reviews that are evaluated together: a parsed pod takes up to a hundred times its size in JSON. A larger
/// review is evaluated alone.
const BYTES: usize = 3 << 20;
/// The part of the memory for bodies that reviews may take while they wait.
const SHARE: usize = 4;

/// The queue of the reviews that take long.
#[derive(Debug)]
pub(super) struct EvaluationQueue {
    bytes: Arc<Semaphore>,
    /// The bytes of the reviews that wait.
    room: usize,
    /// What each of them takes of the room at least, because it also has a connection.
    least: usize,
    /// By name, as long as a review of it waits or is evaluated.
    namespaces: Mutex<HashMap<String, Namespace>>,
}

/// The reviews of one namespace.
#[derive(Debug)]
struct Namespace {
    /// One permit, for the review that is evaluated.
    turn: Arc<Semaphore>,
    /// Those that wait, the newest last.
    waiting: Vec<Waiting>,
}

/// A review that waits.
#[derive(Debug)]
struct Waiting {
    bytes: usize,
    since: Instant,
    /// Closed when the review waits no more.
    gives_way: oneshot::Sender<Shed>,
}

/// The permit to evaluate one review, with the turn of its namespace.
#[derive(Debug)]
pub(super) struct EvaluationPermit {
    _permits: [OwnedSemaphorePermit; 2],
}

impl EvaluationQueue {
    pub(super) fn new(limits: Limits) -> Self {
        // Any review has room while no other one waits.
        let room = (limits.body_bytes / SHARE).max(MAX_BODY);
        let least = room.checked_div(limits.in_flight).unwrap_or(room + 1);
        Self { bytes: Arc::new(Semaphore::new(BYTES)), room, least, namespaces: Mutex::default() }
    }

    /// Waits for the permit of a review of this size, unless the review has to give way. The reviews of one namespace wait
    /// for each other first.
    pub(super) async fn permit(&self, namespace: String, size: usize) -> Result<EvaluationPermit, Shed> {
        let (turn, gives_way) = self.enter(namespace, size);
        let permits = async {
            let turn = turn.acquire_owned().await?;
            let evaluated = u32::try_from(size.clamp(BYTES / EVALUATIONS, BYTES)).unwrap_or(u32::MAX);
            let evaluated = Arc::clone(&self.bytes).acquire_many_owned(evaluated).await?;
            Ok(EvaluationPermit { _permits: [turn, evaluated] })
        };
        tokio::select! {
            biased;
            Ok(why) = gives_way => Err(why),
            permit = permits => permit.map_err(|_: AcquireError| Shed::InFlight),
        }
    }

    /// The turn of the namespace of a review that waits from now on, and what tells it to give way. If there is no room, the
    /// newest of the namespace with the most bytes gives way, which may be this one.
    fn enter(&self, name: String, size: usize) -> (Arc<Semaphore>, oneshot::Receiver<Shed>) {
        let (gives_way, told) = oneshot::channel();
        let mut namespaces = self.namespaces.lock();
        namespaces.retain(|_, namespace| {
            namespace.waiting.retain(|review| !review.gives_way.is_closed());
            Arc::strong_count(&namespace.turn) > 1
        });
        let new = || Namespace { turn: Arc::new(Semaphore::new(1)), waiting: Vec::new() };
        let namespace = namespaces.entry(name).or_insert_with(new);
        namespace.waiting.push(Waiting { bytes: size.max(self.least), since: Instant::now(), gives_way });
        let turn = Arc::clone(&namespace.turn);
        while namespaces.values().map(Namespace::bytes).sum::<usize>() > self.room {
            // Of namespaces with as many bytes, the one that has come last.
            let by_bytes = |of: &&mut Namespace| (of.bytes(), of.waiting.last().map(|review| review.since));
            let Some(largest) = namespaces.values_mut().max_by_key(by_bytes) else { break };
            let Some(newest) = largest.waiting.pop() else { break };
            let why = if largest.waiting.is_empty() { Shed::InFlight } else { Shed::Namespace };
            // It may have its permit by now.
            let _ = newest.gives_way.send(why);
        }
        (turn, told)
    }
}

impl Namespace {
    /// The part of the room that it takes.
    fn bytes(&self) -> usize {
        self.waiting.iter().map(|review| review.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

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

    struct Begun<'q> {
        permit: Pin<Box<dyn Future<Output = Result<EvaluationPermit, Shed>> + 'q>>,
        refused: Option<Shed>,
    }

    /// A review that has its permit or waits; or why it gives way at once.
    fn begin<'q>(queue: &'q EvaluationQueue, namespace: &str, size: usize) -> Begun<'q> {
        let mut permit = Box::pin(queue.permit(namespace.to_owned(), size));
        let refused = permit.as_mut().now_or_never().and_then(Result::err);
        Begun { permit, refused }
    }

    /// Why a review that waited gives way; none if it waits on.
    fn gives_way(begun: &mut Begun<'_>) -> Option<Shed> {
        begun.permit.as_mut().now_or_never().map(|permit| permit.unwrap_err())
    }

    #[tokio::test]
    async fn the_newest_of_the_namespace_with_most_gives_way() {
        let queue = EvaluationQueue::new(Limits { in_flight: 4, ..Limits::default() });
        let _evaluated = permit(&queue, "z", MAX_BODY).await;
        let mut of_a: Vec<_> = (0..4).map(|_| begin(&queue, "a", 1)).collect();
        assert_eq!(begin(&queue, "a", 1).refused, Some(Shed::Namespace));
        // Two others get half of the room, whatever comes of the first.
        let [mut b, mut c] = ["b", "c"].map(|name| begin(&queue, name, 1));
        assert_eq!(begin(&queue, "a", 1).refused, Some(Shed::Namespace));
        let shed: Vec<_> = of_a.iter_mut().map(gives_way).collect();
        assert_eq!(shed, [None, None, Some(Shed::Namespace), Some(Shed::Namespace)]);
        let _d = begin(&queue, "d", 1);
        // Each has one now: who comes later gives way.
        assert_eq!(begin(&queue, "e", 1).refused, Some(Shed::InFlight));
        assert_eq!((gives_way(&mut b), gives_way(&mut c)), (None, None));
    }

    #[tokio::test]
    async fn reviews_that_wait_share_their_bytes() {
        let queue = EvaluationQueue::new(Limits::default());
        let _evaluated = permit(&queue, "z", MAX_BODY).await;
        let mut large = begin(&queue, "a", MAX_BODY);
        let mut others: Vec<_> = (0..100).map(|at| begin(&queue, &at.to_string(), 39 << 10)).collect();
        assert_eq!(gives_way(&mut large), Some(Shed::InFlight));
        assert!(others.iter_mut().all(|other| other.refused.is_none() && gives_way(other).is_none()));
        // What has gone has left its room.
        drop(others);
        assert_eq!(begin(&queue, "a", MAX_BODY).refused, None);
    }
}
