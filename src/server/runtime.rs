//! The runtime that serves reviews.

use std::{io, thread};

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::port::{OpenPort, Port};
use super::queue::EVALUATIONS;

/// A runtime with a thread of its own, so that reading the nodes of a cluster or serving metrics keeps no review waiting,
/// and no review a health check. One thread is faster than several, which wake each other for each request.
#[derive(Debug)]
pub(super) struct ReviewRuntime {
    handle: Handle,
    _end: oneshot::Sender<()>,
}

impl ReviewRuntime {
    /// Starts the thread, which ends when this is dropped.
    pub(super) fn start() -> io::Result<Self> {
        // One more reads the reviews that are not evaluated, so that they do not wait for those that are.
        let threads = EVALUATIONS + 1;
        let runtime = Builder::new_current_thread().max_blocking_threads(threads).enable_all().build()?;
        let (handle, (end, ended)) = (runtime.handle().clone(), oneshot::channel());
        thread::Builder::new().name("reviews".to_owned()).spawn(move || {
            let _ = runtime.block_on(ended);
            // A review whose client is gone may still be evaluated.
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, _end: end })
    }

    /// Serves a port.
    pub(super) fn open(&self, port: Port, listener: TcpListener) -> io::Result<OpenPort> {
        let listener = listener.into_std()?;
        let _here = self.handle.enter();
        Ok(port.open(TcpListener::from_std(listener)?))
    }
}
