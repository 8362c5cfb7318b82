//! Whether the API server would take what a policy adds: checked on the sample pods, which are valid themselves.

use serde_json::{Map, Value};

use crate::core::quantity::Quantity;

/// What the API server would refuse, and the text by which the policy most likely names it.
pub(super) fn refusal(pod: &Value) -> Option<(String, String)> {
    let spec = &pod["spec"];
    let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    for container in list(&spec["initContainers"]).iter().chain(&list(&spec["containers"])) {
        let found = resources(&container["resources"])
            .or_else(|| security(&container["securityContext"]))
            .or_else(|| list(&container["env"]).iter().find_map(env))
            .or_else(|| list(&container["volumeMounts"]).iter().find_map(mount));
        if found.is_some() {
            return found;
        }
    }
    let volumes = list(&spec["volumes"]);
    let annotations = pod["metadata"]["annotations"].as_object().into_iter().flat_map(Map::keys);
    volumes.iter().find_map(volume).or_else(|| {
        annotations
            .filter(|key| !is_qualified_name(key))
            .map(|key| (format!("`{key}` is no name for an annotation"), key.clone()))
            .next()
    })
}

fn resources(resources: &Value) -> Option<(String, String)> {
    let amounts = |list: &str| resources[list].as_object().cloned().unwrap_or_default();
    let (limits, requests) = (amounts("limits"), amounts("requests"));
    for (name, amount) in limits.iter().chain(&requests) {
        let told = |what: String| Some((what, name.clone()));
        if !is_qualified_name(name) || !(name.contains('/') || is_native(name)) {
            return told(format!("`{name}` is no name for a resource"));
        }
        let Some(quantity) = Quantity::from_value(amount) else {
            return told(format!("`{amount}` is no amount of `{name}`"));
        };
        if name.contains('/') && quantity.as_count().is_none() {
            return told(format!("`{name}` is counted in whole numbers, and not {amount}"));
        }
        if let Some(page) = name.strip_prefix("hugepages-").and_then(Quantity::parse)
            && !quantity.is_multiple_of(page)
        {
            return told(format!("`{name}: {amount}` is no multiple of the page size"));
        }
        if !crate::core::engine::is_extended(name) {
            continue;
        }
        match (limits.get(name), requests.get(name)) {
            (Some(limit), Some(request)) if !crate::core::quantity::same_quantity(limit, request) => {
                return told(format!(
                    "`{name}` has the limit {limit} and the request {request}, which have to be equal"
                ));
            }
            (None, _) => return told(format!("`{name}` is requested without a limit")),
            _ => {}
        }
    }
    None
}

fn is_native(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

fn security(context: &Value) -> Option<(String, String)> {
    let admin = context["capabilities"]["add"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|name| matches!(name.as_str(), Some("SYS_ADMIN" | "CAP_SYS_ADMIN")));
    let refused = context["allowPrivilegeEscalation"] == false && (context["privileged"] == true || admin);
    refused.then(|| {
        let what = "`allowPrivilegeEscalation: false` stands beside `privileged` or `SYS_ADMIN`".to_owned();
        (what, "allowPrivilegeEscalation".to_owned())
    })
}

fn env(entry: &Value) -> Option<(String, String)> {
    let name = entry["name"].as_str().unwrap_or_default();
    let told = |what: String| Some((what, name.to_owned()));
    if name.is_empty() || name.contains('=') || !name.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return told(format!("`{name}` is no name for a variable"));
    }
    if !entry["value"].is_null() && !entry["valueFrom"].is_null() {
        return told(format!("the variable `{name}` has a `value` and a `valueFrom`"));
    }
    None
}

fn mount(mount: &Value) -> Option<(String, String)> {
    let path = mount["mountPath"].as_str().unwrap_or_default();
    let good = !path.is_empty() && !path.contains(':');
    (!good).then(|| (format!("`{path}` is no path to mount at"), "mountPath".to_owned()))
}

fn volume(volume: &Value) -> Option<(String, String)> {
    let name = volume["name"].as_str().unwrap_or_default();
    let told = |what: String| Some((what, name.to_owned()));
    let label = name.len() <= 63
        && !name.is_empty()
        && !name.starts_with('-')
        && !name.ends_with('-')
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !label {
        return told(format!("`{name}` is no name for a volume"));
    }
    if let Some(path) = volume["hostPath"].get("path") {
        let path = path.as_str().unwrap_or_default();
        if path.is_empty() || path.split('/').any(|part| part == "..") {
            return told(format!("`{path}` is no path on a node"));
        }
    }
    None
}

/// `[prefix/]name`: the prefix a DNS name, the name of at most 63 letters, digits, `-`, `_` and `.`.
fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let edges = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    let name_fits = name.len() <= 63
        && edges(name)
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    let prefix_fits = prefix.is_none_or(|prefix| {
        prefix.len() <= 253
            && edges(prefix)
            && prefix
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.'))
    });
    name_fits && prefix_fits
}
