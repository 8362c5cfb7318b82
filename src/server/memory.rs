//! The memory for the bodies of requests and responses.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::connections::{Connections, InFlight, STALLED};
use super::limits::MAX_BODY;

/// The largest body that has the memory of large ones, too. A usual pod has 5 KB.
const SMALL_BODY: usize = 64 << 10;

/// The memory for bodies, in bytes.
#[derive(Debug)]
pub(super) struct Memory {
    bytes: Arc<Semaphore>,
    /// The part of it that large bodies may take together, so that small ones do not wait for them. Beside it, the small
    /// ones in the queue may take a quarter of all, so that a part is left for those that need no queue.
    for_large: Arc<Semaphore>,
    /// All bytes.
    most: usize,
    /// The connections on which the clients are that hold it.
    connections: Arc<Connections>,
}

/// The permit for the memory of one body: that of large ones, if it is one, and that of all.
#[derive(Debug)]
pub(super) struct MemoryPermit(Vec<OwnedSemaphorePermit>);

impl MemoryPermit {
    /// The number of bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0.first().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// The body, which holds its memory until the last clone is dropped. What it does not need is given back.
    pub(super) fn hold(mut self, body: Bytes) -> Bytes {
        for permit in &mut self.0 {
            drop(permit.split(permit.num_permits().saturating_sub(body.len())));
        }
        bytes_with(body, self)
    }
}

/// Bytes that hold something until the last clone is dropped.
pub(super) fn bytes_with(bytes: Bytes, held: impl Send + 'static) -> Bytes {
    struct With<T>(Bytes, T);
    impl<T> AsRef<[u8]> for With<T> {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(With(bytes, held))
}

impl Memory {
    pub(super) fn new(most: usize, connections: Arc<Connections>) -> Self {
        let for_large = (most / 16 * 11).max(most.min(MAX_BODY));
        let [bytes, for_large] = [most, for_large].map(|bytes| Arc::new(Semaphore::new(bytes)));
        Self { bytes, for_large, most, connections }
    }

    /// The memory of a body without a known length.
    pub(super) fn of_any_body(&self) -> usize {
        MAX_BODY.min(self.most)
    }

    /// Waits a moment for the memory of a body. If there is too little, connections whose clients stall are evicted.
    pub(super) async fn permit(&self, bytes: usize, request: &InFlight) -> Option<MemoryPermit> {
        let large = (bytes > SMALL_BODY).then_some(&self.for_large);
        let semaphores = large.into_iter().chain([&self.bytes]);
        let bytes = u32::try_from(bytes).ok()?;
        let at_once = semaphores.clone().map(|of| Arc::clone(of).try_acquire_many_owned(bytes));
        if let Ok(permits) = at_once.collect() {
            return Some(MemoryPermit(permits));
        }
        let mut acquired = pin!(async {
            let mut permits = Vec::new();
            for of in semaphores {
                permits.push(Arc::clone(of).acquire_many_owned(bytes).await.ok()?);
            }
            Some(MemoryPermit(permits))
        });
        let waiting = async {
            // Twice, because clients that have just begun may stall, too.
            for _ in 0..2 {
                self.connections.evict_stalled();
                if let Ok(permit) = timeout(STALLED, acquired.as_mut()).await {
                    return permit;
                }
            }
            None
        };
        request.pause(waiting).await
    }
}
