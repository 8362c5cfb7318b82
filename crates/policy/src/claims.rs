//! The device classes of claims: what a `ResourceClaim`, a `ResourceClaimTemplate`, or an object for which a driver
//! creates a template, says that a claim brings.
//!
//! The CEL selectors of a class are not evaluated. A class has its own name, and those of the drivers that its
//! `DeviceClass` names.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, OnceLock};

use serde::Deserialize;
use serde_json::Value;

/// The kind of objects for which a driver creates the template that they name.
pub static DOMAINS: LazyLock<DomainKind> = LazyLock::new(|| {
    let read = fabric_yaml::read_value(include_str!("../../../facts/compute-domains.yaml"));
    let root = read.ok().and_then(|read| read.root).unwrap_or_default();
    #[expect(clippy::expect_used, reason = "a file of this repository, which all tests of claims read")]
    serde_json::from_value(root).expect("facts/compute-domains.yaml has the fields of the kind")
});

/// A kind of `facts/compute-domains.yaml`, which says what the fields are.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainKind {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub resource: String,
    pub name: String,
    template: String,
    request: String,
    class: String,
}

/// The group of the API of claims.
const CLAIMS: &str = "resource.k8s.io";

/// More devices than a claim can have.
const MOST_DEVICES: i64 = 1_024;

/// One request for devices of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClaimRequest {
    /// The name of the request, by which a container can use it alone.
    pub name: String,
    /// The name of the device class, and those of its drivers.
    pub classes: Vec<String>,
    /// The number of devices; `None` for all of a node.
    pub count: Option<i64>,
}

/// The requests of a claim. Pods that refer to the same object share them.
pub type Requests = Arc<[ClaimRequest]>;

/// A claim of a pod.
#[derive(Debug)]
pub struct PodClaim<'p> {
    /// The name within the pod.
    pub name: &'p str,
    /// The name of the claim, or of its template.
    pub target: &'p str,
    /// True for a template.
    pub is_template: bool,
    /// What the claim requests; none if that is unknown.
    pub requests: Requests,
    /// True if a policy lists a class of each request, so that names do not count.
    pub is_known: bool,
}

/// An object that says what claims bring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimObject {
    Claim {
        name: ClaimName,
        /// True for a template that the object only names, so that the template itself has precedence.
        is_named: bool,
        requests: Requests,
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
    /// Those of an object, and with the drivers of their classes, once a pod refers to it.
    requests: HashMap<ClaimName, (Requests, OnceLock<Requests>)>,
    drivers: HashMap<String, Vec<String>>,
    /// The namespaces that have more objects than are known.
    pub over: HashSet<String>,
}

impl ClaimObject {
    /// The kinds that [`Self::read`] reads.
    pub fn kinds() -> [&'static str; 4] {
        ["ResourceClaim", "ResourceClaimTemplate", &DOMAINS.kind, "DeviceClass"]
    }

    /// The objects of a document, which can be a list. The items of a list of one kind do not name it.
    pub fn read_all(document: &Value, namespace: &str) -> Vec<Self> {
        let Some(items) = document["items"].as_array() else {
            return Self::read(document, namespace).into_iter().collect();
        };
        let kind = document["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).unwrap_or_default();
        let read = |item: &Value| match item["kind"].as_str() {
            None => Self::of_kind(kind, item, namespace).into_iter().collect(),
            Some(_) => Self::read_all(item, namespace),
        };
        items.iter().flat_map(read).collect()
    }

    /// Reads an object of one of [`Self::kinds`]; `None` for another one, or one of another API. `namespace` is that of
    /// an object that names none.
    pub fn read(object: &Value, namespace: &str) -> Option<Self> {
        let api = object["apiVersion"].as_str().unwrap_or_default();
        let group = api.split_once('/').map_or("", |(group, _)| group);
        let is_of_api = api.is_empty() || group == CLAIMS || group == DOMAINS.group;
        Self::of_kind(object["kind"].as_str()?, object, namespace).filter(|_| is_of_api)
    }

    /// Reads an object of a kind in any version of its API; `None` without a name. The items of a list have no kind.
    pub fn of_kind(kind: &str, object: &Value, namespace: &str) -> Option<Self> {
        let metadata = &object["metadata"];
        let name = |name: &Value, is_template| {
            let own = metadata["namespace"].as_str().filter(|own| !own.is_empty());
            let namespace = own.unwrap_or(namespace).to_owned();
            Some(ClaimName { namespace, name: name.as_str()?.to_owned(), is_template })
        };
        let spec = &object["spec"];
        let claim = |name, spec: &Value| Self::Claim { name, is_named: false, requests: requests(spec) };
        Some(match kind {
            "ResourceClaim" => claim(name(&metadata["name"], false)?, spec),
            "ResourceClaimTemplate" => claim(name(&metadata["name"], true)?, &spec["spec"]),
            "DeviceClass" => {
                Self::Class { name: metadata["name"].as_str()?.to_owned(), drivers: drivers(spec) }
            }
            _ if kind == DOMAINS.kind => {
                let classes = vec![DOMAINS.class.clone()];
                let request = ClaimRequest { name: DOMAINS.request.clone(), classes, count: Some(1) };
                let name = name(object.pointer(&DOMAINS.template)?, true)?;
                Self::Claim { name, is_named: true, requests: [request].into() }
            }
            _ => return None,
        })
    }
}

impl ClaimObject {
    /// The bytes that a claim takes in memory, as a known object and in [`Claims`], about.
    pub fn bytes(&self) -> usize {
        let Self::Claim { name: ClaimName { name, namespace, .. }, requests, .. } = self else { return 0 };
        let classes = requests.iter().flat_map(|request| &request.classes).map(String::len).sum::<usize>();
        let names = requests.iter().map(|request| request.name.len()).sum::<usize>();
        400 + 3 * (name.len() + namespace.len()) + 2 * (128 * requests.len() + classes + names)
    }
}

/// The requests of the `spec` of a claim. Of alternatives, the first one counts; access to devices that others use
/// (`adminAccess`) is none.
fn requests(spec: &Value) -> Requests {
    let items = spec["devices"]["requests"].as_array().into_iter().flatten();
    let read = |item: &Value| {
        // `v1beta1` has the fields of `exactly` next to the name.
        let exactly = [&item["exactly"], &item["firstAvailable"][0], item];
        let exactly = exactly.into_iter().find(|fields| fields["deviceClassName"].is_string())?;
        if exactly["adminAccess"] == true {
            return None;
        }
        let count = match exactly["allocationMode"].as_str() {
            Some("All") => None,
            _ => Some(exactly["count"].as_i64().unwrap_or(1).clamp(1, MOST_DEVICES)),
        };
        let name = item["name"].as_str().unwrap_or_default().to_owned();
        Some(ClaimRequest { name, classes: vec![exactly["deviceClassName"].as_str()?.to_owned()], count })
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
                    self.requests.entry(name).or_insert((requests, OnceLock::new()));
                }
                ClaimObject::Claim { name, requests, .. } => {
                    self.requests.insert(name, (requests, OnceLock::new()));
                }
                ClaimObject::Class { name, drivers } => drop(self.drivers.insert(name, drivers)),
            }
        }
        self.requests.values_mut().for_each(|(_, with_drivers)| drop(with_drivers.take()));
    }
}

impl Claims {
    /// What a claim requests; `None` for an unknown one.
    pub fn requests_of(&self, name: &ClaimName) -> Option<Requests> {
        let with_drivers = |request: &ClaimRequest| {
            let drivers = request.classes.iter().filter_map(|class| self.drivers.get(class)).flatten();
            let classes = request.classes.iter().chain(drivers).cloned().collect();
            ClaimRequest { classes, ..request.clone() }
        };
        let (requests, shared) = self.requests.get(name)?;
        Some(Arc::clone(shared.get_or_init(|| requests.iter().map(with_drivers).collect())))
    }
}

impl PodClaim<'_> {
    /// The names of the classes of a claim.
    pub fn classes(&self) -> impl Iterator<Item = &String> {
        self.requests.iter().flat_map(|request| &request.classes)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn known(objects: &[&Value], name: &str, is_template: bool) -> Option<Vec<ClaimRequest>> {
        let claims: Claims = objects.iter().filter_map(|object| ClaimObject::read(object, "ml")).collect();
        let (namespace, name) = ("ml".to_owned(), name.to_owned());
        claims.requests_of(&ClaimName { namespace, name, is_template }).map(|found| found.to_vec())
    }

    fn request(classes: &[&str], count: Option<i64>) -> ClaimRequest {
        let name = if classes == [DOMAINS.class.as_str()] { "channel" } else { "a" }.to_owned();
        ClaimRequest { name, classes: classes.iter().map(|class| (*class).to_owned()).collect(), count }
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
        assert_eq!(known(&[&domain], "t", true), Some(vec![request(&[&DOMAINS.class], Some(1))]));
        let template = json!({"kind": "ResourceClaimTemplate", "metadata": {"name": "t"}, "spec": {"spec":
            {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "own", "allocationMode": "All"}},
                {"name": "b", "exactly": {"deviceClassName": "own", "adminAccess": true}}]}}}});
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
            "spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "fast", "count": -5}}]}}});
        let all = request(&["fast", "a.example", "b.example", "dra.net"], Some(1));
        assert_eq!(known(&[&class, &claim], "t", false), Some(vec![all]));
    }

    #[test]
    fn pods_share_the_requests_of_an_object_until_a_class_is_added() {
        let template = json!({"kind": "ResourceClaimTemplate", "metadata": {"name": "t", "namespace": "ml"},
            "spec": {"spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "fast"}}]}}}});
        let mut claims: Claims = ClaimObject::read(&template, "").into_iter().collect();
        let name = ClaimName { namespace: "ml".to_owned(), name: "t".to_owned(), is_template: true };
        let found = claims.requests_of(&name).unwrap();
        assert!(Arc::ptr_eq(&found, &claims.requests_of(&name).unwrap()));
        let class = json!({"kind": "DeviceClass", "metadata": {"name": "fast"},
            "spec": {"config": [{"opaque": {"driver": "a.example"}}]}});
        claims.extend(ClaimObject::read(&class, ""));
        assert_eq!(claims.requests_of(&name).unwrap()[0].classes, ["fast", "a.example"]);
    }

    #[test]
    fn objects_are_found_in_lists_and_those_of_other_apis_are_others() {
        let template = |api: &str| {
            json!({"apiVersion": api, "kind": "ResourceClaimTemplate", "metadata": {"name": "t", "namespace": ""},
                "spec": {"spec": {"devices": {"requests": [{"name": "a", "deviceClassName": "c"}]}}}})
        };
        let mut item = template("resource.k8s.io/v1");
        let list = json!({"kind": "List", "items": [{"kind": "List", "items": [item.clone()]}]});
        assert_eq!(ClaimObject::read_all(&list, "ml").len(), 1);
        item.as_object_mut().unwrap().retain(|key, _| key != "kind" && key != "apiVersion");
        let list = json!({"kind": "ResourceClaimTemplateList", "items": [item]});
        let found = ClaimObject::read_all(&list, "ml");
        assert!(
            matches!(&found[..], [ClaimObject::Claim { name, .. }] if name.namespace == "ml"),
            "{found:?}"
        );
        assert!(ClaimObject::read_all(&template("resource.example.com/v1"), "ml").is_empty());
    }
}
