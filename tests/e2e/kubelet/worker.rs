//! The life of a pod that is real.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::probes::Probe;
use super::status::{self, Observed};
use super::volumes::Volumes;
use super::{Node, TICK, container};
use crate::processes::Process;

/// Runs a pod until it is gone; when dropped, at once.
pub(super) struct Worker {
    pod: watch::Sender<Value>,
    task: JoinHandle<()>,
}

impl Worker {
    pub(super) fn start(node: Arc<Node>, pod: Value) -> Self {
        let (sender, receiver) = watch::channel(pod);
        let task = tokio::spawn(async move { Life::new(&node, receiver).run().await });
        Self { pod: sender, task }
    }

    /// Tells how the pod looks now.
    pub(super) fn tell(&self, pod: Value) {
        self.pod.send_replace(pod);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A container that runs, and how it is doing.
struct Running {
    process: Process,
    startup: Option<Probe>,
    liveness: Option<Probe>,
    readiness: Option<Probe>,
}

struct Life<'a> {
    node: &'a Node,
    pod: watch::Receiver<Value>,
    container: Value,
    address: String,
    root: std::path::PathBuf,
    volumes: Volumes,
    observed: Observed,
    running: Option<Running>,
}

impl<'a> Life<'a> {
    fn new(node: &'a Node, pod: watch::Receiver<Value>) -> Self {
        let first = pod.borrow().clone();
        let container = first["spec"]["containers"][0].clone();
        let root = container::make_root(node, &first);
        let volumes = Volumes::new(&first, &container, &root);
        let address = node.address();
        Self { node, pod, container, address, root, volumes, observed: Observed::default(), running: None }
    }

    async fn run(mut self) {
        let mut told = None;
        while self.pod.borrow()["metadata"]["deletionTimestamp"].is_null() {
            let pod = self.pod.borrow().clone();
            if let Err(why) = self.volumes.update(&self.node.api, &pod).await {
                self.note(&pod, &why);
            } else if self.observed.ended.is_none() {
                self.look_after(&pod).await;
            }
            // Before its first process, a pod is as the scheduler left it.
            let begun = self.running.is_some() || self.observed.ended.is_some();
            if begun && told != Some(self.observed) {
                let status = status::status(&pod, &self.address, &self.observed);
                if status::patch(&self.node.api, &pod, &status).await {
                    told = Some(self.observed);
                }
            }
            sleep(TICK).await;
        }
        self.stop().await;
    }

    /// Starts what does not run, asks what does.
    async fn look_after(&mut self, pod: &Value) {
        let Some(running) = &mut self.running else {
            let process = container::start(self.node, pod, &self.container, &self.root, &self.address);
            let probe = |name| Probe::of(&self.container, name);
            let (startup, liveness, readiness) =
                (probe("startupProbe"), probe("livenessProbe"), probe("readinessProbe"));
            let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
            self.node.processes.lock().unwrap().extend(process.id().map(|id| (name, id)));
            self.running = Some(Running { process, startup, liveness, readiness });
            return;
        };
        if let Some(status) = running.process.ended() {
            let always = pod["spec"]["restartPolicy"] == "Always";
            let ended = (!always).then_some(status);
            let restarts = self.observed.restarts + u32::from(always);
            self.observed = Observed { restarts, ended, ..Observed::default() };
            self.running = None;
            // The first time at once, then after a while, as a kubelet does.
            sleep(Duration::from_millis(500) * restarts.saturating_sub(1).min(10)).await;
            return;
        }
        self.observed.started = ask(&mut running.startup, &self.address).await;
        if self.observed.started {
            ask(&mut running.liveness, &self.address).await;
            self.observed.ready = ask(&mut running.readiness, &self.address).await;
        }
        if [&running.startup, &running.liveness].into_iter().flatten().any(Probe::failed) {
            running.process.signal(Signal::KILL);
        }
    }

    /// Asks the container to end, waits as long as the pod grants, and removes the pod.
    async fn stop(&mut self) {
        let pod = self.pod.borrow().clone();
        let grace = Duration::from_secs(pod["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(30));
        if let Some(running) = &mut self.running {
            let end = Instant::now() + grace;
            running.process.signal(Signal::TERM);
            while running.process.ended().is_none() && Instant::now() < end {
                sleep(Duration::from_millis(20)).await;
            }
        }
        self.running = None;
        super::remove(&self.node.api, &pod).await;
        drop(fs::remove_dir_all(&self.root));
    }

    /// Says what keeps a pod from being started.
    fn note(&self, pod: &Value, why: &str) {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let log = self.node.logs.join(format!("{name}.kubelet.log"));
        fs::write(log, format!("{why}\n")).unwrap();
    }
}

/// What a probe says; without one, all is well.
async fn ask(probe: &mut Option<Probe>, address: &str) -> bool {
    let Some(probe) = probe else { return true };
    probe.ask(address).await;
    probe.succeeded
}
