//! The memory for the bodies of requests and responses.

use std::pin::pin;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::connections::{Connections, InFlight, STALLED};

/// The memory for bodies, in bytes.
#[derive(Debug)]
pub(super) struct Memory {
    bytes: Arc<Semaphore>,
    /// The connections on which the clients are that hold it.
    connections: Arc<Connections>,
}

impl Memory {
    pub(super) fn new(bytes: usize, connections: Arc<Connections>) -> Self {
        Self { bytes: Arc::new(Semaphore::new(bytes)), connections }
    }

    /// Waits a moment for memory for a request. If there is too little, connections whose clients stall are evicted.
    pub(super) async fn permit(&self, bytes: usize, request: &InFlight) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes).ok()?;
        match Arc::clone(&self.bytes).try_acquire_many_owned(bytes) {
            Ok(permit) => Some(permit),
            Err(_) => request.pause(self.wait(bytes)).await,
        }
    }

    async fn wait(&self, bytes: u32) -> Option<OwnedSemaphorePermit> {
        let mut permit = pin!(Arc::clone(&self.bytes).acquire_many_owned(bytes));
        // Twice, because clients that have just begun may stall, too.
        for _ in 0..2 {
            self.connections.evict_stalled();
            if let Ok(permit) = timeout(STALLED, permit.as_mut()).await {
                return permit.ok();
            }
        }
        None
    }
}
