//! The admission endpoint: an HTTPS port for the API server, and an admin port for the kubelet, Prometheus and people.
//!
//! It passes each review to [`fabric_engine::admission::Reviewer`]. hyper reads the requests of a connection, and this module
//! controls the TLS handshake, the limits on time, number and memory, and the shutdown.
//!
//! The path of a request: `port` accepts a connection, `tls` and `connection` read its head, `webhook` checks the limits,
//! `body` reads the review, `queue` waits for a turn if the review is large, and `reply` or `rejection` is the response.

mod admin;
mod body;
mod change;
mod connection;
mod connections;
mod limits;
mod memory;
mod nodes;
mod port;
mod queue;
mod readiness;
mod reconcile_loop;
mod rejection;
mod reload;
mod reply;
mod run;
mod runtime;
mod sources;
mod state;
mod tls;
mod webhook;

pub use admin::Admin;
pub use connection::{Handler, RequestBody, Timeouts};
pub use connections::InFlight;
pub use limits::{Limits, MAX_BODY};
pub use port::Ended;
pub use reply::ReplyBody;
pub use run::{Config, MaxConnections, Server, Stop};
pub(crate) use sources::compiled;
pub use state::State;
pub use tls::TlsSource;
pub use webhook::{SHORT, SHORT_STEPS, Webhook};
