//! The additions of a patch in words: `nim: vpc.amazonaws.com/efa 32, env NCCL_SOCKET_IFNAME`.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use fabric_yaml::pointer::{at_pointer, unescape};

use super::Operation;

/// The kinds of additions, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Device,
    Claim,
    Env,
    Mount,
    Capability,
    Container,
    Volume,
    Annotation,
    Field,
}

/// The words before the names of each kind. A device is reported by name and number.
const WORDS: [&str; 9] =
    ["", "claim ", "env ", "mount ", "capability ", "container ", "volume ", "annotation ", "field "];

/// The additions to one container, or to the pod.
#[derive(Debug)]
struct Line<'a> {
    /// The name of the container; none for the pod.
    holder: Option<&'a str>,
    /// The container.
    container: &'a Value,
    items: Vec<(Kind, Cow<'a, str>)>,
}

impl<'a> Line<'a> {
    fn push(&mut self, kind: Kind, name: impl Into<Cow<'a, str>>) {
        self.items.push((kind, name.into()));
    }

    /// The names of the entries of a list, or of one entry.
    fn push_names(&mut self, kind: Kind, value: &'a Value, key: &str) {
        let entries = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        self.items.extend(entries.iter().filter_map(|entry| Some((kind, entry.get(key)?.as_str()?.into()))));
    }

    fn push_keys(&mut self, kind: Kind, value: &'a Value) {
        let keys = value.as_object().into_iter().flat_map(Map::keys);
        self.items.extend(keys.map(|key| (kind, key.as_str().into())));
    }

    /// `vpc.amazonaws.com/efa 32, env A B, mount /x`.
    fn text(&self) -> String {
        let mut text = String::with_capacity(128);
        text.push_str(self.holder.unwrap_or("pod"));
        let mut between = ": ";
        for (kind, word) in WORDS.iter().enumerate() {
            let mut names = self.items.iter().filter(|(of, _)| *of as usize == kind).map(|(_, name)| name);
            let Some(first) = names.next() else { continue };
            text.extend([between, word, first]);
            for name in names {
                text.push_str(if word.is_empty() { ", " } else { " " });
                text.push_str(name);
            }
            between = ", ";
        }
        text
    }
}

/// One line for each container that was changed, and one for the pod.
pub(super) fn summarize(operations: &[Operation<'_>], of: &Value) -> Vec<String> {
    let mut containers: Vec<Line<'_>> = Vec::new();
    // By list and index; a pod may have thousands of them.
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    let mut pod = Line { holder: None, container: &Value::Null, items: Vec::new() };
    let mut tokens: Vec<&str> = Vec::new();
    for operation in operations {
        tokens.clear();
        tokens.extend(operation.pointer.split('/').skip(1));
        let Some(value) = operation.value else { continue };
        match tokens.as_slice() {
            ["spec", list @ ("containers" | "initContainers"), index, rest @ ..] => {
                let place = (*list, *index);
                let line = *places.entry(place).or_insert_with(|| {
                    let container = format!("/spec/{list}/{index}");
                    let container = at_pointer(of, &container).unwrap_or(&Value::Null);
                    let name = container["name"].as_str().unwrap_or(index);
                    containers.push(Line { holder: Some(name), container, items: Vec::new() });
                    containers.len() - 1
                });
                let line = &mut containers[line];
                if rest.is_empty() {
                    pod.push(Kind::Container, line.holder.unwrap_or_default());
                } else {
                    in_container(rest, value, line.container, line);
                }
            }
            ["spec", "containers" | "initContainers"] => pod.push_names(Kind::Container, value, "name"),
            ["spec", "volumes", ..] => pod.push_names(Kind::Volume, value, "name"),
            ["spec", "resourceClaims", ..] => pod.push_names(Kind::Claim, value, "name"),
            ["metadata"] => pod.push_keys(Kind::Annotation, &value["annotations"]),
            ["metadata", "annotations"] => pod.push_keys(Kind::Annotation, value),
            ["metadata", "annotations", key] => pod.push(Kind::Annotation, unescape(key)),
            other => pod.push(Kind::Field, other.join(".")),
        }
    }
    // The pod's own line last: it follows from those of the containers.
    let lines = containers.into_iter().chain([pod]);
    lines.filter(|line| !line.items.is_empty()).map(|line| line.text()).collect()
}

fn in_container<'a>(tokens: &[&'a str], value: &'a Value, container: &'a Value, line: &mut Line<'a>) {
    match tokens {
        ["env", index, "value"] => {
            let entry = index.parse::<usize>().ok().and_then(|index| container["env"].get(index));
            line.push_names(Kind::Env, entry.unwrap_or(&Value::Null), "name");
        }
        ["env", ..] => line.push_names(Kind::Env, value, "name"),
        ["volumeMounts", ..] => line.push_names(Kind::Mount, value, "mountPath"),
        ["resources", "claims", ..] => line.push_names(Kind::Claim, value, "name"),
        ["resources", list @ ("limits" | "requests"), name] => {
            let name = unescape(name);
            let amount = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if *list == "limits" {
                line.push(Kind::Device, format!("{name} {amount}"));
            } else if container["resources"]["limits"][&*name] != *value {
                // Most requests repeat the limit.
                line.push(Kind::Device, format!("requests.{name} {amount}"));
            }
        }
        ["securityContext", "capabilities", "add", ..] => {
            let names = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            names.iter().filter_map(Value::as_str).for_each(|name| line.push(Kind::Capability, name));
        }
        ["resources" | "securityContext"]
        | ["resources", "limits" | "requests"]
        | ["securityContext", "capabilities"] => {
            for (key, child) in value.as_object().into_iter().flatten() {
                in_container(&[tokens, &[key]].concat(), child, container, line);
            }
        }
        other => line.push(Kind::Field, other.join(".")),
    }
}
