//! The admission endpoint: an HTTPS port for the API server, and an admin port for the kubelet, Prometheus and people.
//!
//! It passes each review to [`fabric_engine::admission::Reviewer`]. hyper reads the requests of a connection, and axum
//! routes them; this module controls the TLS handshake, the limits on time, number and memory, and the shutdown.
//!
//! The path of a request: `port` accepts a connection and reads its head, `app` has the routes and the layers around them,
//! `review` extracts the review, `webhook` answers it within the limits, `queue` waits for a turn if the review is large,
//! and `trace` records the response, which is a review or a `rejection`.

mod absent;
mod admin;
pub mod app;
mod connections;
mod last_change;
mod limits;
mod memory;
mod nodes;
mod port;
mod queue;
mod readiness;
mod reconcile_loop;
mod rejection;
mod reload;
mod review;
mod run;
mod runtime;
mod sources;
mod state;
mod tls;
mod trace;
mod webhook;

pub use limits::{Limits, MAX_BODY};
pub use port::Shutdown;
pub use run::{Config, MaxConnections, Server, Stop};
pub(crate) use sources::compiled;
pub use state::AppState;
pub use tls::TlsSource;
#[cfg(fuzzing)]
pub use tls::load;
pub use webhook::{SHORT, SHORT_STEPS};
