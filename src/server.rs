//! The admission endpoint: an HTTPS port for the API server, and an admin port for the kubelet, Prometheus and people.
//!
//! It passes each review to [`fabric_engine::admission::answer`]. hyper serves the connections, without `axum::serve`, so
//! that this module controls the TLS handshake, the limits on time and number, and the shutdown.

mod admin;
mod body;
mod connection;
mod connections;
mod linger;
mod nodes;
mod port;
mod readiness;
mod reconcile;
mod rejection;
mod reload;
mod reply;
mod run;
mod sources;
mod state;
mod thread;
mod tls;
mod turns;
mod webhook;

pub use admin::router as admin_router;
pub use body::MAX_BODY;
pub use connection::Timeouts;
pub use port::Ended;
pub use run::{Config, MaxConnections, Server, Stop};
pub(crate) use sources::compiled;
pub use state::{Limits, State};
pub use tls::TlsSource;
pub use webhook::router;
