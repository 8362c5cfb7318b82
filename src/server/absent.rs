//! Objects that admitted pods name and that the cluster did not have: who created the pod is told if they are still absent
//! after a while. Manifests are applied in any order, and an object may follow its pods.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use fabric_engine::admission::{Absent, ForOwner};
use fabric_policy::objects::{KnownObjects, ObjectKind, ObjectName};

/// The time that an object may take. A watch notices within 35 seconds that its connection is lost, and lists again within
/// 20.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long an object is looked for after the last pod that names it: nobody says when the pod is gone.
const KEPT: Duration = Duration::from_hours(1);
/// The limit on objects that are looked for. Beyond it, the namespace with the most has its last one forgotten.
const MOST: usize = 1_000;
/// The time between two looks.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

/// What is looked for, by the object and the uid of the owner of the pods.
#[derive(Debug, Default)]
pub(super) struct AbsentObjects(Mutex<BTreeMap<(ObjectName, String), Awaited>>);

#[derive(Debug)]
struct Awaited {
    absent: Absent,
    /// The times of the first and of the last pod.
    since: Instant,
    last: Instant,
    is_told: bool,
}

impl AbsentObjects {
    /// Notes the objects that an admitted pod names.
    pub(super) fn note(&self, absent: Vec<Absent>, now: Instant) {
        let mut all = self.0.lock();
        for absent in absent {
            let owner = absent.owner.as_ref().and_then(|owner| owner["uid"].as_str()).unwrap_or_default();
            let key = (absent.object.clone(), owner.to_owned());
            let new = || Awaited { absent, since: now, last: now, is_told: false };
            all.entry(key).or_insert_with(new).last = now;
        }
        while all.len() > MOST {
            let mut counts = BTreeMap::<&str, (usize, &(ObjectName, String))>::new();
            for key in all.keys() {
                let count = counts.entry(&key.0.namespace).or_insert((0, key));
                *count = (count.0 + 1, key);
            }
            let most = counts.into_values().max().map(|(_, last)| last.clone());
            most.and_then(|last| all.remove(&last));
        }
    }

    /// Forgets what exists, what is no longer known to be absent, and what no pod has named for long. Returns the messages
    /// for the owners of pods whose objects are absent for long, each once, and the number of these objects by their kind.
    pub(super) fn look(
        &self,
        known: Option<&KnownObjects>,
        now: Instant,
    ) -> (Vec<ForOwner>, BTreeMap<ObjectKind, usize>) {
        let mut all = self.0.lock();
        all.retain(|(object, _), awaited| {
            known.is_some_and(|known| known.lacks(object)) && now - awaited.last < KEPT
        });
        let (mut messages, mut counts) = (BTreeMap::<String, Vec<&Absent>>::new(), BTreeMap::new());
        let mut counted = None;
        for ((object, owner), awaited) in &mut *all {
            if now - awaited.since < PATIENCE {
                continue;
            }
            if counted != Some(object) {
                *counts.entry(object.kind).or_default() += 1;
                counted = Some(object);
            }
            if !std::mem::replace(&mut awaited.is_told, true) {
                messages.entry(owner.clone()).or_default().push(&awaited.absent);
            }
        }
        (messages.into_values().filter_map(|absent| ForOwner::of_absent(&absent)).collect(), counts)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn absent(namespace: &str, name: &str, owner: &str) -> Absent {
        let object = ObjectName::new(ObjectKind::Template, namespace, name);
        let owner = json!({"kind": "Job", "name": owner, "uid": owner, "namespace": namespace});
        Absent { object, text: format!("`{name}` is absent"), owner: Some(owner) }
    }

    fn nothing() -> KnownObjects {
        let mut known = KnownObjects::default();
        known.whole.extend(ObjectKind::all());
        known
    }

    fn texts(messages: &[ForOwner]) -> Vec<String> {
        messages.iter().map(|one| format!("{} {}", one.owner["name"], one.warnings[0].1)).collect()
    }

    #[test]
    fn what_is_absent_for_long_is_told_once_to_each_owner() {
        let (objects, known, begin) = (AbsentObjects::default(), nothing(), Instant::now());
        objects.note(vec![absent("ml", "t", "a"), absent("ml", "u", "a"), absent("ml", "t", "b")], begin);
        let at = |time| objects.look(Some(&known), begin + time);
        assert_eq!(at(PATIENCE / 2), (Vec::new(), BTreeMap::new()));
        let (messages, counts) = at(PATIENCE);
        assert_eq!(texts(&messages), ["\"a\" `t` is absent; `u` is absent", "\"b\" `t` is absent"]);
        assert_eq!(counts, [(ObjectKind::Template, 2)].into());
        // A later pod of the same owner tells nothing new.
        objects.note(vec![absent("ml", "t", "a")], begin + PATIENCE);
        let (messages, counts) = at(PATIENCE + INTERVAL);
        assert_eq!((messages.len(), counts[&ObjectKind::Template]), (0, 2));
        assert_eq!(at(KEPT).1, [(ObjectKind::Template, 1)].into());
        assert_eq!(at(KEPT + PATIENCE).1, BTreeMap::new());
    }

    #[test]
    fn an_object_that_comes_or_whose_kind_is_no_longer_watched_is_forgotten() {
        for known in [None, Some(KnownObjects::default())] {
            let (objects, begin) = (AbsentObjects::default(), Instant::now());
            objects.note(vec![absent("ml", "t", "a")], begin);
            assert_eq!(objects.look(known.as_ref(), begin + INTERVAL), (Vec::new(), BTreeMap::new()));
            assert_eq!(objects.look(Some(&nothing()), begin + PATIENCE), (Vec::new(), BTreeMap::new()));
        }
    }

    #[test]
    fn a_namespace_with_very_many_displaces_only_its_own() {
        let (objects, now) = (AbsentObjects::default(), Instant::now());
        objects.note(vec![absent("a", "t", "a"), absent("z", "t", "a")], now);
        objects.note((0..2 * MOST).map(|at| absent("evil", &format!("t{at:05}"), "a")).collect(), now);
        let all = objects.0.lock();
        let of = |namespace: &str| all.keys().filter(|(object, _)| object.namespace == namespace).count();
        assert_eq!((of("a"), of("z"), of("evil")), (1, 1, MOST - 2));
    }
}
