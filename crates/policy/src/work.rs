//! The work limit of one pod or workload, counted in steps, and the memory that it may take.
//!
//! A step is a comparison, a short text that is copied, or a few bytes that are read: some ten nanoseconds. The same
//! input takes the same number of steps on every machine. A loop over something whose size users choose counts its
//! steps here, and continues only while some are left. The caller discards the result of a loop that ended early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fabric_yaml::json::{MOST_MEMORY, bytes_of};
use serde_json::Value;

/// The steps for each byte of the input.
const PER_BYTE: u64 = 150;
/// The steps that every input has: a large cluster has thousands of nodes, and a small pod may fit all of them.
const AT_LEAST: u64 = 20_000_000;

/// The steps to load the policies that are in use together, most of them for sample pods.
const LOADING: u64 = 1_000_000_000;

/// The most bytes of memory for one input.
const MEMORY: u64 = MOST_MEMORY as u64;
/// The most bytes of memory for the values of the policies that are in use together.
const MEMORY_OF_POLICIES: u64 = 128 << 20;

/// The bytes of a value that do not count on their own.
const SHORT_VALUE: usize = 4 << 10;

/// The steps to go to one value of the pod, or to copy it without those within it.
pub const STEPS_TO_VALUE: usize = 20;

/// A counter of steps and of memory, with limits. Clones count together.
#[derive(Debug, Clone)]
pub struct Work(Arc<Counter>);

#[derive(Debug)]
struct Counter {
    done: AtomicU64,
    /// The steps of results that an earlier input computed.
    known: AtomicU64,
    /// The bytes of memory.
    memory: AtomicU64,
    limits: Limits,
    stopped: Arc<AtomicBool>,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    /// The limit on the steps that are done now.
    steps: u64,
    /// The limit with those that are known.
    with_known: u64,
    /// The limit on the bytes of memory.
    memory: u64,
    /// The size of the input, in bytes.
    input: u64,
}

/// Why work ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It would take more steps than an input of this size may.
    Limit {
        /// The most steps.
        steps: u64,
    },
    /// It would take more bytes of memory than an input may.
    Memory {
        /// The most bytes.
        bytes: u64,
    },
    /// The caller stopped it.
    Stopped,
}

impl Work {
    /// The work for an input of this size, in bytes.
    pub fn of_input(bytes: usize) -> Self {
        Self::within(Limits::of_input(bytes), Arc::default())
    }

    /// The work to load policies that are in use together.
    pub fn of_loading() -> Self {
        Self::of_steps(LOADING)
    }

    /// The work for an input of this size that is part of this work, and is stopped with it.
    #[must_use]
    pub fn part(&self, bytes: usize) -> Self {
        Self::within(Limits::of_input(bytes), Arc::clone(&self.0.stopped))
    }

    /// Other work on the same input, with the same limits, which is stopped with this one.
    #[must_use]
    pub fn afresh(&self) -> Self {
        Self::within(self.0.limits, Arc::clone(&self.0.stopped))
    }

    /// The same, with at most these steps besides those that are known.
    #[must_use]
    pub fn at_most(&self, steps: u64) -> Self {
        Self::within(Limits { steps: self.0.limits.steps.min(steps), ..self.0.limits }, Arc::default())
    }

    /// Work of this number of steps, for policies.
    pub(crate) fn of_steps(steps: u64) -> Self {
        let memory = MEMORY_OF_POLICIES;
        Self::within(Limits { steps, with_known: steps, memory, input: 0 }, Arc::default())
    }

    fn within(limits: Limits, stopped: Arc<AtomicBool>) -> Self {
        let (done, known, memory) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Self(Arc::new(Counter { done, known, memory, limits, stopped }))
    }

    /// Returns whether this is the work to load policies, or work without an input.
    pub(crate) fn is_of_policies(&self) -> bool {
        self.0.limits.memory == MEMORY_OF_POLICIES
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

    /// Counts bytes of memory before they are taken, and returns whether the work may continue.
    pub fn takes_memory(&self, bytes: usize) -> bool {
        add(&self.0.memory, bytes);
        self.goes_on(0)
    }

    /// Counts the memory of a value that an expression has. A short one is part of what holds it.
    pub fn count_memory(&self, value: &Value) {
        let bytes = bytes_of(value);
        self.takes_memory(if bytes < SHORT_VALUE { 0 } else { bytes });
    }

    fn is_over(&self) -> bool {
        let Limits { steps, with_known, .. } = self.0.limits;
        self.done() > steps || self.with_known() > with_known || self.memory() > self.0.limits.memory
    }

    /// The bytes of memory that were counted.
    pub fn memory(&self) -> u64 {
        self.0.memory.load(Ordering::Relaxed)
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

    /// Counts one reading of the whole input.
    pub fn count_input(&self) {
        self.goes_on(usize::try_from(self.0.limits.input).unwrap_or(usize::MAX));
    }

    /// The steps that are left.
    pub(crate) fn left(&self) -> u64 {
        self.0.limits.steps.saturating_sub(self.done())
    }

    /// The most steps.
    pub fn limit(&self) -> u64 {
        self.0.limits.steps
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
        let Limits { with_known, memory, .. } = self.0.limits;
        if self.memory() > memory {
            return Some(Ended::Memory { bytes: memory });
        }
        self.is_over().then_some(Ended::Limit { steps: with_known })
    }
}

impl Limits {
    fn of_input(bytes: usize) -> Self {
        let input = u64::try_from(bytes).unwrap_or(u64::MAX);
        let steps = input.saturating_mul(PER_BYTE).saturating_add(AT_LEAST);
        Self { steps, with_known: steps, memory: MEMORY, input }
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

    #[test]
    fn work_ends_beyond_its_memory() {
        let work = Work::of_input(0);
        assert!(work.takes_memory(96 << 20) && !work.takes_memory(1));
        assert_eq!(work.ended(), Some(Ended::Memory { bytes: MEMORY }));
    }
}
