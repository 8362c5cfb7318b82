//! Pods that are made to take long, while everybody else's are reviewed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fabric_engine::policy_set::PolicySet;
use fabric_injector::builtin;
use hyper::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::api_server::{ApiServer, Listing};
use super::certificates::Site;
use super::client::{Client, Connection};
use super::eventually;
use super::reviews::{pod, response, review};
use super::server::{Server, serve};

/// How long the attack with one input goes on.
const ATTACK: Duration = Duration::from_secs(2);
const CONNECTIONS: usize = 8;

/// A review in another namespace.
fn elsewhere(uid: &str, pod: &Value) -> Vec<u8> {
    let mut review: Value = serde_json::from_slice(&review(uid, pod)).unwrap();
    review["request"]["namespace"] = "elsewhere".into();
    review.to_string().into_bytes()
}

fn list(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

fn affinity(terms: &Value) -> Value {
    let mut pod = pod();
    pod["spec"]["affinity"] = json!({"nodeAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    pod
}

fn term(label: &str, values: &Value) -> Value {
    json!({"matchExpressions": [{"key": label, "operator": "NotIn", "values": values}]})
}

/// The path and the body of each attack.
fn attacks() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let mut merges = pod();
    merges["metadata"]["annotations"]["networking.gke.io/interfaces"] =
        format!("a: &a {{k: v}}\n{}", "<<: *a\n".repeat(20_000)).into();
    let mut tolerations = pod();
    tolerations["spec"]["tolerations"] = list(80_000, |at| json!({"key": "t", "value": format!("{at}")}));
    let manifest = format!("a: &a {{k: v}}\nb:\n{}", "  <<: *a\n".repeat(20_000));
    let workflow = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "w", "operation": "CREATE", "namespace": "team-a",
            "kind": {"group": "argoproj.io", "version": "v1alpha1", "kind": "Workflow"},
            "object": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
                "spec": {"templates": list(8, |_| json!({"resource": {"manifest": manifest}}))}}},
    });
    let advised = |spec: Value, annotations: Value| {
        let object = json!({"apiVersion": "example.com/v1", "kind": "Train",
            "metadata": {"name": "w", "annotations": annotations}, "spec": spec});
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "w",
            "operation": "CREATE", "namespace": "team-a", "object": object,
            "kind": {"group": "example.com", "version": "v1", "kind": "Train"}}})
        .to_string()
        .into_bytes()
    };
    let small = json!({"spec": {"containers": [{"name": "a", "image": "x",
        "resources": {"limits": {"nvidia.com/gpu": 8}}}]}});
    let pods = list(3_000, |_| small.clone());
    let keys: serde_json::Map<String, Value> =
        (0..5_000).map(|at| (format!("multi-node-networking{at}"), json!("x"))).collect();
    let of_labels = |count: usize| affinity(&list(count, |at| term(&format!("l{at}"), &json!(["x"]))));
    vec![
        ("merge keys", "/mutate?timeout=2s", review("a", &merges)),
        ("terms", "/mutate?timeout=2s", review("a", &of_labels(20_000))),
        ("terms in 28 KB", "/mutate?timeout=2s", review("a", &of_labels(300))),
        (
            "values",
            "/mutate?timeout=2s",
            review("a", &affinity(&json!([term("l", &list(100_000, |at| json!(format!("{at}"))))]))),
        ),
        ("tolerations", "/mutate?timeout=2s", review("a", &tolerations)),
        ("manifests", "/validate-workloads?timeout=2s", workflow.to_string().into_bytes()),
        (
            "a long key around pods",
            "/validate-workloads?timeout=2s",
            advised(json!({"k".repeat(100_000): pods}), json!({})),
        ),
        (
            "annotations around pods",
            "/validate-workloads?timeout=2s",
            advised(json!({"pods": pods}), Value::Object(keys)),
        ),
    ]
}

/// The longest times that others waited.
#[derive(Debug, Default)]
struct Waited {
    small: Duration,
    large: Duration,
    live: Duration,
}

impl Waited {
    /// Asks for everything once, on connections of its own.
    async fn once(&mut self, server: &Server, client: &Client) {
        let mut large = pod();
        large["spec"]["containers"][0]["args"] = json!(["x".repeat(100 << 10)]);
        for (longest, pod) in [(&mut self.small, pod()), (&mut self.large, large)] {
            let begun = Instant::now();
            let reply = client.post(elsewhere("other", &pod)).await.unwrap();
            assert_eq!(response(&reply, "other")["patchType"], "JSONPatch");
            *longest = begun.elapsed().max(*longest);
        }
        let begun = Instant::now();
        assert_eq!(server.status("/livez").await, 200);
        self.live = begun.elapsed().max(self.live);
    }
}

/// A connection, once the server has time for one.
async fn connected(client: &Client) -> Connection {
    loop {
        if let Ok(connection) = client.connect().await {
            return connection;
        }
    }
}

/// Attacks by some clients, each of which sends these bodies one after the other, while others ask for everything.
async fn attack(
    (server, client): (&Server, &Client),
    what: &str,
    clients: usize,
    path: &'static str,
    bodies: Vec<Vec<u8>>,
) -> Waited {
    let goes_on = Arc::new(AtomicBool::new(true));
    let bodies = Arc::new(bodies);
    let attackers: Vec<_> = (0..clients)
        .map(|number| {
            let (client, bodies, goes_on) = (client.clone(), Arc::clone(&bodies), Arc::clone(&goes_on));
            tokio::spawn(async move {
                let mut answered = 0;
                let mut connection = connected(&client).await;
                for at in number.. {
                    if !goes_on.load(Ordering::Relaxed) {
                        break;
                    }
                    let body = bodies[at * clients % bodies.len()].clone();
                    match connection.begin(Method::POST, path, body.into()).await {
                        Ok(reply) => {
                            assert!([200, 408, 429].contains(&reply.status), "{}", reply.text());
                            answered += 1;
                        }
                        Err(_) => connection = connected(&client).await,
                    }
                }
                answered
            })
        })
        .collect();
    let (begun, mut waited) = (Instant::now(), Waited::default());
    while begun.elapsed() < ATTACK {
        waited.once(server, client).await;
        sleep(Duration::from_millis(20)).await;
    }
    goes_on.store(false, Ordering::Relaxed);
    let mut answered = 0;
    for attacker in attackers {
        answered += attacker.await.unwrap();
    }
    if std::env::var_os("FABRIC_COST").is_some() {
        #[allow(clippy::print_stderr, reason = "what the caller asked for")]
        {
            eprintln!("{what}: {answered} answers to the attack; the others waited {waited:?}");
        }
    }
    waited
}

#[tokio::test(flavor = "multi_thread")]
async fn under_attack_everybody_else_is_served_in_time() {
    let (site, api) = (Site::new(), ApiServer::start(Listing::Nodes(vec!["gce"; 1_000])).await);
    let mut command = serve(&["--policy", "gcp-tcpxo", "--tls-dir", &site.path(""), "--watch-nodes"]);
    let server = Server::spawn(command.env("KUBECONFIG", api.kubeconfig())).await;
    let client = site.client(&server);
    eventually("the nodes are known", async || server.get("/readyz?verbose").await.text().contains("1000"))
        .await;
    for (what, path, body) in attacks() {
        let waited = attack((&server, &client), what, CONNECTIONS, path, vec![body]).await;
        // On a machine with other things to do, and without optimization.
        assert!(waited.small < Duration::from_secs(10), "{what}: {waited:?}");
        assert!(waited.large < Duration::from_secs(18), "{what}: {waited:?}");
        assert!(waited.live < Duration::from_secs(5), "{what}: {waited:?}");
    }
}

/// Pods of 1 KB that select the machines of a policy, each in another combination.
fn combinations() -> Vec<Vec<u8>> {
    let policy = builtin::POLICIES.iter().find(|policy| policy.name == "oci-sriov").unwrap();
    let policies = PolicySet::new(vec![(policy.definition().unwrap(), BTreeMap::new())]).unwrap();
    let mut labels: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for selected in policies.policies()[0].known_nodes().flat_map(|nodes| nodes.labels) {
        labels.entry(selected.label.clone()).or_default().extend(selected.values.clone());
    }
    let mut random = fastrand::Rng::with_seed(48);
    let mut pod = || {
        let expressions: Value = labels
            .iter_mut()
            .map(|(label, values)| {
                random.shuffle(values);
                json!({"key": label, "operator": "In", "values": values[..values.len().min(15)]})
            })
            .collect();
        review("a", &affinity(&json!([{"matchExpressions": expressions}])))
    };
    (0..2_000).map(|_| pod()).collect()
}

/// What users can send from one namespace or from many: the servers evaluate it in the turns of each namespace, and within
/// its share.
#[tokio::test(flavor = "multi_thread")]
async fn no_namespace_delays_or_excludes_the_others() {
    let site = Site::new();
    let server = site.serve(&["--policy", "oci-sriov", "--max-in-flight", "32"]).await;
    let client = site.client(&server);
    let mut claims = pod();
    claims["spec"]["resourceClaims"] = list(
        480,
        |at| json!({"name": format!("claim-{at}"), "resourceClaimTemplateName": format!("template-{at}")}),
    );
    let mut containers = pod();
    let container = containers["spec"]["containers"][0].clone();
    containers["spec"]["containers"] = list(180, |at| {
        let mut container = container.clone();
        container["name"] = format!("c{at}").into();
        container
    });
    let of_many = |pod: &Value| {
        let mut review: Value = serde_json::from_slice(&review("a", pod)).unwrap();
        let mut named = |number| {
            review["request"]["namespace"] = format!("team-{number}").into();
            review.to_string().into_bytes()
        };
        (0..9).map(&mut named).collect()
    };
    let mut largest = pod();
    largest["spec"]["containers"][0]["args"] = list(100, |_| json!("x".repeat(70_000)));
    for (what, clients, bodies) in [
        ("combinations of labels", CONNECTIONS, combinations()),
        ("claims", CONNECTIONS, vec![review("a", &claims)]),
        ("all places", 40, vec![review("a", &containers)]),
        ("all places of many namespaces", 50, of_many(&containers)),
        ("all memory", 16, vec![review("a", &largest)]),
        ("all memory of many namespaces", 16, of_many(&largest)),
    ] {
        let waited = attack((&server, &client), what, clients, "/mutate?timeout=10s", bodies).await;
        assert!(waited.small < Duration::from_secs(6), "{what}: {waited:?}");
    }
    let peak = server.peak_memory();
    assert!(peak < 256 << 20, "{peak}");
}

/// The cache of policies for nodes has their labels as keys, which may be as long as a pod.
#[tokio::test]
async fn long_values_of_labels_take_little_memory() {
    let site = Site::new();
    let server = site.serve_aws(&[]).await;
    let client = site.client(&server);
    let mut pod = pod();
    for number in 0..120 {
        let value = format!("{number}-{}", "x".repeat(700_000));
        pod["spec"]["nodeSelector"] = json!({"nvidia.com/gpu.product": value});
        client.post(review("long", &pod)).await.unwrap();
    }
    let peak = server.peak_memory();
    assert!(peak < 128 << 20, "{peak}");
}

/// A review that would take gigabytes is refused before it takes them.
#[tokio::test]
async fn very_many_containers_take_little_memory() {
    let site = Site::new();
    let server = site.serve_aws(&[]).await;
    let mut pod = pod();
    pod["spec"]["containers"] = list(490_000, |_| json!({}));
    let reply = site.client(&server).post(review("many", &pod)).await.unwrap();
    let refused = response(&reply, "many");
    let message = refused["status"]["message"].as_str().unwrap();
    assert!(message.contains("MiB of memory that one may take"), "{message}");
    let peak = server.peak_memory();
    assert!(peak < 192 << 20, "{peak}");
}
