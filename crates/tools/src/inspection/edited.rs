//! What a hand or another controller changed in the registration, next to the chart.

use serde_json::Value;

use super::release::{WEBHOOK, is_other_version};
use super::{Read, Seen, list, text};
use crate::manifests::{GUARD, rendered};

/// The name of the webhook for advice on workloads.
const ADVICE: &str = "workloads.fabric-injector.io";
/// The fields of a webhook that are the same for all values of the chart.
const OF_WEBHOOK: [&str; 6] = [
    "clientConfig/service/path",
    "clientConfig/service/port",
    "matchPolicy",
    "objectSelector",
    "reinvocationPolicy",
    "rules",
];
/// The same of the guard and its binding.
const OF_GUARD: [&str; 6] = [
    "spec/matchConstraints/excludeResourceRules",
    "spec/matchConstraints/matchPolicy",
    "spec/matchConstraints/objectSelector",
    "spec/matchConstraints/resourceRules",
    "spec/matchResources",
    "spec/validations/0/expression",
];
/// The longest values that are printed, in bytes.
const PRINTED: usize = 400;

/// What is said of the first of these fields that is not that of the object of the chart which `is_same` finds. API servers
/// write defaults, and leave out what is empty. The chart of another version is not known.
fn other_field(
    seen: &Seen<'_>,
    object: &Value,
    paths: &[&str],
    is_same: impl Fn(&Value) -> bool,
) -> Option<String> {
    if is_other_version(seen) {
        return None;
    }
    let of_chart: Vec<Value> = rendered().filter_map(Result::ok).collect();
    let entries = of_chart.iter().flat_map(|one| list(one, "webhooks").chain([one]));
    let of_chart = entries.into_iter().find(|one| is_same(one))?;
    paths.iter().find_map(|path| {
        let [found, wanted] =
            [object, of_chart].map(|one| one.pointer(&format!("/{path}")).unwrap_or(&Value::Null));
        // As values: API servers return maps in another order.
        if found == wanted {
            return None;
        }
        let (field, values) =
            (path.replace('/', "."), format!("`{found}`, and that of the chart `{wanted}`"));
        let is_long = values.len() > PRINTED;
        Some(if is_long {
            format!("its `{field}` is not that of the chart")
        } else {
            format!("its `{field}` is {values}")
        })
    })
}

/// What was changed in the guard or in its binding.
pub(super) fn edited_guard(seen: &Seen<'_>, object: &Value) -> Option<String> {
    let is_same = |one: &Value| one["kind"] == object["kind"] && one["metadata"]["name"] == GUARD;
    other_field(seen, object, &OF_GUARD, is_same)
}

/// What was changed in the entry of a webhook.
pub(super) fn edited(seen: &Seen<'_>, entry: &Value) -> Option<String> {
    // That of the webhook for pods is a value of the chart.
    let more = if entry["name"] == WEBHOOK { None } else { Some("failurePolicy") };
    let paths: Vec<&str> = OF_WEBHOOK.into_iter().chain(more).collect();
    if let Some(other) = other_field(seen, entry, &paths, |one| one["name"] == entry["name"]) {
        return Some(other);
    }
    let service = &entry["clientConfig"]["service"];
    let (service, namespace) = (text(service, "name"), text(service, "namespace"));
    let (servers, of_servers) = seen.release.place().filter(|servers| *servers != (service, namespace))?;
    let calls = format!("it calls the Service `{namespace}/{service}`");
    Some(format!("{calls}, and the servers are those of `{of_servers}/{servers}`"))
}

/// What was changed in the entry of the webhook for pods. That for advice has the same namespaces, and the servers have
/// the same answer to faults.
pub(super) fn edited_for_pods(seen: &Seen<'_>, entry: &Value) -> Option<String> {
    if let Some(edited) = edited(seen, entry) {
        return Some(edited);
    }
    if of_advice(&seen.facts.advice).any(|one| one["namespaceSelector"] != entry["namespaceSelector"]) {
        return Some(format!("its `namespaceSelector` and that of `{ADVICE}` are not the same"));
    }
    let on_error = seen.release.option("--on-error").next();
    let wanted = if on_error == Some("allow") { "Ignore" } else { "Fail" };
    let is_other = entry["failurePolicy"] != wanted && seen.release.option("--mode").next() != Some("audit");
    (on_error.is_some() && is_other).then(|| {
        format!(
            "its `failurePolicy` is `{}`, and that of the servers `{wanted}`",
            text(entry, "failurePolicy")
        )
    })
}

/// The entry of the webhook for advice on workloads.
fn of_advice(advice: &Read) -> impl Iterator<Item = &Value> {
    advice.iter().flat_map(|all| list(all, "webhooks")).filter(|entry| entry["name"] == ADVICE)
}

/// What selects the same namespaces as the webhook, unless somebody edited one of them: the webhook for advice, and the
/// guard, which also has that of the servers.
pub fn other_selectors<'f>(advice: &'f Read, guard: &'f Read) -> Vec<&'f Value> {
    let of_guard = guard.iter().map(|policy| &policy["spec"]["matchConstraints"]);
    of_advice(advice).chain(of_guard.filter(|constraints| constraints.is_object())).collect()
}
