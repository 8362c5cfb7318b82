//! What a kubelet does, for all nodes at once: it runs the pods that are bound to them.
//!
//! Pods of the program's own image are real: the program that was built for this run, as a process with the arguments,
//! the environment, the user and the volumes of its container, below a root of its own, with the token of its service
//! account. Its probes are asked. All other pods are only said to run; their volumes are mounted for who asks.
//!
//! One thing differs from a node: all pods share one network, in which each has an address. So a container that would
//! listen on `0.0.0.0` is told its pod's address instead.

mod container;
mod exec;
pub(crate) mod image;
pub(crate) mod logs;
mod probes;
mod status;
mod volumes;
mod worker;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::api::Api;
use super::nodes;
use image::Image;
use volumes::Volumes;
use worker::Worker;

pub(crate) use probes::get;

/// How often it looks. A real one is told, and looks at its volumes once a minute.
const TICK: Duration = Duration::from_millis(100);
const HEARTBEAT: Duration = Duration::from_secs(10);
const PODS: &str = "/api/v1/pods?resourceVersion=0";

/// What every pod needs of its node.
pub(crate) struct Node {
    api: Api,
    image: Image,
    folder: PathBuf,
    logs: PathBuf,
    addresses: AtomicU16,
    /// The newest process of each pod that is real, by its name.
    processes: Mutex<HashMap<String, Pid>>,
    /// The arguments of `prlimit` for each process that starts.
    limits: Mutex<Vec<String>>,
    /// The logs of pods that only are said to run.
    texts: logs::Texts,
    /// The roots of their containers.
    roots: logs::Roots,
}

impl Node {
    /// An address that no pod had before.
    fn address(&self) -> String {
        let number = self.addresses.fetch_add(1, Ordering::Relaxed);
        let [high, low] = number.to_be_bytes();
        format!("198.18.{high}.{low}")
    }
}

/// The kubelet of all nodes, for as long as the runtime lasts.
pub(crate) struct Kubelet {
    node: Arc<Node>,
}

impl Kubelet {
    /// Sends a signal to the process of a pod, which may have ended.
    pub(crate) fn signal(&self, pod: &str, signal: Signal) {
        let id = self.node.processes.lock().unwrap()[pod];
        let _ = kill_process(id, signal);
    }

    /// Sets the arguments of `prlimit` for containers that start from now on.
    pub(crate) fn limit(&self, arguments: &[&str]) {
        *self.node.limits.lock().unwrap() = arguments.iter().map(|&text| text.to_owned()).collect();
    }

    /// Sets the log of a pod.
    pub(crate) fn write_log(&self, pod: &str, text: &str) {
        self.node.texts.lock().unwrap().insert(pod.to_owned(), text.to_owned());
    }

    /// Sets the folder that stands for the root of a pod's containers where a command runs in them.
    pub(crate) fn set_root(&self, pod: &str, root: &Path) {
        self.node.roots.lock().unwrap().insert(pod.to_owned(), root.to_owned());
    }

    /// The files that a container of a pod would see, in a folder.
    pub(crate) async fn mount(&self, pod: &Value, container: &Value, root: &Path) {
        Volumes::new(pod, container, root).update(&self.node.api, pod).await.unwrap();
    }
}

/// Begins to run pods: in this folder, with their logs in the other one.
pub(crate) fn start(api: Api, folder: PathBuf, logs: PathBuf) -> Kubelet {
    let image = Image::new(&folder.join("image"));
    let node = Arc::new(Node {
        api,
        image,
        folder,
        logs,
        addresses: AtomicU16::new(0x0100),
        processes: Mutex::default(),
        limits: Mutex::default(),
        texts: logs::Texts::default(),
        roots: logs::Roots::default(),
    });
    let kubelet = Kubelet { node: node.clone() };
    tokio::spawn(async move {
        logs::serve(node.texts.clone(), node.roots.clone()).await;
        let mut workers: HashMap<String, Option<Worker>> = HashMap::new();
        // The first one says where logs are.
        let mut heartbeat = Instant::now();
        loop {
            if Instant::now() > heartbeat {
                nodes::heartbeat(&node.api).await;
                heartbeat = Instant::now() + HEARTBEAT;
            }
            tick(&node, &mut workers).await;
            sleep(TICK).await;
        }
    });
    kubelet
}

/// Looks at all pods once. `workers` has an entry for each that was begun; what only is said to run has no worker.
async fn tick(node: &Arc<Node>, workers: &mut HashMap<String, Option<Worker>>) {
    let Ok(reply) = node.api.try_send(hyper::Method::GET, PODS, "application/json", None).await else {
        return;
    };
    let Some(pods) = reply.body["items"].as_array() else { return };
    let mut gone: Vec<String> = workers.keys().cloned().collect();
    for pod in pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()) {
        let uid = pod["metadata"]["uid"].as_str().unwrap();
        gone.retain(|other| other != uid);
        if !workers.contains_key(uid) {
            let real = Image::is_of(pod) && pod["metadata"]["deletionTimestamp"].is_null();
            let worker = real.then(|| Worker::start(node.clone(), pod.clone()));
            if worker.is_none() {
                say_that_it_runs(node, pod).await;
            }
            workers.insert(uid.to_owned(), worker);
        }
        if let Some(worker) = &workers[uid] {
            worker.tell(pod.clone());
        } else if pod["metadata"]["deletionTimestamp"].is_string() {
            remove(&node.api, pod).await;
        }
    }
    for uid in gone {
        // A worker that is dropped takes its process with it.
        workers.remove(&uid);
    }
}

/// Marks a pod as running, unless it is over.
async fn say_that_it_runs(node: &Node, pod: &Value) {
    if ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase) {
        return;
    }
    status::patch(&node.api, pod, &status::running(pod, &node.address())).await;
}

/// Removes a pod whose containers are gone.
async fn remove(api: &Api, pod: &Value) {
    let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}});
    // It may be gone already.
    drop(api.delete_with(&path(pod), &options).await);
}

/// Where a pod is.
fn path(pod: &Value) -> String {
    let text = |key: &str| pod["metadata"][key].as_str().unwrap();
    format!("/api/v1/namespaces/{}/pods/{}", text("namespace"), text("name"))
}
