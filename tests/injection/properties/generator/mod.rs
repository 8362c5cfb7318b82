//! Random policies and random pods, from a seed. Both draw their names from the same small pools, so that they
//! meet: the pod has what the policy adds, in part, in another form, or not at all.

pub(crate) mod amounts;
pub(crate) mod api_types;
pub(crate) mod author;
pub(crate) mod clusters;
mod conditions;
mod container_overlays;
pub(crate) mod containers;
pub(crate) mod defaults;
pub(crate) mod expressions;
pub(crate) mod extends;
pub(crate) mod fabric;
pub(crate) mod own_writes;
mod pod_overlays;
pub(crate) mod pods;
pub(crate) mod policies;
pub(crate) mod pools;
pub(crate) mod records;
mod same_places;
mod values;
mod wild;
pub(crate) mod yaml;

use serde_json::Value;

/// A source of choices that gives the same ones for the same seed, which a test that fails prints.
pub(crate) struct Dice {
    random: fastrand::Rng,
    seed: u64,
}

impl Drop for Dice {
    #[allow(clippy::print_stderr, reason = "a test has failed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("generated with FABRIC_SEED={}", self.seed);
        }
    }
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), seed }
    }

    /// True in so many cases of a hundred.
    pub(crate) fn chance(&mut self, percent: u32) -> bool {
        self.random.u32(0..100) < percent
    }

    /// A number from 0, below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.random.usize(0..end)
    }

    pub(crate) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// Each of the choices with this chance, in their order.
    pub(crate) fn some<T: Clone>(&mut self, choices: &[T], percent: u32) -> Vec<T> {
        choices.iter().filter(|_| self.chance(percent)).cloned().collect()
    }
}

/// Sets the value at a path of keys, with maps on the way.
pub(crate) fn set(target: &mut Value, path: &[&str], value: Value) {
    let slot = path.iter().fold(target, |place, key| &mut place[*key]);
    *slot = value;
}

/// The entries of a list; none if it is not there.
pub(crate) fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}
