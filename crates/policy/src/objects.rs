//! The objects that pods name: claims, their templates and device classes, objects for which a driver creates a
//! template, and networks. The kinds are data, in `facts/objects.yaml`.

mod known;
mod pod_claim;

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use crate::claims::{ClaimRequest, DeviceClass, Requests, requests};

pub use known::KnownObjects;
pub use pod_claim::PodClaim;

/// The content of `facts/objects.yaml`.
static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let read = fabric_yaml::read_value(include_str!("../../../facts/objects.yaml"));
    let root = read.ok().and_then(|read| read.root).unwrap_or_default();
    #[expect(clippy::expect_used, reason = "a file of this repository, which the tests of each kind read")]
    serde_json::from_value(root).expect("facts/objects.yaml has the fields of the table")
});

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    claims: ObjectApi,
    templates: ObjectApi,
    classes: ObjectApi,
    domains: DomainKind,
    networks: Vec<NetworkKind>,
}

/// A kind as the API server knows it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectApi {
    /// The name of its watch.
    pub name: String,
    pub group: String,
    /// The versions of the API, the newest first.
    pub versions: Vec<String>,
    pub kind: String,
    pub resource: String,
    /// Whether the objects have a namespace. Those who may create pods there usually may create such objects, too.
    #[serde(default)]
    pub namespaced: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainKind {
    api: ObjectApi,
    template: String,
    request: String,
    class: String,
    driver: String,
    nodes: String,
    /// The drivers that hold pods back until the object has its number of nodes.
    pub waits: String,
}

impl DomainKind {
    /// The template and the number of nodes of an object of the kind.
    pub fn nodes_of<'v>(&self, object: &'v Value) -> Option<(&'v str, i64)> {
        let is_domain = object["kind"] == *self.api.kind;
        let template = object.pointer(&self.template).filter(|_| is_domain)?.as_str()?;
        Some((template, object.pointer(&self.nodes)?.as_i64()?))
    }
}

/// The objects for which a driver creates a template.
pub fn domains() -> &'static DomainKind {
    &TABLE.domains
}

/// A kind of networks, which an annotation attaches to pods.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkKind {
    pub annotation: String,
    api: ObjectApi,
    /// The key that names the network in each object of the annotation; `None` for an annotation of Multus.
    #[serde(default)]
    pub item: Option<String>,
    /// The names that exist without an object.
    #[serde(default)]
    always: Vec<String>,
}

/// The annotation of a network that names its resource, as Multus and device plugins for networks define it.
const RESOURCE_OF_NETWORK: &str = "k8s.v1.cni.cncf.io/resourceName";

/// A kind of objects that pods name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    Claim,
    Template,
    Class,
    /// For which a driver creates a template.
    Domain,
    /// The networks of this index in the table.
    Network(usize),
}

impl ObjectKind {
    /// Those that a server watches and a command lists.
    pub fn all() -> impl Iterator<Item = Self> {
        let networks = (0..TABLE.networks.len()).map(Self::Network);
        [Self::Claim, Self::Template, Self::Domain, Self::Class].into_iter().chain(networks)
    }

    /// The kind whose watch has a name.
    pub fn of_watch(name: &str) -> Option<Self> {
        Self::all().find(|kind| kind.api().name == name)
    }

    /// The kind of an object of a version of an API; without one, of any API.
    fn find(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        Self::all().find(|known| {
            let api = known.api();
            api.kind == kind && (api_version.is_empty() || api.group == group)
        })
    }

    pub fn api(self) -> &'static ObjectApi {
        match self {
            Self::Claim => &TABLE.claims,
            Self::Template => &TABLE.templates,
            Self::Class => &TABLE.classes,
            Self::Domain => &TABLE.domains.api,
            Self::Network(at) => &TABLE.networks[at].api,
        }
    }

    /// The kinds of networks.
    pub fn networks() -> impl Iterator<Item = (Self, &'static NetworkKind)> {
        TABLE.networks.iter().enumerate().map(|(at, network)| (Self::Network(at), network))
    }

    /// The kind of the networks of Multus.
    pub fn of_multus() -> Self {
        Self::Network(TABLE.networks.iter().position(|network| network.item.is_none()).unwrap_or_default())
    }

    fn always_exists(self, name: &str) -> bool {
        matches!(self, Self::Network(at) if TABLE.networks[at].always.iter().any(|known| known == name))
    }
}

/// An object by its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    pub kind: ObjectKind,
    /// Empty for an object without a namespace.
    pub namespace: String,
    pub name: String,
}

impl ObjectName {
    /// The name of an object in a namespace, if its kind has namespaces.
    pub fn new(kind: ObjectKind, namespace: &str, name: &str) -> Self {
        let namespace = if kind.api().namespaced { namespace } else { "" };
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// An object, with what is read of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedObject {
    Claim {
        name: ObjectName,
        /// True for a template that the object only names, so that the template itself has precedence.
        is_named: bool,
        requests: Requests,
    },
    Class(DeviceClass),
    Network {
        name: ObjectName,
        /// The resource that pods on the network request.
        resource: Option<String>,
    },
}

impl NamedObject {
    /// The objects of a document, which can be a list. The items of a list of one kind do not name it.
    pub fn read_all(document: &Value, namespace: &str) -> Vec<Self> {
        let Some(items) = document["items"].as_array() else {
            return Self::read(document, namespace).into_iter().collect();
        };
        let text = |key: &str| document[key].as_str().unwrap_or_default();
        let kind = text("kind").strip_suffix("List").unwrap_or_default();
        let kind = ObjectKind::find(text("apiVersion"), kind);
        let read = |item: &Value| match item["kind"].as_str() {
            None => kind.and_then(|kind| Self::of_kind(kind, item, namespace)).into_iter().collect(),
            Some(_) => Self::read_all(item, namespace),
        };
        items.iter().flat_map(read).collect()
    }

    /// Reads an object; `None` for one of no [`ObjectKind`]. `namespace` is that of an object that names none.
    pub fn read(object: &Value, namespace: &str) -> Option<Self> {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        Self::of_kind(ObjectKind::find(api_version, object["kind"].as_str()?)?, object, namespace)
    }

    /// Reads an object of a kind in any version of its API; `None` without a name. The items of a list have no kind.
    pub fn of_kind(kind: ObjectKind, object: &Value, namespace: &str) -> Option<Self> {
        let metadata = &object["metadata"];
        let named = |kind, name: &Value| {
            let own = metadata["namespace"].as_str().filter(|own| !own.is_empty());
            Some(ObjectName::new(kind, own.unwrap_or(namespace), name.as_str()?))
        };
        let name = named(kind, &metadata["name"])?;
        let spec = &object["spec"];
        let claim =
            |spec: &Value| Self::Claim { name: name.clone(), is_named: false, requests: requests(spec) };
        Some(match kind {
            ObjectKind::Claim => claim(spec),
            ObjectKind::Template => claim(&spec["spec"]),
            ObjectKind::Class => Self::Class(DeviceClass::read(name.name, spec)),
            ObjectKind::Domain => {
                let DomainKind { template, request, class, .. } = &TABLE.domains;
                let (name, classes) = (request.clone(), vec![class.clone()]);
                let request = ClaimRequest { name, classes, count: Some(1), ..ClaimRequest::default() };
                let name = named(ObjectKind::Template, object.pointer(template)?)?;
                Self::Claim { name, is_named: true, requests: [request].into() }
            }
            ObjectKind::Network(_) => {
                let resource = metadata["annotations"][RESOURCE_OF_NETWORK].as_str().map(str::to_owned);
                Self::Network { name, resource }
            }
        })
    }

    pub fn class(&self) -> Option<&DeviceClass> {
        if let Self::Class(class) = self { Some(class) } else { None }
    }

    /// The bytes that an object of a tenant takes in memory, known by its name and in [`KnownObjects`], about.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Class(_) => 0,
            Self::Network { name, .. } if name.namespace.is_empty() => 0,
            Self::Network { name, resource } => {
                600 + 5 * (name.name.len() + name.namespace.len())
                    + 3 * resource.as_ref().map_or(0, String::len)
            }
            Self::Claim { name, requests, .. } => {
                let classes =
                    requests.iter().flat_map(|request| &request.classes).map(String::len).sum::<usize>();
                let names = requests.iter().map(|request| request.name.len()).sum::<usize>();
                let selectors =
                    requests.iter().flat_map(|request| &request.selectors).map(|text| 24 + text.len());
                let of_requests = 2 * (152 * requests.len() + classes + names + selectors.sum::<usize>());
                400 + 3 * (name.name.len() + name.namespace.len()) + of_requests
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn known(objects: &[&Value], name: &str, is_template: bool) -> Option<Vec<ClaimRequest>> {
        let claims: KnownObjects =
            objects.iter().filter_map(|object| NamedObject::read(object, "ml")).collect();
        let kind = if is_template { ObjectKind::Template } else { ObjectKind::Claim };
        claims.requests_of(&ObjectName::new(kind, "ml", name)).map(|found| found.to_vec())
    }

    fn request(classes: &[&str], count: Option<i64>) -> ClaimRequest {
        let name = if classes == [TABLE.domains.class.as_str()] { "channel" } else { "a" }.to_owned();
        let classes = classes.iter().map(|class| (*class).to_owned()).collect();
        ClaimRequest { name, classes, count, ..ClaimRequest::default() }
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
            let has_alternatives = item["firstAvailable"].is_array();
            let wanted = Some(vec![ClaimRequest { has_alternatives, ..request(&["dra.net"], Some(4)) }]);
            assert_eq!(known(&[&claim], "t", false), wanted);
            assert_eq!(known(&[&claim], "t", true), None);
            assert_eq!(known(&[&template], "t", true), wanted);
            assert_eq!(known(&[&template], "t", false), None);
        }
    }

    #[test]
    fn a_compute_domain_names_a_template_which_has_precedence() {
        let domain = json!({"kind": "ComputeDomain", "metadata": {"name": "d", "namespace": "ml"},
            "spec": {"channel": {"resourceClaimTemplate": {"name": "t"}}}});
        assert_eq!(known(&[&domain], "t", true), Some(vec![request(&[&TABLE.domains.class], Some(1))]));
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
        let mut claims: KnownObjects = NamedObject::read(&template, "").into_iter().collect();
        let name = ObjectName::new(ObjectKind::Template, "ml", "t");
        let found = claims.requests_of(&name).unwrap();
        assert!(Arc::ptr_eq(&found, &claims.requests_of(&name).unwrap()));
        let class = json!({"kind": "DeviceClass", "metadata": {"name": "fast"},
            "spec": {"config": [{"opaque": {"driver": "a.example"}}]}});
        claims.extend(NamedObject::read(&class, ""));
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
        assert_eq!(NamedObject::read_all(&list, "ml").len(), 1);
        item.as_object_mut().unwrap().retain(|key, _| key != "kind" && key != "apiVersion");
        let list = json!({"kind": "ResourceClaimTemplateList", "items": [item]});
        let found = NamedObject::read_all(&list, "ml");
        assert!(
            matches!(&found[..], [NamedObject::Claim { name, .. }] if name.namespace == "ml"),
            "{found:?}"
        );
        assert!(NamedObject::read_all(&template("resource.example.com/v1"), "ml").is_empty());
    }
}
