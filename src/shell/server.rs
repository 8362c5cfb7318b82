//! The admission endpoint: an HTTPS port for the API server, and a plain one for kubelet, Prometheus and people.
//!
//! A thin shell around [`crate::core::admission::answer`]. Connections are served by hyper directly, not by
//! `axum::serve`: the TLS handshake, the limits on time and number, and the drain are what stands between a
//! cluster and a webhook that hangs.

mod admin;
mod body;
mod certificate;
mod connection;
mod connections;
mod linger;
mod refusal;
mod registration;
mod reload;
mod reply;
mod run;
mod state;
mod status;
mod webhook;

pub use body::MAX_BODY;
pub use run::{Config, Ended, Server, Stop};
pub use state::{Limits, State};
pub use webhook::router;

pub use admin::router as admin_router;
pub use certificate::{Pair, TlsSource};
pub use connection::Times;
