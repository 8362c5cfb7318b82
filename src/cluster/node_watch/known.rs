//! The known nodes, their `ResourceSlices`, and what objects say about claims. After an error, the last known ones stay
//! in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use kube::runtime::watcher::Event;
use serde_json::Value;
use tokio::time::{Duration, Instant};

use fabric_policy::claims::{ClaimObject, Claims, DOMAINS, DomainKind};
use fabric_policy::nodes::{Node, Nodes, Slice, Texts};

use super::ABSENT;
use super::bounded::Bounded;
use super::object::Object;

/// How long nodes wait for the objects about claims: the API of [`DOMAINS`] is not that of the cluster.
const WAIT_FOR_CLAIMS: Duration = Duration::from_secs(10);

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

/// The nodes and claims that reviews use, and why.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watched {
    pub(crate) state: WatchState,
    /// The time of the change to this state.
    pub(crate) since: Option<SystemTime>,
    pub(crate) nodes: Option<Arc<Nodes>>,
    /// `None` if nothing is watched.
    pub(crate) claims: Option<Arc<Claims>>,
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

/// The kinds of objects that are listed. The server watches [`Self::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchedKind {
    Node,
    Slice,
    Template,
    Domain,
    Class,
    /// Those of all pods, which the server does not watch.
    Claim,
}

impl WatchedKind {
    pub(crate) const ALL: [Self; 5] = [Self::Node, Self::Slice, Self::Template, Self::Domain, Self::Class];

    pub(super) fn api(self) -> KindOfApi {
        let dra = "resource.k8s.io";
        let all = vec!["v1", "v1beta2", "v1beta1"];
        let (name, resource, group, object, versions) = match self {
            Self::Node => ("nodes", "nodes", "", "Node", vec!["v1"]),
            Self::Slice => ("resource-slices", "resourceslices", dra, "ResourceSlice", vec!["v1"]),
            Self::Template => {
                ("resource-claim-templates", "resourceclaimtemplates", dra, "ResourceClaimTemplate", all)
            }
            Self::Domain => {
                let DomainKind { name, resource, group, kind, version, .. } = &*DOMAINS;
                (name.as_str(), resource.as_str(), group.as_str(), kind.as_str(), vec![version.as_str()])
            }
            Self::Class => ("device-classes", "deviceclasses", dra, "DeviceClass", all),
            Self::Claim => ("resource-claims", "resourceclaims", dra, "ResourceClaim", all),
        };
        KindOfApi { name, resource, group, object, versions }
    }

    /// The name of the resource.
    pub(crate) fn resource(self) -> &'static str {
        self.api().resource
    }

    /// The name in `/readyz`.
    pub(crate) fn name(self) -> &'static str {
        self.api().name
    }

    /// Returns whether the objects say what claims bring.
    pub(super) fn is_of_claims(self) -> bool {
        !matches!(self, Self::Node | Self::Slice)
    }

    /// Returns whether those who may create pods in a namespace usually may create such objects there.
    pub(crate) fn is_of_tenants(self) -> bool {
        matches!(self, Self::Template | Self::Domain | Self::Claim)
    }
}

/// A kind as the API server knows it.
pub(super) struct KindOfApi {
    /// The name in `/readyz`.
    name: &'static str,
    resource: &'static str,
    pub(super) group: &'static str,
    pub(super) object: &'static str,
    /// The versions of the API, the newest first.
    pub(super) versions: Vec<&'static str>,
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
    claims: [Objects<Option<ClaimObject>>; 4],
    others: Vec<OtherWatch>,
    /// Whether a namespace has more objects than are kept, for the watches.
    pub(super) is_over: Arc<AtomicBool>,
    state: WatchState,
    since: SystemTime,
    error: Option<String>,
    /// What reviews use; `None` after a change.
    nodes_in_use: Option<Arc<Nodes>>,
    claims_in_use: Option<Arc<Claims>>,
    /// Until then, nodes wait for the objects about claims.
    claims_until: Instant,
    /// The time of the next snapshot, if there is something new.
    due: Option<Instant>,
    published: Instant,
    /// The changed objects since unused texts were dropped.
    changes: usize,
}

impl Known {
    pub(super) fn new(now: Instant) -> Self {
        let [_, others @ ..] = WatchedKind::ALL;
        let of_claims = [WatchedKind::Template, WatchedKind::Domain, WatchedKind::Class, WatchedKind::Claim];
        let other = |kind| OtherWatch { kind, is_awaited: true, error: None, since: None, over: Vec::new() };
        Self {
            texts: Texts::default(),
            nodes: Objects::new(WatchedKind::Node, |_, object, texts| Node::read(object, texts), |_| 0),
            slices: Objects::new(WatchedKind::Slice, |_, object, texts| Slice::read(object, texts), |_| 0),
            claims: of_claims.map(|kind| {
                let read = |kind: WatchedKind, object: &Value, _: &mut Texts| {
                    ClaimObject::of_kind(kind.api().object, object, "")
                };
                // Also one that says nothing has its key.
                Objects::new(kind, read, |object| object.as_ref().map_or(400, ClaimObject::bytes))
            }),
            others: others.map(other).into(),
            is_over: Arc::default(),
            state: WatchState::Starting,
            since: SystemTime::now(),
            error: None,
            nodes_in_use: None,
            claims_in_use: None,
            claims_until: now + WAIT_FOR_CLAIMS,
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
            _ => self.claims_of(kind).map_or(0, |claims| claims.apply(event, &mut Texts::default())),
        };
        if changed > 0 {
            self.note_change(kind, changed, now.max(self.published + INTERVAL));
        }
        match kind {
            _ if !is_list => {}
            WatchedKind::Node => self.turn(WatchState::Watching, None, now),
            _ => self.turn_other(kind, None, now),
        }
    }

    fn claims_of(&mut self, kind: WatchedKind) -> Option<&mut Objects<Option<ClaimObject>>> {
        self.claims.iter_mut().find(|objects| objects.kind == kind)
    }

    fn note_change(&mut self, kind: WatchedKind, changed: usize, due: Instant) {
        if kind.is_of_claims() {
            self.claims_in_use = None;
        } else {
            self.nodes_in_use = None;
            self.changes += changed;
        }
        self.due.get_or_insert(due);
    }

    fn turn_other(&mut self, kind: WatchedKind, error: Option<String>, now: Instant) {
        let Some(watch) = self.others.iter_mut().find(|watch| watch.kind == kind) else { return };
        if watch.is_awaited || watch.error != error {
            let since = watch.since.unwrap_or_else(SystemTime::now);
            watch.since = error.is_some().then_some(since);
            (watch.is_awaited, watch.error, self.due) = (false, error, Some(now));
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
            _ => self.claims_of(kind).is_some_and(Objects::clear),
        };
        if cleared {
            self.note_change(kind, 1, now);
            self.due = Some(now);
        }
        self.turn_other(kind, (!is_absent).then_some(error), now);
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
    /// slices: until then, their devices are unknown. They wait for the objects about claims, too, but not for long.
    pub(super) fn due(&self) -> Option<Instant> {
        let awaited = |of_claims: bool| {
            let mut others = self.others.iter().filter(|watch| watch.is_awaited);
            self.state == WatchState::Watching && others.any(|watch| watch.kind.is_of_claims() == of_claims)
        };
        let due = self.due.filter(|_| !awaited(false))?;
        Some(if awaited(true) { due.max(self.claims_until) } else { due })
    }

    /// Publishes the objects that reviews use from now on, if that is due.
    pub(super) fn publish(&mut self, now: Instant, publish: impl FnOnce(Watched)) {
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        (self.due, self.published) = (None, now);
        let are_used = matches!(self.state, WatchState::Watching | WatchState::Stale);
        if self.nodes_in_use.is_none() && are_used {
            self.nodes_in_use = Some(self.nodes().into());
        }
        if self.claims_in_use.is_none() {
            self.claims_in_use = Some(self.claims().into());
            for other in &mut self.others {
                let objects = self.claims.iter().filter(|objects| objects.kind == other.kind);
                other.over = objects.flat_map(|objects| objects.known.over()).cloned().collect();
            }
            self.is_over.store(self.others.iter().any(|other| !other.over.is_empty()), Ordering::Relaxed);
        }
        publish(Watched {
            state: self.state,
            since: Some(self.since),
            nodes: self.nodes_in_use.clone().filter(|_| are_used),
            claims: self.claims_in_use.clone(),
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
        Nodes::with_slices(self.nodes.known.values().cloned(), self.slices.known.values().map(Arc::as_ref))
    }

    pub(super) fn claims(&self) -> Claims {
        let objects = self.claims.iter().flat_map(|objects| objects.known.values());
        let mut claims: Claims = objects.filter_map(|object| object.as_ref().clone()).collect();
        claims.over = self.claims.iter().flat_map(|objects| objects.known.over()).cloned().collect();
        claims
    }
}

#[cfg(test)]
mod tests;
