//! The thread that serves reviews.

use std::{io, thread};

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::port::{OpenPort, Port};
use super::turns::EVALUATIONS;

/// A thread with a runtime of its own, so that reading the nodes of a cluster or serving metrics keeps no review waiting,
/// and no review a health check. One thread is faster than several, which wake each other for each request.
#[derive(Debug)]
pub(super) struct Thread {
    runtime: Handle,
    _end: oneshot::Sender<()>,
}

impl Thread {
    /// Starts the thread, which ends when this is dropped.
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().max_blocking_threads(EVALUATIONS).enable_all().build()?;
        let (handle, (end, ended)) = (runtime.handle().clone(), oneshot::channel());
        thread::Builder::new().name("reviews".to_owned()).spawn(move || {
            let _ = runtime.block_on(ended);
            // A review whose client is gone may still be evaluated.
            runtime.shutdown_background();
        })?;
        Ok(Self { runtime: handle, _end: end })
    }

    /// Serves a port on this thread.
    pub(super) fn open(&self, port: Port) -> io::Result<OpenPort> {
        let listener = port.listener.into_std()?;
        let _here = self.runtime.enter();
        Ok(Port { listener: TcpListener::from_std(listener)?, ..port }.open())
    }
}
