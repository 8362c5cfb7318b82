//! The webhook as an API server meets it, but without a socket: requests go straight to the handler.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod admin;
mod answers;
mod audit;
mod bodies;
mod contract;
mod escapes;
mod faults;
mod golden;
mod hostile;
mod metrics;
mod other_policies;
mod other_requests;
mod overload;
mod owners;
mod policies;
mod refused;
mod rejected;
mod reviews;
mod scrape;
mod series;
mod server;
mod skipped;
mod time;
mod warnings;
mod workloads;

/// Choices that are the same in each run, unless `FABRIC_SEED` is set. A test that fails prints the seed.
#[allow(clippy::print_stdout, reason = "only a test that fails shows it")]
fn random(seed: u64) -> fastrand::Rng {
    let seed = std::env::var("FABRIC_SEED").map_or(seed, |seed| seed.parse().unwrap());
    println!("generated with FABRIC_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}
