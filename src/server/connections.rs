//! The open connections of a port, and which of them is closed when there is no room for another client.
//!
//! A source is limited only where it takes from others: when there is no room, the source that takes the most makes
//! room. So one address can carry the load of a whole cluster, and hostile addresses evict their own connections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::time::Duration;

/// The time without progress after which a connection is evicted for the memory that it holds. The parts of a review
/// of an API server follow each other within milliseconds.
const STALLED: Duration = Duration::from_millis(100);

/// The address of a client, or the IPv6 network of 64 bits, all of whose addresses one client may have.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

/// The activity of one connection.
#[derive(Debug)]
pub(super) struct Connection {
    source: IpAddr,
    begun: Instant,
    /// It has had a response.
    served: AtomicBool,
    /// Requests in flight.
    active: AtomicUsize,
    /// Those of them that wait for the server rather than for the client.
    working: AtomicUsize,
    /// The memory for bodies that have not arrived and responses that are not sent.
    held: AtomicUsize,
    /// Milliseconds from `begun` to the last activity: a request began while none was in flight, a part of a body
    /// arrived, a response was ready, or a part of it was sent.
    last: AtomicU64,
    /// The next response is the last.
    ends: AtomicBool,
    /// Notified when the connection is evicted.
    pub(super) evicted: Notify,
}

impl Connection {
    fn new(source: IpAddr) -> Self {
        Self {
            source,
            begun: Instant::now(),
            served: AtomicBool::new(false),
            active: AtomicUsize::new(0),
            working: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
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
        if self.active.fetch_add(1, Ordering::Relaxed) == 0 {
            self.touch();
        }
        InFlight(Arc::clone(self))
    }

    /// Counts a request as waiting for the server until the guard is dropped.
    pub(super) fn work(self: &Arc<Self>) -> Working {
        self.working.fetch_add(1, Ordering::Relaxed);
        Working(Arc::clone(self))
    }

    /// Counts memory as held for the client until the guard is dropped.
    pub(super) fn hold(self: &Arc<Self>, bytes: usize) -> Held {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Held { connection: Arc::clone(self), bytes }
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

    /// The order of eviction: an idle connection that was served before is the last.
    fn rank(&self) -> (bool, Duration) {
        let is_proven = self.served.load(Ordering::Relaxed) && self.active.load(Ordering::Relaxed) == 0;
        (!is_proven, self.since_last())
    }

    /// The number of connections that this one takes: one, unless a request on it waits for the server.
    fn place(&self) -> usize {
        usize::from(self.working.load(Ordering::Relaxed) == 0)
    }

    /// The memory that the connection holds, if it stalls.
    fn stalled_memory(&self) -> usize {
        if self.since_last() < STALLED { 0 } else { self.held.load(Ordering::Relaxed) }
    }
}

/// A request, until its response is sent.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Connection>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.touch();
        self.0.served.store(true, Ordering::Relaxed);
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request whose body has arrived, until its response is ready.
#[derive(Debug)]
pub(super) struct Working(Arc<Connection>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.touch();
        self.0.working.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Memory that is held until the client has sent a body or read a response.
#[derive(Debug)]
pub(super) struct Held {
    connection: Arc<Connection>,
    bytes: usize,
}

impl Held {
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.connection.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records that the client does its part.
    pub(super) fn progress(&self) {
        self.connection.touch();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.connection.held.fetch_sub(self.bytes, Ordering::Relaxed);
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

impl Open {
    /// Evicts a connection of the source that takes the most, the one that has waited for its client for longest.
    /// `taken` is what a connection takes, 0 if it stays. On a tie, the source of the newcomer makes room.
    fn evict(&mut self, newcomer: IpAddr, taken: impl Fn(&Connection) -> usize) -> bool {
        let mut shares = HashMap::<IpAddr, usize>::new();
        for connection in self.by_number.values() {
            *shares.entry(connection.source).or_default() += taken(connection);
        }
        let most = shares.into_iter().max_by_key(|(source, share)| (*share, *source == newcomer));
        let victim = most.and_then(|(source, _)| {
            let of_source = self.by_number.iter().filter(|(_, connection)| connection.source == source);
            let evictable = of_source.filter(|(_, connection)| taken(connection) > 0);
            evictable.max_by_key(|(_, connection)| connection.rank()).map(|(number, _)| *number)
        });
        let victim = victim.and_then(|number| self.by_number.remove(&number));
        victim.inspect(|connection| connection.evicted.notify_one()).is_some()
    }
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

    /// Adds a connection from this address. At the limit, it evicts another one; none if a request on each of them
    /// waits for the server.
    pub(super) fn add(self: &Arc<Self>, address: IpAddr) -> Option<Slot> {
        let source = source(address);
        let mut open = self.open();
        if open.by_number.len() >= self.most && !open.evict(source, Connection::place) {
            return None;
        }
        let number = open.next;
        open.next += 1;
        let connection = Arc::new(Connection::new(source));
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

impl Slot {
    /// Evicts a connection that holds memory and stalls, if there is one.
    pub(super) fn evict_for_memory(&self) -> bool {
        self.of.open().evict(self.connection.source, Connection::stalled_memory)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.of.open().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests;
