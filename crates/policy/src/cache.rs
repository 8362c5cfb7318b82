//! Results that later pods use again. Their keys come from users, so a cache has a bound, and each namespace makes room
//! for itself.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

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
    by_key: HashMap<Arc<K>, Entry<V>>,
    namespaces: HashMap<String, Namespace<K>>,
    bytes: usize,
    /// The number of uses so far, by which the least recent one is known.
    uses: u64,
}

/// The entries of a namespace.
#[derive(Debug)]
struct Namespace<K> {
    bytes: usize,
    /// The keys, the one that was used least recently first.
    by_use: BTreeMap<u64, Arc<K>>,
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

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    /// A cache of at most this many bytes.
    pub fn new(most: usize) -> Self {
        let entries = Entries { by_key: HashMap::new(), namespaces: HashMap::new(), bytes: 0, uses: 0 };
        Self { most, entries: Mutex::new(entries) }
    }

    /// Returns the result for a key. If the cache does not have it, `find` returns it. The memory that it and its key take
    /// then is the cache's, and not that of the work: no pod is refused for what it leaves to others.
    pub fn get_or_find<E>(
        &self,
        key: impl FnOnce() -> K,
        namespace: &str,
        work: Option<&Work>,
        find: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, E> {
        let held = work.map_or(0, Work::held);
        let key = key();
        if let Some((value, steps)) = self.entries.lock().use_of(&key) {
            if let Some(work) = work {
                work.count_known(steps);
            }
            return Ok(value);
        }
        let before = work.map_or(0, Work::done);
        let value = find()?;
        // A result of work that ended early is not whole.
        if !goes_on(work, 0) {
            return Ok(value);
        }
        let steps = work.map_or(0, Work::done) - before;
        let bytes = usize::try_from(work.map_or(0, Work::held).saturating_sub(held)).unwrap_or(usize::MAX);
        let bytes = bytes.saturating_add(BYTES_OF_ENTRY);
        if bytes <= self.most {
            let namespace = namespace.to_owned();
            self.insert(key, Entry { value: value.clone(), steps, bytes, namespace, used: 0 });
            if let Some(work) = work {
                work.leave_all_but(held);
            }
        }
        Ok(value)
    }

    fn insert(&self, key: K, entry: Entry<V>) {
        let mut entries = self.entries.lock();
        // Another pod may have found it in the meantime.
        entries.remove(&key);
        while entries.bytes + entry.bytes > self.most && entries.evict_one() {}
        entries.insert(key, entry);
    }

    /// The number of results.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.lock().by_key.len()
    }
}

impl<K: Eq + Hash, V: Clone> Entries<K, V> {
    fn use_of(&mut self, key: &K) -> Option<(V, u64)> {
        let entry = self.by_key.get_mut(key)?;
        self.uses += 1;
        let before = std::mem::replace(&mut entry.used, self.uses);
        if let Some(namespace) = self.namespaces.get_mut(&entry.namespace)
            && let Some(key) = namespace.by_use.remove(&before)
        {
            namespace.by_use.insert(self.uses, key);
        }
        Some((entry.value.clone(), entry.steps))
    }

    fn insert(&mut self, key: K, entry: Entry<V>) {
        self.uses += 1;
        self.bytes += entry.bytes;
        let key = Arc::new(key);
        let new = || Namespace { bytes: 0, by_use: BTreeMap::new() };
        let namespace = self.namespaces.entry(entry.namespace.clone()).or_insert_with(new);
        namespace.bytes += entry.bytes;
        namespace.by_use.insert(self.uses, Arc::clone(&key));
        self.by_key.insert(key, Entry { used: self.uses, ..entry });
    }

    fn remove(&mut self, key: &K) {
        let Some(entry) = self.by_key.remove(key) else { return };
        self.bytes -= entry.bytes;
        let Some(namespace) = self.namespaces.get_mut(&entry.namespace) else { return };
        namespace.bytes -= entry.bytes;
        namespace.by_use.remove(&entry.used);
        if namespace.by_use.is_empty() {
            self.namespaces.remove(&entry.namespace);
        }
    }

    /// Evicts the least recently used entry of the namespace that has most bytes; returns whether there was one.
    fn evict_one(&mut self) -> bool {
        let most = self.namespaces.values().max_by_key(|namespace| namespace.bytes);
        let oldest = most.and_then(|namespace| namespace.by_use.values().next()).map(Arc::clone);
        oldest.is_some_and(|oldest| {
            self.remove(&oldest);
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const SIZE: usize = 1_000;

    thread_local! {
        static HELD: Cell<i64> = const { Cell::new(0) };
    }

    fn work() -> Work {
        Work::of_input(0).measured_by(|| HELD.get())
    }

    /// Finds a result that takes so many bytes, and returns whether the cache had the key.
    fn had_of(bytes: usize, cache: &Cache<usize, ()>, namespace: &str, key: usize, work: &Work) -> bool {
        let mut had = true;
        let find = || {
            had = false;
            HELD.set(HELD.get() + i64::try_from(bytes - BYTES_OF_ENTRY).unwrap());
            Ok::<_, ()>(())
        };
        cache.get_or_find(|| key, namespace, Some(work), find).unwrap();
        had
    }

    fn had(cache: &Cache<usize, ()>, namespace: &str, key: usize) -> bool {
        had_of(SIZE, cache, namespace, key, &work())
    }

    #[test]
    fn the_least_recently_used_entry_makes_room() {
        let cache = Cache::new(4 * SIZE);
        (0..4).for_each(|key| assert!(!had(&cache, "a", key)));
        assert!(had(&cache, "a", 0));
        assert!(!had(&cache, "a", 4));
        assert!(had(&cache, "a", 0) && had(&cache, "a", 2), "only one was evicted");
        assert!(!had(&cache, "a", 1));
        assert_eq!(cache.entries.lock().bytes, 4 * SIZE);
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
        let ended = work();
        ended.stop();
        for (bytes, work) in [(2 * SIZE, work()), (SIZE, ended)] {
            assert!(!had_of(bytes, &cache, "a", 1, &work));
            assert_eq!(cache.len(), 0);
        }
    }

    #[test]
    fn what_is_kept_is_no_memory_of_the_work() {
        let cache = Cache::new(SIZE);
        let work = work();
        for (bytes, own) in [(SIZE, 0), (2 * SIZE, 2 * SIZE - BYTES_OF_ENTRY)] {
            had_of(bytes, &cache, "a", bytes, &work);
            assert_eq!(usize::try_from(work.held()).unwrap(), own);
        }
    }

    #[test]
    fn a_pod_counts_the_steps_of_a_result_that_another_one_found() {
        let cache = Cache::new(SIZE);
        let steps = || {
            let work = Work::of_input(0);
            let find = || {
                work.goes_on(7);
                Ok::<_, ()>(())
            };
            cache.get_or_find(|| 1, "a", Some(&work), find).unwrap();
            work.with_known()
        };
        assert_eq!((steps(), steps()), (7, 7));
    }
}
