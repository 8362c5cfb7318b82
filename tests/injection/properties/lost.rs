//! What a pod lacks of what it had, or has in another order.

use serde_json::{Value, json};

use super::places::{self, Place, clean};
use fabric_engine::{CLAIMS, NODES, SKIPPED, STAMP};

/// The annotations with lists of networks, to which a policy appends.
const LISTS: [&str; 3] =
    ["k8s.v1.cni.cncf.io/networks", "networking.gke.io/interfaces", "objects.test/interfaces"];

/// The first loss that no warning about a replaced value explains; the warnings are given by their paths.
pub(crate) fn unexplained<'w>(
    before: &Value,
    after: &Value,
    replaced: impl Iterator<Item = &'w str>,
) -> Option<(Place, String)> {
    let replaced: Vec<Place> = replaced.map(|path| places::without_list(&places::tokens(path))).collect();
    let explained = |place: &Place| {
        let place = &places::without_list(place);
        // A port is one value, and has the name that it was given.
        let port = |at: usize| at == 4 && place[3] == "ports";
        let same = |(at, (one, other)): (usize, (&String, &String))| clean(one) == clean(other) || port(at);
        replaced.iter().any(|path| path.iter().zip(place).enumerate().all(same))
    };
    lost(before, after).into_iter().find(|(place, _)| !explained(place))
}

/// What `after` lacks of what `before` has, or has in another order.
pub(crate) fn lost(before: &Value, after: &Value) -> Vec<(Place, String)> {
    let mut lost = Vec::new();
    keeps(before, after, &mut Vec::new(), &mut lost);
    lost
}

/// Notes what `after` lacks of what `before` has, or has in another order.
fn keeps(before: &Value, after: &Value, place: &mut Place, lost: &mut Vec<(Place, String)>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let kept = after.keys().filter(|key| before.contains_key(*key) && !is_record(key));
            if !kept.eq(before.keys().filter(|key| !is_record(key))) {
                lost.push((place.clone(), "keys are lost or reordered".to_owned()));
                return;
            }
            for (key, value) in before {
                // What the program notes is its own.
                if is_record(key) {
                    continue;
                }
                place.push(key.clone());
                keeps(value, after.get(key).unwrap_or(&Value::Null), place, lost);
                place.pop();
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            if after.len() < before.len() {
                lost.push((place.clone(), "entries are lost".to_owned()));
            }
            for (at, (before, after)) in before.iter().zip(after).enumerate() {
                let names = ["name", "mountPath"].map(|key| before[key].as_str());
                let name = names[1].or(names[0]).map_or_else(|| at.to_string(), str::to_owned);
                place.push(name);
                keeps(before, after, place, lost);
                place.pop();
            }
        }
        (Value::Null, _) => {}
        (Value::String(b), Value::String(a)) if is_list_in_text(place) && contains_in_order(a, b) => {}
        (before, after) if before == after => {}
        // A rule with `onConflict: replace` replaces a default without a warning.
        _ if is_default(place, before) => {}
        (before, after) => lost.push((place.clone(), format!("{before} became {after}"))),
    }
}

/// The program renews its annotations, and drops those that do not hold.
fn is_record(key: &str) -> bool {
    [STAMP, NODES, CLAIMS, SKIPPED].contains(&key)
}

fn is_default(place: &[String], value: &Value) -> bool {
    let default = match place.last().map_or("", String::as_str) {
        "dnsPolicy" => json!("ClusterFirst"),
        "enableServiceLinks" => json!(true),
        // The tag of the image decides.
        "imagePullPolicy" => return *value == "IfNotPresent" || *value == "Always",
        "restartPolicy" => json!("Always"),
        "schedulerName" => json!("default-scheduler"),
        "terminationGracePeriodSeconds" => json!(30),
        "terminationMessagePath" => json!("/dev/termination-log"),
        "terminationMessagePolicy" => json!("File"),
        _ => return false,
    };
    *value == default
}

fn is_list_in_text(place: &[String]) -> bool {
    place.last().is_some_and(|key| key == "value" || LISTS.contains(&key.as_str()))
}

/// Whether a text has all of another one's parts, in their order.
fn contains_in_order(after: &str, before: &str) -> bool {
    after.contains(before.trim().trim_end_matches(']').trim_end().trim_end_matches(','))
}
