//! Findings that need several documents of an input.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use fabric_engine::manifest::Template;
use fabric_engine::workload::{objects, runtime};
use fabric_engine::{Outcome, Reason};
use fabric_yaml::pointer::{at_pointer, field_path};

use super::{Finding, Level};

/// The facts of an input, gathered document by document. `P` is a place in it.
#[derive(Debug)]
pub struct Across<P> {
    /// The [`runtime`]s of `TrainJob`s with a template that requests the fabric.
    runtimes: HashSet<String>,
    /// Namespace and name of each Service, and its settings.
    services: HashMap<(String, String), Service>,
    /// The pods that name a Service as their subdomain.
    subdomains: Vec<Subdomain<P>>,
}

/// The codes of the findings about several documents.
pub(super) const CODES: &[&str] = &["subdomain_without_service", "service_not_headless", "service_not_ready"];

#[derive(Debug)]
struct Service {
    is_headless: bool,
    publishes_not_ready: bool,
}

#[derive(Debug)]
struct Subdomain<P> {
    place: P,
    pointer: String,
    path: String,
    namespace: String,
    name: String,
    /// True if the pods wait for a probe before they are ready.
    has_probe: bool,
}

impl<P> Default for Across<P> {
    fn default() -> Self {
        Self { runtimes: HashSet::new(), services: HashMap::new(), subdomains: Vec::new() }
    }
}

impl<P: Clone> Across<P> {
    /// Adds a document. `place` finds that of a JSON Pointer.
    pub fn add(&mut self, root: &Value, templates: &[Template], place: &impl Fn(&str) -> P) {
        let mut templates = templates.iter().peekable();
        for object in objects(root, "") {
            let within = |template: &&Template| {
                let inner = template.pointer.strip_prefix(&object);
                inner.is_some_and(|inner| inner.is_empty() || inner.starts_with(['/', '#']))
            };
            let of_object: Vec<&Template> = std::iter::from_fn(|| templates.next_if(within)).collect();
            self.add_object((root, &object), &of_object, place);
        }
    }

    /// Adds an object of a document, with its templates.
    fn add_object(
        &mut self,
        (document, pointer): (&Value, &str),
        templates: &[&Template],
        place: &impl Fn(&str) -> P,
    ) {
        let Some(root) = at_pointer(document, pointer) else { return };
        let (kind, metadata) = (root["kind"].as_str().unwrap_or_default(), &root["metadata"]);
        let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
        let namespace = metadata["namespace"].as_str().unwrap_or("default").to_owned();
        match kind {
            "Service" if root["apiVersion"] == "v1" => {
                let spec = &root["spec"];
                let is_headless = spec["clusterIP"] == "None" || spec["clusterIPs"][0] == "None";
                let publishes_not_ready = spec["publishNotReadyAddresses"] == true;
                self.services
                    .insert((namespace.clone(), text("name")), Service { is_headless, publishes_not_ready });
            }
            "TrainingRuntime" | "ClusterTrainingRuntime" => {
                // One that opts out has decided, too; the GPUs may be those of the `TrainJob`.
                let asks = |template: &&Template| {
                    let outcome = &template.mutation.outcome;
                    !matches!(outcome, Outcome::Unchanged { reason: Reason::NoPolicyMatches, .. })
                };
                if templates.iter().any(asks) {
                    self.runtimes.insert(runtime(kind, &namespace, &text("name")));
                }
            }
            _ => {}
        }
        // Controllers of other kinds create the Service themselves.
        let is_plain = ["v1", "batch/v1", "apps/v1"].iter().any(|version| root["apiVersion"] == *version);
        let is_checked = |template: &&&Template| is_plain && !template.pointer.contains('#');
        for template in templates.iter().filter(is_checked) {
            let Some(pod) = at_pointer(document, &template.pointer) else { continue };
            let Some(name) =
                pod["spec"]["subdomain"].as_str().filter(|name| !name.is_empty() && has_devices(pod))
            else {
                continue;
            };
            let containers = pod["spec"]["containers"].as_array();
            let has_probe = containers.into_iter().flatten().any(|one| one["readinessProbe"].is_object());
            let pointer = format!("{}/spec/subdomain", template.pointer);
            self.subdomains.push(Subdomain {
                place: place(&pointer),
                path: field_path(document, &pointer),
                pointer,
                namespace: namespace.clone(),
                name: name.to_owned(),
                has_probe,
            });
        }
    }

    /// Returns whether a finding about a `TrainJob` is settled by its runtime, which requests the fabric.
    pub fn settles(&self, finding: &Finding) -> bool {
        finding.runtime.as_ref().is_some_and(|runtime| self.runtimes.contains(runtime))
    }

    /// The findings, each with its place.
    pub fn findings(&self) -> Vec<(P, Finding)> {
        let of_one = |one: &Subdomain<P>| Some((one.place.clone(), self.of_subdomain(one)?));
        self.subdomains.iter().filter_map(of_one).collect()
    }

    fn of_subdomain(&self, subdomain: &Subdomain<P>) -> Option<Finding> {
        let Subdomain { pointer, path, namespace, name, has_probe, .. } = subdomain;
        let service = self.services.get(&(namespace.clone(), name.clone()));
        let (code, message) = match service {
            None => (
                "subdomain_without_service",
                format!(
                    "add a headless Service `{name}`, which `{path}` names: it is not in this input, and without it the \
                     pods do not find each other by name"
                ),
            ),
            Some(Service { is_headless: false, .. }) => (
                "service_not_headless",
                format!(
                    "write `clusterIP: None` in the Service `{name}`, which `{path}` names: it gives pods no names"
                ),
            ),
            Some(Service { publishes_not_ready: false, .. }) if *has_probe => (
                "service_not_ready",
                format!(
                    "write `publishNotReadyAddresses: true` in the Service `{name}`: the pods have names only when they \
                     are ready, and their `readinessProbe` may wait for all of them"
                ),
            ),
            Some(_) => return None,
        };
        Some(Finding::new(Level::Warning, code, pointer, message))
    }
}

/// Returns whether a container requests a device, such as a GPU.
fn has_devices(pod: &Value) -> bool {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut limits = containers.filter_map(|container| container["resources"]["limits"].as_object());
    limits.any(|limits| limits.keys().any(|name| name.contains('/')))
}
