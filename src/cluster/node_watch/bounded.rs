//! The objects of a kind, within bounds if tenants create them.
//!
//! What a namespace has beyond its bound is not kept: of its names in order, the last ones. Where all namespaces together
//! have too much, the bound of each becomes lower until they fit, so that the fullest give way first. What is kept does not
//! depend on the order in which objects arrive: a name that gave way, and each later one of its namespace, is beyond the
//! bound until the next list.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::object::Key;

/// The objects of one namespace that are kept, if tenants create them.
const OBJECTS: usize = 1_000;
/// The bytes that they may take.
const BYTES: usize = 1 << 20;
/// The bytes of all namespaces. A usual object takes some 800: 200 namespaces have room for 25 each.
const ALL: usize = 4 << 20;

/// Objects by namespace and name.
pub(super) struct Bounded<T> {
    namespaces: BTreeMap<String, Namespace<T>>,
    /// The bytes that an object takes in memory, about; 0 for a kind without a bound.
    size: fn(&T) -> usize,
    bytes: usize,
    /// The bytes that each namespace may have.
    bound: usize,
}

#[derive(PartialEq)]
struct Namespace<T> {
    objects: BTreeMap<String, Arc<T>>,
    bytes: usize,
    /// The first name beyond the bound.
    beyond: Option<String>,
}

impl<T: PartialEq> Bounded<T> {
    pub(super) fn new(size: fn(&T) -> usize) -> Self {
        Self { namespaces: BTreeMap::new(), size, bytes: 0, bound: BYTES }
    }

    /// Takes everything out.
    pub(super) fn take(&mut self) -> Self {
        let emptied = Self::new(self.size);
        std::mem::replace(self, emptied)
    }

    pub(super) fn get(&self, key: Key<'_>) -> Option<&Arc<T>> {
        self.namespaces.get(key.namespace)?.objects.get(key.name)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.namespaces.values().flat_map(|namespace| namespace.objects.values())
    }

    /// The namespaces that have objects beyond their bound.
    pub(super) fn over(&self) -> impl Iterator<Item = &String> {
        self.namespaces.iter().filter(|(_, namespace)| namespace.beyond.is_some()).map(|(name, _)| name)
    }

    /// Returns whether both have the same objects, and the same beyond the bounds.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.namespaces == other.namespaces
    }

    /// Returns whether that changes the kept objects.
    pub(super) fn insert(&mut self, key: Key<'_>, object: Arc<T>) -> bool {
        let (was_kept, Key { namespace, name }, size) = (self.remove(key), key, self.size);
        let new = || Namespace { objects: BTreeMap::new(), bytes: 0, beyond: None };
        let of = self.namespaces.entry(namespace.to_owned()).or_insert_with(new);
        if of.beyond.as_deref().is_some_and(|first| name >= first) {
            return was_kept;
        }
        self.bytes += size(&object);
        of.bytes += size(&object);
        of.objects.insert(name.to_owned(), object);
        self.bytes -= of.trim(self.bound, size);
        while self.bytes > ALL {
            self.bound -= self.bound / 16;
            self.bytes -= self.namespaces.values_mut().map(|of| of.trim(self.bound, size)).sum::<usize>();
        }
        true
    }

    /// Returns whether the object was kept.
    pub(super) fn remove(&mut self, Key { namespace, name }: Key<'_>) -> bool {
        let Some(of) = self.namespaces.get_mut(namespace) else { return false };
        let Some(object) = of.objects.remove(name) else { return false };
        let size = (self.size)(&object);
        (of.bytes, self.bytes) = (of.bytes - size, self.bytes - size);
        if of.objects.is_empty() && of.beyond.is_none() {
            self.namespaces.remove(namespace);
        }
        true
    }
}

impl<T> Namespace<T> {
    /// Drops the last names beyond a bound. Returns their bytes.
    fn trim(&mut self, bound: usize, size: fn(&T) -> usize) -> usize {
        let before = self.bytes;
        while (self.bytes > 0 && self.objects.len() > OBJECTS || self.bytes > bound)
            && let Some((name, object)) = self.objects.pop_last()
        {
            self.bytes -= size(&object);
            self.beyond = Some(name);
        }
        before - self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept of objects of these sizes, and which namespaces have more.
    fn kept(objects: &[(&str, &str, usize)]) -> (String, String) {
        let mut bounded = Bounded::new(|size: &usize| *size);
        for (namespace, name, size) in objects {
            bounded.insert(Key { namespace, name }, Arc::new(*size));
        }
        assert_eq!(bounded.bytes, bounded.values().map(|size| **size).sum::<usize>());
        let names = |(name, one): (&String, &Namespace<usize>)| {
            one.objects.keys().fold(String::new(), |all, of| all + name + "/" + of + " ")
        };
        (
            bounded.namespaces.iter().map(names).collect(),
            bounded.over().cloned().collect::<Vec<_>>().join(" "),
        )
    }

    fn permutations<T: Clone>(of: &[T]) -> Vec<Vec<T>> {
        let [first, rest @ ..] = of else { return vec![Vec::new()] };
        let insert = |all: Vec<T>| {
            let with = |at: usize| [&all[..at], std::slice::from_ref(first), &all[at..]].concat();
            (0..=all.len()).map(with).collect::<Vec<_>>()
        };
        permutations(rest).into_iter().flat_map(insert).collect()
    }

    #[test]
    fn the_last_names_of_a_namespace_give_way_whatever_the_order() {
        let half = BYTES / 2;
        let objects = [("a", "1", 9), ("a", "2", half), ("a", "3", half), ("a", "4", 9), ("b", "1", 1)];
        for order in permutations(&objects) {
            assert_eq!(kept(&order), ("a/1 a/2 b/1 ".to_owned(), "a".to_owned()), "{order:?}");
        }
        let name = |number: usize| format!("{number:04}");
        let names: Vec<String> = (0..OBJECTS + 9).map(name).collect();
        for is_reversed in [false, true] {
            let mut many: Vec<_> = names.iter().map(|name| ("a", name.as_str(), 1)).collect();
            if is_reversed {
                many.reverse();
            }
            let (all, over) = kept(&many);
            assert_eq!((all.split_whitespace().count(), over.as_str()), (OBJECTS, "a"));
            assert!(all.ends_with(&format!("a/{} ", name(OBJECTS - 1))), "{all}");
        }
    }

    #[test]
    fn of_all_namespaces_the_fullest_give_way_and_small_ones_keep_theirs_whatever_the_order() {
        let names: Vec<String> = (0..12).map(|number| format!("n{number:02}")).collect();
        // Some have as much as they may, in parts, and the others little.
        let objects = names.iter().enumerate().flat_map(|(at, name)| {
            let parts = if at % 2 == 0 { 16 } else { 1 };
            ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f"][..parts]
                .iter()
                .map(move |of| (name.as_str(), *of, BYTES / 16))
        });
        let objects: Vec<_> = objects.collect();
        let (all, over) = kept(&objects);
        let reversed: Vec<_> = objects.iter().rev().copied().collect();
        assert_eq!(kept(&reversed), (all.clone(), over.clone()));
        assert!(names.iter().all(|name| all.contains(&format!("{name}/0 "))), "{all}");
        assert_eq!(over.split(' ').count(), 6);
        assert!(all.contains("n00/5 ") && !all.contains("/e "), "{all}");
    }

    #[test]
    fn a_name_beyond_the_bound_stays_there_until_the_next_list() {
        let mut bounded = Bounded::new(|size: &usize| *size);
        let third = BYTES / 3;
        let key = |name| Key { namespace: "a", name };
        for name in ["1", "2", "3", "4"] {
            assert!(bounded.insert(key(name), Arc::new(third)));
        }
        assert!(!bounded.insert(key("4"), Arc::new(2)));
        assert!(bounded.remove(key("1")) && !bounded.remove(key("4")));
        assert!(!bounded.insert(key("5"), Arc::new(1)));
        assert!(bounded.insert(key("0"), Arc::new(third)));
        assert_eq!(bounded.namespaces["a"].objects.keys().collect::<Vec<_>>(), ["0", "2", "3"]);
        // An object that grows drives out the last ones.
        assert!(bounded.insert(key("0"), Arc::new(BYTES)));
        assert_eq!(bounded.namespaces["a"].objects.keys().collect::<Vec<_>>(), ["0"]);
        assert_eq!(bounded.take().over().count(), 1);
        assert_eq!((bounded.over().count(), bounded.bytes, bounded.bound), (0, 0, BYTES));
    }
}
