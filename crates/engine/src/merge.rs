//! Merging the rules that apply into the pod.
//!
//! [`merge`] goes through the parts of the pod in order: claims, containers with their files and checks, containers that
//! rules name, the rest of the pod and its checks, and last the volumes that mounts need. [`object`] walks a tree and the
//! tables of a Pod together, and [`field`] chooses the module for each field. The applicable rules are chosen before, and
//! the record keeps the changes.

mod checks;
mod env;
mod fields;
mod mounts;
mod named_container;
mod pod_state;
mod resources;
mod rule;
mod security;
mod settings;
mod text;
mod volumes;

use std::sync::Arc;

use serde_json::{Map, Value};

use fabric_policy::definition::{Precedence, SettingsFile, Subject};
use fabric_policy::expression::Bindings;
use fabric_policy::overlay::{Evaluation, Section, Tree};
use fabric_policy::schema::{self, Default, Field, Object, Shape};
use fabric_policy::{PodContext, ResolvedPolicy, Rule};

use super::analysis::count_steps;
use super::evaluate::{Row, Rules, Scope, failed};
use super::record::{Author, ChangeLog, Cursor, Reason};

pub(super) use checks::{check_containers, check_pod};
use pod_state::PodFacts;
use rule::Merge;
use settings::SettingsOf;

/// Merges the rules that apply into the pod.
pub(super) fn merge(
    rules: &Rules<'_>,
    pod: &mut Value,
    stamp: &str,
    context: &PodContext,
    log: &mut ChangeLog,
) -> Result<(), Reason> {
    context.may_copy(&pod["spec"]["volumes"]);
    count_steps(context, 0)?;
    let mut facts = PodFacts::collect(pod, stamp)?;
    Injection { rules, context, facts: &mut facts, log: &mut *log }.merge(pod)?;
    volumes::add_missing(pod, std::mem::take(&mut facts.volumes), log)?;
    security::warn_without_root(pod, facts.capabilities, log);
    Ok(())
}

/// The rules that apply to a pod, and what their merge needs.
struct Injection<'a> {
    rules: &'a Rules<'a>,
    context: &'a PodContext,
    facts: &'a mut PodFacts,
    log: &'a mut ChangeLog,
}

impl<'a> Injection<'a> {
    fn merge(mut self, pod: &mut Value) -> Result<(), Reason> {
        let scope = self.rules.scope;
        let bindings = scope.bindings();
        let rules = self.rules;
        let precedence = Precedence::among(rules.applied());
        self.declare_volumes(&bindings, &precedence)?;
        for rule in rules.applied() {
            for addition in rule.additions_to(&Section::Claims) {
                let left = precedence.left(rule, addition);
                self.merge_into_pod(rule, &left, (scope, &bindings), pod)?;
            }
        }
        self.facts.note_claims(pod);
        self.containers(pod)?;
        for rule in rules.applied() {
            for addition in &rule.additions {
                self.named_container(rule, addition, &bindings, &precedence, pod)?;
            }
        }
        check_containers(&self.rules.analysis.policy, &self.rules.rows, pod, self.log)?;
        let injected = scope.of_injected(pod);
        let bindings = injected.bindings();
        for rule in rules.applied() {
            self.log.go_to_pod();
            note_taken(rule, &Subject::Pod, &precedence, self.log);
            for addition in rule.additions_to(&Section::Pod) {
                let left = precedence.left(rule, addition);
                self.merge_into_pod(rule, &left, (&injected, &bindings), pod)?;
            }
        }
        check_pod(&self.rules.analysis.policy, &injected, self.log)
    }

    fn declare_volumes(
        &mut self,
        bindings: &Bindings<'_, '_>,
        precedence: &Precedence<'a>,
    ) -> Result<(), Reason> {
        for rule in self.rules.applied() {
            let mut evaluation = Evaluation::new(bindings, self.log.trace.is_some());
            for addition in rule.additions_to(&Section::Volumes) {
                let left = precedence.left(rule, addition);
                let pod = evaluation.object(&left, schema::pod());
                let pod = pod.map_err(|error| failed(self.rules.scope, &rule.name, error))?;
                let volumes = pod.as_ref().and_then(|pod| pod.at(&["spec", "volumes"]));
                for volume in volumes.into_iter().flat_map(Tree::items).filter_map(Tree::as_value) {
                    self.facts.volumes.declare(&rule.name, volume.clone());
                }
            }
            self.log.go_to_pod();
            self.log.written_by(|| Author::Rule(rule.name.clone()));
            self.log.note_left_out(evaluation.left_out());
        }
        Ok(())
    }

    /// Merges a tree of a rule into the pod outside of its containers.
    fn merge_into_pod(
        &mut self,
        rule: &Rule,
        tree: &Tree,
        at: At<'_>,
        pod: &mut Value,
    ) -> Result<(), Reason> {
        if tree.is_empty() {
            return Ok(());
        }
        self.log.takes(self.facts.annotation_bytes);
        self.facts.note_outside(pod);
        let mut cursor = Cursor::pod(pod, self.log)?;
        Merge::new(rule, self.rules.analysis, self.facts).merge(&mut cursor, tree, schema::pod(), at)
    }

    fn containers(&mut self, pod: &mut Value) -> Result<(), Reason> {
        let settings = settings(&self.rules.analysis.policy, self.rules.scope)?;
        for row in &self.rules.rows {
            let shared = self.rules.selecting(row).map(|rule| rule.shared.len()).sum::<usize>();
            count_steps(self.context, 1 + shared)?;
            self.log.check_size()?;
            if self.rules.selecting(row).next().is_some() {
                self.container(row, &settings, pod)?;
            }
        }
        Ok(())
    }

    fn container(
        &mut self,
        row: &Row<'_>,
        settings: &[&SettingsFile],
        pod: &mut Value,
    ) -> Result<(), Reason> {
        let bindings = row.scope.bindings();
        self.facts.variables.clear();
        self.facts.requested.go_to(pod, row.container.list, row.container.index);
        let mut cursor = Cursor::container(pod, self.log, row.container.list, row.container.index)?;
        let precedence = Precedence::among(self.rules.selecting(row));
        for rule in self.rules.selecting(row) {
            note_taken(rule, &Subject::Container, &precedence, cursor.log);
            for addition in rule.additions_to(&Section::Selected) {
                let left = precedence.left(rule, addition);
                let mut merge = Merge::new(rule, self.rules.analysis, self.facts);
                merge.merge(&mut cursor, &left, schema::container(), (&row.scope, &bindings))?;
            }
        }
        for settings in settings.iter().filter(|_| row.container.gpus > 0) {
            self.log.written_by(|| Author::File(settings.path.clone()));
            let Self { rules: Rules { analysis, .. }, facts, log, .. } = self;
            let container = row.container.place();
            SettingsOf { file: settings, container, analysis, facts, log }.inject(pod)?;
        }
        Ok(())
    }
}

/// A scope, and the values that expressions read in it.
type At<'s> = (&'s Scope<'s>, &'s Bindings<'s, 's>);

impl Merge<'_, '_> {
    /// Merges a tree of the rule into an object, with the values for this pod.
    fn merge(
        &mut self,
        cursor: &mut Cursor<'_>,
        tree: &Tree,
        table: &'static Object,
        (scope, bindings): At<'_>,
    ) -> Result<(), Reason> {
        cursor.log.written_by(|| Author::Rule(self.rule.to_owned()));
        let mut evaluation = Evaluation::new(bindings, cursor.log.trace.is_some());
        let fields = evaluation.object(tree, table).map_err(|error| failed(scope, self.rule, error))?;
        cursor.log.note_left_out(evaluation.left_out());
        object(self, cursor, fields.unwrap_or_default().into_entries(), table)
    }
}

/// The settings of a policy whose `when` holds.
fn settings<'a>(policy: &'a ResolvedPolicy, scope: &Scope<'_>) -> Result<Vec<&'a SettingsFile>, Reason> {
    let bindings = scope.bindings();
    let mut active = Vec::new();
    for settings in &policy.files {
        let holds = settings.when.as_ref().map_or(Ok(true), |when| when.is_true(&bindings));
        if holds.map_err(|error| scope.explain(&format!("the file `{}`", settings.path), error))? {
            active.push(settings);
        }
    }
    Ok(active)
}

/// Notes the values that are left out because a rule of an extension sets them.
fn note_taken<'r>(rule: &'r Rule, subject: &Subject, precedence: &Precedence<'r>, log: &mut ChangeLog) {
    if log.trace.is_none() {
        return;
    }
    log.written_by(|| Author::Rule(rule.name.clone()));
    for (place, Rule { name, .. }) in precedence.taken(rule, subject) {
        let path: Vec<&str> = place.path.iter().copied().chain(place.name.as_deref()).collect();
        log.left_out(&path, || format!("rule `{name}` takes precedence"));
    }
}

/// Merges the fields of a tree into an object.
fn object(
    merge: &mut Merge<'_, '_>,
    cursor: &mut Cursor<'_>,
    fields: impl IntoIterator<Item = (Arc<str>, Tree)>,
    object: &'static Object,
) -> Result<(), Reason> {
    for (name, value) in fields {
        if let Some(known) = object.field(&name) {
            field(merge, cursor, value, known)?;
        }
    }
    Ok(())
}

fn field(
    merge: &mut Merge<'_, '_>,
    cursor: &mut Cursor<'_>,
    tree: Tree,
    field: &'static Field,
) -> Result<(), Reason> {
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
            // An object that the author wrote as empty is intended.
            let is_absent = cursor.get(field.name).is_none() && field.default != Default::EmptyObject;
            if tree.is_empty() && is_absent {
                cursor.put(field.name, Value::Object(Map::new()));
            }
            cursor.within(field.name, |cursor| object(merge, cursor, tree.into_entries(), within))
        }
        (_, Shape::Map { .. }) => text::merge(merge, cursor, field, tree),
        (_, Shape::List { keys: Some(keys), .. }) => fields::keyed(merge, cursor, field, keys, tree),
        _ => tree.into_value().map_or(Ok(()), |value| fields::value(merge, cursor, field, value)),
    }
}
