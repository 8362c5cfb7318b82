//! Work on all processors.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

/// Does the same work for each item, and returns the results in the order of the items. A thread gets at least this many
/// items; where there are no threads, the work is done without.
pub(super) fn map<T: Sync, R: Send>(items: &[T], least: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let share = items.len().div_ceil(threads).max(least);
    if items.len() <= share {
        return items.iter().map(work).collect();
    }
    let work = &work;
    thread::scope(|scope| {
        let start = |share| scope.spawn(move || <[T]>::iter(share).map(work).collect::<Vec<R>>());
        let workers: Vec<_> = items.chunks(share).map(start).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}
