//! The known nodes, their `ResourceSlices`, and the objects that pods name. After an error, the last known ones stay
//! in use.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use kube::runtime::watcher::Event;
use serde_json::Value;
use tokio::time::{Duration, Instant};

use fabric_policy::device_classes::with_classes;
use fabric_policy::nodes::{Node, Nodes, Slice, Texts};
use fabric_policy::objects::{KnownObjects, NamedObject, ObjectApi, ObjectKind};

use super::ABSENT;
use super::bounded::Bounded;
use super::object::Object;

/// How long nodes wait for the objects that pods name: their APIs are not all those of the cluster.
const WAIT_FOR_NAMED: Duration = Duration::from_secs(10);

/// The shortest time between two snapshots.
const INTERVAL: Duration = Duration::from_secs(1);

/// The state of the watch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum WatchState {
    /// Nodes are not watched.
    #[default]
    Off,
    /// The first list has not ended.
    Starting,
    /// The first list failed, and no nodes are in use.
    Unavailable,
    Watching,
    /// The watch failed, and the nodes that were known last are in use.
    Stale,
}

impl WatchState {
    pub(crate) const ALL: [Self; 5] =
        [Self::Off, Self::Starting, Self::Unavailable, Self::Watching, Self::Stale];

    /// The name in metrics and logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Starting => "starting",
            Self::Unavailable => "unavailable",
            Self::Watching => "watching",
            Self::Stale => "stale",
        }
    }
}

/// The nodes and objects that reviews use, and why.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watched {
    pub(crate) state: WatchState,
    /// The time of the change to this state.
    pub(crate) since: Option<SystemTime>,
    pub(crate) nodes: Option<Arc<Nodes>>,
    /// Those that pods name; `None` if nothing is watched.
    pub(crate) objects: Option<Arc<KnownObjects>>,
    /// Why the watch of the nodes failed.
    pub(crate) error: Option<String>,
    /// The watches of the other objects. The nodes are in use without newer ones.
    pub(crate) others: Vec<OtherWatch>,
}

/// The watch of the objects of a kind that a cluster may not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OtherWatch {
    pub(crate) kind: WatchedKind,
    /// True until the objects are listed, or cannot be listed.
    is_awaited: bool,
    /// True if the cluster has no such API.
    is_absent: bool,
    /// Why the watch failed.
    pub(crate) error: Option<String>,
    /// The time since which it fails.
    since: Option<SystemTime>,
    /// The namespaces that have more of these objects than are kept.
    pub(crate) over: Vec<String>,
}

impl Watched {
    /// The time for which the objects of each kind have not been watched.
    pub(crate) fn ages(&self, now: SystemTime) -> Vec<(WatchedKind, Duration)> {
        let is_well = matches!(self.state, WatchState::Off | WatchState::Watching);
        let nodes = (WatchedKind::Node, self.since.filter(|_| !is_well));
        let all = [nodes].into_iter().chain(self.others.iter().map(|other| (other.kind, other.since)));
        let age = |since: SystemTime| now.duration_since(since).ok();
        all.map(|(kind, since)| (kind, since.and_then(age).unwrap_or_default())).collect()
    }

    /// The number of nodes in use.
    pub(crate) fn count(&self) -> usize {
        self.nodes.as_ref().map_or(0, |nodes| nodes.len())
    }
}

/// The kinds of objects that are listed and watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchedKind {
    Node,
    Slice,
    /// That pods name.
    Named(ObjectKind),
}

/// The API of nodes, and that of slices.
static APIS: LazyLock<[ObjectApi; 2]> = LazyLock::new(|| {
    let api = |name: &str, group: &str, kind: &str, resource: &str| ObjectApi {
        name: name.to_owned(),
        group: group.to_owned(),
        versions: vec!["v1".to_owned()],
        kind: kind.to_owned(),
        resource: resource.to_owned(),
        namespaced: false,
    };
    let slices = api("resource-slices", "resource.k8s.io", "ResourceSlice", "resourceslices");
    [api("nodes", "", "Node", "nodes"), slices]
});

impl WatchedKind {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::with_named(ObjectKind::all())
    }

    /// Nodes, slices, and these kinds.
    pub(super) fn with_named(named: impl IntoIterator<Item = ObjectKind>) -> impl Iterator<Item = Self> {
        [Self::Node, Self::Slice].into_iter().chain(named.into_iter().map(Self::Named))
    }

    pub(crate) fn api(self) -> &'static ObjectApi {
        match self {
            Self::Node => &APIS[0],
            Self::Slice => &APIS[1],
            Self::Named(kind) => kind.api(),
        }
    }

    /// The kind, if pods name the objects.
    pub(crate) fn named(self) -> Option<ObjectKind> {
        if let Self::Named(kind) = self { Some(kind) } else { None }
    }

    pub(super) fn is_named(self) -> bool {
        self.named().is_some()
    }
}

/// The objects of one kind.
struct Objects<T> {
    kind: WatchedKind,
    known: Bounded<T>,
    /// Those of a list that has not ended.
    listed: Bounded<T>,
    read: fn(WatchedKind, &Value, &mut Texts) -> T,
}

impl<T: PartialEq> Objects<T> {
    fn new(kind: WatchedKind, read: fn(WatchedKind, &Value, &mut Texts) -> T, size: fn(&T) -> usize) -> Self {
        Self { kind, known: Bounded::new(size), listed: Bounded::new(size), read }
    }

    /// Returns how many objects may have changed.
    fn apply(&mut self, event: Event<Object>, texts: &mut Texts) -> usize {
        match event {
            Event::Init => drop(self.listed.take()),
            Event::InitApply(object) | Event::Apply(object) if object.is_of_pod() => {}
            Event::InitApply(object) => {
                let new = self.read(&object, texts);
                self.listed.insert(object.key(), new);
            }
            Event::InitDone => {
                let listed = self.listed.take();
                if !listed.is_same(&self.known) {
                    self.known = listed;
                    return self.known.values().count().max(1);
                }
            }
            Event::Apply(object) => {
                let new = self.read(&object, texts);
                let is_known = self.known.get(object.key()).is_some_and(|known| Arc::ptr_eq(known, &new));
                return usize::from(!is_known && self.known.insert(object.key(), new));
            }
            Event::Delete(object) => return usize::from(self.known.remove(object.key())),
        }
        0
    }

    /// Forgets all objects. Returns whether there was one.
    fn clear(&mut self) -> bool {
        self.known.take().values().next().is_some()
    }

    /// The known object, if no relevant field has changed. Most changes are heartbeats.
    fn read(&self, object: &Object, texts: &mut Texts) -> Arc<T> {
        let new = (self.read)(self.kind, &object.value, texts);
        match self.known.get(object.key()) {
            Some(known) if **known == new => Arc::clone(known),
            _ => Arc::new(new),
        }
    }
}

/// The objects, and the state of the watch.
pub(super) struct Known {
    texts: Texts,
    nodes: Objects<Node>,
    slices: Objects<Slice>,
    named: Vec<Objects<Option<NamedObject>>>,
    others: Vec<OtherWatch>,
    /// Whether a namespace has more objects than are kept, for the watches.
    pub(super) is_over: Arc<AtomicBool>,
    state: WatchState,
    since: SystemTime,
    error: Option<String>,
    /// True if Multus lets pods use the networks of their own namespace only.
    pub(super) isolates_networks: bool,
    /// What reviews use; `None` after a change.
    nodes_in_use: Option<Arc<Nodes>>,
    objects_in_use: Option<Arc<KnownObjects>>,
    /// Until then, nodes wait for the objects that pods name.
    named_until: Instant,
    /// The time of the next snapshot, if there is something new.
    due: Option<Instant>,
    published: Instant,
    /// The changed objects since unused texts were dropped.
    changes: usize,
}

impl Known {
    pub(super) fn new(now: Instant, kinds: &[ObjectKind]) -> Self {
        let other = |kind| OtherWatch {
            kind,
            is_awaited: true,
            is_absent: false,
            error: None,
            since: None,
            over: Vec::new(),
        };
        Self {
            texts: Texts::default(),
            nodes: Objects::new(WatchedKind::Node, |_, object, texts| Node::read(object, texts), |_| 0),
            slices: Objects::new(WatchedKind::Slice, |_, object, texts| Slice::read(object, texts), |_| 0),
            named: kinds.iter().map(|kind| Objects::new(WatchedKind::Named(*kind), named, bytes)).collect(),
            others: WatchedKind::with_named(kinds.iter().copied()).skip(1).map(other).collect(),
            is_over: Arc::default(),
            state: WatchState::Starting,
            since: SystemTime::now(),
            error: None,
            isolates_networks: false,
            nodes_in_use: None,
            objects_in_use: None,
            named_until: now + WAIT_FOR_NAMED,
            due: Some(now),
            published: now,
            changes: 0,
        }
    }

    pub(super) fn apply(&mut self, kind: WatchedKind, event: Event<Object>, now: Instant) {
        let is_list = matches!(event, Event::InitDone);
        let changed = match kind {
            WatchedKind::Node => self.nodes.apply(event, &mut self.texts),
            WatchedKind::Slice => self.slices.apply(event, &mut self.texts),
            WatchedKind::Named(_) => {
                self.named_of(kind).map_or(0, |named| named.apply(event, &mut Texts::default()))
            }
        };
        if changed > 0 {
            self.note_change(kind, changed, now.max(self.published + INTERVAL));
        }
        match kind {
            _ if !is_list => {}
            WatchedKind::Node => self.turn(WatchState::Watching, None, now),
            _ => self.turn_other(kind, false, None, now),
        }
    }

    fn named_of(&mut self, kind: WatchedKind) -> Option<&mut Objects<Option<NamedObject>>> {
        self.named.iter_mut().find(|objects| objects.kind == kind)
    }

    fn note_change(&mut self, kind: WatchedKind, changed: usize, due: Instant) {
        if kind.is_named() {
            self.objects_in_use = None;
        } else {
            self.changes += changed;
        }
        // What nodes offer depends on the classes.
        if !kind.is_named() || kind.named() == Some(ObjectKind::Class) {
            self.nodes_in_use = None;
        }
        self.due.get_or_insert(due);
    }

    fn turn_other(&mut self, kind: WatchedKind, is_absent: bool, error: Option<String>, now: Instant) {
        let Some(watch) = self.others.iter_mut().find(|watch| watch.kind == kind) else { return };
        if watch.is_awaited || watch.is_absent != is_absent || watch.error != error {
            let since = watch.since.unwrap_or_else(SystemTime::now);
            watch.since = error.is_some().then_some(since);
            (watch.is_awaited, watch.is_absent, watch.error) = (false, is_absent, error);
            // Which objects are known to be absent depends on it.
            self.objects_in_use = self.objects_in_use.take().filter(|_| !kind.is_named());
            self.due = Some(now);
        }
    }

    /// Records the status of a response, 0 without one, and a sentence.
    pub(super) fn fail(&mut self, kind: WatchedKind, status: u16, error: String, now: Instant) {
        if kind == WatchedKind::Node {
            let state = match self.state {
                WatchState::Watching | WatchState::Stale => WatchState::Stale,
                _ => WatchState::Unavailable,
            };
            return self.turn(state, Some(error), now);
        }
        let is_absent = status == ABSENT;
        let cleared = match kind {
            _ if !is_absent => false,
            WatchedKind::Slice => self.slices.clear(),
            _ => self.named_of(kind).is_some_and(Objects::clear),
        };
        if cleared {
            self.note_change(kind, 1, now);
            self.due = Some(now);
        }
        self.turn_other(kind, is_absent, (!is_absent).then_some(error), now);
    }

    fn turn(&mut self, state: WatchState, error: Option<String>, now: Instant) {
        if self.state != state {
            self.since = SystemTime::now();
        }
        if self.state != state || self.error != error {
            (self.state, self.error, self.due) = (state, error, Some(now));
        }
    }

    /// When [`Self::publish`] has something to do, if nothing happens until then. Nodes are not in use before their
    /// slices: until then, their devices are unknown. They wait for the objects that pods name, too, but not for long.
    pub(super) fn due(&self) -> Option<Instant> {
        let awaited = |of_named: bool| {
            let mut others = self.others.iter().filter(|watch| watch.is_awaited);
            self.state == WatchState::Watching && others.any(|watch| watch.kind.is_named() == of_named)
        };
        let due = self.due.filter(|_| !awaited(false))?;
        Some(if awaited(true) { due.max(self.named_until) } else { due })
    }

    /// Publishes the objects that reviews use from now on, if that is due.
    pub(super) fn publish(&mut self, now: Instant, publish: impl FnOnce(Watched)) {
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        (self.due, self.published) = (None, now);
        let are_used = matches!(self.state, WatchState::Watching | WatchState::Stale);
        if self.objects_in_use.is_none() {
            self.objects_in_use = Some(self.objects().into());
            for other in &mut self.others {
                let objects = self.named.iter().filter(|objects| objects.kind == other.kind);
                other.over = objects.flat_map(|objects| objects.known.over()).cloned().collect();
            }
            self.is_over.store(self.others.iter().any(|other| !other.over.is_empty()), Ordering::Relaxed);
        }
        if self.nodes_in_use.is_none() && are_used {
            self.nodes_in_use = Some(self.nodes().into());
        }
        publish(Watched {
            state: self.state,
            since: Some(self.since),
            nodes: self.nodes_in_use.clone().filter(|_| are_used),
            objects: self.objects_in_use.clone(),
            error: self.error.clone(),
            others: self.others.clone(),
        });
        // Not each time, because it visits all texts. The previous snapshot had the deleted nodes.
        if self.changes >= self.nodes.known.values().count() {
            self.texts.drop_unused();
            self.changes = 0;
        }
    }

    pub(super) fn nodes(&self) -> Nodes {
        let nodes = self.nodes.known.values().cloned();
        let named = self.named.iter().flat_map(|objects| objects.known.values());
        let classes = named.filter_map(|object| object.as_ref().as_ref()?.class());
        with_classes(Nodes::with_slices(nodes, self.slices.known.values().map(Arc::as_ref)), classes)
    }

    pub(super) fn objects(&self) -> KnownObjects {
        let objects = self.named.iter().flat_map(|objects| objects.known.values());
        let mut known: KnownObjects = objects.filter_map(|object| object.as_ref().clone()).collect();
        known.isolates_networks = self.isolates_networks;
        known.over = self.named.iter().flat_map(|objects| objects.known.over()).cloned().collect();
        // A cluster without the API has none of the templates that a driver creates for it.
        let is_whole = |watch: &&OtherWatch| {
            let is_domain = watch.kind == WatchedKind::Named(ObjectKind::Domain);
            !watch.is_awaited && watch.error.is_none() && (!watch.is_absent || is_domain)
        };
        let whole = self.others.iter().filter(is_whole);
        known.whole = whole.filter_map(|watch| watch.kind.named()).collect();
        known
    }
}

fn named(kind: WatchedKind, object: &Value, _: &mut Texts) -> Option<NamedObject> {
    NamedObject::of_kind(kind.named()?, object, "")
}

/// Also an object that says nothing has its key.
#[expect(clippy::ref_option, reason = "as `Objects` calls it")]
fn bytes(object: &Option<NamedObject>) -> usize {
    object.as_ref().map_or(400, NamedObject::bytes)
}

#[cfg(test)]
mod tests;
