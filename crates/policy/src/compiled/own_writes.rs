//! Policies that read fields that they write.
//!
//! The API server may call a webhook again for a pod that it has changed. If no expression reads a place that an
//! overlay changes, every expression has the same value in the second call, which changes nothing. If one may, the
//! result is injected again, and must stay the same.

use std::collections::BTreeSet;

use super::devices::Devices;
use crate::definition::{Definition, OnConflict, Rule, SettingsFile};
use crate::expression::{Path, ReadSet, Step};
use crate::interpolation::{Interpolation, JOB_ROLE, names_in};
use crate::overlay::{self, Instructions, Key, NETWORKS, PodOverlay, Write, Written, writes_of_rule};
use crate::parameter::Variable;

/// The fields written by the policy that expressions may read: those of rules, of settings, and of the variables that
/// these read.
#[derive(Debug, Default)]
pub struct OwnWrites {
    /// The names of the rules whose written fields they read.
    read: BTreeSet<String>,
    /// True if fields that the policy writes may be read whichever rules apply.
    always_read: bool,
    /// True if only conditions read them. They then change which rules apply, but not the values that the rules write.
    only_by_conditions: bool,
}

impl OwnWrites {
    pub(crate) fn of(
        rules: &[Rule],
        variables: &[&Variable],
        files: &[SettingsFile],
        devices: &Devices,
    ) -> Self {
        let all = |visit: &mut dyn FnMut(&Interpolation)| {
            for rule in rules {
                rule.texts(visit);
            }
            files.iter().flat_map(|file| &file.when).for_each(visit);
        };
        let mut reads = Reads::of(variables, all);
        reads.chooses_containers = rules.iter().any(|rule| rule.containers.written().is_some());
        if rules.iter().any(|rule| rule.device.is_some()) {
            reads.names.insert("ownDevices".to_owned());
        }
        let of_rule = |rule: &Rule, reads: &Reads| {
            // `hasDevice` already includes the devices of an entry of `devices.add`.
            if rule.device.is_none() && reads.names.contains("hasDevice") && adds_device(rule, devices) {
                return true;
            }
            let mut written = BTreeSet::new();
            writes(&rule.container, &rule.pod, &mut |path| _ = written.insert(path));
            written.iter().any(|path| reads.include(path, devices))
        };
        let by_files = !files.is_empty() && of_settings_files().any(|path| reads.include(&path, devices));
        let of_templates = Reads::of(variables, |visit| {
            for rule in rules {
                rule.pod.texts_with(&rule.container, visit);
            }
            files.iter().flat_map(|file| &file.when).for_each(visit);
        });
        Self {
            read: rules.iter().filter(|rule| of_rule(rule, &reads)).map(|rule| rule.name.clone()).collect(),
            always_read: edits_are_replaced(rules) || by_files,
            // A rule that replaces a value may do so again when another one no longer applies.
            only_by_conditions: !rules.iter().any(|rule| of_rule(rule, &of_templates))
                && rules.iter().all(|rule| rule.on_conflict != OnConflict::Replace),
        }
    }

    /// Returns whether anything may be read if these rules apply.
    pub fn are_read<'r>(&self, mut applied: impl Iterator<Item = &'r Rule>) -> bool {
        self.always_read || applied.any(|rule| self.read.contains(&rule.name))
    }

    /// Returns whether only the conditions of rules may read it.
    pub fn are_read_by_conditions_only(&self) -> bool {
        !self.always_read && self.only_by_conditions
    }

    /// Returns whether anything may be read.
    pub fn are_ever_read(&self) -> bool {
        self.always_read || !self.read.is_empty()
    }
}

/// Returns whether a rule may write an amount or a claim of a device of the fabric.
fn adds_device(rule: &Rule, devices: &Devices) -> bool {
    let is_device = |name: Option<&str>| {
        name.is_none_or(|name| devices.own.resources.iter().any(|pattern| pattern.matches(name)))
    };
    let mut writes = writes_of_rule(&rule.container, &rule.pod);
    writes.any(|write| match write.value {
        Written::Amount(_) => is_device(write.name()),
        Written::Computed { field, .. } => {
            ["resources", "limits", "requests", "claims"].contains(&field.name)
        }
        _ => write.path == ["resources", "claims"] && devices.own.claims.bring_devices(),
    })
}

/// Returns whether `match` of a policy may read a place that a policy, or the engine by these annotations, writes.
pub fn choice_reads_writes(policies: &[(&Definition, &Devices)], annotations: &[&str]) -> bool {
    let of = |map: &str, key: &str| vec![field("metadata"), field(map), field(key)];
    let mut written: BTreeSet<Path> = annotations.iter().map(|key| of("annotations", key)).collect();
    for rule in policies.iter().flat_map(|(definition, _)| &definition.rules) {
        writes(&rule.container, &rule.pod, &mut |path| _ = written.insert(path));
    }
    // The nodes that a pod selects decide about its provider, and about the annotations of an earlier injection.
    let of_spec = |key: &str| vec![field("spec"), field(key)];
    let selects = [of_spec("nodeSelector"), [of_spec("affinity"), vec![field("nodeAffinity")]].concat()];
    if written.iter().any(|path| selects.iter().any(|selected| overlap(selected, path))) {
        return true;
    }
    policies.iter().any(|(definition, devices)| {
        let matcher = &definition.matcher;
        let variables: Vec<_> = definition.variables.iter().collect();
        let mut reads = Reads::of(&variables, |visit| matcher.when.iter().for_each(visit));
        reads.built_in = matcher.when.is_some();
        let annotations = matcher.any_annotation.iter().chain(&matcher.except_annotation);
        let keys = annotations.map(|(key, _)| of("annotations", key));
        let keys = keys.chain(matcher.labels.iter().map(|(key, _)| of("labels", key)));
        reads.paths.extend(&ReadSet::Paths(keys.collect()));
        written.iter().any(|path| reads.include(path, devices))
    })
}

/// Returns whether a rule may require the value of a string that holds a list, to which another rule adds an entry.
fn edits_are_replaced(rules: &[Rule]) -> bool {
    let (mut edited, mut set) = (Vec::new(), Vec::new());
    for rule in rules {
        for write in writes_of_rule(&rule.container, &rule.pod) {
            if matches!(write.value, Written::ListEdit(_) | Written::Networks(_)) {
                edited.push(write.name());
            }
            let is_of_strings = matches!(write.value, Written::Computed { .. }) || write.is_of_strings();
            if is_of_strings && rule.on_conflict != OnConflict::Keep {
                set.push(write.name());
            }
        }
    }
    let may_be_one =
        |one: Option<&str>, other: Option<&str>| one.is_none() || other.is_none() || one == other;
    edited.iter().any(|name| set.iter().any(|other| may_be_one(*name, *other)))
}

/// The places of a pod that expressions read.
struct Reads {
    /// From the pod.
    paths: ReadSet,
    /// The built-in names that are read.
    names: BTreeSet<String>,
    /// True if a rule chooses containers by an expression of its own.
    chooses_containers: bool,
    /// True if the values of built-in names matter, such as the nodes by which parameters get their values.
    built_in: bool,
}

impl Reads {
    fn of(variables: &[&Variable], texts: impl FnOnce(&mut dyn FnMut(&Interpolation))) -> Self {
        let (mut pod, mut container) = (ReadSet::default(), ReadSet::default());
        let mut names = BTreeSet::new();
        let mut note = |text: &Interpolation, names: &mut BTreeSet<String>| {
            names.extend(names_in(text));
            for expression in text.expressions() {
                pod.extend(expression.reads_of_pod());
                container.extend(expression.reads_of_container());
            }
        };
        texts(&mut |text| note(text, &mut names));
        for variable in variables.iter().rev() {
            if names.contains(&variable.name) {
                variable.value.texts(&mut |text| note(text, &mut names));
            }
        }
        if let ReadSet::Paths(paths) = &container {
            let of_every = |list: &str, path: &Path| {
                let entry = [field("spec"), field(list), Step::Every];
                ReadSet::Paths(BTreeSet::from([entry.into_iter().chain(path.iter().cloned()).collect()]))
            };
            for path in paths {
                pod.extend(&of_every("containers", path));
                pod.extend(&of_every("initContainers", path));
            }
        } else {
            pod = ReadSet::Whole;
        }
        Self { paths: pod, names, chooses_containers: false, built_in: true }
    }

    /// Returns whether a change at this place may change the value of an expression.
    fn include(&self, written: &Path, devices: &Devices) -> bool {
        let ReadSet::Paths(paths) = &self.paths else { return true };
        paths.iter().any(|read| overlap(read, written))
            || self.built_in && self.includes_built_in(written, devices)
    }

    fn includes_built_in(&self, written: &Path, devices: &Devices) -> bool {
        // No pattern below is longer than seven steps, except for its rest.
        let mut names = [""; 8];
        let brings_gpus = devices.gpu_claims.bring_devices();
        for (name, step) in names.iter_mut().zip(written) {
            *name = if let Step::Field(name) = step { name } else { "*" };
        }
        match &names[..written.len().min(names.len())] {
            ["spec", "nodeSelector", ..]
            | ["spec", "affinity"]
            | ["spec", "affinity", "nodeAffinity", ..] => true,
            // Rules see the pod on the network to which one of them moves it.
            ["spec", "hostNetwork"] => self.names.contains("hostNetwork"),
            // A rule that chooses containers may choose the new one.
            ["spec", "containers" | "initContainers"] => self.chooses_containers,
            ["spec", "containers" | "initContainers", "*", "restartPolicy"] => {
                self.names.contains("totalGpus")
            }
            ["spec", "containers" | "initContainers", "*", "resources"] => true,
            ["spec", "containers" | "initContainers", "*", "resources", "limits" | "requests", rest @ ..] => {
                rest.first().is_none_or(|resource| devices.gpu_resources.iter().any(|gpu| gpu == *resource))
            }
            ["spec", "containers" | "initContainers", "*", "resources", "claims"] => brings_gpus,
            ["spec", "resourceClaims"] => {
                brings_gpus || ["claimNames", "claimClasses"].iter().any(|name| self.names.contains(*name))
            }
            ["metadata", "labels"] | ["metadata", "labels", JOB_ROLE] => {
                self.names.contains("launcher") || self.names.contains("ranks")
            }
            // Devices that a rule adds are not the pod's own; those that it removes were.
            ["metadata"] | ["metadata", "annotations"] | ["metadata", "annotations", NETWORKS] => {
                devices.added.replaces_networks && self.names.contains("ownDevices")
            }
            _ => false,
        }
    }
}

/// Calls `visit` with every place that the overlays of a rule may change.
fn writes(container: &Instructions, pod: &PodOverlay, visit: &mut dyn FnMut(Path)) {
    let mut of = |instructions: &Instructions, place: &[Step]| {
        for write in overlay::writes(instructions) {
            places(&write, place, visit);
        }
    };
    let every = |list: &str| [field("spec"), field(list), Step::Every];
    of(container, &every("containers"));
    of(container, &every("initContainers"));
    of(&pod.claims, &[]);
    of(&pod.instructions, &[]);
    pod.containers.iter().for_each(|named| of(&named.instructions, &every(named.list)));
    if !pod.volumes.is_empty() {
        visit(vec![field("spec"), field("volumes")]);
    }
    pod.containers.iter().for_each(|named| visit(vec![field("spec"), field(named.list)]));
}

/// Calls `visit` with every place that a write to the object at `place` may change: the whole map if a key is computed.
fn places(write: &Write<'_>, place: &[Step], visit: &mut dyn FnMut(Path)) {
    let mut at = |list: Option<&str>| {
        let names = write.path.iter().copied().chain(list);
        let key = if matches!(write.key, Key::Of(..)) { write.name() } else { None };
        visit(place.iter().cloned().chain(names.chain(key).map(field)).collect());
    };
    match write.value {
        Written::Empty => {}
        // A limit is a request, too.
        Written::Amount(_) => ["limits", "requests"].into_iter().for_each(|list| at(Some(list))),
        _ => at(None),
    }
}

/// The places that change for a settings file.
fn of_settings_files() -> impl Iterator<Item = Path> {
    let mounts = |list| vec![field("spec"), field(list), Step::Every, field("volumeMounts")];
    [
        vec![field("metadata"), field("annotations")],
        vec![field("spec"), field("volumes")],
        mounts("containers"),
        mounts("initContainers"),
    ]
    .into_iter()
}

fn field(name: &str) -> Step {
    Step::Field(name.to_owned())
}

/// Returns whether a change of the written path may change the read path.
fn overlap(read: &Path, written: &Path) -> bool {
    let mut in_entry = false;
    for (read, written) in read.iter().zip(written) {
        match (read, written) {
            (Step::Field(read), Step::Field(written)) if read != written => return false,
            // The entries of lists are not added by a change within one of them.
            (Step::Exists, _) if in_entry => return false,
            _ => {}
        }
        in_entry = *written == Step::Every;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_within_an_entry_of_a_list_does_not_add_an_entry() {
        let path = |text: &str| -> Path {
            text.split('/')
                .map(|step| match step {
                    "*" => Step::Every,
                    "." => Step::Exists,
                    name => field(name),
                })
                .collect()
        };
        let overlaps = |read: &str, written: &str| overlap(&path(read), &path(written));
        assert!(!overlaps("spec/containers/*/.", "spec/containers/*/env"));
        assert!(overlaps("spec/containers/*/.", "spec/containers"));
        assert!(overlaps("spec/containers/*/env/*/name", "spec/containers/*/env"));
        assert!(!overlaps("spec/containers/*/name", "spec/containers/*/env"));
        // The entry of a map is added with its content.
        assert!(overlaps("spec/*/.", "spec/affinity/nodeAffinity"));
        assert!(overlaps("metadata/labels/*/.", "metadata/labels/a"));
    }
}
