//! What the program reads from an API server, and what the server writes to it.
//!
//! - `node_watch` lists and watches nodes.
//! - `installation`, `running_pods`, `evidence`, `logs` and `dry_run` read for `check` and `diagnose`.
//! - `events` creates Events.
//! - `reconciler` manages the server's own certificate in clusters without cert-manager: a CA and a serving certificate in
//!   one Secret that all replicas share (`rotation`), and `caBundle` in the webhook configuration. All
//!   replicas do the same, and none is the leader. A replica writes an object only if its `resourceVersion` is still the
//!   one that it read; after a conflict, it reads the object again.

mod api;
mod asked;
mod certificate;
mod dry_run;
mod events;
mod evidence;
mod installation;
mod logs;
mod node_watch;
mod reconciler;
mod replica;
mod rotation;
mod running_pods;
mod secret;

use anyhow::Context;

pub(crate) use asked::{ClusterObjects, Selection};
pub(crate) use events::Events;
pub(crate) use installation::{examine, try_pending};
pub(crate) use logs::read as read_logs;
pub use node_watch::NodeWatch;
pub(crate) use node_watch::{OtherWatch, WatchState, Watched, WatchedKind, objects_of_cluster};
pub(crate) use reconciler::{KeyPairs, is_conflict};
pub use reconciler::{Options, Reconciler};
pub use rotation::Durations;
#[cfg(fuzzing)]
pub use secret::reconciled as reconciled_secret;

/// Does the work of a command, on its thread.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the runtime cannot be started")?.block_on(work)
}
