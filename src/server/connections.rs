//! The open connections of a port, and which of them the server closes to make room for others.
//!
//! Connections that wait for their client make room. API servers send a request and read its response at once, so
//! these connections rarely are theirs.

use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;
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

/// The activity of one connection.
#[derive(Debug)]
pub(super) struct Connection {
    current: Mutex<Current>,
    /// Notified when the connection is evicted.
    pub(super) evicted: Notify,
}

#[derive(Debug, Clone, Copy)]
struct Current {
    activity: Activity,
    since: Instant,
    /// The bytes that the client has sent or read in it.
    transferred: usize,
}

impl Current {
    fn begins(activity: Activity) -> Self {
        Self { activity, since: Instant::now(), transferred: 0 }
    }
}

impl Default for Connection {
    fn default() -> Self {
        Self { current: Mutex::new(Current::begins(Activity::New)), evicted: Notify::new() }
    }
}

impl Connection {
    fn enter(&self, activity: Activity) {
        *self.current.lock() = Current::begins(activity);
    }

    /// The request that begins on this connection.
    pub(super) fn begin(self: &Arc<Self>) -> Arc<InFlight> {
        self.enter(Activity::Transfer);
        Arc::new(InFlight(Arc::clone(self)))
    }

    fn activity(&self) -> Activity {
        self.current.lock().activity
    }

    /// The order of eviction: first the connections whose client has taken longer than [`STALLED`]. Then, by what most
    /// connections are, idle ones or those whose client has just begun: a hostile client can have many of either, but not
    /// the API servers. Within each, the one that has waited for longest. None for a connection whose request the server
    /// evaluates.
    fn rank(&self, most_are_idle: bool) -> Option<(bool, bool, Duration)> {
        let Current { activity, since, .. } = *self.current.lock();
        let (is_idle, elapsed) = (activity == Activity::Idle, since.elapsed());
        let is_stalled = !is_idle && elapsed >= STALLED;
        (activity != Activity::Working).then_some((is_stalled, is_idle == most_are_idle, elapsed))
    }

    /// Returns whether its client transfers less than [`LEAST_RATE`].
    fn is_stalled(&self) -> bool {
        let Current { activity, since, transferred } = *self.current.lock();
        let elapsed = since.elapsed();
        #[expect(clippy::cast_precision_loss, reason = "a body has fewer than 2^52 bytes")]
        let transferred = transferred as f64;
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
        self.0.current.lock().transferred += bytes;
    }

    /// Records that the body has arrived and no response is ready.
    pub(super) fn waits_for_server(&self) {
        self.0.enter(Activity::Working);
    }

    /// Waits for memory in the middle of a transfer, whose time does not include this.
    pub(super) async fn pause<T>(&self, waiting: impl Future<Output = T>) -> T {
        let before = *self.0.current.lock();
        let begun = Instant::now();
        if before.activity == Activity::Transfer {
            self.0.enter(Activity::Paused);
        }
        let output = waiting.await;
        *self.0.current.lock() = Current { since: before.since + begun.elapsed(), ..before };
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
    /// Those that have ended are forgotten when there are too many.
    open: Mutex<Vec<Weak<Connection>>>,
    /// The tasks that serve them.
    pub(super) tasks: TaskTracker,
    /// Each response announces the end of its connection.
    pub(super) leaving: CancellationToken,
    /// Each of them ends with its next response.
    pub(super) draining: CancellationToken,
}

impl Connections {
    /// Adds a connection, which is open until it is dropped. If there are `most` already, evicts another one; none if a
    /// request on each of them waits for the server.
    pub(super) fn add(&self, most: usize) -> Option<Arc<Connection>> {
        let mut open = self.open.lock();
        if open.len() >= most {
            open.retain(|connection| connection.strong_count() > 0);
        }
        if open.len() >= most {
            let all: Vec<Arc<Connection>> = open.iter().filter_map(Weak::upgrade).collect();
            let most_are_idle =
                2 * all.iter().filter(|one| one.activity() == Activity::Idle).count() > all.len();
            let ranked = all.iter().filter_map(|one| Some((one.rank(most_are_idle)?, one)));
            let (_, first) = ranked.max_by_key(|(rank, _)| *rank)?;
            evict(&mut open, |connection| Arc::ptr_eq(connection, first));
        }
        let connection = Arc::<Connection>::default();
        open.push(Arc::downgrade(&connection));
        Some(connection)
    }

    /// Evicts each connection whose client has had [`STALLED`] to send a body or to read a response, and is slow.
    pub(super) fn evict_stalled(&self) {
        evict(&mut self.open.lock(), |connection| connection.is_stalled());
    }

    /// Returns whether a request is in flight on any of them.
    pub(super) fn any_busy(&self) -> bool {
        let is_busy = |one: Arc<Connection>| !matches!(one.activity(), Activity::New | Activity::Idle);
        self.open.lock().iter().filter_map(Weak::upgrade).any(is_busy)
    }
}

/// Evicts open connections, which no longer count from now on.
fn evict(open: &mut Vec<Weak<Connection>>, is_evicted: impl Fn(&Arc<Connection>) -> bool) {
    open.retain(|connection| {
        let evicted = connection.upgrade().filter(&is_evicted);
        if let Some(connection) = &evicted {
            connection.evicted.notify_one();
        }
        evicted.is_none()
    });
}

#[cfg(test)]
mod tests;
