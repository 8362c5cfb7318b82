//! Certificates and registration, while pods are made all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::values;
use crate::api::Api;
use crate::cluster::{Cluster, DEPLOYMENT};
use crate::eventually;
use crate::helm::copy_chart;
use crate::workloads::{TRIGGER, annotated_template, efa_devices, is_injected, job, pod};

const WEBHOOK: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fabric-injector";
const SECRET: &str = "/api/v1/namespaces/fabric-injector/secrets/fabric-injector-tls";
/// How soon what somebody broke has to be right again.
const SECONDS: Duration = Duration::from_secs(10);

/// How much earlier than something happened a request may have begun that meets it.
pub(super) const SLACK: Duration = Duration::from_millis(200);

/// What became of the pods that a client asked for.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) injected: usize,
    not_injected: Vec<Value>,
    pub(super) refused: Vec<(Instant, String)>,
}

/// Clients that ask for annotated pods without a pause, as dry runs, each on its way through registration, Service and
/// server.
pub(super) struct Clients {
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<Tally>>,
}

impl Clients {
    pub(super) fn start(api: &Api) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let tasks = (0..2).map(|_| tokio::spawn(ask(api.clone(), stop.clone()))).collect();
        Self { stop, tasks }
    }

    pub(super) async fn stop(mut self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Tally::default();
        for task in std::mem::take(&mut self.tasks) {
            let tally = task.await.unwrap();
            all.injected += tally.injected;
            all.not_injected.extend(tally.not_injected);
            all.refused.extend(tally.refused);
        }
        all
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

async fn ask(api: Api, stop: Arc<AtomicBool>) -> Tally {
    let mut tally = Tally::default();
    let asked = pod("default", "asked", &annotated_template());
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let reply = api.post("/api/v1/namespaces/default/pods?dryRun=All", &asked).await;
        if reply.status != 201 {
            tally.refused.push((begun, reply.message().to_owned()));
        } else if is_injected(&reply.body) && efa_devices(&reply.body) == "32" {
            tally.injected += 1;
        } else {
            tally.not_injected.push(reply.body);
        }
        sleep(Duration::from_millis(20)).await;
    }
    tally
}

impl Tally {
    /// All pods were injected, but for those that were asked for within these times.
    pub(super) fn assert_injected_except(&self, windows: &[(Instant, Instant)]) {
        assert!(self.not_injected.is_empty(), "pods were admitted as they came: {:?}", self.not_injected[0]);
        let outside = |at: &Instant| !windows.iter().any(|(from, to)| from <= at && at <= to);
        let refused: Vec<_> = self.refused.iter().filter(|(at, _)| outside(at)).collect();
        assert!(
            refused.is_empty(),
            "{} pods were refused, {} injected: {refused:?}",
            refused.len(),
            self.injected
        );
        assert!(self.injected > 20, "{}", self.injected);
    }
}

/// Has controllers make annotated pods, and asserts that each of them was injected.
async fn make_jobs(cluster: &Cluster, namespace: &str) {
    let mut template = annotated_template();
    // More pods than there are nodes for: it is their admission that counts.
    template["spec"]["schedulerName"] = json!("nobody");
    for number in 0..5 {
        cluster.api.create(&job(namespace, &format!("train-{number}"), 4, &template)).await.ok();
    }
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    eventually("the controllers make their pods", async || cluster.api.list(&pods).await.len() == 20).await;
    for pod in cluster.api.list(&pods).await {
        assert!(is_injected(&pod) && pod["metadata"]["annotations"][TRIGGER] == "true", "{pod}");
    }
}

/// Arguments with which a certificate and its CA are replaced within a minute. The chart keeps the defaults of the program.
const SHORT_DURATIONS: &str = "- --certificate-duration=24s
- --ca-duration=45s
- --shutdown-delay=2s
- --watch-nodes
";

async fn bundle(cluster: &Cluster) -> Option<String> {
    let webhook = cluster.api.get(WEBHOOK).await.ok();
    webhook["webhooks"][0]["clientConfig"]["caBundle"]
        .as_str()
        .filter(|bundle| !bundle.is_empty())
        .map(str::to_owned)
}

async fn certificate(cluster: &Cluster) -> Option<String> {
    stored(cluster, "tls.crt").await
}

async fn authority(cluster: &Cluster) -> Option<String> {
    stored(cluster, "ca.crt").await
}

async fn stored(cluster: &Cluster, key: &str) -> Option<String> {
    let secret = cluster.api.get(SECRET).await;
    secret.body["data"][key].as_str().map(str::to_owned)
}

/// An existing certificate keeps its duration; its Secret is deleted with the registration.
async fn install_with_short_durations(cluster: &Cluster) {
    cluster.uninstall().await;
    eventually("the Secret is gone", async || certificate(cluster).await.is_none()).await;
    let folder = tempfile::tempdir().unwrap();
    copy_chart(folder.path(), &[("_server.tpl", "- --watch-nodes\n", SHORT_DURATIONS)]);
    cluster.helm.install_from(folder.path(), &values()).await;
    cluster.serves().await;
}

pub(super) async fn certificates_and_authorities_rotate_and_every_pod_is_injected(cluster: &Cluster) {
    install_with_short_durations(cluster).await;
    let namespace = cluster.namespace("rotation").await;
    let clients = Clients::start(&cluster.api);
    let (mut certificates, mut bundles) = (Vec::new(), Vec::new());
    // Bundles: with the first authority, with the next one as well, with that alone.
    eventually("certificates and authorities change", async || {
        for (seen, now) in [
            (&mut certificates, certificate(cluster).await.unwrap()),
            (&mut bundles, bundle(cluster).await.unwrap()),
        ] {
            if seen.last() != Some(&now) {
                seen.push(now);
            }
        }
        certificates.len() > 2 && bundles.len() > 2
    })
    .await;
    make_jobs(cluster, &namespace).await;
    clients.stop().await.assert_injected_except(&[]);
    cluster.remove(&namespace).await;
}

/// The CA expires within seconds when the servers restart with durations of days and years.
pub(super) async fn durations_become_longer_and_every_pod_is_injected(cluster: &Cluster) {
    install_with_short_durations(cluster).await;
    let clients = Clients::start(&cluster.api);
    let before = authority(cluster).await;
    cluster.ensure(&values()).await;
    eventually("the CA is another", async || authority(cluster).await != before).await;
    // Longer than any certificate with a short duration is valid.
    sleep(Duration::from_secs(45)).await;
    clients.stop().await.assert_injected_except(&[]);
}

pub(super) async fn servers_roll_and_every_pod_is_injected(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let namespace = cluster.namespace("rolling").await;
    let clients = Clients::start(&cluster.api);
    let before = names(&cluster.servers().await);
    let template = json!({"metadata": {"annotations": {"rolled": "once"}}});
    cluster.api.merge(DEPLOYMENT, &json!({"spec": {"template": template}})).await.ok();
    make_jobs(cluster, &namespace).await;
    eventually("all servers are others", async || {
        let deployment = cluster.api.get(DEPLOYMENT).await.ok();
        let now = names(&cluster.api.list(crate::cluster::SERVERS).await);
        deployment["status"]["readyReplicas"] == 2
            && now.len() == 2
            && now.iter().all(|name| !before.contains(name))
    })
    .await;
    clients.stop().await.assert_injected_except(&[]);
    cluster.remove(&namespace).await;
}

pub(super) async fn a_server_is_killed_and_every_pod_is_injected(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let namespace = cluster.namespace("killed").await;
    let clients = Clients::start(&cluster.api);
    sleep(Duration::from_millis(500)).await;
    let ((), (killed, back)) = tokio::join!(make_jobs(cluster, &namespace), kill_one(cluster));
    let tally = clients.stop().await;
    eprintln!("a killed server was back after {:?}; {} pods refused", back - killed, tally.refused.len());
    // What it was answering, and what reaches its address before API servers are told: the dead do not answer. Those
    // are tried again by the controllers, whose pods are all injected.
    tally.assert_injected_except(&[(killed, back)]);
    cluster.remove(&namespace).await;
}

/// Kills a server, and gives from when until when pods may be refused for it: until it is ready.
pub(super) async fn kill_one(cluster: &Cluster) -> (Instant, Instant) {
    let victim = cluster.servers().await.remove(0);
    let name = victim["metadata"]["name"].as_str().unwrap();
    let killed = Instant::now();
    cluster.kubelet.signal(name, Signal::KILL);
    eventually("the server is there again", async || {
        cluster.servers().await.iter().all(|pod| {
            pod["status"]["containerStatuses"][0]["ready"] == true
                && (pod["metadata"]["name"] != *name || restarts(pod) > restarts(&victim))
        })
    })
    .await;
    (killed - SLACK, Instant::now())
}

pub(super) fn restarts(pod: &Value) -> u64 {
    pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap()
}

fn names(pods: &[Value]) -> Vec<String> {
    pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

pub(super) async fn an_emptied_bundle_and_a_deleted_secret_heal(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    let namespace = cluster.namespace("healing").await;
    let clients = Clients::start(&cluster.api);
    sleep(Duration::from_millis(500)).await;
    let mut windows = Vec::new();

    let right = bundle(cluster).await;
    let patch = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    let emptied = Instant::now();
    cluster.api.patch(WEBHOOK, &patch).await.ok();
    eventually("`caBundle` is right again", async || bundle(cluster).await == right).await;
    assert!(emptied.elapsed() < SECONDS, "{:?}", emptied.elapsed());
    eprintln!("an emptied `caBundle` was right again after {:?}", emptied.elapsed());
    // Registrations are not themselves admitted by anything, so nobody can keep an API server from believing what
    // somebody wrote; it hears of it a moment after both writes.
    windows.push((emptied - SLACK, Instant::now() + Duration::from_secs(1)));

    sleep(Duration::from_secs(1)).await;
    let deleted = Instant::now();
    cluster.api.delete(SECRET).await.ok();
    let healed = async {
        eventually("the Secret is there again", async || certificate(cluster).await.is_some()).await;
        // The servers read it every 30 seconds, and do not need it until then.
        assert!(deleted.elapsed() < SECONDS + Duration::from_secs(30), "{:?}", deleted.elapsed());
        eprintln!("a deleted Secret was there again after {:?}", deleted.elapsed());
    };
    tokio::join!(healed, make_jobs(cluster, &namespace));
    let tally = clients.stop().await;
    eprintln!("{} pods injected, {} refused while `caBundle` was empty", tally.injected, tally.refused.len());
    tally.assert_injected_except(&windows);
    cluster.remove(&namespace).await;
}
