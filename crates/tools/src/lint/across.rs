//! Findings that need several documents of an input.

use std::collections::HashMap;

use serde_json::{Value, json};

use fabric_engine::Reason;
use fabric_engine::policy_set::PolicySet;
use fabric_workloads::advice::{mesh_of_namespace, objects, runtime, runtime_of_job};
use fabric_workloads::manifest::{Document, RawDocument, Template, Wanted};
use fabric_yaml::json::items;
use fabric_yaml::pointer::{at_pointer, field_path};

use super::{Finding, Level, lint};

/// The facts of an input, gathered document by document. `P` is a place in it.
#[derive(Debug, Default)]
pub struct Across<P> {
    /// Services, Namespaces, and the runtimes of `TrainJob`s with a template that requests the fabric, by [`runtime`]
    /// and the like.
    objects: HashMap<String, Value>,
    train_jobs: Vec<TrainJob<P>>,
    /// The pods that request the fabric.
    asking: Vec<Asking<P>>,
    /// The pods that name a Service as their subdomain.
    subdomains: Vec<Subdomain<P>>,
}

/// The codes of the findings about several documents.
pub(super) const CODES: &[&str] = &["subdomain_without_service", "service_not_headless", "service_not_ready"];

#[derive(Debug)]
struct TrainJob<P> {
    place: P,
    runtime: String,
    /// What each of its nodes requests.
    resources: Value,
}

/// A pod that requests the fabric, as far as a mesh reads it.
#[derive(Debug)]
struct Asking<P> {
    place: P,
    pointer: String,
    /// The name of its namespace in the map of objects.
    namespace: String,
    pod: Value,
}

#[derive(Debug)]
struct Subdomain<P> {
    place: P,
    pointer: String,
    path: String,
    /// The name of the Service, and that in the map of objects.
    name: String,
    service: String,
    /// True if the pods wait for a probe before they are ready.
    has_probe: bool,
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
            self.add_object(root, &object, &of_object, place);
        }
    }

    /// Adds an object of a document, with its templates.
    fn add_object(
        &mut self,
        document: &Value,
        pointer: &str,
        templates: &[&Template],
        place: &impl Fn(&str) -> P,
    ) {
        let Some(root) = at_pointer(document, pointer) else { return };
        let (kind, metadata) = (root["kind"].as_str().unwrap_or_default(), &root["metadata"]);
        let name = metadata["name"].as_str().unwrap_or_default();
        let namespace = metadata["namespace"].as_str().unwrap_or("default");
        match kind {
            "Service" if root["apiVersion"] == "v1" => {
                self.objects.insert(service(namespace, name), root.clone());
            }
            // The GPUs may be those of the `TrainJob`.
            "TrainingRuntime" | "ClusterTrainingRuntime" if templates.iter().any(|one| answers(one)) => {
                self.objects.insert(runtime(kind, namespace, name), root.clone());
            }
            "TrainJob" => {
                let resources = root["spec"]["trainer"]["resourcesPerNode"].clone();
                if !resources.is_null() {
                    let (place, runtime) = (place(pointer), runtime_of_job(root));
                    self.train_jobs.push(TrainJob { place, runtime, resources });
                }
            }
            "Namespace" => drop(self.objects.insert(namespace_id(name), json!({"metadata": metadata}))),
            _ => {}
        }
        // Controllers of other kinds create the Service themselves.
        let is_plain = ["v1", "batch/v1", "apps/v1"].iter().any(|version| root["apiVersion"] == *version);
        for template in templates.iter().filter(|template| !template.pointer.contains('#')) {
            let Some(pod) = at_pointer(document, &template.pointer) else { continue };
            if template.mutation.requests_fabric() {
                let host_network = &pod["spec"]["hostNetwork"];
                self.asking.push(Asking {
                    place: place(&template.pointer),
                    pointer: template.pointer.clone(),
                    namespace: namespace_id(namespace),
                    pod: json!({"metadata": pod["metadata"], "spec": {"hostNetwork": host_network}}),
                });
            }
            let subdomain = pod["spec"]["subdomain"].as_str().filter(|name| !name.is_empty());
            let Some(name) = subdomain.filter(|_| is_plain && has_devices(pod)) else { continue };
            let has_probe =
                items(&pod["spec"], "containers").iter().any(|one| one["readinessProbe"].is_object());
            let pointer = format!("{}/spec/subdomain", template.pointer);
            self.subdomains.push(Subdomain {
                place: place(&pointer),
                path: field_path(document, &pointer),
                pointer,
                service: service(namespace, name),
                name: name.to_owned(),
                has_probe,
            });
        }
    }

    /// Returns whether a finding about a `TrainJob` is answered by its runtime, which requests the fabric.
    pub fn is_answered_by_runtime(&self, finding: &Finding) -> bool {
        finding.runtime.as_ref().is_some_and(|runtime| self.objects.contains_key(runtime))
    }

    /// The findings, each with its place.
    pub fn findings(&self, policies: &PolicySet, wanted: Wanted<'_>) -> Vec<(P, Finding)> {
        let of_one = |one: &Subdomain<P>| Some((one.place.clone(), self.of_subdomain(one)?));
        let mut found: Vec<(P, Finding)> = self.subdomains.iter().filter_map(of_one).collect();
        found.extend(self.asking.iter().filter_map(|asking| {
            let mesh = mesh_of_namespace(self.objects.get(&asking.namespace)?, &asking.pod)?;
            Some((asking.place.clone(), Finding { pointer: asking.pointer.clone(), ..mesh }))
        }));
        for job in &self.train_jobs {
            let Some(runtime) = self.objects.get(&job.runtime) else { continue };
            let joined = lint_with_resources(policies, runtime.clone(), &job.resources, wanted);
            found.extend(joined.into_iter().map(|finding| (job.place.clone(), finding)));
        }
        found
    }

    fn of_subdomain(&self, subdomain: &Subdomain<P>) -> Option<Finding> {
        let Subdomain { pointer, path, name, service, has_probe, .. } = subdomain;
        let (code, message) = match self.objects.get(service).map(|service| &service["spec"]) {
            None => (
                "subdomain_without_service",
                format!(
                    "add a headless Service `{name}`, which `{path}` names: it is not in this input, and without it the \
                     pods do not find each other by name"
                ),
            ),
            Some(spec) if spec["clusterIP"] != "None" && spec["clusterIPs"][0] != "None" => (
                "service_not_headless",
                format!(
                    "write `clusterIP: None` in the Service `{name}`, which `{path}` names: it gives pods no names"
                ),
            ),
            Some(spec) if *has_probe && spec["publishNotReadyAddresses"] != true => (
                "service_not_ready",
                format!(
                    "write `publishNotReadyAddresses: true` in the Service `{name}`: the pods have names only when they \
                     are ready, and their `readinessProbe` may wait for all of them"
                ),
            ),
            Some(_) => return None,
        };
        Some(Finding::new(Level::Warning, code, pointer.as_str(), message))
    }
}

/// Returns whether a template requests the fabric, or declines it.
fn answers(template: &Template) -> bool {
    let declines = |reason: &Reason| matches!(reason, Reason::OptedOut { .. } | Reason::TriggerValue { .. });
    template.mutation.requests_fabric() || template.mutation.outcome.reason().is_some_and(declines)
}

fn service(namespace: &str, name: &str) -> String {
    format!("Service/{namespace}/{name}")
}

fn namespace_id(name: &str) -> String {
    format!("Namespace/{name}")
}

/// The findings about the pods of a runtime, with the resources that a `TrainJob` gives them. Its controller merges them
/// with those of the container `node` of such jobs: kubeflow/trainer, `pkg/runtime/core/trainingruntime.go`.
fn lint_with_resources(
    policies: &PolicySet,
    mut runtime: Value,
    resources: &Value,
    wanted: Wanted<'_>,
) -> Vec<Finding> {
    const STEP: &str = "trainer.kubeflow.org/trainjob-ancestor-step";
    for job in runtime["spec"]["template"]["spec"]["replicatedJobs"].as_array_mut().into_iter().flatten() {
        // With `runLauncherAsNode`, the workers of MPI are a job of their own, which has no label.
        let is_node = job["name"] == "node";
        let template = &mut job["template"];
        if template["metadata"]["labels"][STEP] != "trainer" && !is_node {
            continue;
        }
        let containers = template["spec"]["template"]["spec"]["containers"].as_array_mut();
        for container in containers.into_iter().flatten().filter(|container| container["name"] == "node") {
            for amounts in ["limits", "requests"] {
                let own = &mut container["resources"][amounts];
                for (name, amount) in resources[amounts].as_object().into_iter().flatten() {
                    own[name.as_str()] = amount.clone();
                }
            }
        }
    }
    let found = lint(policies, &mut Document::new(runtime), &RawDocument::new(Vec::new()), wanted, |_, _| ());
    let mut found = found.unwrap_or_default();
    for finding in &mut found {
        finding.message = format!("with its runtime: {}", finding.message);
        finding.pointer = String::new();
    }
    found
}

/// Returns whether a container requests a device, such as a GPU.
fn has_devices(pod: &Value) -> bool {
    let containers = items(&pod["spec"], "containers").iter();
    let limits = containers.filter_map(|container| container["resources"]["limits"].as_object());
    limits.flatten().any(|(name, _)| name.contains('/'))
}
