//! Merging the rules that apply into the pod.
//!
//! [`merge`] goes through the parts of the pod in order: claims, containers, containers that the policy adds, the rest
//! of the pod, volumes. [`object`] merges a tree of values, by the tables of a Pod. The applicable rules are chosen
//! before, and the record keeps the changes.

mod apply;
mod container;
mod fields;
mod messages;
mod named_container;
mod pod_state;
mod requested;
mod rule;
mod settings;
mod text;
mod volumes;

use std::collections::HashSet;

use serde_json::Value;

use fabric_policy::definition::{Part, Precedence, SettingsFile};
use fabric_policy::expression::{Bindings, Resolver};
use fabric_policy::overlay::{Evaluation, NamedContainer, Place, Tree};
use fabric_policy::schema::{self, Object};
use fabric_policy::{PodContext, ResolvedPolicy, Rule};

use super::analysis::PodAnalysis;
use super::evaluate::{Row, Rules, Scope, go_on};
use super::record::{Author, ChangeLog, ConditionOf, Cursor, ScopeOf, Stop};

use apply::object;
pub(super) use messages::about_pod;
use named_container::{Named, inject_named};
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
) -> Result<(), Stop> {
    let mut facts = PodFacts::collect(pod, stamp)?;
    Injection { rules, analysis: rules.analysis, context, facts: &mut facts, log: &mut *log }.merge(pod)?;
    volumes::add_missing(pod, std::mem::take(&mut facts.volumes), log)?;
    container::warn_without_root(pod, facts.capabilities, log);
    Ok(())
}

/// The rules that apply to a pod, and what their merge needs.
struct Injection<'a> {
    rules: &'a Rules<'a>,
    analysis: &'a PodAnalysis,
    context: &'a PodContext,
    facts: &'a mut PodFacts,
    log: &'a mut ChangeLog,
}

impl<'a> Injection<'a> {
    fn merge(mut self, pod: &mut Value) -> Result<(), Stop> {
        let scope = self.rules.scope;
        let resolver = Resolver(scope);
        let bindings = scope.bindings(&resolver);
        let rules = self.rules;
        let precedence = Precedence::among(rules.applied());
        self.declare_volumes(&bindings, &precedence)?;
        for rule in rules.applied() {
            let left = precedence.left(rule, &Part::Pod, &rule.pod.claims);
            self.merge_into_pod(rule, &left, (scope, &bindings), pod)?;
        }
        self.facts.note_claims(pod);
        self.containers(pod)?;
        messages::about_containers(&self.analysis.policy, &self.rules.rows, pod, self.log)?;
        for rule in rules.applied() {
            for container in &rule.pod.containers {
                self.named_container(rule, container, &bindings, &precedence, pod)?;
            }
        }
        let injected = scope.of_injected(pod);
        let resolver = Resolver(&injected);
        let bindings = injected.bindings(&resolver);
        for rule in rules.applied() {
            let left = precedence.left(rule, &Part::Pod, &rule.pod.fields);
            self.log.go_to_pod();
            note_taken(rule, &Part::Pod, &precedence, self.log);
            self.merge_into_pod(rule, &left, (&injected, &bindings), pod)?;
        }
        about_pod(&self.analysis.policy, &injected, self.log)
    }

    /// Merges a container that a rule names.
    fn named_container(
        &mut self,
        rule: &'a Rule,
        container: &'a NamedContainer,
        bindings: &Bindings<'_, '_>,
        precedence: &Precedence<'a>,
        pod: &mut Value,
    ) -> Result<(), Stop> {
        let scope = self.rules.scope;
        let value = |tree, field| {
            let value = Evaluation::new(bindings, false).value_of(tree, schema::container(), field);
            let value = value.map_err(|error| scope.explain(&format!("rule `{}`", rule.name), error))?;
            Ok::<_, Stop>(value.and_then(Tree::into_value))
        };
        let Some(Value::String(name)) = value(&container.name, "name")? else {
            self.log.go_to_pod();
            self.log.written_by(|| Author::Rule(rule.name.clone()));
            let name = container.name.source().unwrap_or_default();
            self.log.left_out(&["spec", container.list], || format!("`{name}` is null"));
            return Ok(());
        };
        let part = Part::named(container);
        let left = part.as_ref().map(|part| precedence.left(rule, part, &container.fields));
        let fields = left.as_deref().unwrap_or(&container.fields);
        let image = image_for(rule, container, part.as_ref(), precedence);
        let image = image.map_or(Ok(None), |image| value(image, "image"))?;
        let named = Named { list: container.list, name: &name, image };
        let mut merge = Merge::new(rule, self.analysis, self.facts);
        inject_named(&mut merge, named, pod, self.log, |log| {
            evaluated(rule, fields, schema::container(), (scope, bindings), log)
        })
    }

    fn declare_volumes(
        &mut self,
        bindings: &Bindings<'_, '_>,
        precedence: &Precedence<'a>,
    ) -> Result<(), Stop> {
        for rule in self.rules.applied() {
            let left_out: HashSet<&str> = precedence
                .taken(rule, &Part::Pod)
                .filter(|(place, _)| place.path == ["spec", "volumes"])
                .filter_map(|(place, _)| place.name.as_deref())
                .collect();
            let is_left = |volume: &&Tree| volume.literal("name").is_none_or(|name| !left_out.contains(name));
            let mut evaluation = Evaluation::new(bindings, self.log.trace.is_some());
            for volume in rule.pod.volumes.iter().filter(is_left) {
                let failed = |error| self.rules.scope.explain(&format!("rule `{}`", rule.name), error);
                if let Some(value) = evaluation.volume(volume).map_err(failed)?.and_then(Tree::into_value) {
                    self.facts.volumes.declare(&rule.name, value);
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
        at: (&Scope<'_>, &Bindings<'_, '_>),
        pod: &mut Value,
    ) -> Result<(), Stop> {
        if tree.is_empty() {
            return Ok(());
        }
        self.log.takes(self.facts.annotation_bytes);
        self.facts.note_outside(pod);
        let mut cursor = Cursor::pod(pod, self.log)?;
        cursor.written_by_rule(&rule.name);
        let fields = evaluated(rule, tree, schema::pod(), at, cursor.log())?;
        let mut merge = Merge::new(rule, self.analysis, self.facts);
        Ok(object(&mut merge, &mut cursor, fields.into_entries(), schema::pod())?)
    }

    fn containers(&mut self, pod: &mut Value) -> Result<(), Stop> {
        let settings = settings(&self.analysis.policy, self.rules.scope, self.log)?;
        for row in &self.rules.rows {
            let shared = self.rules.selecting(row).map(|rule| rule.shared.len()).sum::<usize>();
            go_on(self.context, 1 + shared)?;
            self.log.check_size()?;
            if self.rules.selecting(row).next().is_some() {
                self.container(row, &settings, pod)?;
            }
        }
        Ok(())
    }

    fn container(&mut self, row: &Row<'_>, settings: &[&SettingsFile], pod: &mut Value) -> Result<(), Stop> {
        let resolver = Resolver(&row.scope);
        let bindings = row.scope.bindings(&resolver);
        self.facts.variables.clear();
        self.facts.requested.go_to(pod, row.container.list, row.container.index);
        let mut cursor = Cursor::container(pod, self.log, row.container.list, row.container.index)?;
        let precedence = Precedence::among(self.rules.selecting(row));
        for rule in self.rules.selecting(row) {
            let left = precedence.left(rule, &Part::Container, &rule.container);
            note_taken(rule, &Part::Container, &precedence, cursor.log());
            cursor.written_by_rule(&rule.name);
            let at = (&row.scope, &bindings);
            let fields = evaluated(rule, &left, schema::container(), at, cursor.log())?;
            let mut merge = Merge::new(rule, self.analysis, self.facts);
            object(&mut merge, &mut cursor, fields.into_entries(), schema::container())?;
        }
        for settings in settings.iter().filter(|_| row.container.gpus > 0) {
            self.log.written_by(|| Author::File(settings.path.clone()));
            let container = (row.container.list, row.container.index);
            let of = SettingsOf { analysis: self.analysis, container };
            of.inject(settings, pod, self.facts, self.log)?;
        }
        Ok(())
    }
}

/// The image of a container that a rule names: that of another rule if it belongs to that, which may leave it out.
fn image_for<'r>(
    rule: &'r Rule,
    container: &'r NamedContainer,
    part: Option<&Part>,
    precedence: &Precedence<'r>,
) -> Option<&'r Tree> {
    let is_image = |place: &Place| place.path == ["image"] && place.name.is_none();
    let taken = part.and_then(|part| precedence.taken(rule, part).find(|(place, _)| is_image(place)));
    let Some((_, first)) = taken else { return container.image() };
    let mut same = first.pod.containers.iter().filter(|other| Part::named(other).as_ref() == part);
    same.find_map(NamedContainer::image)
}

/// The tree of a rule with the values for this pod. The log, which is at the object, has what is left out.
fn evaluated(
    rule: &Rule,
    tree: &Tree,
    object: &'static Object,
    (scope, bindings): (&Scope<'_>, &Bindings<'_, '_>),
    log: &mut ChangeLog,
) -> Result<Tree, Stop> {
    let mut evaluation = Evaluation::new(bindings, log.trace.is_some());
    let evaluated = evaluation.object(tree, object);
    let evaluated = evaluated.map_err(|error| scope.explain(&format!("rule `{}`", rule.name), error))?;
    log.note_left_out(evaluation.left_out());
    Ok(evaluated.unwrap_or_default())
}

/// The settings of a policy whose `when` holds.
pub(super) fn settings<'a>(
    policy: &'a ResolvedPolicy,
    scope: &Scope<'_>,
    log: &mut ChangeLog,
) -> Result<Vec<&'a SettingsFile>, Stop> {
    let resolver = Resolver(scope);
    let bindings = scope.bindings(&resolver);
    let mut active = Vec::new();
    for (at, settings) in policy.files.iter().enumerate() {
        let holds = settings.when.as_ref().map_or(Ok(true), |when| {
            let holds = when.is_true(&bindings);
            if let Some(trace) = &mut log.trace {
                trace.evaluated((ConditionOf::File(at), ScopeOf::Pod), when, &holds, None);
            }
            holds
        });
        if holds.map_err(|error| scope.explain(&format!("the file `{}`", settings.path), error))? {
            active.push(settings);
        }
    }
    Ok(active)
}

/// Notes the values that are left out because a rule of an extension sets them.
fn note_taken<'r>(rule: &'r Rule, part: &Part, precedence: &Precedence<'r>, log: &mut ChangeLog) {
    if log.trace.is_none() {
        return;
    }
    log.written_by(|| Author::Rule(rule.name.clone()));
    for (place, Rule { name, .. }) in precedence.taken(rule, part) {
        let path: Vec<&str> = place.path.iter().copied().chain(place.name.as_deref()).collect();
        log.left_out(&path, || format!("rule `{name}` sets it"));
    }
}
