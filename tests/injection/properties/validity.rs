//! Why the API server would refuse a pod, from Kubernetes' `pkg/apis/core/validation/validation.go` of release 1.36,
//! as far as an injector can bring it about. The pod is completed first, as the API server does.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::adapter::{compare_amounts, is_multiple};
use super::generator::{defaults, items, pods};

/// The reasons, none for a valid pod.
pub(crate) fn refusals(pod: &Value) -> Vec<String> {
    let mut pod = pod.clone();
    defaults::complete(&mut pod);
    let mut refusals = Refusals(Vec::new());
    let spec = &pod["spec"];
    let volumes = refusals.volumes(spec);
    let claims: Vec<&str> = names(&spec["resourceClaims"]).collect();
    if items(&spec["containers"]).is_empty() {
        refusals.add("no container", "");
    }
    let mut taken = BTreeSet::new();
    for (list, _, container) in pods::containers(&pod) {
        let name = text(&container["name"]);
        if !is_label(name) || !taken.insert(name) {
            refusals.add("container name", name);
        }
        if text(&container["image"]).is_empty() {
            refusals.add("no image", name);
        }
        let sidecar = container["restartPolicy"] == "Always";
        if list == "initContainers" && !sidecar {
            for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if !container[key].is_null() {
                    refusals.add("probe or hook of an init container", &format!("{name}.{key}"));
                }
            }
        }
        refusals.env(name, container);
        refusals.mounts(name, container, &volumes);
        refusals.ports(name, container);
        refusals.handlers(name, container);
        refusals.resources(name, &container["resources"], Some(&claims));
        refusals.security(name, &container["securityContext"]);
    }
    refusals.host_ports(spec);
    refusals.pod_resources(&pod);
    refusals.pod_fields(spec);
    refusals.metadata(&pod["metadata"]);
    refusals.0
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) fn names(list: &Value) -> impl Iterator<Item = &str> {
    items(list).iter().filter_map(|entry| entry["name"].as_str())
}

fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty()
        && name.len() <= 63
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// `[prefix/]name`
pub(crate) fn is_qualified(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let ends = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    ends(name)
        && name.len() <= 63
        && name.bytes().all(inner)
        && prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(is_label))
}

/// A resource whose request has to equal its limit.
fn is_extended(resource: &str) -> bool {
    resource.starts_with("hugepages-") || resource.contains('/')
}

/// The reasons found so far.
pub(crate) struct Refusals(Vec<String>);

impl Refusals {
    pub(crate) fn add(&mut self, what: &str, place: &str) {
        self.0.push(format!("{what}: {place}"));
    }

    fn volumes<'p>(&mut self, spec: &'p Value) -> BTreeSet<&'p str> {
        let mut known = BTreeSet::new();
        for volume in items(&spec["volumes"]) {
            let name = text(&volume["name"]);
            if !is_label(name) || !known.insert(name) {
                self.add("volume name", name);
            }
            let sources = volume.as_object().into_iter().flatten();
            let sources = sources.filter(|(key, _)| *key != "name" && *key != "fieldOfTheFuture").count();
            if sources != 1 {
                self.add("sources of a volume", name);
            }
            let path = &volume["hostPath"]["path"];
            if !volume["hostPath"].is_null()
                && (text(path).is_empty() || text(path).split('/').any(|part| part == ".."))
            {
                self.add("path of a volume", name);
            }
        }
        known
    }

    fn env(&mut self, name: &str, container: &Value) {
        for entry in items(&container["env"]) {
            let place = format!("{name}.env[{}]", text(&entry["name"]));
            let key = text(&entry["name"]);
            if key.is_empty() || key.contains('=') || !key.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
                self.add("name of a variable", &place);
            }
            let Some(from) = entry.get("valueFrom") else { continue };
            if !text(&entry["value"]).is_empty() {
                self.add("value and valueFrom", &place);
            }
            if from.as_object().is_none_or(|sources| sources.len() != 1) {
                self.add("sources of a value", &place);
            }
        }
    }

    fn mounts(&mut self, name: &str, container: &Value, volumes: &BTreeSet<&str>) {
        let mut paths = BTreeSet::new();
        for mount in items(&container["volumeMounts"]) {
            let path = text(&mount["mountPath"]);
            let place = format!("{name}.volumeMounts[{path}]");
            if path.is_empty() || path.contains(':') || !paths.insert(path) {
                self.add("path of a mount", &place);
            }
            if !volumes.contains(text(&mount["name"])) {
                self.add("mount without volume", &place);
            }
            let sub = [&mount["subPath"], &mount["subPathExpr"]].map(text);
            if sub.iter().any(|sub| sub.starts_with('/') || sub.split('/').any(|part| part == "..")) {
                self.add("subPath", &place);
            }
            if sub.iter().all(|sub| !sub.is_empty()) {
                self.add("subPath and subPathExpr", &place);
            }
            let propagation = text(&mount["mountPropagation"]);
            if propagation == "Bidirectional" && container["securityContext"]["privileged"] != true {
                self.add("bidirectional mount without privileges", &place);
            }
        }
        for device in items(&container["volumeDevices"]) {
            let (path, volume) = (text(&device["devicePath"]), text(&device["name"]));
            let mounted = names(&container["volumeMounts"]).any(|name| name == volume);
            if !paths.insert(path) || mounted || !volumes.contains(volume) {
                self.add("block device", &format!("{name}.{path}"));
            }
        }
    }

    fn ports(&mut self, name: &str, container: &Value) {
        let mut known = BTreeSet::new();
        for port in items(&container["ports"]) {
            let port_name = text(&port["name"]);
            if port["containerPort"].as_i64().is_none_or(|number| !(1..=65_535).contains(&number)) {
                self.add("number of a port", name);
            }
            if !port_name.is_empty() && !known.insert(port_name) {
                self.add("name of a port", &format!("{name}.{port_name}"));
            }
        }
    }

    fn handlers(&mut self, name: &str, container: &Value) {
        let kinds = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
        let mut check = |place: String, handler: &Value| {
            let given = kinds.iter().filter(|kind| !handler[**kind].is_null()).count();
            if !handler.is_null() && given != 1 {
                self.add("kinds of a handler", &place);
            }
        };
        for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
            check(format!("{name}.{probe}"), &container[probe]);
        }
        for hook in ["postStart", "preStop"] {
            check(format!("{name}.{hook}"), &container["lifecycle"][hook]);
        }
        for (probe, once) in [("livenessProbe", true), ("startupProbe", true)] {
            let threshold = &container[probe]["successThreshold"];
            if once && !threshold.is_null() && *threshold != 1 {
                self.add("successThreshold", &format!("{name}.{probe}"));
            }
        }
    }

    pub(crate) fn resources(&mut self, name: &str, resources: &Value, claims: Option<&[&str]>) {
        let empty = Map::new();
        let list = |key: &str| resources[key].as_object().unwrap_or(&empty);
        let (limits, requests) = (list("limits"), list("requests"));
        for (resource, amount) in limits.iter().chain(requests) {
            let place = format!("{name}.{resource}");
            let Some(order) = compare_amounts(amount, &Value::from("0")) else {
                self.add("amount", &place);
                continue;
            };
            if order.is_lt() {
                self.add("negative amount", &place);
            }
            if resource.contains('/') && !is_multiple(amount, &Value::from(1)) {
                self.add("fraction of a device", &place);
            }
            if let Some(page) = resource.strip_prefix("hugepages-")
                && !is_multiple(amount, &Value::from(page))
            {
                self.add("part of a huge page", &place);
            }
        }
        for (resource, request) in requests {
            let place = format!("{name}.{resource}");
            match limits.get(resource).and_then(|limit| compare_amounts(request, limit)) {
                None if is_extended(resource) => self.add("request without limit", &place),
                Some(order) if is_extended(resource) && order.is_ne() => {
                    self.add("request and limit differ", &place);
                }
                Some(order) if order.is_gt() => self.add("request above its limit", &place),
                _ => {}
            }
        }
        let any = |test: fn(&str) -> bool| limits.keys().chain(requests.keys()).any(|key| test(key));
        if any(|key| key.starts_with("hugepages-")) && !any(|key| key == "cpu" || key == "memory") {
            self.add("huge pages without cpu or memory", name);
        }
        for claim in names(&resources["claims"]) {
            if claims.is_none_or(|known| !known.contains(&claim)) {
                self.add("unknown claim", name);
            }
        }
    }

    fn security(&mut self, name: &str, context: &Value) {
        if context["allowPrivilegeEscalation"] != false {
            return;
        }
        if context["privileged"] == true {
            self.add("privileged without escalation", name);
        }
        if items(&context["capabilities"]["add"]).iter().any(|capability| capability == "CAP_SYS_ADMIN") {
            self.add("CAP_SYS_ADMIN without escalation", name);
        }
    }
}
