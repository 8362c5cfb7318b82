//! Findings that need several documents of an input.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use fabric_engine::Reason;
use fabric_engine::policy_set::PolicySet;
use fabric_policy::objects::domains;
use fabric_workloads::advice::{mesh_of_namespace, objects, pods_of_template, runtime, runtime_of_job};
use fabric_workloads::manifest::{Document, RawDocument, Template, Wanted};
use fabric_yaml::counted;
use fabric_yaml::json::items;
use fabric_yaml::pointer::{at_pointer, field_path, push_token};

use super::network_policies::NetworkPolicies;
use super::{Finding, Level, lint};

/// The facts of an input, gathered document by document. `P` is a place in it.
#[derive(Debug, Default)]
pub struct Across<P> {
    /// Services, Namespaces, and the runtimes of `TrainJob`s with a template that requests the fabric, by [`runtime`]
    /// and the like.
    objects: HashMap<String, Value>,
    train_jobs: Vec<TrainJob<P>>,
    /// The devices of the container of each runtime, and whether the runtime itself requests them.
    runtime_devices: HashMap<String, BTreeMap<String, (Value, bool)>>,
    network_policies: NetworkPolicies,
    /// The data of `ConfigMap`s, by [`config_map`].
    config_maps: HashMap<String, Value>,
    overridden: Vec<Overridden<P>>,
    /// The pods that request the fabric.
    asking: Vec<Asking<P>>,
    /// The pods that name a Service as their subdomain.
    subdomains: Vec<Subdomain<P>>,
    domains: Vec<DomainNodes<P>>,
    /// The pods that claim each template, by [`template`]; `None` if their number is not known.
    claiming: HashMap<String, Option<i64>>,
}

/// The codes of the findings about several documents.
pub(super) const CODES: &[&str] = &[
    "subdomain_without_service",
    "service_not_headless",
    "service_not_ready",
    "network_policy",
    "replaced_resources",
    "overrides_config_map",
];

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

/// An object with a number of nodes, for which a driver creates a template.
#[derive(Debug)]
struct DomainNodes<P> {
    place: P,
    pointer: String,
    /// The name of the template in the map of claims.
    template: String,
    nodes: i64,
}

/// The variables that a policy sets in a container with variables of `ConfigMap`s.
#[derive(Debug)]
struct Overridden<P> {
    place: P,
    pointer: String,
    maps: Vec<String>,
    /// Each with its value.
    variables: Vec<(String, Value)>,
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
            "TrainingRuntime" | "ClusterTrainingRuntime" => {
                let id = runtime(kind, namespace, name);
                let devices = templates.iter().flat_map(|template| devices_of_node(document, template));
                self.runtime_devices.entry(id.clone()).or_default().extend(devices);
                // The GPUs may be those of the `TrainJob`.
                if templates.iter().any(|one| answers(one)) {
                    self.objects.insert(id, root.clone());
                }
            }
            "NetworkPolicy" => self.network_policies.add(namespace_id(namespace), root),
            "ConfigMap" => drop(self.config_maps.insert(config_map(namespace, name), root["data"].clone())),
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
        if let Some((name, nodes)) = domains().nodes_of(root).filter(|(_, nodes)| *nodes > 0) {
            let template = claim_template(namespace, name);
            self.domains.push(DomainNodes {
                place: place(pointer),
                pointer: pointer.to_owned(),
                template,
                nodes,
            });
        }
        for template in templates {
            let Some(pod) = at_pointer(document, &template.pointer) else { continue };
            let inner = template.pointer.strip_prefix(pointer).unwrap_or_default();
            for claim in items(&pod["spec"], "resourceClaims") {
                let Some(name) = claim["resourceClaimTemplateName"].as_str() else { continue };
                let known = self.claiming.entry(claim_template(namespace, name)).or_insert(Some(0));
                *known =
                    (*known).zip(pods_of_template(root, inner)).map(|(all, pods)| all.saturating_add(pods));
            }
        }
        // Controllers of other kinds create the Service themselves.
        let is_plain = ["v1", "batch/v1", "apps/v1"].iter().any(|version| root["apiVersion"] == *version);
        for template in templates.iter().filter(|template| !template.pointer.contains('#')) {
            let Some(pod) = at_pointer(document, &template.pointer) else { continue };
            if template.mutation.requests_fabric() {
                self.add_overridden(pod, template, namespace, place);
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
        found.extend(self.domains.iter().filter_map(|one| Some((one.place.clone(), self.of_domain(one)?))));
        let blocked = |asking: &Asking<P>| {
            let finding = self.network_policies.blocking(&asking.namespace, &asking.pod)?;
            Some((asking.place.clone(), Finding { pointer: asking.pointer.clone(), ..finding }))
        };
        found.extend(self.asking.iter().filter_map(blocked));
        found.extend(self.overridden.iter().filter_map(|one| self.of_overridden(one)));
        for job in &self.train_jobs {
            found.extend(self.replaced(job).map(|finding| (job.place.clone(), finding)));
            let Some(runtime) = self.objects.get(&job.runtime) else { continue };
            let joined = lint_with_resources(policies, runtime.clone(), &job.resources, wanted);
            found.extend(joined.into_iter().map(|finding| (job.place.clone(), finding)));
        }
        found
    }

    /// The devices of a runtime that the resources of a `TrainJob` do not have.
    fn replaced(&self, job: &TrainJob<P>) -> Option<Finding> {
        let own = |name: &str| ["limits", "requests"].iter().any(|list| !job.resources[list][name].is_null());
        let lost: Vec<_> =
            self.runtime_devices.get(&job.runtime)?.iter().filter(|(name, _)| !own(name)).collect();
        let (level, end) = if lost.iter().any(|(_, (_, is_own))| *is_own) {
            (Level::Warning, "")
        } else {
            (Level::Note, ", unless the webhook injects its pods")
        };
        let devices: Vec<String> =
            lost.iter().map(|(name, (count, _))| format!("`{name}: {}`", unquoted(count))).collect();
        (!lost.is_empty()).then(|| {
            let message = format!(
                "write {} in `spec.trainer.resourcesPerNode`, too: with Trainer up to 2.2, it replaces the resources of \
                 the runtime, and the pods lose these devices{end}",
                devices.join(", ")
            );
            Finding::new(level, "replaced_resources", "/spec/trainer/resourcesPerNode", message)
        })
    }

    /// Adds the variables of a policy for containers that get others from `ConfigMap`s.
    fn add_overridden(
        &mut self,
        pod: &Value,
        template: &Template,
        namespace: &str,
        place: &impl Fn(&str) -> P,
    ) {
        for (at, container) in items(&pod["spec"], "containers").iter().enumerate() {
            let sources = items(container, "envFrom").iter();
            let maps = sources.filter_map(|from| from["configMapRef"]["name"].as_str());
            let maps: Vec<String> = maps.map(|name| config_map(namespace, name)).collect();
            if maps.is_empty() {
                continue;
            }
            let variables = items(container, "env").iter().enumerate();
            let added = variables
                .filter(|(index, _)| is_added(template, &format!("/spec/containers/{at}/env/{index}")))
                .filter_map(|(_, variable)| {
                    Some((variable["name"].as_str()?.to_owned(), variable["value"].clone()))
                });
            let (variables, pointer) =
                (added.collect(), format!("{}/spec/containers/{at}/envFrom", template.pointer));
            self.overridden.push(Overridden { place: place(&pointer), pointer, maps, variables });
        }
    }

    fn of_overridden(&self, one: &Overridden<P>) -> Option<(P, Finding)> {
        let differs = |(name, value): &&(String, Value)| {
            // Of several, the last one counts.
            let mut known = one.maps.iter().rev().filter_map(|map| self.config_maps.get(map)?.get(name));
            known.next().is_some_and(|known| known != value)
        };
        let names: Vec<String> =
            one.variables.iter().filter(differs).map(|(name, _)| format!("`{name}`")).collect();
        (!names.is_empty()).then(|| {
            let message = format!(
                "write {} in `env` of the container: the policy sets what the pod has in a ConfigMap alone, and `env` \
                 counts before `envFrom`",
                names.join(", ")
            );
            (one.place.clone(), Finding::new(Level::Warning, "overrides_config_map", one.pointer.as_str(), message))
        })
    }

    /// The pods of a job with a channel take a node each.
    fn of_domain(&self, domain: &DomainNodes<P>) -> Option<Finding> {
        let DomainNodes { pointer, nodes, template, .. } = domain;
        let pods = (*self.claiming.get(template)?).filter(|pods| pods != nodes)?;
        let message = format!(
            "write 0, or the number of nodes whose pods claim its template: it is for {nodes}, and {} of this input \
             claim it; {} hold the pods back until there are {nodes}",
            counted(pods, "pod"),
            domains().waits
        );
        Some(Finding::new(Level::Note, "domain_nodes", pointer.as_str(), message))
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

fn claim_template(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

fn service(namespace: &str, name: &str) -> String {
    format!("Service/{namespace}/{name}")
}

fn config_map(namespace: &str, name: &str) -> String {
    format!("ConfigMap/{namespace}/{name}")
}

/// The devices of the container `node` of an injected template, each with whether the template itself has it.
fn devices_of_node(document: &Value, template: &Template) -> Vec<(String, (Value, bool))> {
    let containers = at_pointer(document, &template.pointer).map(|pod| items(&pod["spec"], "containers"));
    let node = containers.into_iter().flatten().enumerate().find(|(_, one)| one["name"] == "node");
    let Some((at, container)) = node else { return Vec::new() };
    let limits = container["resources"]["limits"].as_object().into_iter().flatten();
    let devices = limits.filter(|(name, count)| name.contains('/') && **count != 0);
    let with_origin = |(name, count): (&String, &Value)| {
        let mut pointer = format!("/spec/containers/{at}/resources/limits");
        push_token(&mut pointer, name);
        (name.clone(), (count.clone(), !is_added(template, &pointer)))
    };
    devices.map(with_origin).collect()
}

/// Returns whether a policy adds the field of a template, or one around it.
fn is_added(template: &Template, pointer: &str) -> bool {
    template.mutation.outcome.changed().is_some_and(|mutated| {
        mutated.operations().iter().any(|operation| {
            let rest = pointer.strip_prefix(operation.pointer);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    })
}

fn unquoted(count: &Value) -> String {
    count.as_str().map_or_else(|| count.to_string(), str::to_owned)
}

fn namespace_id(name: &str) -> String {
    format!("Namespace/{name}")
}

/// The map that is the value of a key, or is now; `None` if something else is there.
fn map_at<'m>(parent: &'m mut Map<String, Value>, key: &str) -> Option<&'m mut Map<String, Value>> {
    let own = parent.entry(key).or_insert(Value::Null);
    if own.is_null() {
        *own = Value::Object(Map::new());
    }
    own.as_object_mut()
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
    // It may have anything there, on which an assignment by `[…]` panics.
    let jobs = runtime.pointer_mut("/spec/template/spec/replicatedJobs").and_then(Value::as_array_mut);
    for job in jobs.into_iter().flatten() {
        // With `runLauncherAsNode`, the workers of MPI are a job of their own, which has no label.
        let is_node = job["name"] == "node";
        if job["template"]["metadata"]["labels"][STEP] != "trainer" && !is_node {
            continue;
        }
        let containers =
            job.pointer_mut("/template/spec/template/spec/containers").and_then(Value::as_array_mut);
        let of_node = containers.into_iter().flatten().filter(|container| container["name"] == "node");
        for container in of_node.filter_map(Value::as_object_mut) {
            for amounts in ["limits", "requests"] {
                let given = resources[amounts].as_object().cloned().unwrap_or_default();
                let own = map_at(container, "resources").and_then(|resources| map_at(resources, amounts));
                if let Some(own) = own {
                    own.extend(given);
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
