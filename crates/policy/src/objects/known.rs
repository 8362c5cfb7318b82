//! The objects of a cluster, or of the input of a command, by their names.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, LazyLock, OnceLock};

use crate::claims::{ClaimRequest, DEVICE_CLASS, DeviceClass, Requests};
use crate::work::{Work, goes_on};

use super::{NamedObject, ObjectKind, ObjectName, TABLE};

/// The objects that are known.
#[derive(Debug, Clone, Default)]
pub struct KnownObjects {
    /// The requests of claims and templates, and with the drivers of their classes, once a pod refers to them.
    requests: HashMap<ObjectName, (Requests, OnceLock<Requests>)>,
    classes: HashMap<String, DeviceClass>,
    /// The names of classes by their extended resources.
    resources: HashMap<String, String>,
    /// Each with the resource that its pods request.
    networks: HashMap<ObjectName, Option<String>>,
    /// The names of those of Multus, by resource and namespace.
    by_resource: HashMap<String, BTreeMap<String, BTreeSet<String>>>,
    /// The namespaces that have more objects than are known.
    pub over: HashSet<String>,
    /// The kinds of which all objects are known, but for those of [`Self::over`].
    pub whole: HashSet<ObjectKind>,
    /// True if Multus lets pods use the networks of their own namespace only.
    pub isolates_networks: bool,
}

impl FromIterator<NamedObject> for KnownObjects {
    fn from_iter<I: IntoIterator<Item = NamedObject>>(objects: I) -> Self {
        let mut known = Self::default();
        known.extend(objects);
        known
    }
}

impl Extend<NamedObject> for KnownObjects {
    fn extend<I: IntoIterator<Item = NamedObject>>(&mut self, objects: I) {
        for object in objects {
            match object {
                NamedObject::Claim { name, is_named: true, requests } => {
                    self.requests.entry(name).or_insert((requests, OnceLock::new()));
                }
                NamedObject::Claim { name, requests, .. } => {
                    self.requests.insert(name, (requests, OnceLock::new()));
                }
                NamedObject::Class(class) => {
                    let resource = class.resource.clone();
                    self.resources.extend(resource.map(|resource| (resource, class.name.clone())));
                    self.classes.insert(class.name.clone(), class);
                }
                NamedObject::Network { name, resource } => self.add_network(name, resource),
            }
        }
        self.requests.values_mut().for_each(|(_, with_drivers)| drop(with_drivers.take()));
    }
}

impl KnownObjects {
    /// What a claim, or each claim of a template, requests; `None` for an unknown one.
    pub fn requests_of(&self, name: &ObjectName) -> Option<Requests> {
        let with_drivers = |request: &ClaimRequest| {
            let drivers = request.classes.iter().filter_map(|class| self.classes.get(class));
            let drivers = drivers.flat_map(|class| &class.drivers);
            let classes = request.classes.iter().chain(drivers).cloned().collect();
            ClaimRequest { classes, ..request.clone() }
        };
        let (requests, shared) = self.requests.get(name)?;
        Some(Arc::clone(shared.get_or_init(|| requests.iter().map(with_drivers).collect())))
    }

    /// The claims and templates, with what they request.
    pub fn claims(&self) -> impl Iterator<Item = (&ObjectName, &Requests)> {
        self.requests.iter().map(|(name, (requests, _))| (name, requests))
    }

    pub fn classes(&self) -> impl Iterator<Item = &DeviceClass> {
        self.classes.values()
    }

    /// A class of the cluster, or the one that a driver installs for the objects for which it creates templates.
    pub fn class(&self, name: &str) -> Option<&DeviceClass> {
        static OF_DOMAINS: LazyLock<DeviceClass> = LazyLock::new(|| DeviceClass {
            name: TABLE.domains.class.clone(),
            drivers: vec![TABLE.domains.driver.clone()],
            ..DeviceClass::default()
        });
        self.classes.get(name).or_else(|| Some(&*OF_DOMAINS).filter(|class| class.name == name))
    }

    /// The class whose devices a container requests by this resource.
    pub fn class_of_resource(&self, resource: &str) -> Option<&DeviceClass> {
        let name = resource.strip_prefix(DEVICE_CLASS);
        self.classes.get(name.or_else(|| self.resources.get(resource).map(String::as_str))?)
    }

    fn add_network(&mut self, name: ObjectName, resource: Option<String>) {
        if let Some(Some(before)) = self.networks.insert(name.clone(), resource.clone()) {
            self.names_of(before, &name.namespace).remove(&name.name);
        }
        if let Some(resource) = resource.filter(|_| name.kind == ObjectKind::of_multus()) {
            self.names_of(resource, &name.namespace).insert(name.name);
        }
    }

    fn names_of(&mut self, resource: String, namespace: &str) -> &mut BTreeSet<String> {
        self.by_resource.entry(resource).or_default().entry(namespace.to_owned()).or_default()
    }

    /// The network of each of these resources, as a pod of a namespace names it. They are those of its namespace, if that
    /// has one for each; else those of the only other one that has, if Multus lets pods use them.
    pub fn networks_of(&self, resources: &[&str], own: &str, work: Option<&Work>) -> Option<Vec<String>> {
        let each: Vec<_> =
            resources.iter().map(|resource| self.by_resource.get(*resource)).collect::<Option<_>>()?;
        let first = each.first().filter(|_| !self.over.contains(own))?;
        let of = |namespace: &str| -> Option<Vec<&String>> {
            let names = each.iter().map(|networks| networks.get(namespace).filter(|names| names.len() == 1));
            names.map(|names| names?.first()).collect()
        };
        if let Some(names) = of(own) {
            return Some(names.into_iter().cloned().collect());
        }
        let may_have = |namespace: &&String| goes_on(work, each.len()) && !self.over.contains(*namespace);
        let others = first.keys().filter(|_| !self.isolates_networks).filter(may_have);
        let mut found = others.filter_map(|namespace| Some((namespace, of(namespace)?)));
        let (namespace, names) = found.next().filter(|_| found.next().is_none())?;
        Some(names.into_iter().map(|name| format!("{namespace}/{name}")).collect())
    }

    /// Returns whether an object is known not to exist. A template exists where an object names it for which a driver
    /// creates it.
    pub fn lacks(&self, object: &ObjectName) -> bool {
        let ObjectName { kind, namespace, name } = object;
        let needed: &[ObjectKind] = match kind {
            ObjectKind::Template => &[ObjectKind::Template, ObjectKind::Domain],
            _ => std::slice::from_ref(kind),
        };
        let exists = match kind {
            ObjectKind::Claim | ObjectKind::Template | ObjectKind::Domain => {
                self.requests.contains_key(object)
            }
            ObjectKind::Class => self.classes.contains_key(name),
            ObjectKind::Network(_) => self.networks.contains_key(object) || kind.always_exists(name),
        };
        !exists && !self.over.contains(namespace) && needed.iter().all(|kind| self.whole.contains(kind))
    }
}
