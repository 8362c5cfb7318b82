//! Results that later pods use again. Their keys come from users, so a cache has a bound, and each namespace makes room
//! for itself.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;

use crate::work::{Work, goes_on};

/// A cache of at most a number of bytes. When it is full, the namespace that uses most of it loses the result that was
/// used least recently, so that no namespace empties the cache for others.
///
/// A result is kept with the steps that it took. A pod that uses it counts them, so the same pod always takes the same
/// number.
#[derive(Debug)]
pub struct Cache<K, V> {
    most: usize,
    entries: Mutex<Entries<K, V>>,
}

#[derive(Debug)]
struct Entries<K, V> {
    by_key: HashMap<K, Entry<V>>,
    /// The bytes of each namespace.
    bytes: HashMap<String, usize>,
    /// The number of uses so far, by which the least recent one is known.
    uses: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    steps: u64,
    bytes: usize,
    namespace: String,
    used: u64,
}

/// What an entry takes besides its key and value.
const BYTES_OF_ENTRY: usize = 256;

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    /// A cache of at most this many bytes.
    pub fn new(most: usize) -> Self {
        let entries = Entries { by_key: HashMap::new(), bytes: HashMap::new(), uses: 0 };
        Self { most, entries: Mutex::new(entries) }
    }

    /// Returns the result for a key. If the cache does not have it, `find` returns it with the bytes that it and its key
    /// take.
    pub fn get_or_find<E>(
        &self,
        key: K,
        namespace: &str,
        work: Option<&Work>,
        find: impl FnOnce() -> Result<(V, usize), E>,
    ) -> Result<V, E> {
        if let Some((value, steps)) = self.entries.lock().use_of(&key) {
            if let Some(work) = work {
                work.count_known(steps);
            }
            return Ok(value);
        }
        let before = work.map_or(0, Work::done);
        let (value, bytes) = find()?;
        // A result of work that ended early is not whole.
        if goes_on(work, 0) {
            let steps = work.map_or(0, Work::done) - before;
            let (bytes, namespace) = (bytes + BYTES_OF_ENTRY, namespace.to_owned());
            self.insert(key, Entry { value: value.clone(), steps, bytes, namespace, used: 0 });
        }
        Ok(value)
    }

    fn insert(&self, key: K, entry: Entry<V>) {
        if entry.bytes > self.most {
            return;
        }
        let mut entries = self.entries.lock();
        // Another pod may have found it in the meantime.
        entries.remove(&key);
        while entries.bytes.values().sum::<usize>() + entry.bytes > self.most && entries.evict_one() {}
        entries.uses += 1;
        *entries.bytes.entry(entry.namespace.clone()).or_default() += entry.bytes;
        let used = entries.uses;
        entries.by_key.insert(key, Entry { used, ..entry });
    }

    /// The number of results.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.lock().by_key.len()
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Entries<K, V> {
    fn use_of(&mut self, key: &K) -> Option<(V, u64)> {
        self.uses += 1;
        let entry = self.by_key.get_mut(key)?;
        entry.used = self.uses;
        Some((entry.value.clone(), entry.steps))
    }

    fn remove(&mut self, key: &K) {
        let Some(entry) = self.by_key.remove(key) else { return };
        if let Some(bytes) = self.bytes.get_mut(&entry.namespace) {
            *bytes -= entry.bytes;
            if *bytes == 0 {
                self.bytes.remove(&entry.namespace);
            }
        }
    }

    /// Evicts the least recently used entry of the namespace that has most bytes; returns whether there was one.
    fn evict_one(&mut self) -> bool {
        let Some((most, _)) = self.bytes.iter().max_by_key(|(_, bytes)| **bytes) else { return false };
        let of_most = self.by_key.iter().filter(|(_, entry)| entry.namespace == *most);
        let oldest = of_most.min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
        let Some(oldest) = oldest else { return false };
        self.remove(&oldest);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 1_000;

    /// Returns whether the cache had the key.
    fn had(cache: &Cache<usize, ()>, namespace: &str, key: usize) -> bool {
        let mut had = true;
        let find = || {
            had = false;
            Ok::<_, ()>(((), SIZE - BYTES_OF_ENTRY))
        };
        cache.get_or_find(key, namespace, None, find).unwrap();
        had
    }

    #[test]
    fn the_least_recently_used_entry_makes_room() {
        let cache = Cache::new(4 * SIZE);
        (0..4).for_each(|key| assert!(!had(&cache, "a", key)));
        assert!(had(&cache, "a", 0));
        assert!(!had(&cache, "a", 4));
        assert!(had(&cache, "a", 0) && had(&cache, "a", 2), "only one was evicted");
        assert!(!had(&cache, "a", 1));
        assert_eq!(cache.entries.lock().bytes.values().sum::<usize>(), 4 * SIZE);
    }

    #[test]
    fn a_namespace_makes_room_for_itself_alone() {
        let cache = Cache::new(10 * SIZE);
        (0..4).for_each(|key| assert!(!had(&cache, "good", key)));
        (100..1_100).for_each(|key| assert!(!had(&cache, "evil", key)));
        assert!((0..4).all(|key| had(&cache, "good", key)));
        assert_eq!(cache.len(), 10);
    }

    #[test]
    fn a_result_that_is_too_large_or_not_whole_is_not_kept() {
        let cache = Cache::new(SIZE);
        let ended = Work::of_input(0);
        ended.stop();
        for (bytes, work) in [(2 * SIZE, None), (1, Some(ended))] {
            cache.get_or_find(1, "a", work.as_ref(), || Ok::<_, ()>(((), bytes))).unwrap();
            assert_eq!(cache.len(), 0);
        }
    }

    #[test]
    fn a_pod_counts_the_steps_of_a_result_that_another_one_found() {
        let cache = Cache::new(SIZE);
        let steps = || {
            let work = Work::of_input(0);
            let find = || {
                work.goes_on(7);
                Ok::<_, ()>(((), 1))
            };
            cache.get_or_find(1, "a", Some(&work), find).unwrap();
            work.with_known()
        };
        assert_eq!((steps(), steps()), (7, 7));
    }
}
