//! The work limit of one pod or workload, counted in steps, and the memory that it may take.
//!
//! A step is a comparison, a short text that is copied, or a few bytes that are read: some ten nanoseconds. The same
//! input takes the same number of steps on every machine. A loop over something whose size users choose counts its
//! steps here, and continues only while some are left. The caller discards the result of a loop that ended early.
//!
//! Memory is what the allocator gave to the thread since the work began. The work asks every few steps. What a single call
//! takes, without steps in between, is counted before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use fabric_yaml::json;
use serde_json::Value;

/// Returns the bytes that the current thread holds: those that it has allocated and not freed.
pub type Held = fn() -> i64;

/// The steps for each byte of the input.
const PER_BYTE: u64 = 150;
/// The steps that every input has: a large cluster has thousands of nodes, and a small pod may fit all of them.
const AT_LEAST: u64 = 20_000_000;

/// The steps to load the policies that are in use together, most of them for sample pods.
const LOADING: u64 = 1_000_000_000;

/// The bytes of memory for each byte of the input, and those that every input has. The server evaluates eight small
/// reviews, or one large one, at a time: they take at most 400 MiB together.
const MEMORY_PER_BYTE: u64 = 48;
const MEMORY_AT_LEAST: u64 = 32 << 20;
/// The most bytes of memory for the values of the policies that are in use together.
const MEMORY_OF_POLICIES: u64 = 128 << 20;

/// The steps after which the work asks for its memory again.
const STEPS_BETWEEN: u64 = 256;

/// The bytes that are copied in one step.
const BYTES_PER_STEP: usize = 16;

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
    /// The most bytes of memory so far.
    memory: AtomicU64,
    /// The bytes that the thread held when the work began.
    begun: AtomicI64,
    held: Held,
    limits: WorkLimits,
    stopped: Arc<AtomicBool>,
}

#[derive(Debug, Clone, Copy)]
struct WorkLimits {
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
    /// The work for an input of this size, in bytes. Its memory is not measured.
    pub fn of_input(bytes: usize) -> Self {
        Self::within(WorkLimits::of_input(bytes), Arc::default(), || 0)
    }

    /// The work to load policies that are in use together.
    pub fn of_loading() -> Self {
        Self::of_steps(LOADING)
    }

    /// The same work, which is stopped with this one, on the thread that calls: its memory is measured from now on.
    #[must_use]
    pub fn measured_by(&self, held: Held) -> Self {
        Self::within(self.0.limits, Arc::clone(&self.0.stopped), held)
    }

    /// The work for an input of this size that is part of this work, and is stopped with it.
    #[must_use]
    pub fn for_input(&self, bytes: usize) -> Self {
        self.with_limits(WorkLimits::of_input(bytes))
    }

    /// Other work on the same input, with the same limits, which is stopped with this one.
    #[must_use]
    pub fn again(&self) -> Self {
        self.with_limits(self.0.limits)
    }

    /// The same, with at most these steps besides those that are known.
    #[must_use]
    pub fn with_most_steps(&self, steps: u64) -> Self {
        let limits = WorkLimits { steps: self.0.limits.steps.min(steps), ..self.0.limits };
        Self::within(limits, Arc::default(), self.0.held)
    }

    /// Work of this number of steps, for policies.
    pub(crate) fn of_steps(steps: u64) -> Self {
        let memory = MEMORY_OF_POLICIES;
        Self::within(WorkLimits { steps, with_known: steps, memory, input: 0 }, Arc::default(), || 0)
    }

    fn with_limits(&self, limits: WorkLimits) -> Self {
        Self::within(limits, Arc::clone(&self.0.stopped), self.0.held)
    }

    fn within(limits: WorkLimits, stopped: Arc<AtomicBool>, held: Held) -> Self {
        let (done, known, memory) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let begun = AtomicI64::new(held());
        Self(Arc::new(Counter { done, known, memory, begun, held, limits, stopped }))
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
        let before = self.done();
        add(&self.0.done, steps);
        // A few steps take little memory, and asking for it takes longer than counting.
        if before / STEPS_BETWEEN != self.done() / STEPS_BETWEEN {
            return self.takes_memory(0);
        }
        !self.is_over() && !self.0.stopped.load(Ordering::Relaxed)
    }

    /// Counts the bytes that one call is about to take, and returns whether the work may continue.
    pub fn takes_memory(&self, bytes: usize) -> bool {
        let most = self.held().saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        if most > self.memory() {
            self.0.memory.store(most, Ordering::Relaxed);
        }
        !self.is_over() && !self.0.stopped.load(Ordering::Relaxed)
    }

    /// Counts a copy of a value before it is made, and returns whether the work may continue.
    pub fn may_copy(&self, value: &Value) -> bool {
        let bytes = json::bytes_of(value);
        self.goes_on(bytes / BYTES_PER_STEP);
        self.takes_memory(bytes)
    }

    /// The bytes that the thread holds since the work began.
    pub(crate) fn held(&self) -> u64 {
        let begun = self.0.begun.load(Ordering::Relaxed);
        u64::try_from((self.0.held)().saturating_sub(begun)).unwrap_or(0)
    }

    /// Leaves what the thread holds beyond these bytes to somebody else, such as a cache, which has a limit of its own.
    pub(crate) fn leave_all_but(&self, bytes: u64) {
        let own = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.0.begun.store((self.0.held)().saturating_sub(own), Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        let WorkLimits { steps, with_known, .. } = self.0.limits;
        self.done() > steps || self.with_known() > with_known || self.memory() > self.0.limits.memory
    }

    /// The most bytes of memory that the work had when it was asked.
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
        let WorkLimits { with_known, memory, .. } = self.0.limits;
        if self.memory() > memory {
            return Some(Ended::Memory { bytes: memory });
        }
        self.is_over().then_some(Ended::Limit { steps: with_known })
    }
}

impl WorkLimits {
    fn of_input(bytes: usize) -> Self {
        let input = u64::try_from(bytes).unwrap_or(u64::MAX);
        let steps = input.saturating_mul(PER_BYTE).saturating_add(AT_LEAST);
        let memory = input.saturating_mul(MEMORY_PER_BYTE).saturating_add(MEMORY_AT_LEAST);
        Self { steps, with_known: steps, memory, input }
    }
}

fn add(counter: &AtomicU64, steps: usize) {
    let steps = u64::try_from(steps).unwrap_or(u64::MAX);
    counter.store(counter.load(Ordering::Relaxed).saturating_add(steps), Ordering::Relaxed);
}

/// Reads a text of the input as JSON; a part of it if the work ends.
pub fn read(work: Option<&Work>, text: &str) -> serde_json::Result<Value> {
    goes_on(work, text.len());
    json::read_while(text, &|| takes_memory(work, 0))
}

/// Counts the bytes that one call is about to take if there is a counter, and returns whether the work may continue.
pub fn takes_memory(work: Option<&Work>, bytes: usize) -> bool {
    work.is_none_or(|work| work.takes_memory(bytes))
}

/// Counts steps if there is a counter, and returns whether the work may continue.
pub fn goes_on(work: Option<&Work>, steps: usize) -> bool {
    work.is_none_or(|work| work.goes_on(steps))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

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
        let short = Work::of_input(0).with_most_steps(100);
        short.count_known(19_999_950);
        assert!(short.goes_on(50) && !short.goes_on(1));
        assert_eq!(short.ended(), Some(Ended::Limit { steps: 20_000_000 }));
        let short = Work::of_input(0).with_most_steps(100);
        assert!(short.goes_on(100) && !short.goes_on(1));
    }

    #[test]
    fn work_ends_beyond_its_memory() {
        for (input, most) in [(0, 32 << 20), (1 << 20, 80 << 20), (7 << 20, 368 << 20)] {
            let work = Work::of_input(input);
            assert!(work.takes_memory(most) && !work.takes_memory(most + 1), "{input}");
            let bytes = u64::try_from(most).unwrap();
            assert_eq!(work.ended(), Some(Ended::Memory { bytes }));
        }
    }

    thread_local! {
        static HELD: Cell<i64> = const { Cell::new(7_000) };
    }

    #[test]
    fn memory_is_what_the_thread_holds_since_the_work_began() {
        let work = Work::of_input(0).measured_by(|| HELD.get());
        HELD.set(8_000);
        assert!(work.goes_on(256));
        HELD.set(100);
        assert!(work.takes_memory(0));
        assert_eq!(
            (work.memory(), work.held()),
            (1_000, 0),
            "the most that it had, and never less than nothing"
        );
        let work = work.measured_by(|| HELD.get());
        HELD.set(5_100);
        work.leave_all_but(1_000);
        HELD.set(5_200);
        assert_eq!(work.held(), 1_100);
        HELD.set(100 << 20);
        assert!(work.goes_on(1), "it has not asked yet");
        assert!(!work.goes_on(256));
        HELD.set(0);
        assert!(!work.goes_on(0), "it is over");
    }

    #[test]
    fn what_another_thread_holds_is_no_memory_of_the_work() {
        let work = Work::of_loading();
        // A thread that frees what others allocate, as the server's do with answers.
        HELD.set(-(1 << 40));
        let elsewhere = work.clone();
        let on_another_thread = std::thread::spawn(move || {
            let work = elsewhere.measured_by(|| HELD.get());
            assert!(work.goes_on(256) && work.held() == 0);
            elsewhere.stop();
            work.ended()
        });
        assert_eq!(on_another_thread.join().unwrap(), Some(Ended::Stopped));
    }
}
