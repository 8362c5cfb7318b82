//! The limits on requests and their bodies. That on the work of a review is in `fabric_policy::work`.

/// The largest body: an API server accepts objects of up to 3 MiB, a review may contain two of them (`object` and
/// `oldObject`), and 1 MiB is for the rest.
pub const MAX_BODY: usize = 7 << 20;

/// The limits on concurrent requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Reviews that wait for their evaluation.
    pub in_flight: usize,
    /// The total size of all bodies of requests and responses.
    pub body_bytes: usize,
}

impl Limits {
    /// The default for reviews that wait, which is half of the connections. An API server has at most 200 mutating requests in flight by default
    /// (`--max-mutating-requests-inflight`), and a large cluster has a few API servers.
    pub const IN_FLIGHT: usize = 512;
    /// The default for bodies: four of the largest requests, or thousands of usual ones.
    pub const BODY_BYTES: usize = 32 << 20;
}

impl Default for Limits {
    fn default() -> Self {
        Self { in_flight: Self::IN_FLIGHT, body_bytes: Self::BODY_BYTES }
    }
}
