//! The open connections of a port, and which of them the server closes to make room for others.
//!
//! Connections that wait for their client make room. API servers send a request and read its response at once, so
//! these connections rarely are theirs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The time that a client has to send a body or to read a response when memory is short. API servers need milliseconds.
pub(super) const STALLED: Duration = Duration::from_millis(250);

/// The bytes that a client transfers in a second at least, or it gives its memory back when others need it.
const LEAST_RATE: f64 = 1_048_576.0;

/// The activity of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    /// It has had no request; its TLS handshake may not have ended.
    New,
    /// The client sends a body, or reads a response.
    Transfer,
    /// Between two parts of a body, the request waits for memory.
    Paused,
    /// A request waits for the server.
    Working,
    /// The response to the last request was sent.
    Idle,
}

/// The activity of one connection, and the time since when.
#[derive(Debug)]
pub(super) struct Connection {
    activity: Mutex<(Activity, Instant)>,
    /// The bytes that the client has sent or read in it.
    transferred: AtomicUsize,
    /// Notified when the connection is evicted.
    pub(super) evicted: Notify,
}

impl Default for Connection {
    fn default() -> Self {
        let activity = Mutex::new((Activity::New, Instant::now()));
        Self { activity, transferred: AtomicUsize::new(0), evicted: Notify::new() }
    }
}

impl Connection {
    fn enter(&self, activity: Activity) {
        self.transferred.store(0, Ordering::Relaxed);
        self.set(activity, Instant::now());
    }

    fn set(&self, activity: Activity, since: Instant) {
        *self.activity.lock().unwrap_or_else(PoisonError::into_inner) = (activity, since);
    }

    fn activity(&self) -> (Activity, Instant) {
        *self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The request that begins on this connection.
    pub(super) fn begin(self: &Arc<Self>) -> Arc<InFlight> {
        self.enter(Activity::Transfer);
        Arc::new(InFlight(Arc::clone(self)))
    }

    fn is_busy(&self) -> bool {
        !matches!(self.activity().0, Activity::New | Activity::Idle)
    }

    fn is_idle(&self) -> bool {
        self.activity().0 == Activity::Idle
    }

    /// The order of eviction: first the connections whose client has taken longer than [`STALLED`]. Then, by what most
    /// connections are, idle ones or those whose client has just begun: a hostile client can have many of either, but not
    /// the API servers. Within each, the one that has waited for longest. None for a connection whose request the server
    /// evaluates.
    fn rank(&self, most_are_idle: bool) -> Option<(bool, bool, Duration)> {
        let (activity, since) = self.activity();
        let (is_idle, elapsed) = (activity == Activity::Idle, since.elapsed());
        let is_stalled = !is_idle && elapsed >= STALLED;
        (activity != Activity::Working).then_some((is_stalled, is_idle == most_are_idle, elapsed))
    }

    /// Returns whether its client transfers less than [`LEAST_RATE`].
    fn is_stalled(&self) -> bool {
        let (activity, since) = self.activity();
        let elapsed = since.elapsed();
        #[expect(clippy::cast_precision_loss, reason = "a body has fewer than 2^52 bytes")]
        let transferred = self.transferred.load(Ordering::Relaxed) as f64;
        activity == Activity::Transfer
            && elapsed >= STALLED
            && transferred < LEAST_RATE * elapsed.as_secs_f64()
    }
}

/// A request, from its head until its response is sent.
#[derive(Debug, Default)]
pub(super) struct InFlight(Arc<Connection>);

impl InFlight {
    /// Records that the client sends the body, or reads the response.
    pub(super) fn waits_for_client(&self) {
        self.0.enter(Activity::Transfer);
    }

    /// Records a part of the body.
    pub(super) fn has_received(&self, bytes: usize) {
        self.0.transferred.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records that the body has arrived and no response is ready.
    pub(super) fn waits_for_server(&self) {
        self.0.enter(Activity::Working);
    }

    /// Waits for memory in the middle of a transfer, whose time does not include this.
    pub(super) async fn pause<T>(&self, waiting: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let (activity, since) = self.0.activity();
        if activity == Activity::Transfer {
            self.0.set(Activity::Paused, begun);
        }
        let output = waiting.await;
        self.0.set(activity, since + begun.elapsed());
        output
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.enter(Activity::Idle);
    }
}

/// All open connections of a port.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<Open>,
    /// The tasks that serve them.
    pub(super) tasks: TaskTracker,
    /// Each of them ends with its next response.
    pub(super) draining: CancellationToken,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    by_number: HashMap<u64, Arc<Connection>>,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection. If there are `most` already, evicts another one; none if a request on each of them waits for
    /// the server.
    pub(super) fn add(self: &Arc<Self>, most: usize) -> Option<Slot> {
        let mut open = self.open();
        if open.by_number.len() >= most {
            let idle = open.by_number.values().filter(|one| one.is_idle()).count();
            let most_are_idle = 2 * idle > open.by_number.len();
            let ranked =
                open.by_number.iter().filter_map(|(number, one)| Some((one.rank(most_are_idle)?, *number)));
            let (_, first) = ranked.max()?;
            open.by_number.remove(&first)?.evicted.notify_one();
        }
        let number = open.next;
        open.next += 1;
        let connection = Arc::<Connection>::default();
        open.by_number.insert(number, Arc::clone(&connection));
        Some(Slot { number, connection, of: Arc::clone(self) })
    }

    /// Evicts each connection whose client has had [`STALLED`] to send a body or to read a response, and is slow.
    pub(super) fn evict_stalled(&self) {
        for (_, stalled) in self.open().by_number.extract_if(|_, connection| connection.is_stalled()) {
            stalled.evicted.notify_one();
        }
    }

    /// Returns whether a request is in flight on any of them.
    pub(super) fn any_busy(&self) -> bool {
        self.open().by_number.values().any(|connection| connection.is_busy())
    }
}

/// An open connection, which is removed when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    number: u64,
    pub(super) connection: Arc<Connection>,
    of: Arc<Connections>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.of.open().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests;
