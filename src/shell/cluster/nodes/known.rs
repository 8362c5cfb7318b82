//! What is known of the nodes and their `ResourceSlices`, and how long it may be used.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::watcher::Event;
use serde_json::Value;
use tokio::time::{Duration, Instant};

use crate::core::nodes::{Node, Nodes, Slice, Texts};

use super::object::Object;
use super::{ABSENT, FORBIDDEN};

/// The shortest time between two snapshots.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time for which the last nodes stay in use after the watch failed. After that, nodes that have gone would decide.
pub(crate) const STALE_FOR: Duration = Duration::from_mins(5);

/// The state of the watch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum WatchState {
    /// Nodes are not watched.
    #[default]
    Off,
    /// The first list has not ended.
    Starting,
    Watching,
    /// The watch failed, and the last nodes are still in use.
    Stale,
    /// The watch failed, and no nodes are in use.
    Unavailable,
    /// The permission is missing, and no nodes are in use.
    Forbidden,
}

impl WatchState {
    /// The name in metrics and logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Starting => "starting",
            Self::Watching => "watching",
            Self::Stale => "stale",
            Self::Unavailable => "unavailable",
            Self::Forbidden => "forbidden",
        }
    }
}

/// What reviews use, and why.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watched {
    pub(crate) state: WatchState,
    pub(crate) nodes: Option<Arc<Nodes>>,
    /// The reason for which the watch failed.
    pub(crate) error: Option<String>,
    /// The reason for which that of the `ResourceSlices` failed. The nodes are in use without what is new there.
    pub(crate) slices_error: Option<String>,
}

impl Watched {
    /// The number of nodes in use.
    pub(crate) fn count(&self) -> usize {
        self.nodes.as_ref().map_or(0, |nodes| nodes.len())
    }
}

/// What is listed and watched.
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

    /// The known one, if nothing has changed that decides. Most changes are heartbeats.
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
    /// True until slices are listed, or cannot be: the devices of nodes are not known before.
    awaits_slices: bool,
    slices_error: Option<String>,
    state: WatchState,
    error: Option<String>,
    /// The first error since the last list.
    failed: Instant,
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
            state: WatchState::Starting,
            error: None,
            failed: now,
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
            (self.awaits_slices, self.slices_error, self.due) = (false, error, Some(now));
        }
    }

    /// Takes over the status of a response, 0 without one, and a sentence.
    pub(super) fn fail(&mut self, kind: Kind, status: u16, error: String, now: Instant) {
        if kind == Kind::Slice {
            // Without the permission, and in a cluster without the API, there are none.
            if matches!(status, FORBIDDEN | ABSENT) && !self.slices.known.is_empty() {
                self.slices.known.clear();
                self.due = Some(now);
            }
            return self.turn_slices((status != ABSENT).then_some(error), now);
        }
        let state = match self.state {
            _ if status == FORBIDDEN => WatchState::Forbidden,
            WatchState::Watching | WatchState::Stale => WatchState::Stale,
            _ => WatchState::Unavailable,
        };
        if self.state == WatchState::Watching {
            self.failed = now;
        }
        self.turn(state, Some(error), now);
    }

    fn turn(&mut self, state: WatchState, error: Option<String>, now: Instant) {
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
        if self.is_waiting() {
            return None;
        }
        let expiry = (self.state == WatchState::Stale).then(|| self.failed + STALE_FOR);
        self.due.into_iter().chain(expiry).min()
    }

    /// Passes on what reviews use from now on, if that is due.
    pub(super) fn publish(&mut self, now: Instant, publish: impl FnOnce(Watched)) {
        if self.state == WatchState::Stale && now >= self.failed + STALE_FOR {
            let error = self.error.take();
            self.turn(WatchState::Unavailable, error, now);
        }
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        if self.is_waiting() {
            return;
        }
        (self.due, self.published) = (None, now);
        let are_used = matches!(self.state, WatchState::Watching | WatchState::Stale);
        let nodes = are_used.then(|| Arc::new(self.nodes()));
        let (error, slices_error) = (self.error.clone(), self.slices_error.clone());
        publish(Watched { state: self.state, nodes, error, slices_error });
        // Not each time, because all texts are looked at. The snapshot before had the nodes that are gone.
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
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use serde_json::json;

    use super::*;

    fn object(name: &str, gpus: u32, heartbeat: u32) -> Object {
        let object = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "resourceVersion": heartbeat.to_string(), "labels": {"of": name},
                "managedFields": [{"manager": "kubelet"}]},
            "spec": {"providerID": "aws:///i-1", "podCIDR": "10.0.0.0/24"},
            "status": {"capacity": {"nvidia.com/gpu": gpus.to_string(), "cpu": "4"}, "images": [{"names": ["a"]}],
                "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat.to_string()}]},
        });
        serde_json::from_value(object).unwrap()
    }

    /// A watch, and what it has published.
    struct Trial {
        known: Known,
        now: Instant,
        published: Vec<Watched>,
    }

    impl Trial {
        fn new() -> Self {
            let now = Instant::now();
            let mut trial = Self { known: Known::new(now), now, published: Vec::new() };
            trial.fail_slices(ABSENT);
            trial
        }

        fn listed(names: &[&str]) -> Self {
            let mut trial = Self::new();
            trial.list(names);
            trial.published.clear();
            trial
        }

        fn list(&mut self, names: &[&str]) {
            self.apply(Event::Init);
            for name in names {
                self.apply(Event::InitApply(object(name, 8, 1)));
            }
            self.apply(Event::InitDone);
        }

        fn apply(&mut self, event: Event<Object>) {
            self.known.apply(Kind::Node, event, self.now);
            self.after(0);
        }

        fn fail(&mut self, status: u16) {
            self.known.fail(Kind::Node, status, "refused".to_owned(), self.now);
            self.after(0);
        }

        fn of_slices(&mut self, event: Event<Object>) {
            self.known.apply(Kind::Slice, event, self.now);
            self.after(0);
        }

        fn fail_slices(&mut self, status: u16) {
            self.known.fail(Kind::Slice, status, "refused".to_owned(), self.now);
            self.after(0);
        }

        /// The GPUs by DRA of the first node of the last snapshot.
        fn claimable(&self) -> i64 {
            let nodes = self.published.last().unwrap().nodes.as_ref().unwrap();
            nodes.iter().next().unwrap().count("gpu.example.com/gpu")
        }

        /// What is due this many milliseconds later.
        fn after(&mut self, milliseconds: u64) {
            self.now += Duration::from_millis(milliseconds);
            self.known.publish(self.now, |watched| self.published.push(watched));
        }

        /// The states so far, each with the names of the nodes in use.
        fn seen(&mut self) -> Vec<(WatchState, Option<String>)> {
            let names = |nodes: &Arc<Nodes>| nodes.iter().map(Node::name).collect::<Vec<_>>().join(" ");
            self.published.drain(..).map(|one| (one.state, one.nodes.as_ref().map(names))).collect()
        }
    }

    #[allow(clippy::unnecessary_wraps, reason = "in the form of what is compared")]
    fn used(names: &str) -> Option<String> {
        Some(names.to_owned())
    }

    #[test]
    fn nodes_are_in_use_when_the_first_list_has_ended() {
        let mut trial = Trial::new();
        assert_eq!(trial.seen(), [(WatchState::Starting, None)]);
        trial.apply(Event::Init);
        trial.apply(Event::InitApply(object("b", 8, 1)));
        trial.after(10_000);
        trial.apply(Event::InitApply(object("a", 8, 1)));
        assert_eq!(trial.seen(), []);
        trial.apply(Event::InitDone);
        assert_eq!(trial.seen(), [(WatchState::Watching, used("a b"))]);
    }

    #[test]
    fn a_cluster_without_nodes_is_known_to_have_none() {
        let mut trial = Trial::new();
        trial.list(&[]);
        assert_eq!(trial.seen(), [(WatchState::Starting, None), (WatchState::Watching, used(""))]);
    }

    #[test]
    fn heartbeats_publish_nothing_and_changes_do_at_most_once_a_second() {
        let mut trial = Trial::listed(&["a"]);
        trial.apply(Event::Apply(object("a", 8, 2)));
        trial.after(60_000);
        assert_eq!(trial.seen(), []);
        assert_eq!(trial.known.due(), None);
        for (name, gpus) in [("a", 4), ("b", 8), ("c", 8), ("a", 2)] {
            trial.apply(Event::Apply(object(name, gpus, 3)));
        }
        trial.apply(Event::Delete(object("b", 8, 4)));
        // The first change is in use at once.
        assert_eq!(trial.seen(), [(WatchState::Watching, used("a"))]);
        trial.after(999);
        assert_eq!(trial.seen(), []);
        trial.after(1);
        assert_eq!(
            trial.published[0].nodes.as_ref().unwrap().iter().next().unwrap().count("nvidia.com/gpu"),
            2
        );
        assert_eq!(trial.seen(), [(WatchState::Watching, used("a c"))]);
    }

    #[test]
    fn after_an_error_the_last_nodes_stay_in_use_for_five_minutes() {
        let mut trial = Trial::listed(&["a", "gone"]);
        trial.fail(0);
        assert_eq!(trial.published[0].error.as_deref(), Some("refused"));
        assert_eq!(trial.seen(), [(WatchState::Stale, used("a gone"))]);
        trial.after(200_000);
        trial.apply(Event::Init);
        trial.fail(0);
        trial.after(99_999);
        assert_eq!(trial.seen(), []);
        trial.after(1);
        assert_eq!(trial.seen(), [(WatchState::Unavailable, None)]);
        trial.fail(0);
        assert_eq!(trial.seen(), []);
        trial.list(&["a", "new"]);
        assert_eq!(trial.published[0].error, None);
        assert_eq!(trial.seen(), [(WatchState::Watching, used("a new"))]);
        // The next failure begins its own five minutes.
        trial.fail(0);
        assert_eq!(trial.seen(), [(WatchState::Stale, used("a new"))]);
        assert_eq!(trial.known.due(), Some(trial.now + STALE_FOR));
    }

    #[test]
    fn without_the_permission_no_nodes_are_in_use() {
        let mut trial = Trial::listed(&["a"]);
        trial.fail(FORBIDDEN);
        trial.fail(FORBIDDEN);
        assert_eq!(trial.seen(), [(WatchState::Forbidden, None)]);
        trial.fail(0);
        assert_eq!(trial.seen(), [(WatchState::Unavailable, None)]);
        trial.list(&["a"]);
        assert_eq!(trial.seen(), [(WatchState::Watching, used("a"))]);
    }

    #[test]
    fn an_error_before_the_first_list_leaves_no_nodes_in_use() {
        let mut trial = Trial::new();
        trial.fail(0);
        assert_eq!(trial.seen(), [(WatchState::Starting, None), (WatchState::Unavailable, None)]);
    }

    #[test]
    fn the_texts_of_nodes_that_are_gone_are_dropped() {
        let mut trial = Trial::listed(&["a", "gone"]);
        trial.apply(Event::Delete(object("gone", 8, 2)));
        trial.after(1_000);
        let texts = format!("{:?}", trial.known.texts);
        assert!(texts.contains("nvidia.com/gpu"), "{texts}");
        assert!(!texts.contains("gone"), "{texts}");
    }

    fn slice(gpus: usize, generation: u32) -> Object {
        let gpu = json!({"name": "gpu", "attributes": {"type": {"string": "gpu"}}});
        let object = json!({"metadata": {"name": "a-gpu"}, "spec": {"driver": "gpu.example.com", "nodeName": "a",
            "pool": {"name": "a", "generation": generation, "resourceSliceCount": 1}, "devices": vec![gpu; gpus]}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn nodes_wait_for_their_slices() {
        let now = Instant::now();
        let mut trial = Trial { known: Known::new(now), now, published: Vec::new() };
        trial.list(&["a"]);
        assert_eq!(trial.seen(), [(WatchState::Starting, None)]);
        assert_eq!(trial.known.due(), None);
        trial.of_slices(Event::Init);
        trial.of_slices(Event::InitApply(slice(8, 1)));
        trial.of_slices(Event::InitDone);
        assert_eq!(trial.claimable(), 8);
        assert_eq!(trial.seen(), [(WatchState::Watching, used("a"))]);
        trial.after(1_000);
        trial.of_slices(Event::Apply(slice(7, 2)));
        assert_eq!(trial.claimable(), 7);
        trial.after(1_000);
        trial.of_slices(Event::Delete(slice(7, 2)));
        assert_eq!(trial.claimable(), 0);
    }

    #[test]
    fn nodes_are_in_use_without_slices_that_cannot_be_read() {
        for (status, devices, error) in
            [(ABSENT, 0, None), (FORBIDDEN, 0, Some("refused")), (0, 8, Some("refused"))]
        {
            let mut trial = Trial::listed(&["a"]);
            trial.of_slices(Event::Apply(slice(8, 1)));
            trial.after(1_000);
            assert_eq!(trial.claimable(), 8);
            trial.fail_slices(status);
            assert_eq!(
                (trial.claimable(), trial.published.last().unwrap().slices_error.as_deref()),
                (devices, error)
            );
            trial.published.clear();
            trial.fail_slices(status);
            assert_eq!(trial.seen(), [], "the same is said once");
            trial.of_slices(Event::Init);
            trial.of_slices(Event::InitApply(slice(8, 1)));
            trial.of_slices(Event::InitDone);
            trial.after(1_000);
            trial.of_slices(Event::Apply(slice(4, 2)));
            trial.after(1_000);
            let last = trial.published.last().unwrap();
            assert_eq!((last.state, last.slices_error.as_deref()), (WatchState::Watching, None));
            assert_eq!(trial.claimable(), 4);
        }
    }

    #[test]
    fn only_the_fields_that_decide_are_read() {
        let object = object("a", 8, 7);
        assert_eq!(object.resource_version().as_deref(), Some("7"));
        let text = object.value.to_string();
        assert!(
            !["managedFields", "images", "podCIDR", "resourceVersion"].iter().any(|key| text.contains(key)),
            "{text}"
        );
        assert_eq!(object.value["metadata"]["labels"]["of"], "a");
        assert_eq!(object.value["spec"]["providerID"], "aws:///i-1");
    }
}
