//! Bodies that arrive bit by bit, or not at all.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Sends what a body consists of. The body ends when this is dropped.
pub(crate) type Sender = UnboundedSender<Result<Bytes, io::Error>>;

/// The receiving end of a body without a length.
#[derive(Debug)]
struct Stream(UnboundedReceiver<Result<Bytes, io::Error>>);

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(ready!(self.0.poll_recv(context)).map(|piece| piece.map(Frame::data)))
    }
}

/// A body, and what to send it by.
pub(crate) fn body() -> (Sender, Body) {
    let (sender, receiver) = unbounded_channel();
    (sender, Body::new(Stream(receiver)))
}

/// A body of these pieces.
pub(crate) fn pieces<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Body {
    let (sender, body) = body();
    for piece in pieces {
        sender.send(Ok(Bytes::copy_from_slice(piece))).unwrap();
    }
    body
}
