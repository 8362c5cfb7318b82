//! Evidence from the cluster about pods whose logs do not show the fabric.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, anyhow, bail};
use futures_util::future::OptionFuture;
use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{AttachParams, ListParams};
use kube::{Api, Client};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::time::{Duration, timeout};

use fabric_nccl::{COUNTERS, Diagnosis, Log, Verdict, container_with_devices, devices_gone};
use fabric_tools::inspection::{Change, change};

use super::api::{cause, in_time};
use super::installation::installed_policies;

/// The number of pods that run a command at the same time.
const AT_ONCE: usize = 32;
/// The time limit for a command in a container, which takes four seconds.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(15);
/// The limit on the output of the command, in bytes: a node has some 40 adapters.
const MOST_PRINTED: u64 = 64 << 10;

/// Adds the reasons why the log does not show the fabric, and returns the failures.
pub(super) async fn gather(
    client: &Client,
    pods: &BTreeMap<String, Value>,
    exec: bool,
    log: &mut Log<'_>,
) -> Vec<String> {
    let mut failures = Vec::new();
    if let Err(error) = compare_policies(client, pods, log).await {
        failures.push(format!("the pods are not compared with the policies of the cluster: {error:#}"));
    }
    if let Err(error) = compare_nodes(client, pods, log).await {
        failures.push(format!("the devices of the nodes are not compared: {error:#}"));
    }
    if Diagnosis::read(log).verdict != Verdict::Unknown {
        return failures;
    }
    if exec {
        failures.extend(count(client, pods, log).await);
    } else if pods.values().any(may_be_counted) {
        let hint = "hint: `--exec` may show it while the job runs: it reads the counters of the adapters in each pod";
        failures.push(hint.to_owned());
    }
    failures
}

async fn compare_policies(
    client: &Client,
    pods: &BTreeMap<String, Value>,
    log: &mut Log<'_>,
) -> anyhow::Result<()> {
    let (policies, nodes) = installed_policies(client).await?;
    for (name, pod) in pods {
        match change(pod, &policies, Some(nodes.clone())) {
            Some(Change::Pod(fields)) => log.add_cause(name, "injection_changed", &fields),
            Some(Change::Policy { before, now }) => {
                log.add_cause(name, "other_policy", &format!("injected by {before}; {now}"));
            }
            None => {}
        }
    }
    Ok(())
}

async fn compare_nodes(
    client: &Client,
    pods: &BTreeMap<String, Value>,
    log: &mut Log<'_>,
) -> anyhow::Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    let mut nodes = HashMap::new();
    for (name, pod) in pods {
        let (Some(node), Some(_)) = (pod["spec"]["nodeName"].as_str(), container_with_devices(pod)) else {
            continue;
        };
        if !nodes.contains_key(node) {
            let read = in_time(&format!("node `{node}`"), "read", api.get_opt(node)).await?;
            nodes.insert(node, serde_json::to_value(read).context("a node cannot be read")?);
        }
        let of_pod = devices_gone(pod, &nodes[node]).filter(|_| !nodes[node].is_null());
        if let Some(gone) = of_pod {
            log.add_cause(name, "device_gone", &gone);
        }
    }
    Ok(())
}

/// Returns whether the counters in a pod may prove the fabric.
fn may_be_counted(pod: &Value) -> bool {
    container_with_devices(pod).is_some()
        && pod["spec"]["hostPID"] != true
        && pod["status"]["phase"] == "Running"
}

/// Adds the counters of the adapters of running pods.
pub(super) async fn count(
    client: &Client,
    pods: &BTreeMap<String, Value>,
    log: &mut Log<'_>,
) -> Option<String> {
    let asked = pods.iter().filter_map(|(name, pod)| Some((name, pod, container_with_devices(pod)?)));
    let asked = asked.map(|(name, pod, container)| async move {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        if pod["spec"]["hostPID"] == true {
            return (name, Err(anyhow!("its processes are among those of its node")));
        }
        let printed = timeout(COMMAND_TIMEOUT, run(&api, name, container)).await;
        let limit = humantime::format_duration(COMMAND_TIMEOUT);
        (name, printed.unwrap_or_else(|_| Err(anyhow!("the command did not end within {limit}"))))
    });
    let mut printed = stream::iter(asked.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
    let (mut failure, mut others) = (None, 0);
    while let Some((name, printed)) = printed.next().await {
        let text = printed.as_deref().unwrap_or_default();
        let why = match &printed {
            _ if log.add_counters(name, text) => continue,
            Err(error) => format!("cannot be read: {error:#}"),
            Ok(text) if text.contains("adapter ") => "prove nothing: too little moves".to_owned(),
            Ok(_) => "prove nothing: no process has one open whose counters are known".to_owned(),
        };
        if failure.is_none() {
            failure = Some(format!("{name}: the counters of the adapters {why}"));
        } else {
            others += 1;
        }
    }
    failure.map(
        |failure| if others > 0 { format!("{failure}; nor those of {others} more pods") } else { failure },
    )
}

/// Runs the script in a container, and returns its output.
async fn run(api: &Api<Pod>, pod: &str, container: &str) -> anyhow::Result<String> {
    let parameters = AttachParams::default().container(container).stderr(false);
    let command = ["sh", "-c", COUNTERS];
    let mut process = api.exec(pod, command, &parameters).await.map_err(|error| match error {
        kube::Error::Api(status) => anyhow!("{}", status.message),
        error => anyhow!("{}", cause(&error)),
    })?;
    let status = process.take_status();
    let mut printed = String::new();
    if let Some(stdout) = process.stdout() {
        stdout.take(MOST_PRINTED).read_to_string(&mut printed).await.context("its output cannot be read")?;
    }
    let status = OptionFuture::from(status).await.flatten();
    match status.and_then(|status| status.message) {
        Some(message) => bail!("{message}"),
        None => Ok(printed),
    }
}

/// Why the API server refuses the pods of a job, with the name of the object that would create them.
pub(super) async fn refusal(
    client: &Client,
    namespace: &str,
    job: &str,
) -> anyhow::Result<Option<(String, String)>> {
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let parameters = ListParams::default().fields("reason=FailedCreate");
    let events = in_time("the events", "read", api.list(&parameters)).await?;
    let of_job = |event: Event| {
        let name = event.involved_object.name?;
        let is_of_job = name.strip_prefix(job).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        is_of_job.then(|| (name, event.message.unwrap_or_default()))
    };
    Ok(events.into_iter().filter_map(of_job).next_back())
}
