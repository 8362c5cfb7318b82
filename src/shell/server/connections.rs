//! The connections that are open, and which of them has to go when there is no room for another.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::time::Duration;

/// What one connection is doing.
#[derive(Debug)]
pub(super) struct Connection {
    begun: Instant,
    /// Something was asked on it.
    has_asked: AtomicBool,
    /// Requests that are being answered.
    active: AtomicUsize,
    /// Milliseconds from `begun` to the last time that something happened: a request was answered, or one began
    /// where there was none.
    last: AtomicU64,
    /// The next answer is the last.
    ends: AtomicBool,
    /// Told when the connection has to make room.
    pub(super) evicted: Notify,
}

impl Connection {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            has_asked: AtomicBool::new(false),
            active: AtomicUsize::new(0),
            last: AtomicU64::new(0),
            ends: AtomicBool::new(false),
            evicted: Notify::new(),
        }
    }

    /// From now on, an answer is the last.
    pub(super) fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// Whether an answer is the last.
    pub(super) fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    fn touch(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Counts a request until the guard is dropped.
    pub(super) fn request(self: &Arc<Self>) -> Request {
        self.has_asked.store(true, Ordering::Relaxed);
        if self.active.fetch_add(1, Ordering::Relaxed) == 0 {
            self.touch();
        }
        Request(Arc::clone(self))
    }

    /// Whether anything was ever asked on it.
    pub(super) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// How long nothing was asked; none while something is being answered.
    pub(super) fn idle(&self) -> Option<Duration> {
        (self.active.load(Ordering::Relaxed) == 0).then(|| self.since_last())
    }

    /// How long nothing was answered although something was asked; none if nothing was.
    pub(super) fn stuck(&self) -> Option<Duration> {
        (self.active.load(Ordering::Relaxed) > 0).then(|| self.since_last())
    }

    fn since_last(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(last)
    }
}

/// A request that is being answered, until the answer was sent.
#[derive(Debug)]
pub(super) struct Request(Arc<Connection>);

impl Drop for Request {
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

    /// Whether something is being answered on any of them.
    pub(super) fn any_busy(&self) -> bool {
        self.open().by_number.values().any(|connection| connection.idle().is_none())
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes on a connection. Where there is no room, one makes some that never asked anything, or else the one that
    /// has been silent for longest: whoever opens connections and says nothing takes the place of nobody who talks.
    /// None if all are busy.
    pub(super) fn add(self: &Arc<Self>) -> Option<Place> {
        let mut open = self.open();
        if open.by_number.len() >= self.most {
            let victim = open.by_number.iter().filter_map(|(number, connection)| {
                let idle = connection.idle()?;
                Some(((!connection.has_asked(), idle), *number))
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
        Some(Place { number, connection, of: Arc::clone(self) })
    }
}

/// The place of an open connection, given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    pub(super) connection: Arc<Connection>,
    of: Arc<Connections>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.open().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_silent_make_room_and_the_busy_stay() {
        let connections = Arc::new(Connections::new(2));
        let numbers = || {
            let mut numbers: Vec<u64> = connections.open().by_number.keys().copied().collect();
            numbers.sort_unstable();
            numbers
        };
        let busy = connections.add().unwrap();
        let request = busy.connection.request();
        let _silent = connections.add().unwrap();
        let third = connections.add().unwrap();
        assert_eq!(numbers(), [0, 2], "the silent one went");
        let other = third.connection.request();
        assert!(connections.add().is_none(), "all are busy");
        drop(other);
        let _fourth = connections.add().unwrap();
        assert_eq!(numbers(), [0, 3], "the one that is done went");
        drop(request);
        drop(busy);
        assert_eq!(numbers(), [3]);
    }
}
