//! What is known of the nodes, and how long it may be used.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::runtime::watcher::Event;
use tokio::time::{Duration, Instant};

use crate::core::nodes::{Node, Nodes, Texts};

use super::object::NodeObject;

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
}

impl Watched {
    /// The number of nodes in use.
    pub(crate) fn count(&self) -> usize {
        self.nodes.as_ref().map_or(0, |nodes| nodes.len())
    }
}

/// The nodes, by name, and the state of the watch.
pub(super) struct Known {
    texts: Texts,
    nodes: BTreeMap<String, Arc<Node>>,
    /// The nodes of a list that has not ended.
    listed: BTreeMap<String, Arc<Node>>,
    state: WatchState,
    error: Option<String>,
    /// The first error since the last list.
    failed: Instant,
    /// The time of the next snapshot, if there is something new.
    due: Option<Instant>,
    published: Instant,
    /// The changed nodes since unused texts were dropped.
    changes: usize,
}

impl Known {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            texts: Texts::default(),
            nodes: BTreeMap::new(),
            listed: BTreeMap::new(),
            state: WatchState::Starting,
            error: None,
            failed: now,
            due: Some(now),
            published: now,
            changes: 0,
        }
    }

    pub(super) fn apply(&mut self, event: Event<NodeObject>, now: Instant) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                let node = self.read(&object);
                self.listed.insert(node.name().to_owned(), node);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                if listed != self.nodes {
                    self.nodes = listed;
                    self.changed(self.nodes.len(), now);
                }
                self.turn(WatchState::Watching, None, now);
            }
            Event::Apply(object) => {
                let node = self.read(&object);
                let before = self.nodes.insert(node.name().to_owned(), Arc::clone(&node));
                if before.is_none_or(|before| !Arc::ptr_eq(&before, &node)) {
                    self.changed(1, now);
                }
            }
            Event::Delete(object) => {
                let name = object.node["metadata"]["name"].as_str().unwrap_or_default();
                if self.nodes.remove(name).is_some() {
                    self.changed(1, now);
                }
            }
        }
    }

    /// The node of an object: the known one, if nothing has changed that decides. Most changes are heartbeats.
    fn read(&mut self, object: &NodeObject) -> Arc<Node> {
        let node = Node::read(&object.node, &mut self.texts);
        match self.nodes.get(node.name()) {
            Some(known) if **known == node => Arc::clone(known),
            _ => Arc::new(node),
        }
    }

    fn changed(&mut self, nodes: usize, now: Instant) {
        self.changes += nodes;
        self.due.get_or_insert(now.max(self.published + INTERVAL));
    }

    pub(super) fn fail(&mut self, forbidden: bool, error: String, now: Instant) {
        let state = match self.state {
            _ if forbidden => WatchState::Forbidden,
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

    /// When [`Self::publish`] has something to do, if nothing happens until then.
    pub(super) fn due(&self) -> Option<Instant> {
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
        (self.due, self.published) = (None, now);
        let are_used = matches!(self.state, WatchState::Watching | WatchState::Stale);
        let nodes = are_used.then(|| Arc::new(self.nodes()));
        publish(Watched { state: self.state, nodes, error: self.error.clone() });
        // Not each time, because all texts are looked at. The snapshot before had the nodes that are gone.
        if self.changes >= self.nodes.len() {
            self.texts.drop_unused();
            self.changes = 0;
        }
    }

    pub(super) fn nodes(&self) -> Nodes {
        self.nodes.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    fn object(name: &str, gpus: u32, heartbeat: u32) -> NodeObject {
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
            trial.after(0);
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

        fn apply(&mut self, event: Event<NodeObject>) {
            self.known.apply(event, self.now);
            self.after(0);
        }

        fn fail(&mut self, forbidden: bool) {
            self.known.fail(forbidden, "refused".to_owned(), self.now);
            self.after(0);
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
        trial.fail(false);
        assert_eq!(trial.published[0].error.as_deref(), Some("refused"));
        assert_eq!(trial.seen(), [(WatchState::Stale, used("a gone"))]);
        trial.after(200_000);
        trial.apply(Event::Init);
        trial.fail(false);
        trial.after(99_999);
        assert_eq!(trial.seen(), []);
        trial.after(1);
        assert_eq!(trial.seen(), [(WatchState::Unavailable, None)]);
        trial.fail(false);
        assert_eq!(trial.seen(), []);
        trial.list(&["a", "new"]);
        assert_eq!(trial.published[0].error, None);
        assert_eq!(trial.seen(), [(WatchState::Watching, used("a new"))]);
        // The next failure begins its own five minutes.
        trial.fail(false);
        assert_eq!(trial.seen(), [(WatchState::Stale, used("a new"))]);
        assert_eq!(trial.known.due(), Some(trial.now + STALE_FOR));
    }

    #[test]
    fn without_the_permission_no_nodes_are_in_use() {
        let mut trial = Trial::listed(&["a"]);
        trial.fail(true);
        trial.fail(true);
        assert_eq!(trial.seen(), [(WatchState::Forbidden, None)]);
        trial.fail(false);
        assert_eq!(trial.seen(), [(WatchState::Unavailable, None)]);
        trial.list(&["a"]);
        assert_eq!(trial.seen(), [(WatchState::Watching, used("a"))]);
    }

    #[test]
    fn an_error_before_the_first_list_leaves_no_nodes_in_use() {
        let mut trial = Trial::new();
        trial.fail(false);
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

    #[test]
    fn only_the_fields_that_decide_are_read() {
        let object = object("a", 8, 7);
        assert_eq!(object.resource_version().as_deref(), Some("7"));
        let text = object.node.to_string();
        assert!(
            !["managedFields", "images", "podCIDR", "resourceVersion"].iter().any(|key| text.contains(key)),
            "{text}"
        );
        assert_eq!(object.node["metadata"]["labels"]["of"], "a");
        assert_eq!(object.node["spec"]["providerID"], "aws:///i-1");
    }
}
