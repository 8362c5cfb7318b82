//! What goes to a server, and what comes back.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// There was no connection.
    #[error("there was no connection: {0}")]
    Connect(io::Error),
    /// Nothing of the request was sent.
    #[error("nothing of the request was sent")]
    NotSent,
    /// The request was sent, at least in part.
    #[error("there was no answer: {0}")]
    Lost(String),
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }
}

/// The body of a request: all of it at once, or in pieces that come when they come.
pub(crate) enum Body {
    Whole(Option<Bytes>),
    Pieces(mpsc::UnboundedReceiver<Bytes>),
}

impl Body {
    /// A body that ends when the sender is dropped.
    pub(crate) fn in_pieces() -> (mpsc::UnboundedSender<Bytes>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self::Pieces(receiver))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Whole(Some(bytes.into()))
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut *self {
            Self::Whole(bytes) => bytes.take(),
            Self::Pieces(pieces) => ready!(pieces.poll_recv(context)),
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Pieces(_) => SizeHint::default(),
        }
    }
}
