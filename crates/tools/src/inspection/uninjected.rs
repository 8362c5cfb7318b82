//! The running pods that requested the fabric and do not use it, and the pods that were refused lately.

use std::collections::BTreeSet;

use serde_json::Value;

use fabric_engine::admission::Mode;
use fabric_yaml::counted;

use super::workloads::Refused;
use super::{Found, NOT_CHECKED, Seen, fail, list, names, ok, text, unread};

/// The limit on lines about Events.
const MOST_EVENTS: usize = 5;
/// The parts of messages about pods that the webhook or the guard refused, or for which no server answered.
const REFUSALS: &[&str] = &[
    "denied the request: fabric-injector: ",
    "failed calling webhook \"pods.fabric-injector.io\"",
    "fabric-injector did not inject it",
];

pub(super) fn pods(seen: &Seen<'_>) -> Found {
    seen.policies()?;
    let all = seen.facts.workloads.as_ref().map_err(unread)?;
    let (count, be) =
        (counted(all.uninjected, "running pod"), if all.uninjected == 1 { "is" } else { "are" });
    if seen.release.option("--mode").any(|mode| mode == Mode::Audit.name()) {
        return ok(format!("{count} requested the fabric and {be} not injected, in audit mode"));
    }
    let mut found = Vec::new();
    if all.uninjected > 0 {
        let workloads = names(&all.uninjected_workloads);
        found.push(format!("{count} requested the fabric and {be} not injected: {workloads}"));
    }
    let reasons = all.without_fabric.iter();
    found.extend(reasons.map(|(reason, workloads)| format!("{}: {reason}", names(workloads))));
    match &seen.facts.events {
        Ok(events) => found.extend(refusals(events, all)),
        // What the pods show fails all the same.
        Err(error) if found.is_empty() => return Err(unread(error)),
        Err(error) => found.push(format!("Events are {NOT_CHECKED}{error}")),
    }
    if found.is_empty() {
        return ok("each running pod that requested the fabric is injected, and none was refused lately");
    }
    let remedy = "correct what a line names in the pod template, and create the pods again: running ones stay as they are";
    fail(found.join("\n"), remedy)
}

/// A line for each workload whose pods were refused, by its Events. A workload whose pods were injected later was
/// refused for a reason that is over.
fn refusals(events: &Value, all: &Refused) -> Vec<String> {
    let of_event = |event: &Value| {
        let (message, object) = (text(event, "message"), &event["involvedObject"]);
        let owner =
            format!("{} {}/{}", text(object, "kind"), text(object, "namespace"), text(object, "name"));
        let is_refusal = REFUSALS.iter().any(|part| message.contains(part));
        let is_over = all.injected.get(&owner).is_some_and(|newest| newest.as_str() >= last_time(event));
        (is_refusal && !is_over).then(|| format!("new pods of `{owner}` are refused: {message}"))
    };
    let lines: BTreeSet<String> = list(events, "items").filter_map(of_event).collect();
    let more = lines.len().saturating_sub(MOST_EVENTS);
    let more = (more > 0).then(|| format!("and {}", counted(more, "more Event")));
    lines.into_iter().take(MOST_EVENTS).chain(more).collect()
}

/// The time of the last occurrence of an Event.
pub fn last_time(event: &Value) -> &str {
    let times = [&event["series"]["lastObservedTime"], &event["lastTimestamp"], &event["eventTime"]];
    let own = times.into_iter().find_map(Value::as_str);
    own.unwrap_or_else(|| text(&event["metadata"], "creationTimestamp"))
}
