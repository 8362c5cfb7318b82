//! The webhook as the API server, the kubelet and its operators meet it: the real binary as a process of its own,
//! real sockets, real files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod age;
mod api_server;
mod attacks;
mod bad_certificates;
mod certificates;
mod check;
mod client;
mod client_ca;
mod drain;
mod drain_end;
mod environment;
mod greeting;
mod logs;
mod messages;
mod nodes;
mod other_addresses;
mod policies;
mod protocols;
mod readiness;
mod reviews;
mod rotation;
mod server;
mod shed;
mod silence;
mod stalls;
mod usage;

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long anything that is awaited may take at most, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until something holds, and fails if that does not come to be.
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < end, "this did not come to be: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// What a future gives, which fails if it takes too long.
async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    let given = tokio::time::timeout(PATIENCE, future).await;
    given.unwrap_or_else(|_| panic!("this took too long: {what}"))
}
