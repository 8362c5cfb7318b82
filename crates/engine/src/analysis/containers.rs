//! The containers of a pod and their requests.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use fabric_yaml::json::{field, items};
use fabric_yaml::quantity::Quantity;

use fabric_policy::claims::DEVICE_CLASS;
use fabric_policy::expression::{Path, Step};
use fabric_policy::objects::PodClaim;
use fabric_policy::schema::{self, Shape, can_overcommit};
use fabric_policy::work::{Work, goes_on, takes_memory};
use fabric_policy::{Devices, PodContext, ResolvedPolicy};

use super::completed::part_of;
use super::pod_claims::GpuClaims;
use super::{CONTAINER_LISTS, count_steps};
use crate::record::{OrReason, Place, malformed};

/// One container or init container.
#[derive(Debug, Default)]
pub(crate) struct Container {
    /// `containers` or `initContainers`.
    pub(crate) list: &'static str,
    pub(crate) index: usize,
    /// The number of its GPUs.
    pub(crate) gpus: i64,
    /// The GPUs among them that come by claim.
    claimed: i64,
    /// Its GPUs by resource, if an expression reads them.
    pub(crate) counts: Value,
    /// The parts of it that expressions read.
    pub(crate) read: Value,
    /// The environment variables that expressions read, by name.
    pub(crate) env: Value,
    /// True if it requests a device of the fabric itself, if an expression reads that.
    pub(crate) has_device: bool,
}

impl Container {
    /// Its list and index.
    pub(crate) fn place(&self) -> Place {
        (self.list, self.index)
    }

    /// Reads the fields of the container that the expressions of a policy use.
    pub(super) fn read(&mut self, policy: &ResolvedPolicy, pod: &Value, work: Option<&Work>) {
        let container = &pod["spec"][self.list][self.index];
        if policy.evaluated.reads("container") {
            let shape = Shape::Object(schema::container());
            self.read = part_of(container, &policy.evaluated.paths_read.container, &shape, work);
        }
        if policy.evaluated.reads("containerEnv") {
            self.env = env(container, &policy.evaluated.paths_read.env, work);
        }
        if policy.evaluated.reads("gpuCounts") {
            self.counts = gpu_counts(container, self.claimed, &policy.evaluated.devices);
        }
    }
}

/// The values of the environment variables that expressions read, by name; empty for those by reference.
fn env(container: &Value, reads: &BTreeSet<Path>, work: Option<&Work>) -> Value {
    let variables = items(container, "env");
    if !goes_on(work, variables.len() * reads.len()) {
        return Value::Null;
    }
    // Without a name at its beginning, a path leads to all of them.
    let leads_to =
        |path: &Path, name: &str| !matches!(path.first(), Some(Step::Field(field)) if field != name);
    let is_read = |name: &str| reads.iter().any(|path| leads_to(path, name));
    let read = variables.iter().filter_map(|variable| {
        let name = variable["name"].as_str().filter(|name| is_read(name))?;
        Some((name.to_owned(), variable["value"].as_str().unwrap_or_default().into()))
    });
    read.collect::<Map<_, _>>().into()
}

/// The steps to analyze a container.
const STEPS_OF_CONTAINER: usize = 100;

/// The containers of a pod with their GPUs; an error if it is malformed.
pub(super) fn containers(
    pod: &Value,
    claims: &[PodClaim<'_>],
    devices: &Devices,
    context: &PodContext,
) -> OrReason<Vec<Container>> {
    object(pod, "")?;
    for field in ["metadata", "spec"] {
        optional_object(&pod[field], field)?;
    }
    for (part, map) in [("metadata", "annotations"), ("metadata", "labels"), ("spec", "nodeSelector")] {
        let entries = optional_object(&pod[part][map], &format!("{part}.{map}"))?;
        for (key, value) in entries.into_iter().flatten() {
            text(value, || format!("{part}.{map}[{key}]"))?;
        }
    }
    let count: usize = CONTAINER_LISTS.iter().map(|list| items(&pod["spec"], list).len()).sum();
    takes_memory(context.work.as_ref(), count * size_of::<Container>());
    count_steps(context, 0)?;
    let mut containers = Vec::with_capacity(count);
    let claims = GpuClaims::new(claims, devices);
    for list in CONTAINER_LISTS {
        let items = match &pod["spec"][list] {
            Value::Null => continue,
            Value::Array(items) => items,
            other => return Err(malformed(&format!("spec.{list}"), "a list", other)),
        };
        for (index, item) in items.iter().enumerate() {
            count_steps(context, STEPS_OF_CONTAINER)?;
            object(item, &format!("spec.{list}[{index}]"))?;
            let name = || item["name"].as_str().map_or_else(|| index.to_string(), str::to_owned);
            let path = || format!("spec.{list}[{}]", name());
            texts(item, path)?;
            let gpus = gpus(item, &devices.gpu_resources, path)?;
            // A device plugin or a DRA driver offers the devices of one kind, not both. Other claims of the container
            // are not GPUs.
            let claimed = if gpus > 0 { 0 } else { claims.gpus_of(item) };
            let gpus = gpus.saturating_add(claimed);
            containers.push(Container { list, index, gpus, claimed, ..Container::default() });
        }
    }
    Ok(containers)
}

/// Fails for a value that is not a string. The API server reads `null` as an empty string.
fn text(value: &Value, path: impl Fn() -> String) -> OrReason {
    if value.is_string() || value.is_null() { Ok(()) } else { Err(malformed(&path(), "a string", value)) }
}

/// Fails for a variable or an argument of a container that is not a string.
fn texts(container: &Value, path: impl Fn() -> String) -> OrReason {
    for entry in items(container, "env") {
        text(field(entry, "value"), || {
            format!("{}.env[{}].value", path(), entry["name"].as_str().unwrap_or_default())
        })?;
    }
    for list in ["command", "args"] {
        for (index, word) in items(container, list).iter().enumerate() {
            text(word, || format!("{}.{list}[{index}]", path()))?;
        }
    }
    Ok(())
}

/// GPUs of a container: its limit, else its request. The API server sets one from the other; a manifest on
/// disk may have either.
fn gpus(container: &Value, gpu_resources: &[String], path: impl Fn() -> String) -> OrReason<i64> {
    let mut total: i64 = 0;
    let amounts = Amounts::new(container);
    for resource in gpu_resources {
        let Some((list, amount)) = amounts.get(resource) else { continue };
        let count = Quantity::from_value(amount).and_then(Quantity::as_count).ok_or_else(|| {
            malformed(&format!("{}.resources.{list}[{resource}]", path()), "a whole number", amount)
        })?;
        total = total.saturating_add(count);
    }
    Ok(total)
}

/// The limits and the requests of a container.
struct Amounts<'c> {
    limits: &'c Value,
    requests: &'c Value,
}

impl<'c> Amounts<'c> {
    fn new(container: &'c Value) -> Self {
        let resources = field(container, "resources");
        Self { limits: field(resources, "limits"), requests: field(resources, "requests") }
    }

    /// The amount of a resource, and the list that has it.
    fn get(&self, resource: &str) -> Option<(&'static str, &'c Value)> {
        [("limits", self.limits), ("requests", self.requests)].into_iter().find_map(|(list, amounts)| {
            let amount = field(amounts, resource);
            (!amount.is_null()).then_some((list, amount))
        })
    }

    /// The amount of a resource; 0 for an amount that is not a whole number.
    fn count(&self, resource: &str) -> i64 {
        let amount = self.get(resource).map(|(_, amount)| amount);
        amount.and_then(Quantity::from_value).and_then(Quantity::as_count).unwrap_or(0)
    }
}

/// The amount of a resource that the scheduler counts for a pod: containers and native sidecars run together; an init
/// container runs with the sidecars that were started before it.
#[derive(Debug, Default)]
struct Scheduled {
    /// The amount of the sidecars, and then of the containers.
    running: i64,
    peak: i64,
}

impl Scheduled {
    /// Adds the amount of a container, those of `initContainers` first.
    fn add(&mut self, list: &str, container: &Value, amount: i64) {
        let with_it = self.running.saturating_add(amount);
        if list == "containers" || is_sidecar(container) {
            self.running = with_it;
        } else {
            self.peak = self.peak.max(with_it);
        }
    }

    fn total(&self) -> i64 {
        self.peak.max(self.running)
    }
}

/// Returns whether an init container is a native sidecar.
pub(crate) fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"].as_str() == Some("Always")
}

/// The GPUs of the pod: those of device plugins as the scheduler counts them, and those of each claim once, because
/// containers that name the same claim share its devices.
pub(super) fn total_gpus(
    pod: &Value,
    containers: &[Container],
    claims: &[PodClaim<'_>],
    devices: &Devices,
) -> i64 {
    let mut scheduled = Scheduled::default();
    for container in containers {
        let Container { list, index, gpus, claimed, .. } = *container;
        scheduled.add(list, &pod["spec"][list][index], gpus - claimed);
    }
    let by_claim = containers.iter().filter(|container| container.claimed > 0);
    let by_claim = by_claim.map(|container| &pod["spec"][container.list][container.index]);
    scheduled.total().saturating_add(GpuClaims::new(claims, devices).gpus_of_all(by_claim))
}

/// The GPUs of a container by resource, and those by claim under `claims`.
fn gpu_counts(container: &Value, claimed: i64, devices: &Devices) -> Value {
    let amounts = Amounts::new(container);
    let by_resource =
        devices.gpu_resources.iter().map(|name| (name.clone(), Value::from(amounts.count(name))));
    by_resource.chain([("claims".to_owned(), Value::from(claimed))]).collect::<Map<_, _>>().into()
}

/// The pod's requests of devices, as the scheduler counts them.
pub fn requests(pod: &Value) -> Value {
    let mut scheduled: Vec<(&str, Scheduled)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for list in CONTAINER_LISTS {
        for container in items(&pod["spec"], list) {
            let amounts = Amounts::new(container);
            let both = [amounts.limits, amounts.requests].into_iter().filter_map(Value::as_object);
            let keys: BTreeSet<&str> = both.flat_map(Map::keys).map(String::as_str).collect();
            for key in keys.into_iter().filter(|key| !can_overcommit(key) || key.starts_with(DEVICE_CLASS)) {
                let at = *places.entry(key).or_insert_with(|| {
                    scheduled.push((key, Scheduled::default()));
                    scheduled.len() - 1
                });
                scheduled[at].1.add(list, container, amounts.count(key));
            }
        }
    }
    let total = |(name, scheduled): (&str, Scheduled)| (name.to_owned(), Value::from(scheduled.total()));
    scheduled.into_iter().map(total).collect::<Map<_, _>>().into()
}

fn object<'p>(value: &'p Value, path: &str) -> OrReason<&'p Map<String, Value>> {
    value.as_object().ok_or_else(|| malformed(path, "a map", value))
}

fn optional_object<'p>(value: &'p Value, path: &str) -> OrReason<Option<&'p Map<String, Value>>> {
    if value.is_null() { Ok(None) } else { object(value, path).map(Some) }
}
