//! The device classes of claims: what a `ResourceClaim`, a `ResourceClaimTemplate` or a `ComputeDomain` says that a
//! claim brings.
//!
//! The CEL selectors of a class are not evaluated. A class has its own name, and those of the drivers that its
//! `DeviceClass` names.

use std::collections::HashMap;

use serde_json::Value;

/// The class of the claims of a `ComputeDomain`: those of the templates that NVIDIA's DRA driver creates for it.
const CHANNEL: &str = "compute-domain-default-channel.nvidia.com";

/// One request for devices of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClaimRequest {
    /// The name of the device class, and those of its drivers.
    pub classes: Vec<String>,
    /// The number of devices; `None` for all of a node.
    pub count: Option<i64>,
}

/// A claim of a pod.
#[derive(Debug)]
pub struct PodClaim<'p> {
    /// The name within the pod.
    pub name: &'p str,
    /// The name of the claim, or of its template.
    pub target: &'p str,
    /// What the claim requests; `None` if that is unknown.
    pub requests: Option<Vec<ClaimRequest>>,
}

/// An object that says what claims bring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimObject {
    Claim {
        name: ClaimName,
        /// True for a template that the object only names, so that the template itself has precedence.
        is_named: bool,
        requests: Vec<ClaimRequest>,
    },
    Class {
        name: String,
        drivers: Vec<String>,
    },
}

/// The name of a claim or of a template.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClaimName {
    pub namespace: String,
    pub name: String,
    pub is_template: bool,
}

/// The claims, templates and device classes that are known.
#[derive(Debug, Clone, Default)]
pub struct Claims {
    requests: HashMap<ClaimName, Vec<ClaimRequest>>,
    drivers: HashMap<String, Vec<String>>,
}

impl ClaimObject {
    /// The kinds that [`Self::read`] reads.
    pub const KINDS: [&str; 4] = ["ResourceClaim", "ResourceClaimTemplate", "ComputeDomain", "DeviceClass"];

    /// The objects of a document, which can be a list.
    pub fn read_all(document: &Value, namespace: &str) -> Vec<Self> {
        let items = document["items"].as_array().map_or(std::slice::from_ref(document), Vec::as_slice);
        items.iter().filter_map(|item| Self::read(item, namespace)).collect()
    }

    /// Reads an object of one of [`Self::KINDS`]; `None` for another one. `namespace` is that of an object that names
    /// none.
    pub fn read(object: &Value, namespace: &str) -> Option<Self> {
        Self::of_kind(object["kind"].as_str()?, object, namespace)
    }

    /// Reads an object of a kind in any version of its API; `None` without a name. The items of a list have no kind.
    pub fn of_kind(kind: &str, object: &Value, namespace: &str) -> Option<Self> {
        let metadata = &object["metadata"];
        let name = |name: &Value, is_template| {
            let namespace = metadata["namespace"].as_str().unwrap_or(namespace).to_owned();
            Some(ClaimName { namespace, name: name.as_str()?.to_owned(), is_template })
        };
        let spec = &object["spec"];
        let claim = |name, spec: &Value| Self::Claim { name, is_named: false, requests: requests(spec) };
        Some(match kind {
            "ResourceClaim" => claim(name(&metadata["name"], false)?, spec),
            "ResourceClaimTemplate" => claim(name(&metadata["name"], true)?, &spec["spec"]),
            "ComputeDomain" => {
                let request = ClaimRequest { classes: vec![CHANNEL.to_owned()], count: Some(1) };
                let name = name(&spec["channel"]["resourceClaimTemplate"]["name"], true)?;
                Self::Claim { name, is_named: true, requests: vec![request] }
            }
            "DeviceClass" => {
                Self::Class { name: metadata["name"].as_str()?.to_owned(), drivers: drivers(spec) }
            }
            _ => return None,
        })
    }
}

/// The requests of the `spec` of a claim. Of alternatives, the first one counts.
fn requests(spec: &Value) -> Vec<ClaimRequest> {
    let items = spec["devices"]["requests"].as_array().into_iter().flatten();
    let read = |item: &Value| {
        // `v1beta1` has the fields of `exactly` next to the name.
        let exactly = [&item["exactly"], &item["firstAvailable"][0], item];
        let exactly = exactly.into_iter().find(|fields| fields["deviceClassName"].is_string())?;
        let count = match exactly["allocationMode"].as_str() {
            Some("All") => None,
            _ => Some(exactly["count"].as_i64().unwrap_or(1)),
        };
        Some(ClaimRequest { classes: vec![exactly["deviceClassName"].as_str()?.to_owned()], count })
    };
    items.filter_map(read).collect()
}

/// The drivers that a class names: those of its configuration, and those with which its selectors compare.
fn drivers(spec: &Value) -> Vec<String> {
    let items = |key: &str| spec[key].as_array().into_iter().flatten();
    let mut drivers: Vec<String> =
        items("config").filter_map(|config| config["opaque"]["driver"].as_str()).map(str::to_owned).collect();
    for text in items("selectors").filter_map(|selector| selector["cel"]["expression"].as_str()) {
        let compared = text.split("device.driver").skip(1).filter_map(|rest| {
            let quoted = rest.trim_start().strip_prefix("==")?.trim_start();
            let quote = quoted.chars().next().filter(|first| ['"', '\''].contains(first))?;
            quoted[1..].split_once(quote).map(|(driver, _)| driver.to_owned())
        });
        drivers.extend(compared);
    }
    drivers.sort();
    drivers.dedup();
    drivers
}

impl FromIterator<ClaimObject> for Claims {
    fn from_iter<I: IntoIterator<Item = ClaimObject>>(objects: I) -> Self {
        let mut claims = Self::default();
        claims.extend(objects);
        claims
    }
}

impl Extend<ClaimObject> for Claims {
    fn extend<I: IntoIterator<Item = ClaimObject>>(&mut self, objects: I) {
        for object in objects {
            match object {
                ClaimObject::Claim { name, is_named: true, requests } => {
                    self.requests.entry(name).or_insert(requests);
                }
                ClaimObject::Claim { name, requests, .. } => drop(self.requests.insert(name, requests)),
                ClaimObject::Class { name, drivers } => drop(self.drivers.insert(name, drivers)),
            }
        }
    }
}

impl Claims {
    /// What a claim requests; `None` for an unknown one.
    pub fn requests_of(&self, name: &ClaimName) -> Option<Vec<ClaimRequest>> {
        let with_drivers = |request: &ClaimRequest| {
            let drivers = request.classes.iter().filter_map(|class| self.drivers.get(class)).flatten();
            let classes = request.classes.iter().chain(drivers).cloned().collect();
            ClaimRequest { classes, ..*request }
        };
        Some(self.requests.get(name)?.iter().map(with_drivers).collect())
    }
}

impl PodClaim<'_> {
    /// Returns whether the devices of the claim are known, so that its names do not matter.
    pub fn is_known(&self) -> bool {
        let mut requests = self.requests.iter().flatten().peekable();
        requests.peek().is_some() && requests.all(ClaimRequest::is_known)
    }

    /// The names of the classes of a claim.
    pub fn classes(&self) -> impl Iterator<Item = &String> {
        self.requests.iter().flatten().flat_map(|request| &request.classes)
    }
}

impl ClaimRequest {
    /// Returns whether the devices are known: by the driver of the class, or by the name that a driver's installation
    /// gives to its class, which has a domain. Another class is the cluster's own, and says nothing on its own.
    pub fn is_known(&self) -> bool {
        self.classes.len() > 1 || self.classes.iter().any(|class| class.contains('.'))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn known(objects: &[&Value], name: &str, is_template: bool) -> Option<Vec<ClaimRequest>> {
        let claims: Claims = objects.iter().filter_map(|object| ClaimObject::read(object, "ml")).collect();
        let (namespace, name) = ("ml".to_owned(), name.to_owned());
        claims.requests_of(&ClaimName { namespace, name, is_template })
    }

    fn request(classes: &[&str], count: Option<i64>) -> ClaimRequest {
        ClaimRequest { classes: classes.iter().map(|class| (*class).to_owned()).collect(), count }
    }

    #[test]
    fn every_version_of_a_claim_is_read() {
        let beta = json!({"name": "a", "deviceClassName": "dra.net", "count": 4});
        let exact = json!({"name": "a", "exactly": {"deviceClassName": "dra.net", "count": 4}});
        let first = json!({"name": "a", "firstAvailable": [{"name": "x", "deviceClassName": "dra.net", "count": 4},
            {"name": "y", "deviceClassName": "other"}]});
        for item in [beta, exact, first] {
            let spec = json!({"devices": {"requests": [item]}});
            let claim = json!({"kind": "ResourceClaim", "metadata": {"name": "t"}, "spec": spec});
            let template =
                json!({"kind": "ResourceClaimTemplate", "metadata": {"name": "t"}, "spec": {"spec": spec}});
            assert_eq!(known(&[&claim], "t", false), Some(vec![request(&["dra.net"], Some(4))]));
            assert_eq!(known(&[&claim], "t", true), None);
            assert_eq!(known(&[&template], "t", true), Some(vec![request(&["dra.net"], Some(4))]));
            assert_eq!(known(&[&template], "t", false), None);
        }
    }

    #[test]
    fn a_compute_domain_names_a_template_which_has_precedence() {
        let domain = json!({"kind": "ComputeDomain", "metadata": {"name": "d", "namespace": "ml"},
            "spec": {"channel": {"resourceClaimTemplate": {"name": "t"}}}});
        assert_eq!(known(&[&domain], "t", true), Some(vec![request(&[CHANNEL], Some(1))]));
        let template = json!({"kind": "ResourceClaimTemplate", "metadata": {"name": "t"}, "spec": {"spec":
            {"devices": {"requests": [{"exactly": {"deviceClassName": "own", "allocationMode": "All"}}]}}}});
        for both in [[&domain, &template], [&template, &domain]] {
            assert_eq!(known(&both, "t", true), Some(vec![request(&["own"], None)]));
        }
    }

    #[test]
    fn the_drivers_of_a_class_are_its_other_names() {
        let class = json!({"kind": "DeviceClass", "metadata": {"name": "fast"}, "spec": {
            "selectors": [{"cel": {"expression": "device.driver == 'dra.net' && device.driver  ==\"b.example\""}},
                {"cel": {"expression": "device.driver != 'c.example'"}}],
            "config": [{"opaque": {"driver": "a.example"}}]}});
        let claim = json!({"kind": "ResourceClaim", "metadata": {"name": "t"},
            "spec": {"devices": {"requests": [{"exactly": {"deviceClassName": "fast"}}]}}});
        let alone = known(&[&claim], "t", false).unwrap();
        assert!(!alone[0].is_known() && request(&["gpu.nvidia.com"], None).is_known());
        let all = request(&["fast", "a.example", "b.example", "dra.net"], Some(1));
        assert!(all.is_known());
        assert_eq!(known(&[&class, &claim], "t", false), Some(vec![all]));
    }
}
