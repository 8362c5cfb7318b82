//! Bodies that arrive bit by bit, or not at all.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Sends what a body consists of. The body ends when this is dropped.
pub(crate) type Sender = UnboundedSender<Result<Bytes, io::Error>>;

/// The body of a request: all of it at once, pieces without a length, or a length without anything that comes.
#[derive(Debug)]
pub(crate) enum Body {
    Whole(Bytes),
    Pieces(UnboundedReceiver<Result<Bytes, io::Error>>),
    /// Pieces of a body whose length is known.
    Parts(UnboundedReceiver<Result<Bytes, io::Error>>, usize),
    Announced(usize),
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Self::Whole(bytes.into())
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let piece = match &mut *self {
            Self::Whole(bytes) => Some(std::mem::take(bytes)).filter(|bytes| !bytes.is_empty()).map(Ok),
            Self::Pieces(pieces) | Self::Parts(pieces, _) => ready!(pieces.poll_recv(context)),
            Self::Announced(_) => return Poll::Pending,
        };
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Pieces(_) => SizeHint::default(),
            Self::Announced(length) | Self::Parts(_, length) => SizeHint::with_exact(*length as u64),
        }
    }
}

/// A body, and what to send it by.
pub(crate) fn body() -> (Sender, Body) {
    let (sender, receiver) = unbounded_channel();
    (sender, Body::Pieces(receiver))
}

/// A body of a known length, and what to send it by.
pub(crate) fn body_of(length: usize) -> (Sender, Body) {
    let (sender, receiver) = unbounded_channel();
    (sender, Body::Parts(receiver, length))
}

/// A body of these pieces.
pub(crate) fn pieces<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Body {
    let (sender, body) = body();
    for piece in pieces {
        sender.send(Ok(Bytes::copy_from_slice(piece))).unwrap();
    }
    body
}
