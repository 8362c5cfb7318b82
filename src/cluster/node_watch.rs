//! The nodes of the cluster and their `ResourceSlices`, and the objects that pods name, as the API server
//! lists and watches them.

mod bounded;
mod known;
mod object;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use futures_util::stream::{BoxStream, select_all, unfold};
use futures_util::{FutureExt, Stream, StreamExt};
use kube::api::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::{self, Config, DefaultBackoff, Event, watcher};
use kube::{Api, Client};
use tokio::time::{Duration, Instant, sleep, sleep_until, timeout};

use fabric_policy::PodContext;
use fabric_policy::objects::{ObjectApi, ObjectKind};

use super::api::{FORBIDDEN, cause, client, client_of, no_answer, unread_of_status};
use super::asked::ClusterObjects;
use known::Known;
pub(crate) use known::{OtherWatch, WatchState, Watched, WatchedKind};
use object::Object;

/// The duration of one watch, in seconds, after which the API server checks the permission again. A connection that no
/// longer works is found five seconds later.
const WATCH_SECONDS: u32 = 30;
/// The objects of a page of a list.
const PAGE: u32 = 100;
/// Those that tenants create have up to 1.5 MiB each, and several times as much if the API server escapes their text. A
/// page is in memory as a whole, up to three times.
const PAGE_OF_TENANTS: u32 = 5;
/// The time after which a cluster without an API is queried again, because it may have been upgraded, and objects beyond
/// the bound, because there may be room for them.
const AGAIN: Duration = Duration::from_mins(10);
/// The longest time between an error and the next list.
const LONGEST_BACKOFF: Duration = Duration::from_secs(20);
/// The longest wait if nothing is due.
const IDLE: Duration = Duration::from_hours(1);
/// The status of a response of a cluster without the API.
const ABSENT: u16 = 404;
/// The time limit for a command to get all nodes, or all `ResourceSlices`.
const LIST_TIMEOUT: Duration = Duration::from_mins(2);
/// That for the objects of one kind that pods name, without which names decide.
const NAMED_TIMEOUT: Duration = Duration::from_secs(30);

/// Watches the nodes of the cluster of its client.
pub struct NodeWatch {
    client: Client,
    /// The kinds that it watches with them.
    kinds: Vec<ObjectKind>,
    isolates_networks: bool,
}

impl NodeWatch {
    /// The connection is opened by the first request. `isolates_networks` is what Multus does.
    pub async fn new(kinds: Vec<ObjectKind>, isolates_networks: bool) -> anyhow::Result<Self> {
        Ok(Self { client: client().await?, kinds, isolates_networks })
    }

    /// Passes on each state of the watch, and the objects when they have changed, at most once a second.
    pub(crate) async fn run(self, mut publish: impl FnMut(Watched)) {
        let Self { client, kinds, isolates_networks } = self;
        let mut known = Known::new(Instant::now(), &kinds);
        known.isolates_networks = isolates_networks;
        let watched = WatchedKind::with_named(kinds);
        let mut events =
            select_all(watched.map(|kind| Watch::new(&client, kind, &known.is_over).into_stream().boxed()));
        loop {
            let due = known.due().unwrap_or_else(|| Instant::now() + IDLE);
            // The watchers do not end.
            let event = tokio::select! {
                Some(event) = events.next() => Some(event),
                () = sleep_until(due) => None,
            };
            match event {
                None => {}
                Some((kind, Ok(event))) => known.apply(kind, event, Instant::now()),
                Some((kind, Err((status, error)))) => {
                    tracing::debug!(resource = kind.api().name, error, "a watch failed");
                    known.fail(kind, status, error, Instant::now());
                }
            }
            known.publish(Instant::now(), &mut publish);
        }
    }
}

/// The watch of the objects of one kind.
struct Watch {
    client: Client,
    kind: WatchedKind,
    /// The index of the version of the API.
    version: usize,
    /// How many versions are absent, one after the other.
    absent: usize,
    backoff: DefaultBackoff,
    /// Whether a namespace has objects beyond its bound.
    is_over: Arc<AtomicBool>,
    listed: Instant,
    events: BoxStream<'static, watcher::Result<Event<Object>>>,
}

/// A change, or the status of a failed request and a sentence.
type Change = Result<Event<Object>, (u16, String)>;

impl Watch {
    fn new(client: &Client, kind: WatchedKind, is_over: &Arc<AtomicBool>) -> Self {
        let events = events(client, kind, 0, Duration::ZERO);
        Self {
            client: client.clone(),
            kind,
            version: 0,
            absent: 0,
            backoff: DefaultBackoff::default(),
            is_over: Arc::clone(is_over),
            listed: Instant::now(),
            events,
        }
    }

    fn into_stream(self) -> impl Stream<Item = (WatchedKind, Change)> {
        unfold(self, async |mut watch| Some(((watch.kind, watch.next().await), watch)))
    }

    /// The next change.
    ///
    /// After an error it lists the objects again: the watcher of kube would continue the watch, and not report success
    /// until an object changes. A cluster without a version of the API may have another one.
    async fn next(&mut self) -> Change {
        loop {
            let event = timeout(AGAIN, self.events.next()).await;
            let is_over = self.kind.api().namespaced && self.is_over.load(Ordering::Relaxed);
            if is_over && self.listed.elapsed() >= AGAIN {
                self.list_again(Duration::ZERO);
                continue;
            }
            let Ok(event) = event else { continue };
            let Some(event) = event else { return Err((0, "the watch ended".to_owned())) };
            let (status, error) = match event.map_err(|error| explain(self.kind, &error)) {
                // It comes before the request.
                Ok(Event::Init) => return Ok(Event::Init),
                Ok(event) => {
                    self.absent = 0;
                    if matches!(event, Event::InitApply(_) | Event::InitDone) {
                        self.listed = Instant::now();
                    }
                    return Ok(event);
                }
                Err(failed) => failed,
            };
            let versions = self.kind.api().versions.len();
            let has_other = status == ABSENT && self.absent + 1 < versions;
            if status == ABSENT {
                self.version = (self.version + 1) % versions;
                self.absent = if has_other { self.absent + 1 } else { 0 };
            }
            let delay = match status {
                ABSENT if has_other => Duration::ZERO,
                ABSENT => AGAIN,
                _ => next_delay(&mut self.backoff),
            };
            self.list_again(delay);
            if !has_other {
                return Err((status, error));
            }
        }
    }

    fn list_again(&mut self, delay: Duration) {
        self.events = events(&self.client, self.kind, self.version, delay);
        self.listed = Instant::now();
    }
}

/// The time until the next list. With its jitter, the backoff of kube reaches a minute.
fn next_delay(backoff: &mut DefaultBackoff) -> Duration {
    backoff.next().unwrap_or_default().min(LONGEST_BACKOFF)
}

/// The objects of the cluster of a context or of the kubeconfig, else of the pod.
pub(crate) async fn objects_of_cluster(context: Option<&str>) -> anyhow::Result<ClusterObjects> {
    list_objects(&client_of(context).await?, &ObjectKind::all().collect::<Vec<_>>()).await
}

impl ClusterObjects {
    /// What a pod of the cluster is injected with.
    pub(super) fn context(&self) -> PodContext {
        let (nodes, objects) = (Some(Arc::clone(&self.nodes)), self.objects.clone());
        PodContext { nodes, objects, ..PodContext::default() }
    }
}

/// The nodes of the cluster at this moment, with the objects that pods name.
pub(super) async fn list_objects(client: &Client, kinds: &[ObjectKind]) -> anyhow::Result<ClusterObjects> {
    let mut known = Known::new(Instant::now(), kinds);
    let mut unread = Vec::new();
    for kind in WatchedKind::with_named(kinds.iter().copied()) {
        let limit = if kind.is_named() { NAMED_TIMEOUT } else { LIST_TIMEOUT };
        match timeout(limit, list(client, kind, &mut known)).await {
            Ok(Ok(())) => {}
            Ok(Err((ABSENT, error))) if kind != WatchedKind::Node => {
                known.fail(kind, ABSENT, error, Instant::now());
            }
            Ok(Err((_, error))) if kind.is_named() => unread.push(error),
            Err(_) if kind.is_named() => {
                unread.push(format!("the API server does not list the {} in time", kind.api().name));
            }
            Ok(Err((status, error))) => {
                let message = format!("the {} cannot be listed: {error}", kind.api().name);
                return Err(unread_of_status(status, message).into());
            }
            Err(_) => bail!("the {} cannot be listed: {}", kind.api().name, no_answer(LIST_TIMEOUT)),
        }
    }
    let objects = Some(known.objects().into());
    Ok(ClusterObjects { nodes: known.nodes().into(), objects, unread })
}

/// Lists the objects of a kind once.
async fn list(client: &Client, kind: WatchedKind, known: &mut Known) -> Result<(), (u16, String)> {
    let mut watch = Watch::new(client, kind, &known.is_over);
    loop {
        let event = watch.next().await?;
        let is_last = matches!(event, Event::InitDone);
        known.apply(kind, event, Instant::now());
        if is_last {
            return Ok(());
        }
    }
}

/// A list of the objects of a kind, in pages, and after that their changes.
fn events(
    client: &Client,
    kind: WatchedKind,
    version: usize,
    delay: Duration,
) -> BoxStream<'static, watcher::Result<Event<Object>>> {
    let objects = Api::all_with(client.clone(), &resource(kind, version));
    let page = if kind.api().namespaced { PAGE_OF_TENANTS } else { PAGE };
    async move {
        sleep(delay).await;
        watcher(objects, Config::default().timeout(WATCH_SECONDS).page_size(page))
    }
    .flatten_stream()
    .boxed()
}

fn resource(kind: WatchedKind, version: usize) -> ApiResource {
    let ObjectApi { group, kind, versions, resource, .. } = kind.api();
    let named = GroupVersionKind::gvk(group, &versions[version.min(versions.len() - 1)], kind);
    ApiResource::from_gvk_with_plural(&named, resource)
}

/// Returns the status of the response, 0 without one, and a sentence.
fn explain(kind: WatchedKind, error: &watcher::Error) -> (u16, String) {
    use watcher::Error;
    let (Error::InitialListFailed(kube::Error::Api(status))
    | Error::WatchStartFailed(kube::Error::Api(status))
    | Error::WatchFailed(kube::Error::Api(status))
    | Error::WatchError(status)) = error
    else {
        return (0, cause(error));
    };
    if status.code != FORBIDDEN {
        return (status.code, status.message.clone());
    }
    let hint = format!(
        "grant `list` and `watch` of {} in a ClusterRole, as the chart does with `nodes.watch`",
        kind.api().resource
    );
    (FORBIDDEN, format!("{}\nhint: {hint}", status.message))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kube::ResourceExt;

    use super::*;

    #[test]
    fn the_nodes_are_listed_again_within_the_documented_time() {
        let mut backoff = DefaultBackoff::default();
        let delays: Vec<Duration> = (0..200).map(|_| next_delay(&mut backoff)).collect();
        assert!(delays.iter().all(|delay| *delay <= Duration::from_secs(20)), "{delays:?}");
        // They grow, so that replicas do not list a large cluster all the time.
        assert!(delays[0] < Duration::from_secs(2) && delays[199] > Duration::from_secs(10), "{delays:?}");
    }

    /// An API server that answers each request by its first line. The answer ends with the connection.
    fn api(answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let head: Vec<String> = BufReader::new(&stream)
                    .lines()
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .collect();
                let (status, body) = answer(&head[0]);
                let _ = write!(&stream, "HTTP/1.1 {status} X\r\nConnection: close\r\n\r\n{body}");
            }
        });
        Client::try_from(kube::Config::new(address.parse().unwrap())).unwrap()
    }

    /// One without any API, which counts the requests.
    fn nothing(requests: &Arc<AtomicUsize>) -> Client {
        let requests = Arc::clone(requests);
        api(move |_| {
            requests.fetch_add(1, Ordering::Relaxed);
            (404, String::new())
        })
    }

    /// One with two pages of objects, whose watch has one more and ends.
    fn pages() -> Client {
        let events = concat!(
            r#"{"type":"ADDED","object":{"metadata":{"name":"c","resourceVersion":"8"},"spec":[[]]}}"#,
            "\n",
            r#"{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"X","metadata":{"resourceVersion":"9"}}}"#,
            "\n",
        );
        let gone = r#"{"type":"ERROR","object":{"code":410,"message":"too old"}}"#;
        let page = |rest: &str, name: &str| {
            let object = format!(r#"{{"metadata":{{"name":"{name}"}},"spec":"junk","status":[1e300]}}"#);
            (
                200,
                format!(
                    r#"{{"apiVersion":"v1","kind":"List","metadata":{{"resourceVersion":"7"{rest}}},"items":[{object}]}}"#
                ),
            )
        };
        api(move |line| match line {
            _ if line.contains("resourceVersion=7") => (200, events.to_owned()),
            _ if line.contains("resourceVersion=9") => (200, gone.to_owned()),
            _ if line.contains("continue=more") => page("", "b"),
            _ if line.contains("limit=5") => page(r#","continue":"more""#, "a"),
            _ => (500, line.to_owned()),
        })
    }

    #[tokio::test]
    async fn objects_beyond_the_bound_are_listed_again_after_a_time() {
        let is_over = Arc::new(AtomicBool::new(true));
        let mut watch = Watch::new(&pages(), WatchedKind::Named(ObjectKind::Domain), &is_over);
        while !matches!(watch.next().await, Ok(Event::InitDone)) {}
        assert!(matches!(watch.next().await, Ok(Event::Apply(_))));
        watch.list_again(Duration::ZERO);
        while !matches!(watch.next().await, Ok(Event::InitDone)) {}
        watch.listed -= AGAIN;
        assert!(matches!(watch.next().await, Ok(Event::Init)));
    }

    #[tokio::test]
    async fn pages_of_few_objects_are_listed_and_then_watched_until_an_error() {
        let mut watch = Watch::new(&pages(), WatchedKind::Named(ObjectKind::Domain), &Arc::default());
        let mut seen = Vec::new();
        let failed = loop {
            let name = Object::name_any;
            seen.push(match watch.next().await {
                Ok(Event::Init) => "init".to_owned(),
                Ok(Event::InitApply(object)) => name(&object),
                Ok(Event::InitDone) => "done".to_owned(),
                Ok(Event::Apply(object)) => format!("+{}", name(&object)),
                Ok(Event::Delete(object)) => format!("-{}", name(&object)),
                Err(failed) => break failed,
            });
        };
        assert_eq!(seen, ["init", "a", "b", "done", "+c"]);
        assert_eq!(failed, (410, "too old".to_owned()));
        assert!(matches!(watch.next().await, Ok(Event::Init)));
    }

    #[tokio::test]
    async fn a_cluster_without_an_api_is_asked_once_for_each_version() {
        for kind in WatchedKind::all() {
            let requests = Arc::new(AtomicUsize::new(0));
            let mut watch = Watch::new(&nothing(&requests), kind, &Arc::default());
            let status = loop {
                match watch.next().await {
                    Ok(Event::Init) => {}
                    Ok(_) => panic!("{kind:?} is not there"),
                    Err((status, _)) => break status,
                }
            };
            assert_eq!(
                (status, requests.load(Ordering::Relaxed)),
                (ABSENT, kind.api().versions.len()),
                "{kind:?}"
            );
        }
    }
}
