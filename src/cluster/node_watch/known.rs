//! The known nodes and their `ResourceSlices`. After an error, the last known ones stay in use.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use kube::ResourceExt;
use kube::runtime::watcher::Event;
use serde_json::Value;
use tokio::time::{Duration, Instant};

use fabric_policy::nodes::{Node, Nodes, Slice, Texts};

use super::ABSENT;
use super::object::Object;

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

/// The nodes that reviews use, and why.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watched {
    pub(crate) state: WatchState,
    /// The time of the change to this state.
    pub(crate) since: Option<SystemTime>,
    pub(crate) nodes: Option<Arc<Nodes>>,
    /// Why the watch failed.
    pub(crate) error: Option<String>,
    /// Why the watch of the `ResourceSlices` failed. The nodes are in use without newer slices.
    pub(crate) slices_error: Option<String>,
    /// The time since which it fails.
    pub(crate) slices_since: Option<SystemTime>,
}

impl Watched {
    /// The time for which nodes and `ResourceSlices` have not been watched.
    pub(crate) fn ages(&self, now: SystemTime) -> [Duration; 2] {
        let is_well = matches!(self.state, WatchState::Off | WatchState::Watching);
        let since = [self.since.filter(|_| !is_well), self.slices_since];
        since.map(|since| since.and_then(|since| now.duration_since(since).ok()).unwrap_or_default())
    }

    /// The number of nodes in use.
    pub(crate) fn count(&self) -> usize {
        self.nodes.as_ref().map_or(0, |nodes| nodes.len())
    }
}

/// The objects that are listed and watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Node,
    Slice,
}

/// The objects of one kind, by name.
struct Objects<T> {
    known: BTreeMap<String, Arc<T>>,
    /// Those of a list that has not ended.
    listed: BTreeMap<String, Arc<T>>,
    read: fn(&Value, &mut Texts) -> T,
}

impl<T: PartialEq> Objects<T> {
    fn new(read: fn(&Value, &mut Texts) -> T) -> Self {
        Self { known: BTreeMap::new(), listed: BTreeMap::new(), read }
    }

    /// Returns how many objects may have changed.
    fn apply(&mut self, event: Event<Object>, texts: &mut Texts) -> usize {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                let new = self.read(&object, texts);
                self.listed.insert(object.name_any(), new);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                if listed != self.known {
                    self.known = listed;
                    return self.known.len().max(1);
                }
            }
            Event::Apply(object) => {
                let new = self.read(&object, texts);
                let before = self.known.insert(object.name_any(), Arc::clone(&new));
                return usize::from(before.is_none_or(|before| !Arc::ptr_eq(&before, &new)));
            }
            Event::Delete(object) => {
                return usize::from(self.known.remove(&object.name_any()).is_some());
            }
        }
        0
    }

    /// The known object, if no relevant field has changed. Most changes are heartbeats.
    fn read(&self, object: &Object, texts: &mut Texts) -> Arc<T> {
        let new = (self.read)(&object.value, texts);
        match self.known.get(&object.name_any()) {
            Some(known) if **known == new => Arc::clone(known),
            _ => Arc::new(new),
        }
    }
}

/// The nodes and their slices, and the state of the watch.
pub(super) struct Known {
    texts: Texts,
    nodes: Objects<Node>,
    slices: Objects<Slice>,
    /// True until slices are listed, or cannot be listed: until then, the devices of nodes are unknown.
    awaits_slices: bool,
    slices_error: Option<String>,
    slices_since: Option<SystemTime>,
    state: WatchState,
    since: SystemTime,
    error: Option<String>,
    /// The time of the next snapshot, if there is something new.
    due: Option<Instant>,
    published: Instant,
    /// The changed objects since unused texts were dropped.
    changes: usize,
}

impl Known {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            texts: Texts::default(),
            nodes: Objects::new(Node::read),
            slices: Objects::new(Slice::read),
            awaits_slices: true,
            slices_error: None,
            slices_since: None,
            state: WatchState::Starting,
            since: SystemTime::now(),
            error: None,
            due: Some(now),
            published: now,
            changes: 0,
        }
    }

    pub(super) fn apply(&mut self, kind: Kind, event: Event<Object>, now: Instant) {
        let is_list = matches!(event, Event::InitDone);
        let changed = match kind {
            Kind::Node => self.nodes.apply(event, &mut self.texts),
            Kind::Slice => self.slices.apply(event, &mut self.texts),
        };
        if changed > 0 {
            self.changes += changed;
            self.due.get_or_insert(now.max(self.published + INTERVAL));
        }
        match kind {
            Kind::Node if is_list => self.turn(WatchState::Watching, None, now),
            Kind::Slice if is_list => self.turn_slices(None, now),
            _ => {}
        }
    }

    fn turn_slices(&mut self, error: Option<String>, now: Instant) {
        if self.awaits_slices || self.slices_error != error {
            let since = self.slices_since.unwrap_or_else(SystemTime::now);
            self.slices_since = error.is_some().then_some(since);
            (self.awaits_slices, self.slices_error, self.due) = (false, error, Some(now));
        }
    }

    /// Records the status of a response, 0 without one, and a sentence.
    pub(super) fn fail(&mut self, kind: Kind, status: u16, error: String, now: Instant) {
        if kind == Kind::Slice {
            if status == ABSENT && !self.slices.known.is_empty() {
                self.slices.known.clear();
                self.due = Some(now);
            }
            return self.turn_slices((status != ABSENT).then_some(error), now);
        }
        let state = match self.state {
            WatchState::Watching | WatchState::Stale => WatchState::Stale,
            _ => WatchState::Unavailable,
        };
        self.turn(state, Some(error), now);
    }

    fn turn(&mut self, state: WatchState, error: Option<String>, now: Instant) {
        if self.state != state {
            self.since = SystemTime::now();
        }
        if self.state != state || self.error != error {
            (self.state, self.error, self.due) = (state, error, Some(now));
        }
    }

    /// Nodes are not in use before their slices.
    fn is_waiting(&self) -> bool {
        self.awaits_slices && self.state == WatchState::Watching
    }

    /// When [`Self::publish`] has something to do, if nothing happens until then.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| !self.is_waiting())
    }

    /// Publishes the nodes that reviews use from now on, if that is due.
    pub(super) fn publish(&mut self, now: Instant, publish: impl FnOnce(Watched)) {
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        (self.due, self.published) = (None, now);
        let are_used = matches!(self.state, WatchState::Watching | WatchState::Stale);
        let nodes = are_used.then(|| Arc::new(self.nodes()));
        let (error, slices_error) = (self.error.clone(), self.slices_error.clone());
        let (state, since) = (self.state, Some(self.since));
        let slices_since = self.slices_since;
        publish(Watched { state, since, nodes, error, slices_error, slices_since });
        // Not each time, because it visits all texts. The previous snapshot had the deleted nodes.
        if self.changes >= self.nodes.known.len() {
            self.texts.drop_unused();
            self.changes = 0;
        }
    }

    pub(super) fn nodes(&self) -> Nodes {
        Nodes::of(self.nodes.known.values().cloned(), self.slices.known.values().map(Arc::as_ref))
    }
}

#[cfg(test)]
mod tests;
