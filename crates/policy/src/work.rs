//! The work limit of one pod or workload, counted in steps.
//!
//! A step is a comparison, a short text that is copied, or a few bytes that are read: some ten nanoseconds. The same
//! input takes the same number of steps on every machine. A loop over something whose size users choose counts its
//! steps here, and continues only while some are left. The caller discards the result of a loop that ended early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The steps for each byte of the input.
const PER_BYTE: u64 = 150;
/// The steps that every input has: a large cluster has thousands of nodes, and a small pod may fit all of them.
const AT_LEAST: u64 = 20_000_000;

/// The steps to load the policies that are in use together, most of them for sample pods.
const LOADING: u64 = 1_000_000_000;

/// The steps to go to one value of the pod, or to copy it without those within it.
pub const STEPS_TO_VALUE: usize = 20;

/// A counter of steps with a limit. Clones count together.
#[derive(Debug, Clone)]
pub struct Work(Arc<Counter>);

#[derive(Debug)]
struct Counter {
    done: AtomicU64,
    /// The steps of results that an earlier input computed.
    known: AtomicU64,
    /// The limit on the steps that are done now.
    limit: u64,
    /// The limit with those that are known.
    limit_with_known: u64,
    /// The size of the input, in bytes.
    bytes: u64,
    stopped: Arc<AtomicBool>,
}

/// Why work ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It would take more steps than an input of this size may.
    Limit {
        /// The most steps.
        steps: u64,
    },
    /// The caller stopped it.
    Stopped,
}

impl Work {
    /// The work for an input of this size, in bytes.
    pub fn of_input(bytes: usize) -> Self {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let limit = bytes.saturating_mul(PER_BYTE).saturating_add(AT_LEAST);
        Self::new(limit, limit, bytes)
    }

    /// The work to load policies that are in use together.
    pub fn of_loading() -> Self {
        Self::of_steps(LOADING)
    }

    /// The work for an input of this size that is part of this work, and is stopped with it.
    #[must_use]
    pub fn part(&self, bytes: usize) -> Self {
        let Counter { limit, limit_with_known, bytes, .. } = *Self::of_input(bytes).0;
        Self::counted(limit, limit_with_known, bytes, Arc::clone(&self.0.stopped))
    }

    /// Other work on the same input, with the same limit, which is stopped with this one.
    #[must_use]
    pub fn afresh(&self) -> Self {
        let Counter { limit, limit_with_known, bytes, ref stopped, .. } = *self.0;
        Self::counted(limit, limit_with_known, bytes, Arc::clone(stopped))
    }

    /// The same, with at most these steps besides those that are known.
    #[must_use]
    pub fn at_most(&self, steps: u64) -> Self {
        Self::new(self.0.limit.min(steps), self.0.limit_with_known, self.0.bytes)
    }

    /// Work of this number of steps, for something other than input.
    pub(crate) fn of_steps(steps: u64) -> Self {
        Self::new(steps, steps, 0)
    }

    fn new(limit: u64, limit_with_known: u64, bytes: u64) -> Self {
        Self::counted(limit, limit_with_known, bytes, Arc::default())
    }

    fn counted(limit: u64, limit_with_known: u64, bytes: u64, stopped: Arc<AtomicBool>) -> Self {
        let (done, known) = (AtomicU64::new(0), AtomicU64::new(0));
        Self(Arc::new(Counter { done, known, limit, limit_with_known, bytes, stopped }))
    }

    /// Ends the work, from any thread.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }

    /// Counts steps, and returns whether the work may continue. One thread counts at a time.
    pub fn goes_on(&self, steps: usize) -> bool {
        add(&self.0.done, steps);
        !self.is_over() && !self.0.stopped.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.done() > self.0.limit || self.with_known() > self.0.limit_with_known
    }

    /// The steps that were counted, with those that are known.
    pub fn with_known(&self) -> u64 {
        self.done().saturating_add(self.0.known.load(Ordering::Relaxed))
    }

    /// Counts the steps that an earlier result took.
    pub(crate) fn count_known(&self, steps: u64) {
        add(&self.0.known, usize::try_from(steps).unwrap_or(usize::MAX));
    }

    /// Counts what other work has counted.
    pub fn count_all(&self, other: &Self) {
        add(&self.0.done, usize::try_from(other.done()).unwrap_or(usize::MAX));
    }

    /// Counts steps of work that is done anyway.
    pub(crate) fn count(&self, steps: usize) {
        self.goes_on(steps);
    }

    /// Counts one reading of the whole input.
    pub fn count_input(&self) {
        self.count(usize::try_from(self.0.bytes).unwrap_or(usize::MAX));
    }

    /// The steps that are left.
    pub(crate) fn left(&self) -> u64 {
        self.0.limit.saturating_sub(self.done())
    }

    /// The most steps.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// The steps that were counted, without those that are known.
    pub fn done(&self) -> u64 {
        self.0.done.load(Ordering::Relaxed)
    }

    /// Why the work ended early, if it did.
    pub fn ended(&self) -> Option<Ended> {
        if self.0.stopped.load(Ordering::Relaxed) {
            return Some(Ended::Stopped);
        }
        self.is_over().then_some(Ended::Limit { steps: self.0.limit_with_known })
    }
}

fn add(counter: &AtomicU64, steps: usize) {
    let steps = u64::try_from(steps).unwrap_or(u64::MAX);
    counter.store(counter.load(Ordering::Relaxed).saturating_add(steps), Ordering::Relaxed);
}

/// Counts steps if there is a counter, and returns whether the work may continue.
pub fn goes_on(work: Option<&Work>, steps: usize) -> bool {
    work.is_none_or(|work| work.goes_on(steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_beyond_its_limit_and_when_it_is_stopped() {
        let work = Work::of_input(1_000);
        assert_eq!(work.limit(), 20_150_000);
        assert!(work.goes_on(20_150_000) && !work.goes_on(1));
        assert_eq!(work.ended(), Some(Ended::Limit { steps: 20_150_000 }));
        let work = Work::of_input(0);
        work.clone().stop();
        assert!(!work.goes_on(0));
        assert_eq!(work.ended(), Some(Ended::Stopped));
    }

    #[test]
    fn what_is_known_counts_for_the_limit_and_takes_no_time() {
        let short = Work::of_input(0).at_most(100);
        short.count_known(19_999_950);
        assert!(short.goes_on(50) && !short.goes_on(1));
        assert_eq!(short.ended(), Some(Ended::Limit { steps: 20_000_000 }));
        let short = Work::of_input(0).at_most(100);
        assert!(short.goes_on(100) && !short.goes_on(1));
    }
}
