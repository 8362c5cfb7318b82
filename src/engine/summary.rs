//! What a patch adds, in the words of people: `nim: vpc.amazonaws.com/efa 32, env NCCL_SOCKET_IFNAME`.

use serde_json::{Map, Value};

use super::Mutated;

/// One line for each container that got something, and one for the pod.
pub(super) fn summarize(mutated: &Mutated) -> Vec<String> {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for (path, _, value) in mutated.operations() {
        let tokens: Vec<String> =
            path.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
        let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
        let (holder, items) = describe(&tokens, value, &mutated.pod);
        match lines.iter_mut().find(|(known, _)| *known == holder) {
            Some((_, known)) => known.extend(items),
            None => lines.push((holder, items)),
        }
    }
    // The pod's own line last: it follows from those of the containers.
    lines.sort_by_key(|(holder, _)| holder == "pod");
    lines
        .into_iter()
        .filter(|(_, items)| !items.is_empty())
        .map(|(holder, items)| format!("{holder}: {}", grouped(&items)))
        .collect()
}

/// Whose the change is, and what it adds, each item as `<kind> <name>`.
fn describe(tokens: &[&str], value: &Value, pod: &Value) -> (String, Vec<String>) {
    match tokens {
        ["spec", list @ ("containers" | "initContainers"), index, rest @ ..] => {
            let container = index.parse::<usize>().ok().and_then(|index| pod["spec"][*list].get(index));
            let name = container.and_then(|container| container["name"].as_str()).unwrap_or(index);
            if rest.is_empty() {
                ("pod".to_owned(), vec![format!("container {name}")])
            } else {
                (name.to_owned(), in_container(rest, value, container.unwrap_or(&Value::Null)))
            }
        }
        ["spec", "containers" | "initContainers"] => ("pod".to_owned(), names("container", value, "name")),
        ["spec", "volumes", ..] => ("pod".to_owned(), names("volume", value, "name")),
        ["metadata", rest @ ..] => ("pod".to_owned(), in_metadata(rest, value)),
        other => ("pod".to_owned(), vec![format!("field {}", other.join("."))]),
    }
}

fn in_metadata(tokens: &[&str], value: &Value) -> Vec<String> {
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().into_iter().flat_map(Map::keys).map(|key| format!("annotation {key}")).collect()
    };
    match tokens {
        [] => keys(&value["annotations"]),
        ["annotations"] => keys(value),
        ["annotations", key] => vec![format!("annotation {key}")],
        other => vec![format!("field metadata.{}", other.join("."))],
    }
}

fn in_container(tokens: &[&str], value: &Value, container: &Value) -> Vec<String> {
    match tokens {
        ["env", index, "value"] => {
            let entry = index.parse::<usize>().ok().and_then(|index| container["env"].get(index));
            entry
                .and_then(|entry| entry["name"].as_str())
                .map(|name| format!("env {name}"))
                .into_iter()
                .collect()
        }
        ["env", ..] => names("env", value, "name"),
        ["volumeMounts", ..] => names("mount", value, "mountPath"),
        ["resources", rest @ ..] => amounts(rest, value),
        ["securityContext", rest @ ..] => security(rest, value),
        other => vec![format!("field {}", other.join("."))],
    }
}

fn amounts(tokens: &[&str], value: &Value) -> Vec<String> {
    let listed = |limits: &Value| -> Vec<String> {
        let amounts = limits.as_object().into_iter().flatten();
        amounts.map(|(name, amount)| format!("device {name} {}", plain(amount))).collect()
    };
    match tokens {
        [] => listed(&value["limits"]),
        ["limits"] => listed(value),
        ["limits", name] => vec![format!("device {name} {}", plain(value))],
        // A request repeats the limit.
        _ => Vec::new(),
    }
}

fn security(tokens: &[&str], value: &Value) -> Vec<String> {
    let added = |value: &Value| -> Vec<String> {
        let list = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        list.iter().filter_map(Value::as_str).map(|name| format!("capability {name}")).collect()
    };
    match tokens {
        [] => {
            let mut items = added(&value["capabilities"]["add"]);
            let others =
                value.as_object().into_iter().flat_map(Map::keys).filter(|key| *key != "capabilities");
            items.extend(others.map(|key| format!("field securityContext.{key}")));
            items
        }
        ["capabilities"] => added(&value["add"]),
        ["capabilities", "add", ..] => added(value),
        other => vec![format!("field securityContext.{}", other.join("."))],
    }
}

fn names(kind: &str, value: &Value, key: &str) -> Vec<String> {
    let entries = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    entries.iter().filter_map(|entry| entry[key].as_str()).map(|name| format!("{kind} {name}")).collect()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `env A, env B, mount /x` as `env A B, mount /x`.
fn grouped(items: &[String]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for item in items {
        let (kind, name) = item.split_once(' ').unwrap_or(("", item));
        match groups.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, names)) => names.push(name),
            None => groups.push((kind, vec![name])),
        }
    }
    let order = ["device", "env", "mount", "capability", "container", "volume", "annotation"];
    groups.sort_by_key(|(kind, _)| order.iter().position(|known| known == kind).unwrap_or(order.len()));
    let shown = groups.iter().map(|(kind, names)| match *kind {
        "device" => names.join(", "),
        kind => format!("{kind} {}", names.join(" ")),
    });
    shown.collect::<Vec<_>>().join(", ")
}
