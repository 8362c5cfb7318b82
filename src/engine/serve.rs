//! Serving one pod by one policy, step by step.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::policy::expression::{Bindings, PodUse};
use crate::policy::matcher::namespace_of;
use crate::policy::parameter_text as plain;
use crate::policy::template::{Key, Template};
use crate::policy::text::{EvaluationError, Text};
use crate::policy::{ActiveRule, NoteKind, Policy, Request, Variant};

use super::instance_type;
use super::merge::{Merge, Place, evaluation_failed};
use super::patch::{Changes, field_path};
use super::pod::{self, Container};
use super::report::{Reason, Warning, WarningKind};
use super::security;
use super::volumes::PolicyVolumes;
use super::{STAMP, Stop};

/// The work on one pod: what was changed so far, and what there is to tell.
#[derive(Debug, Default)]
pub(super) struct Service {
    pub(super) changes: Changes,
    warnings: Vec<Warning>,
}

/// Which rules apply to which containers.
struct Selection {
    /// One row a container, one column a rule.
    selected: Vec<Vec<bool>>,
    /// Rules that at least one container selects.
    applied: Vec<bool>,
}

impl Service {
    /// Serves the pod in place and returns its stamp. On a stop the pod may be half served.
    pub(super) fn serve(&mut self, policy: &Policy, pod: &mut Value, request: &Request) -> Result<String, Stop> {
        let definition = policy.definition();
        let containers = pod::containers(pod, &definition.gpu_resources)?;
        let selected_types = instance_type::selected(pod, &definition.strip_prefixes);
        let variant = policy.variant(&selected_types).map_err(|error| failed("the policy", error))?;
        let facts = Facts::of(pod, &containers);
        let bindings = facts.bindings(&variant, pod, request)?;
        let container_bindings: Vec<Bindings<'_, '_>> = containers
            .iter()
            .map(|container| container_bindings(&variant, &bindings, pod, container))
            .collect::<Result<_, Stop>>()?;
        let selection = self.select(&variant, &facts, &bindings, &containers, &container_bindings)?;
        if !selection.applied.contains(&true) {
            return Err(Stop::Leave(if facts.total_gpus == 0 {
                Reason::NoGpuContainer { resources: definition.gpu_resources.clone() }
            } else {
                Reason::NothingToAdd
            }));
        }
        self.note_parameters(policy, &variant, &selection, &selected_types);
        let mut merge = self.merge(&variant, &selection, &facts, &bindings, pod, request)?;
        let result = merge_all(&mut merge, &variant, &selection, &containers, &bindings, &container_bindings, pod);
        self.changes = merge.changes;
        self.warnings.append(&mut merge.warnings);
        result?;
        self.warn_without_root(pod, &containers);
        if self.changes.is_empty() {
            return Err(Stop::Leave(Reason::NothingToAdd));
        }
        Ok(self.stamp(pod, &variant))
    }

    /// The warnings, their paths written for people.
    pub(super) fn finished_warnings(&mut self, pod: &Value) -> Vec<Warning> {
        let mut warnings = std::mem::take(&mut self.warnings);
        for warning in &mut warnings {
            if warning.path.starts_with('/') {
                warning.path = field_path(pod, &warning.path);
            }
        }
        warnings.dedup();
        warnings
    }

    fn select(
        &mut self,
        variant: &Variant,
        facts: &Facts,
        bindings: &Bindings<'_, '_>,
        containers: &[Container],
        container_bindings: &[Bindings<'_, '_>],
    ) -> Result<Selection, Stop> {
        let mut selection = Selection {
            selected: vec![vec![false; variant.rules.len()]; containers.len()],
            applied: vec![false; variant.rules.len()],
        };
        for (column, rule) in variant.rules.iter().enumerate() {
            if let Some(when) = &rule.when
                && !when.holds(bindings).map_err(|error| failed_rule(rule, error))?
            {
                continue;
            }
            for (row, container) in containers.iter().enumerate() {
                let selects = match &rule.containers {
                    None => container.gpus > 0,
                    Some(condition) => {
                        condition.holds(&container_bindings[row]).map_err(|error| failed_rule(rule, error))?
                    }
                };
                selection.selected[row][column] = selects;
                selection.applied[column] |= selects;
            }
            if rule.requires_pod_network && facts.host_network && selection.applied[column] {
                selection.applied[column] = false;
                selection.selected.iter_mut().for_each(|row| row[column] = false);
                let kind = WarningKind::HostNetwork;
                self.warnings.push(Warning { path: String::new(), kind, rule: rule.name.clone() });
            }
        }
        Ok(selection)
    }

    /// Tells where the values of the parameters come from, as far as they mattered.
    fn note_parameters(&mut self, policy: &Policy, variant: &Variant, selection: &Selection, selected: &[String]) {
        let matters = |name: &str| {
            let mut rules = variant.rules.iter().zip(&selection.applied);
            rules.any(|(rule, applied)| *applied && rule.parameters.contains(name))
        };
        let mut push = |kind| {
            self.warnings.push(Warning { path: String::new(), kind, rule: String::new() });
        };
        if policy.types_disagree(selected) {
            push(WarningKind::InstanceTypesDisagree { selected: selected.to_vec() });
        }
        for note in variant.notes.iter().filter(|note| matters(&note.parameter)) {
            let (parameter, value, selected) = (note.parameter.clone(), plain(&note.value), selected.to_vec());
            push(match &note.kind {
                NoteKind::Assumed => WarningKind::ParameterAssumed { parameter, value, selected },
                NoteKind::Contradicts { table } => {
                    WarningKind::ParameterContradicts { parameter, value, table: plain(table), selected }
                }
            });
        }
    }

    fn merge<'a>(
        &mut self,
        variant: &'a Variant,
        selection: &Selection,
        facts: &Facts,
        bindings: &Bindings<'_, '_>,
        pod: &Value,
        request: &Request,
    ) -> Result<Merge<'a>, Stop> {
        let mut volumes = PolicyVolumes::default();
        for (at, rule) in variant.rules.iter().enumerate().filter(|(at, _)| selection.applied[*at]) {
            for volume in declared_volumes(rule) {
                if let Some(value) = volume.build_entry(bindings).map_err(|error| failed_rule(rule, error))? {
                    volumes.declare(at, value);
                }
            }
        }
        let pod_volumes = match &pod["spec"]["volumes"] {
            Value::Null => Vec::new(),
            Value::Array(volumes) => volumes.clone(),
            other => return Err(Stop::Leave(pod::malformed("spec.volumes", "a list", other))),
        };
        let annotations = pod["metadata"]["annotations"].as_object();
        let size = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
        Ok(Merge {
            changes: Changes::default(),
            warnings: Vec::new(),
            volumes,
            pod_volumes,
            rule: "",
            on_conflict: crate::policy::OnConflict::Keep,
            host_network: facts.host_network,
            namespace: namespace_of(&pod["metadata"], request).to_owned(),
            annotation_bytes: annotations.into_iter().flatten().map(size).sum(),
            container_names: container_names(pod),
            pointer: String::new(),
        })
    }

    /// A capability is granted to root only: the kernel knows no ambient capabilities in containers.
    fn warn_without_root(&mut self, pod: &Value, containers: &[Container]) {
        for container in containers {
            let path = format!("/spec/{}/{}", container.list, container.index);
            let added = self.changes.operations().iter().any(|operation| {
                operation.pointer.strip_prefix(&path).is_some_and(|rest| rest.starts_with("/securityContext"))
            });
            let value = pod.pointer(&path).unwrap_or(&Value::Null);
            if added
                && let Some(because) = security::not_root(pod, value)
                && let Some(capability) = value["securityContext"]["capabilities"]["add"]
                    .as_array()
                    .and_then(|added| added.last())
                    .and_then(Value::as_str)
            {
                let kind = WarningKind::CapabilityWithoutRoot { capability: capability.to_owned(), because };
                self.warnings.push(Warning { path, kind, rule: String::new() });
            }
        }
    }

    /// Marks the pod, once: a stamp that is there stays.
    fn stamp(&mut self, pod: &mut Value, variant: &Variant) -> String {
        let Some(root) = pod.as_object_mut() else { return variant.stamp.clone() };
        let mut pointer = String::new();
        let mut place = root;
        for key in ["metadata", "annotations"] {
            super::push_token(&mut pointer, key);
            let slot = place.entry(key).or_insert_with(|| {
                self.changes.added(&pointer);
                Value::Object(Map::new())
            });
            if slot.is_null() {
                let before = std::mem::replace(slot, Value::Object(Map::new()));
                self.changes.replaced(&pointer, before);
            }
            let Value::Object(map) = slot else { return variant.stamp.clone() };
            place = map;
        }
        if let Some(Value::String(stamp)) = place.get(STAMP) {
            return stamp.clone();
        }
        super::push_token(&mut pointer, STAMP);
        place.insert(STAMP.to_owned(), Value::String(variant.stamp.clone()));
        self.changes.added(&pointer);
        variant.stamp.clone()
    }
}

fn merge_all<'v>(
    merge: &mut Merge<'v>,
    variant: &'v Variant,
    selection: &Selection,
    containers: &[Container],
    bindings: &Bindings<'_, '_>,
    container_bindings: &[Bindings<'_, '_>],
    pod: &mut Value,
) -> Result<(), Stop> {
    for (row, container) in containers.iter().enumerate() {
        let Some(Value::Object(map)) = pod["spec"][container.list].get_mut(container.index) else { continue };
        for (column, rule) in variant.rules.iter().enumerate() {
            if let (true, Some(Template::Map(entries))) = (selection.selected[row][column], &rule.container) {
                merge.pointer = format!("/spec/{}/{}", container.list, container.index);
                merge.rule = &rule.name;
                merge.on_conflict = rule.on_conflict;
                merge.map(map, entries, Place::Container, &container_bindings[row])?;
            }
        }
    }
    let mut finished = bindings.child();
    if variant.reads("podRequests") {
        finished.set("podRequests", &pod::requests(pod));
    }
    bind_variables(&mut finished, &variant.final_variables)?;
    for (rule, _) in variant.rules.iter().zip(&selection.applied).filter(|(_, applied)| **applied) {
        if let (Some(Template::Map(entries)), Value::Object(map)) = (&rule.pod, &mut *pod) {
            merge.pointer.clear();
            merge.rule = &rule.name;
            merge.on_conflict = rule.on_conflict;
            merge.map(map, entries, Place::Pod, &finished)?;
        }
    }
    add_volumes(merge, variant, pod);
    for warning in &variant.warnings {
        let place = format!("the warning `{}`", warning.code);
        if warning.when.holds(&finished).map_err(|error| failed(&place, error))? {
            let message = warning.message.evaluate(&finished).map_err(|error| failed(&place, error))?;
            let kind = WarningKind::Policy { code: warning.code.clone(), message: plain(&message) };
            merge.warnings.push(Warning { path: String::new(), kind, rule: String::new() });
        }
    }
    Ok(())
}

fn add_volumes<'v>(merge: &mut Merge<'v>, variant: &'v Variant, pod: &mut Value) {
    let volumes = std::mem::take(&mut merge.volumes);
    for (volume, value) in volumes.missing() {
        merge.rule = &variant.rules[volume.rule].name;
        "/spec/volumes".clone_into(&mut merge.pointer);
        let Value::Object(spec) = &mut pod["spec"] else { return };
        if spec.get("volumes").is_none_or(Value::is_null) {
            merge.insert(spec, "volumes", Value::Array(Vec::new()));
        }
        let to = value["name"].as_str().unwrap_or_default().to_owned();
        if let Some(Value::Array(list)) = spec.get_mut("volumes") {
            merge.push(list, value);
        }
        if to != volume.name {
            merge.warn(WarningKind::RenamedVolume { from: volume.name, to });
        }
    }
}

/// The volumes in a rule's pod overlay.
fn declared_volumes(rule: &ActiveRule) -> &[Template] {
    fn field<'t>(template: &'t Template, name: &str) -> Option<&'t Template> {
        let Template::Map(entries) = template else { return None };
        entries.iter().find_map(|(key, value)| matches!(key, Key::Literal(key) if key == name).then_some(value))
    }
    let volumes = rule.pod.as_ref().and_then(|pod| field(field(pod, "spec")?, "volumes"));
    match volumes {
        Some(Template::List(_, items)) => items,
        _ => &[],
    }
}

fn container_names(pod: &Value) -> Vec<(String, &'static str)> {
    ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| {
            let items = pod["spec"][list].as_array().into_iter().flatten();
            items.filter_map(move |item| Some((item["name"].as_str()?.to_owned(), list)))
        })
        .collect()
}

/// What expressions may read of a pod, besides the pod.
struct Facts {
    total_gpus: i64,
    host_network: bool,
}

impl Facts {
    fn of(pod: &Value, containers: &[Container]) -> Self {
        let gpus_of = |list: &'static str, index: usize, _: &Value| {
            let found = containers.iter().find(|container| container.list == list && container.index == index);
            found.map_or(0, |container| container.gpus)
        };
        Self {
            total_gpus: pod::scheduled(pod, gpus_of),
            host_network: pod["spec"]["hostNetwork"].as_bool() == Some(true),
        }
    }

    fn bindings<'b>(
        &self,
        variant: &'b Arc<Variant>,
        pod: &Value,
        request: &Request,
    ) -> Result<Bindings<'b, 'static>, Stop> {
        let mut bindings = variant.bindings.child();
        if variant.reads("totalGpus") {
            bindings.set_int("totalGpus", self.total_gpus);
        }
        if variant.reads("hostNetwork") {
            bindings.set_bool("hostNetwork", self.host_network);
        }
        if variant.reads("namespace") {
            bindings.set("namespace", &Value::from(namespace_of(&pod["metadata"], request)));
        }
        if variant.reads("pod") {
            bindings.set("pod", &with_labels(part_of(pod, variant.pod_use()), request));
        }
        bind_variables(&mut bindings, &variant.pod_variables)?;
        Ok(bindings)
    }
}

/// As much of the pod as expressions read.
fn part_of(pod: &Value, pod_use: &PodUse) -> Value {
    let PodUse::Paths(paths) = pod_use else { return pod.clone() };
    let mut part = Value::Object(Map::new());
    for path in paths {
        copy_path(pod, &mut part, path);
    }
    part
}

fn copy_path(from: &Value, to: &mut Value, path: &[String]) {
    let (Some((key, rest)), Value::Object(map)) = (path.split_first(), &mut *to) else { return };
    // `metadata` is always there for an expression to look into; nothing else is made up.
    let Some(value) = from.get(key) else {
        if key == "metadata" || key == "spec" {
            map.entry(key.as_str()).or_insert_with(|| Value::Object(Map::new()));
        }
        return;
    };
    if rest.is_empty() || !value.is_object() {
        map.insert(key.clone(), value.clone());
    } else {
        let slot = map.entry(key.as_str()).or_insert_with(|| Value::Object(Map::new()));
        copy_path(value, slot, rest);
    }
}

/// A template has not yet the labels that its controller gives to the pods.
fn with_labels(mut pod: Value, request: &Request) -> Value {
    for (key, value) in &request.labels {
        let labels = &mut pod["metadata"]["labels"];
        if labels.is_null() {
            *labels = Value::Object(Map::new());
        }
        if let Value::Object(labels) = labels {
            labels.entry(key.as_str()).or_insert_with(|| Value::from(value.as_str()));
        }
    }
    pod
}

fn container_bindings<'b>(
    variant: &Variant,
    bindings: &'b Bindings<'_, 'static>,
    pod: &Value,
    container: &Container,
) -> Result<Bindings<'b, 'static>, Stop> {
    let mut own = bindings.child();
    if variant.reads("gpus") {
        own.set_int("gpus", container.gpus);
    }
    if variant.reads("container") {
        own.set("container", &pod["spec"][container.list][container.index]);
    }
    bind_variables(&mut own, &variant.container_variables)?;
    Ok(own)
}

fn bind_variables(bindings: &mut Bindings<'_, '_>, variables: &[(String, Text)]) -> Result<(), Stop> {
    for (name, text) in variables {
        let value = text.evaluate(bindings).map_err(|error| failed(&format!("the variable `{name}`"), error))?;
        bindings.set(name, &value);
    }
    Ok(())
}

fn failed(place: &str, error: EvaluationError) -> Stop {
    Stop::Refuse(evaluation_failed(place, error))
}

fn failed_rule(rule: &ActiveRule, error: EvaluationError) -> Stop {
    failed(&format!("rule `{}`", rule.name), error)
}
