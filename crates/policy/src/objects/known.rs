//! The objects of a cluster, or of the input of a command, by their names.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use crate::claims::{ClaimRequest, Requests};

use super::{NamedObject, ObjectKind, ObjectName};

/// The objects that are known.
#[derive(Debug, Clone, Default)]
pub struct KnownObjects {
    /// The requests of claims and templates, and with the drivers of their classes, once a pod refers to them.
    requests: HashMap<ObjectName, (Requests, OnceLock<Requests>)>,
    drivers: HashMap<String, Vec<String>>,
    /// Each with the resource that its pods request.
    networks: HashMap<ObjectName, Option<String>>,
    /// The namespaces that have more objects than are known.
    pub over: HashSet<String>,
    /// The kinds of which all objects are known, but for those of [`Self::over`].
    pub whole: HashSet<ObjectKind>,
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
                NamedObject::Class { name, drivers } => drop(self.drivers.insert(name, drivers)),
                NamedObject::Network { name, resource } => drop(self.networks.insert(name, resource)),
            }
        }
        self.requests.values_mut().for_each(|(_, with_drivers)| drop(with_drivers.take()));
    }
}

impl KnownObjects {
    /// What a claim, or each claim of a template, requests; `None` for an unknown one.
    pub fn requests_of(&self, name: &ObjectName) -> Option<Requests> {
        let with_drivers = |request: &ClaimRequest| {
            let drivers = request.classes.iter().filter_map(|class| self.drivers.get(class)).flatten();
            let classes = request.classes.iter().chain(drivers).cloned().collect();
            ClaimRequest { classes, ..request.clone() }
        };
        let (requests, shared) = self.requests.get(name)?;
        Some(Arc::clone(shared.get_or_init(|| requests.iter().map(with_drivers).collect())))
    }

    /// The names of the classes, each with those of its drivers.
    pub fn classes(&self) -> impl Iterator<Item = (&String, &Vec<String>)> {
        self.drivers.iter()
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
            ObjectKind::Class => self.drivers.contains_key(name),
            ObjectKind::Network(_) => self.networks.contains_key(object) || kind.always_exists(name),
        };
        !exists && !self.over.contains(namespace) && needed.iter().all(|kind| self.whole.contains(kind))
    }
}
