#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use serde_json::json;

use fabric_policy::objects::{ObjectKind, ObjectName};

use super::super::FORBIDDEN;
use super::*;

fn read(object: &Value) -> Object {
    serde_json::from_str(&object.to_string()).unwrap()
}

fn object(name: &str, gpus: u32, heartbeat: u32) -> Object {
    read(&json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "resourceVersion": heartbeat.to_string(), "labels": {"of": name},
            "managedFields": [{"manager": "kubelet"}]},
        "spec": {"providerID": "aws:///i-1", "podCIDR": "10.0.0.0/24"},
        "status": {"capacity": {"nvidia.com/gpu": gpus.to_string(), "cpu": "4"}, "images": [{"names": ["a"]}],
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat.to_string()}]},
    }))
}

/// A watch, and the nodes that it has published.
struct Trial {
    known: Known,
    now: Instant,
    published: Vec<Watched>,
}

impl Trial {
    fn new() -> Self {
        let now = Instant::now();
        let mut trial = Self {
            known: Known::new(now, &ObjectKind::all().collect::<Vec<_>>()),
            now,
            published: Vec::new(),
        };
        for kind in WatchedKind::all().skip(1) {
            trial.known.fail(kind, ABSENT, "refused".to_owned(), trial.now);
        }
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

    fn apply(&mut self, event: Event<Object>) {
        self.known.apply(WatchedKind::Node, event, self.now);
        self.after(0);
    }

    fn fail(&mut self, status: u16) {
        self.known.fail(WatchedKind::Node, status, "refused".to_owned(), self.now);
        self.after(0);
    }

    fn of_slices(&mut self, event: Event<Object>) {
        self.known.apply(WatchedKind::Slice, event, self.now);
        self.after(0);
    }

    fn fail_slices(&mut self, status: u16) {
        self.fail_other(WatchedKind::Slice, status);
    }

    fn fail_other(&mut self, kind: WatchedKind, status: u16) {
        self.known.fail(kind, status, "refused".to_owned(), self.now);
        self.after(0);
    }

    fn error_of(&self, kind: WatchedKind) -> Option<String> {
        let watched = self.published.last().unwrap();
        watched.others.iter().find(|other| other.kind == kind).unwrap().error.clone()
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
    assert_eq!(trial.published[0].nodes.as_ref().unwrap().iter().next().unwrap().count("nvidia.com/gpu"), 2);
    assert_eq!(trial.seen(), [(WatchState::Watching, used("a c"))]);
}

#[test]
fn after_any_error_the_last_nodes_stay_in_use_until_the_next_list() {
    let mut trial = Trial::listed(&["a", "gone"]);
    trial.fail(0);
    assert_eq!(trial.published[0].error.as_deref(), Some("refused"));
    let since = trial.published[0].since;
    assert!(since.is_some());
    assert_eq!(trial.seen(), [(WatchState::Stale, used("a gone"))]);
    trial.after(7 * 24 * 60 * 60 * 1_000);
    trial.apply(Event::Init);
    trial.fail(0);
    assert_eq!((trial.seen(), trial.known.due()), (vec![], None), "the same error again");
    // The permission is gone, too.
    trial.known.fail(WatchedKind::Node, FORBIDDEN, "forbidden".to_owned(), trial.now);
    trial.after(0);
    let last = &trial.published[0];
    assert_eq!((last.error.as_deref(), last.since), (Some("forbidden"), since));
    assert_eq!(trial.seen(), [(WatchState::Stale, used("a gone"))]);
    trial.list(&["a", "new"]);
    assert_eq!(trial.published[0].error, None);
    assert_eq!(trial.seen(), [(WatchState::Watching, used("a new"))]);
}

#[test]
fn an_error_before_the_first_list_leaves_no_nodes_in_use() {
    for status in [0, FORBIDDEN] {
        let mut trial = Trial::new();
        trial.fail(status);
        trial.fail(status);
        assert_eq!(trial.seen(), [(WatchState::Starting, None), (WatchState::Unavailable, None)]);
        trial.list(&["a"]);
        assert_eq!(trial.seen(), [(WatchState::Watching, used("a"))]);
    }
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
    read(&json!({"metadata": {"name": "a-gpu"}, "spec": {"driver": "gpu.example.com", "nodeName": "a",
        "pool": {"name": "a", "generation": generation, "resourceSliceCount": 1}, "devices": vec![gpu; gpus]}}))
}

#[test]
fn nodes_wait_for_their_slices() {
    let now = Instant::now();
    let mut trial =
        Trial { known: Known::new(now, &ObjectKind::all().collect::<Vec<_>>()), now, published: Vec::new() };
    trial.list(&["a"]);
    for kind in ObjectKind::all() {
        trial.fail_other(WatchedKind::Named(kind), ABSENT);
    }
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
fn slices_that_can_no_longer_be_read_stay_in_use_unless_the_cluster_has_none() {
    for (status, devices, error) in
        [(ABSENT, 0, None), (FORBIDDEN, 8, Some("refused")), (0, 8, Some("refused"))]
    {
        let mut trial = Trial::listed(&["a"]);
        trial.of_slices(Event::Apply(slice(8, 1)));
        trial.after(1_000);
        assert_eq!(trial.claimable(), 8);
        trial.fail_slices(status);
        assert_eq!((trial.claimable(), trial.error_of(WatchedKind::Slice).as_deref()), (devices, error));
        let ages =
            |trial: &Trial| trial.published.last().unwrap().ages(SystemTime::now() + Duration::from_mins(1));
        let failing = ages(&trial).into_iter().filter(|(_, age)| *age > Duration::ZERO);
        let expected = error.map(|_| WatchedKind::Slice);
        assert_eq!(failing.map(|(kind, _)| kind).collect::<Vec<_>>(), Vec::from_iter(expected));
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
        assert_eq!((last.state, trial.error_of(WatchedKind::Slice)), (WatchState::Watching, None));
        assert_eq!(trial.claimable(), 4);
        assert!(ages(&trial).into_iter().all(|(_, age)| age == Duration::ZERO));
    }
}

fn template(class: &str) -> Object {
    read(&json!({"metadata": {"name": "t", "namespace": "ml"}, "spec": {"metadata": {},
        "spec": {"devices": {"requests": [{"name": "d", "exactly": {"deviceClassName": class}}]}}}}))
}

/// The classes of the template, and the nodes, of the last snapshot.
fn classes_and_nodes(trial: &Trial) -> (Option<Vec<String>>, Option<Arc<Nodes>>) {
    let watched = trial.published.last().unwrap();
    let name = ObjectName::new(ObjectKind::Template, "ml", "t");
    let requests = watched.objects.as_ref().unwrap().requests_of(&name);
    (requests.map(|requests| requests[0].classes.clone()), watched.nodes.clone())
}

#[test]
fn claims_are_in_use_without_new_nodes_and_stay_when_the_right_is_taken_away() {
    let mut trial = Trial::listed(&["a"]);
    let apply = |trial: &mut Trial, event| {
        trial.known.apply(WatchedKind::Named(ObjectKind::Template), event, trial.now);
        trial.after(1_000);
        classes_and_nodes(trial)
    };
    trial.now += Duration::from_secs(1);
    let (classes, nodes) = apply(&mut trial, Event::Apply(template("dra.net")));
    assert_eq!(classes, Some(vec!["dra.net".to_owned()]));
    let (changed, same) = apply(&mut trial, Event::Apply(template("efa.networking.k8s.aws")));
    assert_eq!(changed, Some(vec!["efa.networking.k8s.aws".to_owned()]));
    // The searches in the nodes stay known.
    assert!(Arc::ptr_eq(&nodes.unwrap(), &same.unwrap()));
    trial.fail_other(WatchedKind::Named(ObjectKind::Template), FORBIDDEN);
    assert_eq!(trial.error_of(WatchedKind::Named(ObjectKind::Template)).as_deref(), Some("refused"));
    assert_eq!(classes_and_nodes(&trial).0, changed);
    assert_eq!(apply(&mut trial, Event::Delete(template("x"))).0, None);
}

#[test]
fn a_namespace_with_too_many_templates_is_told_and_the_others_keep_theirs() {
    let mut trial = Trial::listed(&["a"]);
    let template = |namespace: &str, number: usize| {
        let mut template = template("gpu.example.com");
        template.value["metadata"] = json!({"namespace": namespace, "name": format!("t{number:04}")});
        template
    };
    let apply = |trial: &mut Trial, event| {
        trial.known.apply(WatchedKind::Named(ObjectKind::Template), event, trial.now);
    };
    apply(&mut trial, Event::Init);
    apply(&mut trial, Event::InitApply(template("ml", 0)));
    for number in (0..1_003).rev() {
        apply(&mut trial, Event::InitApply(template("full", number)));
    }
    apply(&mut trial, Event::InitDone);
    trial.after(1_000);
    let over = |trial: &Trial| {
        let watched = trial.published.last().unwrap();
        watched
            .others
            .iter()
            .find(|other| other.kind == WatchedKind::Named(ObjectKind::Template))
            .unwrap()
            .over
            .clone()
    };
    let is_known = |trial: &Trial, namespace: &str, number: usize| {
        let name = ObjectName::new(ObjectKind::Template, namespace, &format!("t{number:04}"));
        trial.published.last().unwrap().objects.as_ref().unwrap().requests_of(&name).is_some()
    };
    assert_eq!(over(&trial), ["full"]);
    assert!(trial.known.is_over.load(Ordering::Relaxed));
    assert!(is_known(&trial, "ml", 0) && is_known(&trial, "full", 999) && !is_known(&trial, "full", 1_000));
    let claims = trial.published.last().unwrap().objects.clone().unwrap();
    assert!(claims.over.contains("full") && !claims.over.contains("ml"));
    // Also of objects that say nothing.
    for number in 0..1_001 {
        let domain = read(&json!({"metadata": {"namespace": "full", "name": number.to_string()}}));
        trial.known.apply(WatchedKind::Named(ObjectKind::Domain), Event::Apply(domain), trial.now);
    }
    trial.after(1_000);
    let others = &trial.published.last().unwrap().others;
    assert_eq!(others.iter().filter(|other| other.over == ["full"]).count(), 2);
    trial.known.fail(WatchedKind::Named(ObjectKind::Domain), ABSENT, String::new(), trial.now);
    // With fewer of them, the next list has them all.
    apply(&mut trial, Event::Init);
    for number in 3..1_003 {
        apply(&mut trial, Event::InitApply(template("full", number)));
    }
    apply(&mut trial, Event::InitDone);
    trial.after(1_000);
    assert!(over(&trial).is_empty() && is_known(&trial, "full", 1_002));
    assert!(!trial.known.is_over.load(Ordering::Relaxed));
}

#[test]
fn nodes_wait_for_claims_for_a_short_time_only() {
    let now = Instant::now();
    let mut trial =
        Trial { known: Known::new(now, &ObjectKind::all().collect::<Vec<_>>()), now, published: Vec::new() };
    trial.fail_slices(ABSENT);
    trial.list(&["a"]);
    trial.after(9_000);
    let last = |trial: &Trial| trial.published.last().unwrap().state;
    assert_eq!(last(&trial), WatchState::Starting);
    assert!(trial.known.due().unwrap() <= trial.now + Duration::from_secs(1));
    trial.after(1_000);
    assert_eq!(last(&trial), WatchState::Watching);
}
