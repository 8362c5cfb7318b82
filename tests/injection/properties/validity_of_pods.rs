//! Why the API server would refuse a pod for fields of the pod as a whole.

use std::collections::BTreeSet;

use serde_json::Value;

use super::adapter::compare_amounts;
use super::generator::amounts::{aggregate, number};
use super::generator::{items, pods};
use super::validity::{Refusals, is_qualified, names, text};

impl Refusals {
    pub(crate) fn host_ports(&mut self, spec: &Value) {
        let mut taken = BTreeSet::new();
        for container in items(&spec["containers"]) {
            for port in items(&container["ports"]) {
                let (mut host, inner) = (&port["hostPort"], &port["containerPort"]);
                if host.is_null() || *host == 0 {
                    if spec["hostNetwork"] != true {
                        continue;
                    }
                    // The API server sets it.
                    host = inner;
                }
                let place = format!("{}/{}/{host}", text(&port["protocol"]), text(&port["hostIP"]));
                if !taken.insert(place.clone()) {
                    self.add("host port", &place);
                }
                if spec["hostNetwork"] == true && host != inner {
                    self.add("host port of a hostNetwork pod", &place);
                }
            }
        }
    }

    /// Requests and limits of the pod as a whole bound those of its containers.
    pub(crate) fn pod_resources(&mut self, pod: &Value) {
        let resources = &pod["spec"]["resources"];
        if resources.is_null() {
            return;
        }
        self.resources("pod", resources, None);
        let spec = pod["spec"].as_object().unwrap();
        for (list, bounded) in [("requests", ""), ("limits", "hugepages-")] {
            for (resource, needed) in aggregate(spec, list) {
                let whole = &resources[list][&resource];
                if !whole.is_null() && resource.starts_with(bounded) && number(whole) < needed {
                    self.add("less for the pod than for its containers", &resource);
                }
            }
        }
        for (_, _, container) in pods::containers(pod).filter(|(list, ..)| *list == "containers") {
            for (resource, limit) in container["resources"]["limits"].as_object().into_iter().flatten() {
                let whole = &resources["limits"][resource];
                if compare_amounts(limit, whole).is_some_and(std::cmp::Ordering::is_gt) {
                    self.add("limit above that of the pod", resource);
                }
            }
        }
    }

    pub(crate) fn pod_fields(&mut self, spec: &Value) {
        if spec["hostPID"] == true && spec["shareProcessNamespace"] == true {
            self.add("hostPID and shareProcessNamespace", "");
        }
        for sysctl in names(&spec["securityContext"]["sysctls"]) {
            let host = spec["hostNetwork"] == true && sysctl.starts_with("net.");
            if host
                || (spec["hostIPC"] == true
                    && (sysctl.starts_with("kernel.shm") || sysctl.starts_with("fs.mqueue")))
            {
                self.add("sysctl of the host", sysctl);
            }
        }
        for (list, key) in [("schedulingGates", "name"), ("hostAliases", "ip"), ("resourceClaims", "name")] {
            let mut known = BTreeSet::new();
            for entry in items(&spec[list]) {
                if !known.insert(text(&entry[key])) && list != "hostAliases" {
                    self.add("two entries", list);
                }
            }
        }
    }

    pub(crate) fn metadata(&mut self, metadata: &Value) {
        let annotations = metadata["annotations"].as_object().into_iter().flatten();
        let mut bytes = 0;
        for (key, value) in annotations {
            bytes += key.len() + text(value).len();
            if !is_qualified(&key.to_lowercase()) {
                self.add("key of an annotation", key);
            }
        }
        if bytes > 256 * 1024 {
            self.add("annotations too large", "");
        }
        for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
            let value = text(value);
            if !is_qualified(key) || !(value.is_empty() || (is_qualified(value) && !value.contains('/'))) {
                self.add("label", key);
            }
        }
    }
}
