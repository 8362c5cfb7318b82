//! The API server: the objects of an installation, which `check` examines, and those that a server manages.
//!
//! The server's management of its own certificate, in clusters without cert-manager: a CA and a serving certificate in
//! one Secret that all replicas share, and `caBundle` in the webhook configuration.
//!
//! All replicas do the same, and none is the leader. A replica writes an object on the condition that its
//! `resourceVersion` is still the one that it read; after a conflict it reads again.

mod api;
mod certificate;
mod dry_run;
mod installation;
mod reconciler;
mod replica;
mod rotation;
mod secret;
mod watch;

pub(crate) use installation::{Examined, examine};
pub(crate) use reconciler::{KeyPairs, is_conflict};
pub use reconciler::{Options, Reconciler};
