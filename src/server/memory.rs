//! The memory for the bodies of requests and responses.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::unconstrained;
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

/// The permit for the memory of one body.
#[derive(Debug)]
pub(super) struct MemoryPermit {
    bytes: OwnedSemaphorePermit,
    of_large: Option<OwnedSemaphorePermit>,
}

impl MemoryPermit {
    /// The number of bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.num_permits()
    }

    /// The body, which holds its memory until the last clone is dropped. What it does not need is given back.
    pub(super) fn hold(mut self, body: Bytes) -> Bytes {
        for permit in [Some(&mut self.bytes), self.of_large.as_mut()].into_iter().flatten() {
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
        // A task that has read much has to yield, which is no lack of memory.
        let mut permit = pin!(unconstrained(self.acquire(bytes)));
        if let Some(permit) = permit.as_mut().now_or_never() {
            return permit;
        }
        let waiting = async {
            // Twice, because clients that have just begun may stall, too.
            for _ in 0..2 {
                self.connections.evict_stalled();
                if let Ok(permit) = timeout(STALLED, permit.as_mut()).await {
                    return permit;
                }
            }
            None
        };
        request.pause(waiting).await
    }

    async fn acquire(&self, bytes: usize) -> Option<MemoryPermit> {
        let is_large = bytes > SMALL_BODY;
        let bytes = u32::try_from(bytes).ok()?;
        let acquire = |of: &Arc<Semaphore>| Arc::clone(of).acquire_many_owned(bytes);
        let of_large = if is_large { Some(acquire(&self.for_large).await.ok()?) } else { None };
        Some(MemoryPermit { of_large, bytes: acquire(&self.bytes).await.ok()? })
    }
}
