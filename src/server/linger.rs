//! A stream that waits for its client to close.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Duration, Sleep, sleep};

/// The time within which a client has to close its side after the server did.
const LINGER: Duration = Duration::from_secs(1);

/// A stream whose shutdown waits for that of the client. If the server closes while the client still writes, the kernel
/// sends a reset, and the client loses what it has not read yet: the last response, or which requests it may repeat.
pub(super) struct Lingering<S> {
    stream: S,
    /// Set when this side is closed.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Lingering<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, until: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.until.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        let until = this.until.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        let mut space = [0; 1024];
        while until.as_mut().poll(context).is_pending() {
            let mut unread = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut this.stream).poll_read(context, &mut unread)) {
                // Requests that arrive now are not answered.
                Ok(()) if !unread.filled().is_empty() => {}
                // The client has closed its side, or the connection is lost.
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn shutdown_waits_for_the_client_for_a_limited_time() {
        let (client, server) = duplex(64);
        let mut server = Lingering::new(server);
        let begun = Instant::now();
        server.shutdown().await.unwrap();
        assert_eq!(begun.elapsed(), LINGER);
        drop(client);
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_reads_until_the_client_closes() {
        let (mut client, server) = duplex(16);
        let mut server = Lingering::new(server);
        let begun = Instant::now();
        let ended = tokio::spawn(async move { server.shutdown().await });
        client.write_all(&[0; 4096]).await.unwrap();
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.unwrap();
        drop(client);
        ended.await.unwrap().unwrap();
        assert!(begun.elapsed() < LINGER, "{:?}", begun.elapsed());
    }
}
