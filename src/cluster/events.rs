//! Events on the owners of pods, off the path of reviews.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::ApiResource;
use kube::{Client, Error};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio::time::{Duration, timeout};

use fabric_engine::admission::ForOwner;

use super::api::{cause, client};

/// The limit on queued pods. Those of one controller have the same warnings.
const QUEUE: usize = 256;
/// The period of the clock in which an owner gets at most one event with a code.
const REPEAT: Duration = Duration::from_mins(10);
/// The limit on events that are remembered.
const MOST_KNOWN: usize = 4_096;
/// The time limit for an answer of the API server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The length of the name of the owner in that of an event, which has at most 253 characters.
const MAX_NAME: usize = 230;

/// The queue of events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The newest last.
    waiting: Mutex<Vec<ForOwner>>,
    added: Notify,
}

impl Events {
    /// Creates events with the kubeconfig that `KUBECONFIG` names, else with the service account of the pod. `tell`
    /// gets the result of each.
    pub(crate) async fn start(
        tell: impl Fn(Result<bool, String>) + Send + 'static,
    ) -> anyhow::Result<Arc<Self>> {
        let client = client().await?;
        let events = Arc::<Self>::default();
        let queue = Arc::clone(&events);
        tokio::spawn(async move {
            let mut known = HashSet::new();
            loop {
                let Some(ForOwner { owner, warnings }) = queue.take() else {
                    queue.added.notified().await;
                    continue;
                };
                for (code, text) in warnings {
                    let event = event(&owner, &code, &text, SystemTime::now());
                    if is_new(&mut known, &event) {
                        let result = create(&client, &event).await;
                        tell(result);
                    }
                }
            }
        });
        Ok(events)
    }

    /// Adds to the queue. Returns whether it had space: if not, the newest of the namespace with the most is dropped.
    pub(crate) fn offer(&self, advice: ForOwner) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.push(advice);
        self.added.notify_one();
        let most = ranks(&waiting).into_iter().max().filter(|_| waiting.len() > QUEUE);
        most.map(|(_, at)| waiting.remove(at)).is_none()
    }

    /// The next: the oldest of the namespace with the fewest, so that the others do not wait for a flood of one.
    fn take(&self) -> Option<ForOwner> {
        let mut waiting = self.waiting.lock();
        let (_, at) = ranks(&waiting).into_iter().min()?;
        Some(waiting.remove(at))
    }
}

/// For each pod in the queue, how many its namespace has there, and its place.
fn ranks(waiting: &[ForOwner]) -> Vec<(usize, usize)> {
    let mut counts = HashMap::<_, usize>::new();
    let namespaces = waiting.iter().map(|advice| advice.owner["namespace"].as_str());
    namespaces.clone().for_each(|namespace| *counts.entry(namespace).or_default() += 1);
    namespaces.enumerate().map(|(at, namespace)| (counts[&namespace], at)).collect()
}

/// Returns whether this replica has not created the event yet, as far as it remembers.
fn is_new(known: &mut HashSet<String>, event: &Value) -> bool {
    if known.len() >= MOST_KNOWN {
        // The API server refuses a second event with the same name.
        known.clear();
    }
    known.insert(event["metadata"]["name"].as_str().unwrap_or_default().to_owned())
}

/// The event. All replicas use the same name, so only one of them creates it in each ten minutes of the clock.
fn event(owner: &Value, code: &str, text: &str, now: SystemTime) -> Value {
    let turn = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() / REPEAT.as_secs();
    let name: String = owner["name"].as_str().unwrap_or_default().chars().take(MAX_NAME).collect();
    let name = name.trim_end_matches(['.', '-']);
    // Replicas may be builds of different versions of Rust, whose hashers differ.
    let digest = Sha256::digest(format!("{} {code} {turn}", owner["uid"].as_str().unwrap_or_default()));
    let number = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    // `host_network` is `HostNetwork`.
    let words = code.split('_').filter_map(|word| word.split_at_checked(1));
    let reason: String = words.map(|(first, rest)| first.to_ascii_uppercase() + rest).collect();
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": format!("{name}.{number:016x}"),
            "namespace": owner["namespace"],
        },
        "eventTime": humantime::format_rfc3339_micros(now).to_string(),
        "reportingController": "fabric-injector.io/webhook",
        "reportingInstance": std::env::var("HOSTNAME").unwrap_or_else(|_| "fabric-injector".to_owned()),
        "action": "Inject",
        "reason": reason,
        "regarding": owner,
        "note": text,
        "type": "Warning",
    })
}

/// Creates an event. Returns whether it is new: another replica may have created it.
async fn create(client: &Client, event: &Value) -> Result<bool, String> {
    let namespace = event["metadata"]["namespace"].as_str().unwrap_or_default();
    let events: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<Event>(&()));
    let object = serde_json::from_value(event.clone()).map_err(|error| error.to_string())?;
    match timeout(REQUEST_TIMEOUT, events.create(&PostParams::default(), &object)).await {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(Error::Api(status))) if status.code == 409 => Ok(false),
        Ok(Err(error)) => Err(cause(&error)),
        Err(_) => Err("the API server did not answer in time".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str) -> Value {
        json!({"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "namespace": "team"})
    }

    #[test]
    fn an_owner_gets_one_event_with_a_code_in_each_period() {
        let mut known = HashSet::new();
        let mut is_new = |owner, code, seconds| {
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            super::is_new(&mut known, &event(&self::owner(owner), code, "text", now))
        };
        assert!(is_new("a", "host_network", 0));
        assert!(!is_new("a", "host_network", 599));
        assert!(is_new("a", "host_network", 600));
        assert!(is_new("a", "excluded", 0));
        assert!(is_new("b", "host_network", 0));
    }

    #[test]
    fn a_flood_of_one_namespace_drops_and_delays_only_its_own() {
        let events = Events::default();
        let of = |namespace: &str, name: usize| ForOwner {
            owner: json!({"name": name.to_string(), "namespace": namespace}),
            warnings: Vec::new(),
        };
        assert!((0..QUEUE).all(|name| events.offer(of("evil", name))));
        assert!(!events.offer(of("evil", QUEUE)));
        for namespace in ["a", "b"] {
            assert!(!events.offer(of(namespace, 0)));
        }
        let taken: Vec<_> = std::iter::from_fn(|| events.take()).collect();
        assert_eq!(taken[..2], [of("a", 0), of("b", 0)]);
        // Its oldest have stayed.
        assert_eq!(taken[2..], (0..QUEUE - 2).map(|name| of("evil", name)).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_remembered_has_a_limit() {
        let mut known = HashSet::new();
        for number in 0..3 * MOST_KNOWN {
            let event = event(&owner(&number.to_string()), "excluded", "text", SystemTime::UNIX_EPOCH);
            assert!(is_new(&mut known, &event));
            assert!(known.len() <= MOST_KNOWN);
        }
    }

    #[test]
    fn replicas_give_an_event_one_name_that_the_api_server_takes() {
        let long =
            json!({"name": format!("{}.x", "n".repeat(MAX_NAME - 1)), "uid": "a", "namespace": "team"});
        let event = |owner: &Value, code| event(owner, code, "text", SystemTime::UNIX_EPOCH);
        for owner in [owner("a"), long] {
            let name = |code| event(&owner, code)["metadata"]["name"].as_str().unwrap().to_owned();
            let first = name("host_network");
            assert!(first.len() <= 253 && !first.contains(".."), "{first}");
            assert_eq!(name("host_network"), first);
            assert_ne!(first, name("excluded"));
        }
        assert_eq!(event(&owner("a"), "host_network")["reason"], "HostNetwork");
    }
}
