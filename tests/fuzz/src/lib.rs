//! What the targets have in common.
#![allow(dead_code, unreachable_pub, reason = "the files of tests are for their tests, too")]

mod calls;
mod input;
mod json;
mod kubectl;
#[path = "../../injection/properties/lost.rs"]
mod lost;
#[path = "../../injection/properties/places.rs"]
mod places;
mod policies;
pub mod seeds;

pub use calls::{answered, inject_thrice};
pub use input::Input;
pub use json::mutate;
pub use kubectl::compare;
pub use policies::{built_in, every_provider, load, named};

use std::time::Duration;

use fabric_policy::work::Work;

/// The time at which certificates are judged, since 1970.
pub const NOW: Duration = Duration::from_secs(1_800_000_000);

#[global_allocator]
static ALLOCATOR: fabric_allocator::Allocator = fabric_allocator::Allocator;

/// The work for an input of this size, as on a server.
#[must_use]
pub fn work(bytes: usize) -> Work {
    Work::of_input(bytes).measured_by(fabric_allocator::held)
}

/// Memory may exceed its limit by what is taken between two questions, and by what the caches of policies keep.
const MORE: u64 = 64 << 20;

/// Fails if work took more than it may.
pub fn assert_within_limits(work: &Work, bytes: usize) {
    let most = (32 << 20) + 48 * bytes as u64 + MORE;
    assert!(work.memory() <= most, "{} bytes of memory for {bytes} of input", work.memory());
}
