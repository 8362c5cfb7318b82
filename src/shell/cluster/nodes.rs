//! The nodes of the cluster, as the API server lists and watches them.

mod known;
mod object;

use anyhow::{Context, anyhow};
use futures_util::{FutureExt, Stream, StreamExt};
use kube::runtime::watcher::{self, Config, DefaultBackoff, Event, watcher};
use kube::{Api, Client};
use tokio::time::{Duration, Instant, sleep, sleep_until, timeout};

use crate::core::nodes::Nodes;

use super::api::{cause, client};
use known::Known;
pub(crate) use known::{STALE_FOR, WatchState, Watched};
use object::NodeObject;

/// The duration of one watch, in seconds, after which the API server checks the permission again. A connection that no
/// longer works is found five seconds later.
const WATCH_SECONDS: u32 = 30;
/// The nodes of a page of the list: reading a larger one would delay reviews that use the same thread.
const PAGE: u32 = 100;
/// The longest time without anything that is due.
const IDLE: Duration = Duration::from_hours(1);
/// The time within which a command has to have all nodes.
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
    /// After an error it lists the nodes again: the watcher of kube would go on with the watch, and not tell that it
    /// succeeds until a node changes.
    pub(crate) async fn run(self, mut publish: impl FnMut(Watched)) {
        let mut known = Known::new(Instant::now());
        let mut backoff = DefaultBackoff::default();
        let mut events = Box::pin(events(&self.0, Duration::ZERO));
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => known.apply(event, Instant::now()),
                    Some(Err(error)) => {
                        let (forbidden, error) = explain(&error);
                        tracing::debug!(error, "the nodes cannot be watched");
                        known.fail(forbidden, error, Instant::now());
                        events = Box::pin(self::events(&self.0, backoff.next().unwrap_or_default()));
                    }
                    // The watcher does not end.
                    None => return,
                },
                () = sleep_until(known.due().unwrap_or_else(|| Instant::now() + IDLE)) => {}
            }
            known.publish(Instant::now(), &mut publish);
        }
    }
}

/// The nodes of the cluster at this moment.
pub(crate) async fn list_nodes() -> anyhow::Result<Nodes> {
    let client = client().await?;
    let mut events = Box::pin(events(&client, Duration::ZERO));
    let mut known = Known::new(Instant::now());
    let listing = async {
        while let Some(event) = events.next().await {
            let event =
                event.map_err(|error| anyhow!("the nodes cannot be listed: {}", explain(&error).1))?;
            let is_last = matches!(event, Event::InitDone);
            known.apply(event, Instant::now());
            if is_last {
                break;
            }
        }
        anyhow::Ok(())
    };
    timeout(LIST_TIMEOUT, listing)
        .await
        .context("the API server did not list the nodes within 2 minutes")??;
    Ok(known.nodes())
}

/// A list of the nodes, in pages, and after that their changes.
fn events(
    client: &Client,
    delay: Duration,
) -> impl Stream<Item = watcher::Result<Event<NodeObject>>> + Send + use<> {
    let nodes = Api::all(client.clone());
    async move {
        sleep(delay).await;
        watcher(nodes, Config::default().timeout(WATCH_SECONDS).page_size(PAGE))
    }
    .flatten_stream()
}

/// Returns whether the permission is missing, and a sentence.
fn explain(error: &watcher::Error) -> (bool, String) {
    use watcher::Error;
    let status = match error {
        Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status))
        | Error::WatchFailed(kube::Error::Api(status))
        | Error::WatchError(status) => status,
        _ => return (false, cause(error)),
    };
    if status.code != 403 {
        return (false, status.message.clone());
    }
    let hint =
        "grant `get`, `list` and `watch` of nodes in a ClusterRole, as the chart does with `nodes.watch`";
    (true, format!("{}\nhint: {hint}", status.message))
}
