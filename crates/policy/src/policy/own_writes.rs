//! Policies that read what they write.
//!
//! The API server may call a webhook again for a pod that it has changed. If no expression reads a place that a rule
//! writes, every expression has the same value in the second call, which changes nothing. If one may, the result is
//! injected again. If that changes it once more, a third injection must not.

use std::collections::BTreeSet;

use super::devices::Devices;
use super::pod_places::{ADDED_CONTAINER, NODES, Places};
use crate::definition::{Definition, OnConflict, Rule, SettingsFile};
use crate::interpolation::Interpolation;
use crate::parameter::Variable;

/// The annotations that the engine writes.
const ENGINE: &[&str] = &["metadata", "annotations", "fabric-injector.io/*"];

/// What a policy writes and may read itself.
#[derive(Debug, Default)]
pub struct OwnWrites {
    /// The names of the rules that write what an expression reads.
    rules: BTreeSet<String>,
    /// Those that write what the value of a rule or the condition of a file reads.
    by_values: BTreeSet<String>,
    /// True if a file or the engine writes what is read.
    always: bool,
}

impl OwnWrites {
    /// What `texts`, all of those of a policy, read of what its rules and files write.
    pub(super) fn read_by(
        texts: impl FnOnce(&mut dyn FnMut(&Interpolation)),
        variables: &[&Variable],
        rules: &[Rule],
        files: &[SettingsFile],
        devices: &Devices,
    ) -> Self {
        let mut read = Places::read_by(variables, devices, texts);
        // All parameters depend on the nodes that the pod selects, and rules and checks are for each container.
        read.add(NODES);
        read.add([ADDED_CONTAINER]);
        let by_values = Places::read_by(variables, devices, |visit| {
            for rule in rules {
                rule.additions.iter().for_each(|addition| addition.texts(visit));
            }
            files.iter().flat_map(|file| &file.when).for_each(visit);
        });
        let written: Vec<(&Rule, Places)> =
            rules.iter().map(|rule| (rule, Places::written_by(rule, devices))).collect();
        let names = |reads: &Places| {
            let met = written.iter().filter(|(_, places)| places.meet(reads));
            met.map(|(rule, _)| rule.name.clone()).collect::<BTreeSet<_>>()
        };
        let of_files = !files.is_empty() && Places::of_settings_files().meet(&read);
        Self {
            rules: names(&read),
            by_values: names(&by_values),
            always: of_files || Places::new([ENGINE]).meet(&read),
        }
    }

    /// Returns whether an expression may read what these rules write.
    pub fn are_read<'r>(&self, mut applied: impl Iterator<Item = &'r Rule>) -> bool {
        self.always || applied.any(|rule| self.rules.contains(&rule.name))
    }

    /// Returns whether a second run of the same rules may write other values than the first. A rule that replaces a value
    /// does so again.
    pub fn are_read_by_values<'r>(&self, mut applied: impl Iterator<Item = &'r Rule>) -> bool {
        let changes =
            |rule: &Rule| rule.on_conflict == OnConflict::Replace || self.by_values.contains(&rule.name);
        self.always || applied.any(changes)
    }
}

/// Returns whether the choice of the policy may differ in a second call: `match` of a policy may read what a policy writes,
/// or these annotations of the engine. It is also true if any expression reads an annotation of the engine, which a pod
/// that is skipped has, too.
pub fn choice_reads_writes(policies: &[(&Definition, &Devices)], annotations: &[&str]) -> bool {
    let of = |map: &'static str| move |key: &str| Places::new([&["metadata", map, key][..]]);
    let (mut written, mut read) = (Places::default(), Places::new(NODES));
    annotations.iter().copied().map(of("annotations")).for_each(|place| written.extend(place));
    for (definition, devices) in policies {
        definition.rules.iter().for_each(|rule| written.extend(Places::written_by(rule, devices)));
        let (matcher, variables) = (&definition.matcher, definition.variables.iter().collect::<Vec<_>>());
        let when = |visit: &mut dyn FnMut(&Interpolation)| matcher.when.iter().for_each(visit);
        read.extend(Places::read_by(&variables, devices, when));
        if Places::read_by(&variables, devices, |visit| definition.texts(visit)).meet(&Places::new([ENGINE]))
        {
            return true;
        }
        let annotations = matcher.any_annotation.iter().chain(&matcher.except_annotation);
        annotations.for_each(|(key, _)| read.extend(of("annotations")(key)));
        matcher.labels.iter().for_each(|(key, _)| read.extend(of("labels")(key)));
    }
    // The nodes that a pod selects decide about its provider, and about the annotations of an earlier injection.
    written.meet(&read)
}
