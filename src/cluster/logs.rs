//! The pods of a job, and their logs.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use futures_util::{AsyncBufReadExt, AsyncReadExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Duration, Instant, interval};

use fabric_nccl::{Diagnosis, Knowledge, Log, Verdict};

use super::api::{cause, client_to_stream};
use super::evidence;

/// The limit on logs that are read at once.
const MOST_STREAMS: usize = 256;
/// The longest part of a line that is sent at once, in bytes.
const LONGEST_PIECE: u64 = 64 << 10;
/// How long `--follow` continues after the first verdict: the other ranks connect at about the same time.
const SETTLED: Duration = Duration::from_secs(20);
/// How often `--follow` reads the counters of the adapters while there is no verdict.
const COUNTING: Duration = Duration::from_mins(1);

/// The pods whose logs are read.
#[derive(Debug)]
pub(crate) struct Selection<'a> {
    pub(crate) context: Option<&'a str>,
    /// That of the kubeconfig if `None`.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) pods: &'a [String],
    pub(crate) selector: Option<&'a str>,
    pub(crate) job: Option<&'a str>,
    /// Keeps reading until there is a verdict.
    pub(crate) follow: bool,
    /// Runs a script in the pods whose logs do not show the network.
    pub(crate) exec: bool,
}

/// A line of a log, or why there is none.
struct Piece {
    pod: String,
    bytes: Result<Vec<u8>, String>,
}

/// Reads the pods and their logs. Returns the failures.
pub(crate) async fn read(
    selection: &Selection<'_>,
    knowledge: &Knowledge,
    log: &mut Log<'_>,
) -> anyhow::Result<Vec<String>> {
    let client = client_to_stream(selection.context).await?;
    let namespace = selection.namespace.unwrap_or(client.default_namespace()).to_owned();
    let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let pods = find(&api, selection, knowledge, &namespace).await?;
    if pods.is_empty() {
        return refused(&client, selection, &namespace, log).await;
    }
    for pod in pods.values() {
        log.add_pod(pod);
    }
    let mut failures = read_logs(&client, &api, &pods, selection, log).await;
    if Diagnosis::read(log).verdict != Verdict::Fabric {
        let more = tokio::select! {
            more = evidence::gather(&client, &pods, selection.exec, log) => more,
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
async fn read_logs(
    client: &Client,
    api: &Api<Pod>,
    pods: &BTreeMap<String, Value>,
    selection: &Selection<'_>,
    log: &mut Log<'_>,
) -> Vec<String> {
    let (follow, (sender, mut pieces)) = (selection.follow, mpsc::channel(64));
    let (streams, mut unread) = (Arc::new(Semaphore::new(MOST_STREAMS)), 0);
    for (name, pod) in pods {
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        for container in containers.filter_map(|container| container["name"].as_str()) {
            let permit = Arc::clone(&streams).try_acquire_owned().ok();
            // A log that is followed has no end.
            if follow && permit.is_none() {
                unread += 1;
                continue;
            }
            let (api, sender, streams) = (api.clone(), sender.clone(), Arc::clone(&streams));
            let (name, container) = (name.clone(), container.to_owned());
            tokio::spawn(async move {
                let _permit = match permit {
                    Some(permit) => Ok(permit),
                    None => streams.acquire_owned().await,
                };
                stream(&api, name, container, follow, &sender).await;
            });
        }
    }
    drop(sender);
    let mut failures = Vec::new();
    if unread > 0 {
        failures.push(format!("{unread} more logs are not followed: at most {MOST_STREAMS} are at once"));
    }
    let (mut tick, mut since) = (interval(Duration::from_secs(1)), None::<Instant>);
    let mut counted = Instant::now();
    loop {
        tokio::select! {
            piece = pieces.recv() => match piece {
                None => return failures,
                Some(Piece { pod, bytes: Ok(bytes) }) => {
                    log.begin(&pod);
                    log.read(&bytes);
                }
                Some(Piece { pod, bytes: Err(error) }) => failures.push(format!("{pod}: {error}")),
            },
            _ = tick.tick(), if follow => {
                let diagnosis = Diagnosis::read(log);
                if diagnosis.verdict == Verdict::Unknown {
                    since = None;
                    if selection.exec && counted.elapsed() >= COUNTING {
                        // Failures to read them are reported at the end.
                        tokio::select! {
                            _ = evidence::count(client, pods, log) => {}
                            _ = tokio::signal::ctrl_c() => return failures,
                        }
                        counted = Instant::now();
                    }
                } else if since.get_or_insert_with(Instant::now).elapsed() >= SETTLED || diagnosis.is_whole() {
                    return failures;
                }
            }
            _ = tokio::signal::ctrl_c(), if follow => return failures,
        }
    }
}

/// The pods of the selection, by their names.
async fn find(
    api: &Api<Pod>,
    selection: &Selection<'_>,
    knowledge: &Knowledge,
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
    let of_job = |job: &str| knowledge.job_labels().iter().map(|label| format!("{label}={job}")).collect();
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

/// Sends the lines of the log of a container.
async fn stream(api: &Api<Pod>, pod: String, container: String, follow: bool, sender: &mpsc::Sender<Piece>) {
    let params = LogParams { container: Some(container.clone()), follow, ..LogParams::default() };
    let failed = |error: &(dyn std::error::Error + 'static)| {
        let bytes = Err(format!("the log of `{container}` cannot be read: {}", cause(error)));
        Piece { pod: pod.clone(), bytes }
    };
    let mut from = match api.log_stream(&pod, &params).await {
        Ok(from) => Box::pin(from),
        Err(error) => {
            let _ = sender.send(failed(&error)).await;
            return;
        }
    };
    loop {
        let mut line = Vec::new();
        // A line without an end must not fill the memory.
        let piece = match (&mut from).take(LONGEST_PIECE).read_until(b'\n', &mut line).await {
            Ok(0) => return,
            Ok(_) => Piece { pod: pod.clone(), bytes: Ok(line) },
            Err(error) => failed(&error),
        };
        let is_last = piece.bytes.is_err();
        if sender.send(piece).await.is_err() || is_last {
            return;
        }
    }
}
