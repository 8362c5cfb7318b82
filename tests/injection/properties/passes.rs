//! A pod is injected once, whatever happens in between.

use super::adapter::{self, Result as Outcome};
use super::generator::defaults;
use super::generator::{items, pods};
use super::pair::{Pair, Verdict, fail};
use super::places::clean;
use serde_json::Value;

pub(crate) fn no_entry_is_added_twice(pair: &Pair<'_>) -> Verdict {
    let Some(after) = pair.mutated() else { return Ok(()) };
    for (list, at, container) in pods::containers(after) {
        let before = &pair.pod["spec"][list][at];
        for (entries, key) in [("env", "name"), ("volumeMounts", "mountPath"), ("ports", "containerPort")] {
            let key_of = |entry: &Value| {
                let text = clean(entry[key].as_str().unwrap_or_default());
                let number = &entry["containerPort"];
                format!("{text}{number}{}", entry["protocol"].as_str().unwrap_or("TCP"))
            };
            let count = |container: &Value, wanted: &str| {
                items(&container[entries]).iter().filter(|entry| key_of(entry) == wanted).count()
            };
            for entry in items(&container[entries]) {
                let wanted = key_of(entry);
                if count(container, &wanted) > count(before, &wanted).max(1) {
                    return fail(entries, wanted);
                }
            }
        }
    }
    Ok(())
}

pub(crate) fn a_second_pass_changes_nothing(pair: &Pair<'_>) -> Verdict {
    pair.mutated().map_or(Ok(()), |pod| pair.again(pod))
}

pub(crate) fn a_pass_after_defaults_changes_nothing(pair: &Pair<'_>) -> Verdict {
    let Some(pod) = pair.mutated() else { return Ok(()) };
    // The pod came as the API server sends it to a webhook: completed.
    let mut before = pair.pod.clone();
    defaults::complete(&mut before);
    let completed = match adapter::inject(&pair.group.loaded, &before, &pair.context).outcome {
        Outcome::Mutated { mut pod, .. } => {
            defaults::complete(&mut pod);
            pair.again(&pod)
        }
        _ => Ok(()),
    };
    // Or by the command, as a template that is applied later.
    let mut pod = pod.clone();
    defaults::complete(&mut pod);
    completed.and_then(|()| pair.again(&pod))
}
