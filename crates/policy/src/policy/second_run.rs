//! Policies that read what they write.
//!
//! The API server may call a webhook again for a pod that it has changed. If no expression reads a place that a rule
//! writes, every expression has the same value in the second call, which changes nothing. If one may, the result is
//! injected again. If that changes it once more, a third injection must not.

use std::collections::BTreeSet;

use super::devices::Devices;
use super::places::{ADDED_CONTAINER, NODES, Places};
use crate::definition::{Definition, OnConflict, Rule, SettingsFile};
use crate::interpolation::Interpolation;
use crate::parameter::Variable;

/// What is evaluated again after an injection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecondRun {
    Nothing,
    /// The conditions of rules. If no other rules apply, the values of all are the same.
    Conditions,
    Everything,
}

/// The rules after which something is evaluated again.
#[derive(Debug, Default)]
pub struct SecondRuns {
    /// The names of the rules that write what conditions read.
    read_by_conditions: BTreeSet<String>,
    /// Those that write what values read.
    read_by_values: BTreeSet<String>,
    /// True if everything is evaluated again, whichever rules apply.
    always: bool,
}

impl SecondRuns {
    pub(crate) fn find(
        rules: &[Rule],
        variables: &[&Variable],
        files: &[SettingsFile],
        devices: &Devices,
    ) -> Self {
        let mut by_conditions = Places::read_by(variables, devices, |visit| {
            let conditions =
                rules.iter().flat_map(|rule| rule.when.iter().chain([rule.containers.condition()]));
            conditions.for_each(visit);
        });
        // All parameters depend on the nodes that the pod selects.
        by_conditions.add(NODES);
        if rules.iter().any(|rule| rule.containers.written().is_some()) {
            // The condition may select a container that a rule adds.
            by_conditions.add([ADDED_CONTAINER]);
        }
        let by_values = Places::read_by(variables, devices, |visit| {
            for rule in rules {
                rule.additions.iter().for_each(|addition| addition.texts(visit));
            }
            files.iter().flat_map(|file| &file.when).for_each(visit);
        });
        let written: Vec<(&Rule, Places)> =
            rules.iter().map(|rule| (rule, Places::written_by(rule, devices))).collect();
        let names = |reads: &Places| {
            let read = written.iter().filter(|(_, places)| places.meet(reads));
            read.map(|(rule, _)| rule.name.clone()).collect()
        };
        let of_files = Places::of_settings_files();
        let files_are_read = of_files.meet(&by_conditions) || of_files.meet(&by_values);
        Self {
            read_by_conditions: names(&by_conditions),
            read_by_values: names(&by_values),
            always: edits_are_replaced(rules) || !files.is_empty() && files_are_read,
        }
    }

    /// What is evaluated again if these rules apply.
    pub fn after<'r>(&self, applied: impl Iterator<Item = &'r Rule>) -> SecondRun {
        let (mut conditions, mut values) = (false, self.always);
        // A rule that replaces a value may do so again when another one no longer applies.
        let mut replaces = false;
        for rule in applied {
            replaces |= rule.on_conflict == OnConflict::Replace;
            conditions |= self.read_by_conditions.contains(&rule.name);
            values |= self.read_by_values.contains(&rule.name);
        }
        match (conditions, values) {
            (_, true) => SecondRun::Everything,
            (true, false) if replaces => SecondRun::Everything,
            (true, false) => SecondRun::Conditions,
            (false, false) => SecondRun::Nothing,
        }
    }

    /// Returns whether anything is evaluated again after some rule.
    pub fn any(&self) -> bool {
        self.always || !self.read_by_conditions.is_empty() || !self.read_by_values.is_empty()
    }
}

/// Returns whether a rule may require the value of a string that holds a list, to which another rule adds an entry.
fn edits_are_replaced(rules: &[Rule]) -> bool {
    let (mut edited, mut set) = (Places::default(), Places::default());
    for rule in rules {
        for write in rule.writes() {
            let place = [write.field.name, write.name().unwrap_or("*")];
            if write.is_edit() && write.value.literal("$key").is_none() {
                edited.add([&place[..]]);
            }
            if (write.is_computed() || write.is_of_strings()) && rule.on_conflict != OnConflict::Keep {
                set.add([&place[..]]);
            }
        }
    }
    edited.meet(&set)
}

/// Returns whether `match` of a policy may read a place that a policy, or the engine by these annotations, writes.
pub fn choice_reads_writes(policies: &[(&Definition, &Devices)], annotations: &[&str]) -> bool {
    let of = |map: &'static str| move |key: &str| Places::new([&["metadata", map, key][..]]);
    let (mut written, mut read) = (Places::default(), Places::new(NODES));
    annotations.iter().copied().map(of("annotations")).for_each(|place| written.extend(place));
    for (definition, devices) in policies {
        definition.rules.iter().for_each(|rule| written.extend(Places::written_by(rule, devices)));
        let (matcher, variables) = (&definition.matcher, definition.variables.iter().collect::<Vec<_>>());
        let when = |visit: &mut dyn FnMut(&Interpolation)| matcher.when.iter().for_each(visit);
        read.extend(Places::read_by(&variables, devices, when));
        let annotations = matcher.any_annotation.iter().chain(&matcher.except_annotation);
        annotations.for_each(|(key, _)| read.extend(of("annotations")(key)));
        matcher.labels.iter().for_each(|(key, _)| read.extend(of("labels")(key)));
    }
    // The nodes that a pod selects decide about its provider, and about the annotations of an earlier injection.
    written.meet(&read)
}
