//! In a cluster without cert-manager: a CA and a serving certificate of the server's own, kept in one Secret that all
//! replicas share, and the registration of the webhook kept right.
//!
//! All replicas do the same, and none is in charge: whoever sees that something is due does it, on the condition that
//! the object is still the one that was read (its `resourceVersion`). Whoever comes second reads again.

mod api;
mod certificate;
mod claim;
mod dry_run;
mod keeper;
mod rotation;
mod secret;
mod watch;

pub use dry_run::{DryRun, dry_run};
pub use keeper::{Keeper, Options, Serving, was_outrun};
pub use rotation::Lives;
