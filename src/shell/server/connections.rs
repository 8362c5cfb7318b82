//! The open connections, and the eviction of idle ones when there are too many.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::time::Duration;

/// The activity of one connection.
#[derive(Debug)]
pub(super) struct Connection {
    begun: Instant,
    /// It has had a request.
    has_had_request: AtomicBool,
    /// Requests in flight.
    active: AtomicUsize,
    /// Milliseconds from `begun` to the last activity: a response was sent, or a request began while none was in
    /// flight.
    last: AtomicU64,
    /// The next response is the last.
    ends: AtomicBool,
    /// Notified when the connection is evicted.
    pub(super) evicted: Notify,
}

impl Connection {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            has_had_request: AtomicBool::new(false),
            active: AtomicUsize::new(0),
            last: AtomicU64::new(0),
            ends: AtomicBool::new(false),
            evicted: Notify::new(),
        }
    }

    /// Makes the next response the last.
    pub(super) fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// Returns whether the next response is the last.
    pub(super) fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    fn touch(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Counts a request until the guard is dropped.
    pub(super) fn request(self: &Arc<Self>) -> InFlight {
        self.has_had_request.store(true, Ordering::Relaxed);
        if self.active.fetch_add(1, Ordering::Relaxed) == 0 {
            self.touch();
        }
        InFlight(Arc::clone(self))
    }

    pub(super) fn has_had_request(&self) -> bool {
        self.has_had_request.load(Ordering::Relaxed)
    }

    /// The time since the last activity; none while a request is in flight.
    pub(super) fn idle(&self) -> Option<Duration> {
        (self.active.load(Ordering::Relaxed) == 0).then(|| self.since_last())
    }

    /// The time for which requests have been in flight without a response; none without requests.
    pub(super) fn stuck(&self) -> Option<Duration> {
        (self.active.load(Ordering::Relaxed) > 0).then(|| self.since_last())
    }

    fn since_last(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(last)
    }
}

/// A request, until its response is sent.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Connection>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.touch();
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All open connections of a port.
#[derive(Debug)]
pub(super) struct Connections {
    most: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    by_number: HashMap<u64, Arc<Connection>>,
}

impl Connections {
    pub(super) fn new(most: usize) -> Self {
        Self { most, open: Mutex::default() }
    }

    /// Returns whether a request is in flight on any of them.
    pub(super) fn any_busy(&self) -> bool {
        self.open().by_number.values().any(|connection| connection.idle().is_none())
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection. At the limit, it evicts one that never had a request, or else the one that has been idle for
    /// longest, so that idle clients do not keep out active ones. None if a request is in flight on all of them.
    pub(super) fn add(self: &Arc<Self>) -> Option<Slot> {
        let mut open = self.open();
        if open.by_number.len() >= self.most {
            let victim = open.by_number.iter().filter_map(|(number, connection)| {
                let idle = connection.idle()?;
                Some(((!connection.has_had_request(), idle), *number))
            });
            let (_, number) = victim.max()?;
            if let Some(connection) = open.by_number.remove(&number) {
                connection.evicted.notify_one();
            }
        }
        let number = open.next;
        open.next += 1;
        let connection = Arc::new(Connection::new());
        open.by_number.insert(number, Arc::clone(&connection));
        Some(Slot { number, connection, of: Arc::clone(self) })
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
mod tests {
    use super::*;

    #[test]
    fn idle_connections_are_evicted_and_busy_ones_stay() {
        let connections = Arc::new(Connections::new(2));
        let numbers = || {
            let mut numbers: Vec<u64> = connections.open().by_number.keys().copied().collect();
            numbers.sort_unstable();
            numbers
        };
        let busy = connections.add().unwrap();
        let request = busy.connection.request();
        let _idle = connections.add().unwrap();
        let third = connections.add().unwrap();
        assert_eq!(numbers(), [0, 2], "the idle one is evicted");
        let other = third.connection.request();
        assert!(connections.add().is_none(), "all are busy");
        drop(other);
        let _fourth = connections.add().unwrap();
        assert_eq!(numbers(), [0, 3], "the one without requests is evicted");
        drop(request);
        drop(busy);
        assert_eq!(numbers(), [3]);
    }
}
