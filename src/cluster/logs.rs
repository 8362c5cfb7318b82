//! The pods of a job, and their logs.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow};
use futures_util::{AsyncBufReadExt, AsyncReadExt, Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::{Duration, Instant, interval};

use fabric_nccl::{Diagnosis, Log, Signatures, Verdict};

use super::api::{cause, client_to_stream};
use super::asked::Selection;
use super::evidence::{self, Job};

/// The limit on logs that are read at once.
const MOST_STREAMS: usize = 256;
/// The longest part of a line that is read at once, in bytes.
const LONGEST_PIECE: u64 = 64 << 10;
/// How long `--follow` continues after the first verdict: the other ranks connect at about the same time.
const SETTLED: Duration = Duration::from_secs(20);
/// How often `--follow` reads the counters of the adapters while there is no verdict.
const COUNTING: Duration = Duration::from_mins(1);

/// Reads the pods and their logs. Returns the failures.
pub(crate) async fn read(
    selection: &Selection<'_>,
    signatures: &Signatures,
    log: &mut Log<'_>,
) -> anyhow::Result<Vec<String>> {
    let client = client_to_stream(selection.context).await?;
    let namespace = selection.namespace.unwrap_or(client.default_namespace()).to_owned();
    let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let pods = find(&api, selection, signatures, &namespace).await?;
    if pods.is_empty() {
        return refused(&client, selection, &namespace, log).await;
    }
    for pod in pods.values() {
        log.add_pod(pod);
    }
    let job = Job { client: &client, pods: &pods, exec: selection.exec };
    let mut failures = read_logs(&api, job, selection.follow, log).await;
    if Diagnosis::read(log).verdict != Verdict::Fabric {
        let more = tokio::select! {
            more = job.gather(log) => more,
            _ = tokio::signal::ctrl_c() => vec!["the cluster was not asked to the end".to_owned()],
        };
        failures.extend(more);
    }
    Ok(failures)
}

/// Adds why there are no pods. Fails if the reason is unknown.
async fn refused(
    client: &Client,
    selection: &Selection<'_>,
    namespace: &str,
    log: &mut Log<'_>,
) -> anyhow::Result<Vec<String>> {
    let what = match (selection.job, selection.selector) {
        (Some(job), _) => format!("of a job `{job}`"),
        (None, selector) => format!("with `{}`", selector.unwrap_or_default()),
    };
    let refusal = match selection.job {
        Some(job) => evidence::refusal(client, namespace, job).await?,
        None => None,
    };
    let (name, message) =
        refusal.with_context(|| format!("there are no pods {what} in the namespace `{namespace}`"))?;
    log.add_cause(&name, "pods_refused", &message);
    Ok(Vec::new())
}

/// Reads the logs of all containers, and returns the failures.
async fn read_logs<'p>(api: &Api<Pod>, job: Job<'p>, follow: bool, log: &mut Log<'_>) -> Vec<String> {
    let containers_of = |pod: &'p Value| pod["spec"]["containers"].as_array().into_iter().flatten();
    let containers: Vec<(&str, &str)> = job
        .pods
        .iter()
        .flat_map(|(name, pod)| {
            containers_of(pod).filter_map(|one| Some((name.as_str(), one["name"].as_str()?)))
        })
        .collect();
    // A log that is followed has no end.
    let read = if follow { MOST_STREAMS } else { usize::MAX };
    let mut failures = Vec::new();
    if let unread @ 1.. = containers.len().saturating_sub(read) {
        failures.push(format!("{unread} more logs are not followed: at most {MOST_STREAMS} are at once"));
    }
    let logs =
        containers.into_iter().take(read).map(|(pod, container)| lines(api, pod, container, follow).boxed());
    let mut lines = stream::iter(logs).flatten_unordered(MOST_STREAMS);
    let mut tick = interval(Duration::from_secs(1));
    let mut progress = Progress { known_since: None, counted: Instant::now() };
    loop {
        tokio::select! {
            line = lines.next() => match line {
                None => return failures,
                Some((pod, Ok(line))) => {
                    log.begin(pod);
                    log.read(&line);
                }
                Some((pod, Err(error))) => failures.push(format!("{pod}: {error}")),
            },
            _ = tick.tick(), if follow => {
                if progress.is_over(job, log).await {
                    return failures;
                }
            }
            _ = tokio::signal::ctrl_c(), if follow => return failures,
        }
    }
}

/// What is known of logs while they are followed.
struct Progress {
    /// The time since which there is a verdict.
    known_since: Option<Instant>,
    /// The time at which counters were read.
    counted: Instant,
}

impl Progress {
    /// Returns whether to read no more, and reads the counters if it is time for them.
    async fn is_over(&mut self, job: Job<'_>, log: &mut Log<'_>) -> bool {
        let diagnosis = Diagnosis::read(log);
        if diagnosis.verdict != Verdict::Unknown {
            let since = self.known_since.get_or_insert_with(Instant::now);
            return since.elapsed() >= SETTLED || diagnosis.is_whole();
        }
        self.known_since = None;
        if job.exec && self.counted.elapsed() >= COUNTING {
            // Failures to read them are reported at the end.
            tokio::select! {
                _ = job.count(log) => {}
                _ = tokio::signal::ctrl_c() => return true,
            }
            self.counted = Instant::now();
        }
        false
    }
}

/// The pods of the selection, by their names.
async fn find(
    api: &Api<Pod>,
    selection: &Selection<'_>,
    signatures: &Signatures,
    namespace: &str,
) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    for name in selection.pods {
        let pod = api
            .get_opt(name)
            .await
            .map_err(|error| anyhow!("pod `{name}` cannot be read: {}", cause(&error)))?;
        let pod = pod.with_context(|| format!("there is no pod `{name}` in the namespace `{namespace}`"))?;
        found.insert(name.clone(), pod);
    }
    let of_job = |job: &str| signatures.job_labels().iter().map(|label| format!("{label}={job}")).collect();
    let selectors: Vec<String> = selection.job.map(of_job).unwrap_or_default();
    for selector in selectors.iter().map(String::as_str).chain(selection.selector) {
        let list = api.list(&ListParams::default().labels(selector)).await;
        let list =
            list.map_err(|error| anyhow!("pods with `{selector}` cannot be listed: {}", cause(&error)))?;
        found.extend(list.into_iter().filter_map(|pod| Some((pod.metadata.name.clone()?, pod))));
    }
    let values = found.into_iter().map(|(name, pod): (String, Pod)| Ok((name, serde_json::to_value(pod)?)));
    values.collect::<Result<_, serde_json::Error>>().context("a pod cannot be read")
}

/// The lines of the log of a container, each with its pod, and at the end why there are no more of them.
fn lines<'p>(
    api: &'p Api<Pod>,
    pod: &'p str,
    container: &'p str,
    follow: bool,
) -> impl Stream<Item = (&'p str, Result<Vec<u8>, String>)> {
    let cannot = move |error: &(dyn std::error::Error + 'static)| {
        format!("the log of `{container}` cannot be read: {}", cause(error))
    };
    let lines = stream::try_unfold(None, move |from| async move {
        let mut from = if let Some(from) = from {
            from
        } else {
            let params = LogParams { container: Some(container.to_owned()), follow, ..LogParams::default() };
            Box::pin(api.log_stream(pod, &params).await.map_err(|error| cannot(&error))?)
        };
        let mut line = Vec::new();
        // A line without an end must not fill the memory.
        let read = (&mut from).take(LONGEST_PIECE).read_until(b'\n', &mut line).await;
        let length = read.map_err(|error| cannot(&error))?;
        Ok((length > 0).then_some((line, Some(from))))
    });
    lines.map(move |line| (pod, line))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use hyper::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// The lines of a log that an API server answers with this status.
    async fn lines_of(status: u16, log: &str) -> Vec<Result<Vec<u8>, String>> {
        let log = log.to_owned();
        let service = tower::service_fn(move |_: Request<Body>| {
            let body = Body::from(log.clone().into_bytes());
            async move { Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap()) }
        });
        let api = Api::namespaced(Client::new(service, "default"), "default");
        lines(&api, "pod", "main", false).map(|(_, line)| line).collect().await
    }

    #[tokio::test]
    async fn a_log_is_read_line_by_line_and_a_long_line_in_parts() {
        let long = "x".repeat(100 << 10);
        let read: Vec<_> =
            lines_of(200, &format!("a\n{long}\nb")).await.into_iter().map(Result::unwrap).collect();
        let lengths: Vec<_> = read.iter().map(Vec::len).collect();
        assert_eq!(lengths, [2, 64 << 10, (36 << 10) + 1, 1]);
        assert_eq!(read.concat(), format!("a\n{long}\nb").into_bytes());
    }

    #[tokio::test]
    async fn a_log_that_cannot_be_read_has_the_reason_once() {
        let read = lines_of(400, "container is waiting to start").await;
        assert!(matches!(read.as_slice(), [Err(why)] if why.contains("the log of `main`")), "{read:?}");
    }
}
