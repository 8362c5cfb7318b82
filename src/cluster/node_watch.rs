//! The nodes of the cluster and their `ResourceSlices`, as the API server lists and watches them.

mod known;
mod object;

use anyhow::{Context, bail};
use futures_util::{FutureExt, Stream, StreamExt};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::ApiResource;
use kube::runtime::watcher::{self, Config, DefaultBackoff, Event, watcher};
use kube::{Api, Client};
use tokio::time::{Duration, Instant, sleep, sleep_until, timeout};

use fabric_policy::nodes::Nodes;

use super::api::{cause, client, client_of};
use known::{Kind, Known};
pub(crate) use known::{WatchState, Watched};
use object::Object;

/// The duration of one watch, in seconds, after which the API server checks the permission again. A connection that no
/// longer works is found five seconds later.
const WATCH_SECONDS: u32 = 30;
/// The nodes of a page of the list: reading a larger one would delay reviews that use the same thread.
const PAGE: u32 = 100;
/// The time after which a cluster without `ResourceSlices` is queried again, because it may have been upgraded.
const AGAIN: Duration = Duration::from_mins(10);
/// The longest time between an error and the next list.
const LONGEST_BACKOFF: Duration = Duration::from_secs(20);
/// The longest wait if nothing is due.
const IDLE: Duration = Duration::from_hours(1);
/// The status of a response to a client without the permission.
const FORBIDDEN: u16 = 403;
/// That of a cluster without the API.
const ABSENT: u16 = 404;
/// The time limit for a command to get all nodes.
const LIST_TIMEOUT: Duration = Duration::from_mins(2);

/// Watches the nodes of the cluster of its client.
pub struct NodeWatch(Client);

impl std::fmt::Debug for NodeWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodeWatch")
    }
}

impl NodeWatch {
    /// The connection is opened by the first request.
    pub async fn new() -> anyhow::Result<Self> {
        Ok(Self(client().await?))
    }

    /// Passes on each state of the watch, and the nodes when they have changed, at most once a second.
    ///
    /// After an error it lists the nodes again: the watcher of kube would continue the watch, and not report success
    /// until a node changes.
    pub(crate) async fn run(self, mut publish: impl FnMut(Watched)) {
        let mut known = Known::new(Instant::now());
        let mut backoff = [DefaultBackoff::default(), DefaultBackoff::default()];
        let mut nodes = Box::pin(events(&self.0, Kind::Node, Duration::ZERO));
        let mut slices = Box::pin(events(&self.0, Kind::Slice, Duration::ZERO));
        loop {
            let due = known.due().unwrap_or_else(|| Instant::now() + IDLE);
            // The watchers do not end.
            let event = tokio::select! {
                Some(event) = nodes.next() => Some((Kind::Node, event)),
                Some(event) = slices.next() => Some((Kind::Slice, event)),
                () = sleep_until(due) => None,
            };
            match event {
                None => {}
                Some((kind, Ok(event))) => known.apply(kind, event, Instant::now()),
                Some((kind, Err(error))) => {
                    let (status, error) = explain(kind, &error);
                    tracing::debug!(resource = resource(kind).plural, error, "a watch failed");
                    known.fail(kind, status, error, Instant::now());
                    let delay =
                        if status == ABSENT { AGAIN } else { next_delay(&mut backoff[kind as usize]) };
                    let again = Box::pin(events(&self.0, kind, delay));
                    match kind {
                        Kind::Node => nodes = again,
                        Kind::Slice => slices = again,
                    }
                }
            }
            known.publish(Instant::now(), &mut publish);
        }
    }
}

/// The time until the next list. With its jitter, the backoff of kube reaches a minute.
fn next_delay(backoff: &mut DefaultBackoff) -> Duration {
    backoff.next().unwrap_or_default().min(LONGEST_BACKOFF)
}

/// The nodes of the cluster of a context or of the kubeconfig, else of the pod.
pub(crate) async fn nodes_of_cluster(context: Option<&str>) -> anyhow::Result<Nodes> {
    list_nodes(&client_of(context).await?).await
}

/// The nodes of the cluster at this moment.
pub(super) async fn list_nodes(client: &Client) -> anyhow::Result<Nodes> {
    let mut known = Known::new(Instant::now());
    let listing = async {
        for kind in [Kind::Node, Kind::Slice] {
            let mut events = Box::pin(events(client, kind, Duration::ZERO));
            while let Some(event) = events.next().await {
                let event = match event.map_err(|error| explain(kind, &error)) {
                    Ok(event) => event,
                    Err((ABSENT, _)) if kind == Kind::Slice => break,
                    Err((_, error)) => bail!("the nodes cannot be listed: {error}"),
                };
                let is_last = matches!(event, Event::InitDone);
                known.apply(kind, event, Instant::now());
                if is_last {
                    break;
                }
            }
        }
        Ok(())
    };
    timeout(LIST_TIMEOUT, listing)
        .await
        .context("the API server did not list the nodes within 2 minutes")??;
    Ok(known.nodes())
}

/// A list of the nodes or slices, in pages, and after that their changes.
fn events(
    client: &Client,
    kind: Kind,
    delay: Duration,
) -> impl Stream<Item = watcher::Result<Event<Object>>> + Send + use<> {
    let objects = Api::all_with(client.clone(), &resource(kind));
    async move {
        sleep(delay).await;
        watcher(objects, Config::default().timeout(WATCH_SECONDS).page_size(PAGE))
    }
    .flatten_stream()
}

fn resource(kind: Kind) -> ApiResource {
    match kind {
        Kind::Node => ApiResource::erase::<Node>(&()),
        Kind::Slice => ApiResource::erase::<ResourceSlice>(&()),
    }
}

/// Returns the status of the response, 0 without one, and a sentence.
fn explain(kind: Kind, error: &watcher::Error) -> (u16, String) {
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
        resource(kind).plural
    );
    (FORBIDDEN, format!("{}\nhint: {hint}", status.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_are_listed_again_within_the_documented_time() {
        let mut backoff = DefaultBackoff::default();
        let delays: Vec<Duration> = (0..200).map(|_| next_delay(&mut backoff)).collect();
        assert!(delays.iter().all(|delay| *delay <= Duration::from_secs(20)), "{delays:?}");
        // They grow, so that replicas do not list a large cluster all the time.
        assert!(delays[0] < Duration::from_secs(2) && delays[199] > Duration::from_secs(10), "{delays:?}");
    }
}
