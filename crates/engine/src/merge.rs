//! Merging the rules that apply into the pod.
//!
//! [`merge`] goes through the parts of the pod in order: claims, containers, those that rules add, their files and checks,
//! the rest of the pod and its checks, and last the volumes that mounts need. For each, [`evaluated`] decides which value
//! of which rule is merged, [`object`] walks a tree and the tables of a Pod together, and [`field`] chooses the module for
//! each field. The applicable rules are chosen before, and the record keeps the changes.

mod added_entry;
mod checks;
mod env;
mod fields;
mod mounts;
mod named_container;
mod nodes;
mod pod_state;
mod resources;
mod rule;
mod security;
mod settings_files;
mod string_maps;
mod volumes;

use std::sync::Arc;

use serde_json::{Map, Value};

use fabric_policy::definition::{Ordered, Owners, SettingsFile};
use fabric_policy::expression::Bindings;
use fabric_policy::overlay::{Evaluation, LeftOut, Section, Tree, ValuePath, in_order_of_references};
use fabric_policy::schema::{self, Default, Field, Object, Shape};
use fabric_policy::{PodContext, ResolvedPolicy, Rule};

use super::analysis::count_steps;
use super::evaluate::{Rules, Scope, failed};
use super::record::{Author, ChangeLog, Cursor, OrReason, Place};

use added_entry::added_entries;
pub(super) use checks::{check_containers, check_pod};
use pod_state::PodState;
use rule::Merge;
use settings_files::SettingsOf;

/// Merges the rules that apply into the pod.
pub(super) fn merge(
    rules: &Rules<'_>,
    pod: &mut Value,
    stamp: &str,
    context: &PodContext,
    log: &mut ChangeLog,
) -> OrReason {
    context.may_copy(&pod["spec"]["volumes"]);
    count_steps(context, 0)?;
    let mut facts = PodState::collect(pod, stamp)?;
    Injection { rules, context, facts: &mut facts, log: &mut *log }.merge(pod)?;
    volumes::add_missing(pod, std::mem::take(&mut facts.volumes), log)?;
    security::warn_without_root(pod, facts.capabilities, log);
    Ok(())
}

/// The rules that apply to a pod, and what their merge needs.
struct Injection<'a> {
    rules: &'a Rules<'a>,
    context: &'a PodContext,
    facts: &'a mut PodState,
    log: &'a mut ChangeLog,
}

impl<'a> Injection<'a> {
    fn merge(mut self, pod: &mut Value) -> OrReason {
        let (scope, policy) = (self.rules.scope, &self.rules.analysis.policy);
        let bindings = scope.bindings();
        let of_pod = At { scope, bindings: &bindings };
        self.declare_volumes(of_pod)?;
        self.section(&Section::Claims, of_pod, pod)?;
        self.facts.note_claims(pod);
        self.containers(of_pod, pod)?;
        check_containers(policy, &self.rules.of_containers, pod, self.log)?;
        let injected = scope.of_injected(pod);
        self.section(&Section::Pod, At { scope: &injected, bindings: &injected.bindings() }, pod)?;
        check_pod(policy, &injected, self.log)
    }

    /// What the rules that apply add to a section of the pod.
    fn parts<'s>(&self, section: &Section, at: At<'s>) -> Vec<Part<'a, 's>> {
        let additions = self.rules.additions().filter(|of| of.addition.section == *section);
        additions.map(|of| Part { of, at }).collect()
    }

    fn declare_volumes(&mut self, at: At<'_>) -> OrReason {
        self.log.go_to_pod();
        for (rule, tree) in evaluated(&self.parts(&Section::Volumes, at), self.log)? {
            let volumes = tree.at(&["spec", "volumes"]);
            for volume in volumes.into_iter().flat_map(Tree::items).filter_map(Tree::as_value) {
                self.facts.volumes.declare(&rule.name, volume.clone());
            }
        }
        Ok(())
    }

    /// Merges a section of the pod outside of its containers.
    fn section(&mut self, section: &Section, at: At<'_>, pod: &mut Value) -> OrReason {
        self.log.go_to_pod();
        for (rule, tree) in evaluated(&self.parts(section, at), self.log)? {
            if tree.is_empty() {
                continue;
            }
            self.log.takes(self.facts.annotation_bytes);
            self.facts.note_outside(pod);
            if nodes::FIELDS.iter().any(|field| tree.at(&["spec", field]).is_some()) {
                self.facts.nodes = nodes::choice_of(pod, self.context)?;
            }
            let mut cursor = Cursor::pod(pod, self.log)?;
            cursor.log.written_by(|| Author::Rule(rule.name.clone()));
            let mut merge = Merge::new(rule, self.rules.analysis, self.facts);
            object(&mut merge, &mut cursor, tree.into_entries(), schema::pod())?;
        }
        Ok(())
    }

    /// Merges what the rules add to containers, and last the files of those with GPUs.
    fn containers(&mut self, of_pod: At<'_>, pod: &mut Value) -> OrReason {
        let settings = settings(&self.rules.analysis.policy, self.rules.scope)?;
        let mut named = self.named(of_pod)?;
        let mut with_files = Vec::new();
        for row in &self.rules.of_containers {
            let place @ (list, index) = row.container.place();
            let bindings = row.scope.bindings();
            let at = At { scope: &row.scope, bindings: &bindings };
            let parts = self.rules.additions_to(row).map(|of| Part { of, at });
            let mut parts: Vec<_> = parts.collect();
            let shared: usize = parts.iter().map(|part| part.of.addition.shared.len()).sum();
            count_steps(self.context, 1 + shared)?;
            self.log.check_size()?;
            let also = named.of_container(list, &pod["spec"][list][index]);
            parts.extend(self.of_same_program(&also, place, of_pod, pod)?);
            if parts.is_empty() {
                continue;
            }
            self.container(place, parts, pod)?;
            if row.container.gpus > 0 && !settings.is_empty() {
                with_files.push((place, std::mem::take(&mut self.facts.variables)));
            }
        }
        self.other_containers(named, of_pod, pod)?;
        for (container, variables) in with_files {
            self.facts.variables = variables;
            for file in &settings {
                self.log.written_by(|| Author::File(file.path.clone()));
                let Self { rules: Rules { analysis, .. }, facts, log, .. } = self;
                SettingsOf { file, container, analysis, facts, log }.inject(pod)?;
            }
        }
        Ok(())
    }

    /// Merges what rules add to one container.
    fn container(&mut self, place: Place, mut parts: Vec<Part<'a, '_>>, pod: &mut Value) -> OrReason {
        parts.sort_by_key(|part| part.of.at);
        self.facts.variables.clear();
        self.facts.requested.go_to(pod, place);
        let mut cursor = Cursor::container(pod, self.log, place)?;
        let trees = in_order_of_references(evaluated(&parts, cursor.log)?);
        self.facts.added_entries = added_entries(&trees);
        for (rule, tree) in trees {
            cursor.log.written_by(|| Author::Rule(rule.name.clone()));
            let mut merge = Merge::new(rule, self.rules.analysis, self.facts);
            object(&mut merge, &mut cursor, tree.into_entries(), schema::container())?;
        }
        Ok(())
    }
}

/// A scope, and the values that expressions read in it.
#[derive(Clone, Copy)]
struct At<'s> {
    scope: &'s Scope<'s>,
    bindings: &'s Bindings<'s, 's>,
}

/// What a rule adds, and the scope of its expressions.
#[derive(Clone, Copy)]
struct Part<'r, 's> {
    of: Ordered<'r>,
    at: At<'s>,
}

/// Evaluates what rules add to one container or section, without the values that belong to other rules. The result is
/// in the order of the rules.
fn evaluated<'r>(parts: &[Part<'r, '_>], log: &mut ChangeLog) -> OrReason<Vec<(&'r Rule, Tree)>> {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    if parts.iter().any(|part| !part.of.addition.shared.is_empty()) {
        order.sort_by_key(|at| parts[*at].of.precedence());
    }
    let mut owners = Owners::default();
    let mut trees: Vec<_> = parts.iter().map(|part| (part.of.rule, Tree::default())).collect();
    for at in order {
        let Part { of, at: At { scope, bindings } } = parts[at];
        log.written_by(|| Author::Rule(of.rule.name.clone()));
        let (tree, owned) = owners.without_owned(of, &of.addition.tree);
        note_owned(&owned, log);
        let mut evaluation = Evaluation::new(bindings, log.trace.is_some() || of.addition.names_places());
        let tree = evaluation.object(&tree, of.addition.section.object());
        let mut tree = tree.map_err(|error| failed(scope, &of.rule.name, error))?.unwrap_or_default();
        let left_out = evaluation.left_out();
        let is_computed = owners.claim(of, &tree, &left_out);
        for LeftOut { path, because } in left_out {
            log.left_out(&path, || because);
        }
        if is_computed {
            let (left, owned) = owners.without_owned(of, &tree);
            note_owned(&owned, log);
            tree = left.into_owned();
        }
        trees[at].1 = tree;
    }
    Ok(trees)
}

/// The settings of a policy whose `when` holds.
fn settings<'a>(policy: &'a ResolvedPolicy, scope: &Scope<'_>) -> OrReason<Vec<&'a SettingsFile>> {
    let bindings = scope.bindings();
    let mut active = Vec::new();
    for settings in &policy.evaluated.files {
        let holds = settings.when.as_ref().map_or(Ok(true), |when| when.is_true(&bindings));
        if holds.map_err(|error| scope.explain(&format!("the file `{}`", settings.path), error))? {
            active.push(settings);
        }
    }
    Ok(active)
}

/// Notes the values that are left out because they belong to other rules.
fn note_owned(owned: &[(ValuePath, &Rule)], log: &mut ChangeLog) {
    for (place, Rule { name, .. }) in owned {
        let path: Vec<&str> = place.path.iter().copied().chain(place.name.as_deref()).collect();
        log.belongs_to(name, &path);
    }
}

/// Merges the fields of a tree into an object.
fn object(
    merge: &mut Merge<'_, '_>,
    cursor: &mut Cursor<'_>,
    fields: impl IntoIterator<Item = (Arc<str>, Tree)>,
    object: &'static Object,
) -> OrReason {
    for (name, value) in fields {
        if let Some(known) = object.field(&name) {
            field(merge, cursor, value, known)?;
        }
    }
    Ok(())
}

fn field(merge: &mut Merge<'_, '_>, cursor: &mut Cursor<'_>, tree: Tree, field: &'static Field) -> OrReason {
    match (field.name, &field.shape) {
        ("capabilities", Shape::Object(_)) => security::merge(merge, cursor, field, tree),
        ("env", Shape::List { items, .. }) => env::merge(merge, cursor, items, tree),
        ("volumeMounts", _) => {
            let mounts = tree.into_items().into_iter().filter_map(Tree::into_value);
            mounts::merge(merge, cursor, mounts)
        }
        ("resources", Shape::Object(resources)) => cursor.within(field.name, |cursor| {
            let others = resources::merge(merge, cursor, tree)?;
            object(merge, cursor, others, resources)
        }),
        (_, Shape::Object(within)) => {
            if field.name == "lifecycle" {
                let wanted = tree.clone().into_value().unwrap_or_default();
                if merge.is_excluded(cursor, field, &wanted) {
                    return Ok(());
                }
            }
            // An object that the author wrote as empty is intended.
            let is_absent = cursor.get(field.name).is_none() && field.default != Default::EmptyObject;
            if tree.is_empty() && is_absent {
                cursor.put(field.name, Value::Object(Map::new()));
            }
            cursor.within(field.name, |cursor| object(merge, cursor, tree.into_entries(), within))
        }
        (_, Shape::Map { .. }) => string_maps::merge(merge, cursor, field, tree),
        (_, Shape::List { keys: Some(keys), .. }) => fields::keyed(merge, cursor, field, keys, tree),
        _ => tree.into_value().map_or(Ok(()), |value| fields::value(merge, cursor, field, value)),
    }
}
