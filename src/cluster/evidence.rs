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

use fabric_nccl::{COUNTERS, Diagnosis, Log, Verdict, container_with_devices, devices_gone, folder_of_log};
use fabric_tools::inspection::{Change, change};

use super::api::{cause, in_time};
use super::installation::installed_policies;

/// The number of pods that run a command at the same time.
const AT_ONCE: usize = 32;
/// The time limit for a command in a container, which takes four seconds.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(15);
/// The limit on the output of the command, in bytes: a node has some 40 adapters.
const MOST_PRINTED: u64 = 64 << 10;
/// The limit on the files of a pod: what eight ranks write about how they start takes a tenth.
const MOST_IN_FILES: u64 = 4 << 20;

/// The pods of a job in a cluster.
#[derive(Clone, Copy)]
pub(super) struct Job<'j> {
    pub(super) client: &'j Client,
    pub(super) pods: &'j BTreeMap<String, Value>,
    /// Whether a script may run in the pods.
    pub(super) exec: bool,
}

impl Job<'_> {
    /// Adds the reasons why the log does not show the fabric, and returns the failures.
    pub(super) async fn gather(self, log: &mut Log<'_>) -> Vec<String> {
        let mut failures = Vec::new();
        if let Err(error) = self.compare_policies(log).await {
            failures.push(format!("the pods are not compared with the policies of the cluster: {error:#}"));
        }
        if let Err(error) = self.compare_nodes(log).await {
            failures.push(format!("the devices of the nodes are not compared: {error:#}"));
        }
        if Diagnosis::read(log).verdict != Verdict::Unknown {
            return failures;
        }
        if self.exec {
            failures.extend(self.read_files(log).await);
            if Diagnosis::read(log).verdict == Verdict::Unknown {
                failures.extend(self.count(log).await);
            }
        } else if self.pods.values().any(may_be_counted) {
            let hint = "hint: `--exec` may show it while the job runs: it reads the counters of the adapters in each pod";
            failures.push(hint.to_owned());
        }
        failures
    }

    async fn compare_policies(self, log: &mut Log<'_>) -> anyhow::Result<()> {
        let (policies, nodes) = installed_policies(self.client).await?;
        for (name, pod) in self.pods {
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

    async fn compare_nodes(self, log: &mut Log<'_>) -> anyhow::Result<()> {
        let api: Api<Node> = Api::all(self.client.clone());
        let mut nodes = HashMap::new();
        for (name, pod) in self.pods {
            let (Some(node), Some(_)) = (pod["spec"]["nodeName"].as_str(), container_with_devices(pod))
            else {
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

    /// Adds the files that NCCL writes in running pods, and returns the first failure.
    async fn read_files(self, log: &mut Log<'_>) -> Option<String> {
        let asked = self.pods.iter().filter_map(|(name, pod)| Some((name, pod, folder_of_log(pod)?)));
        let asked = asked.map(|(name, pod, (container, folder))| async move {
            let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
            let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
            let command = ["sh", "-c", "cat \"$0\"/*", folder];
            let printed = timeout(COMMAND_TIMEOUT, run(&api, name, container, &command, MOST_IN_FILES)).await;
            (name, printed.unwrap_or_else(|_| Err(anyhow!("the command did not end"))))
        });
        let mut read = stream::iter(asked.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
        let mut failure = None;
        while let Some((name, printed)) = read.next().await {
            match printed {
                Ok(text) => {
                    log.begin(name);
                    log.read(text.as_bytes());
                }
                Err(error) => {
                    failure
                        .get_or_insert(format!("{name}: the files of NCCL's log cannot be read: {error:#}"));
                }
            }
        }
        failure
    }

    /// Adds the counters of the adapters of running pods.
    pub(super) async fn count(self, log: &mut Log<'_>) -> Option<String> {
        let asked =
            self.pods.iter().filter_map(|(name, pod)| Some((name, pod, container_with_devices(pod)?)));
        let asked = asked.map(|(name, pod, container)| async move {
            let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
            let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
            if pod["spec"]["hostPID"] == true {
                return (name, Err(anyhow!("its processes are among those of its node")));
            }
            let command = ["sh", "-c", COUNTERS];
            let printed = timeout(COMMAND_TIMEOUT, run(&api, name, container, &command, MOST_PRINTED)).await;
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
            |failure| {
                if others > 0 { format!("{failure}; nor those of {others} more pods") } else { failure }
            },
        )
    }
}

/// Returns whether the counters in a pod may prove the fabric.
fn may_be_counted(pod: &Value) -> bool {
    container_with_devices(pod).is_some()
        && pod["spec"]["hostPID"] != true
        && pod["status"]["phase"] == "Running"
}

/// Runs a command in a container, and returns so many bytes of its output.
async fn run(
    api: &Api<Pod>,
    pod: &str,
    container: &str,
    command: &[&str],
    most: u64,
) -> anyhow::Result<String> {
    let parameters = AttachParams::default().container(container).stderr(false);
    let mut process =
        api.exec(pod, command.iter().copied(), &parameters).await.map_err(|error| match error {
            kube::Error::Api(status) => anyhow!("{}", status.message),
            error => anyhow!("{}", cause(&error)),
        })?;
    let status = process.take_status();
    let mut printed = String::new();
    if let Some(stdout) = process.stdout() {
        stdout.take(most).read_to_string(&mut printed).await.context("its output cannot be read")?;
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
