//! Policies that read what they inject.
//!
//! The API server may call a webhook again for a pod that it has changed. Where no expression reads a place that an
//! overlay changes, every expression has the same value in that second pass, so that it changes nothing. Where one
//! may, the engine looks again, and repeats the pass until it changes nothing.

use std::collections::BTreeSet;

use super::active::{ActiveRule, names_in};
use super::definition::OnConflict;
use super::devices::Devices;
use super::expression::{Path, ReadSet, Step};
use super::interpolation::Interpolation;
use super::overlay::{Instruction, of_instructions};
use super::own_names::NETWORKS;
use super::settings::{Settings, Way};
use super::variable::Variable;

/// The expressions of a policy that may read a place which the policy changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Feedback {
    None,
    /// Conditions only: another pass changes the pod only if a rule applies to more containers.
    Conditions,
    /// Values too.
    Values,
}

impl Feedback {
    /// The feedback of rules, with the variables that they read. Marks the rules whose conditions may change.
    pub(super) fn of(
        rules: &mut [ActiveRule],
        variables: &[&Variable],
        settings: &[Settings],
        devices: &Devices,
    ) -> Self {
        let mut written = Vec::new();
        writes(rules, &mut |path| written.push(path));
        if settings.iter().any(|settings| matches!(settings.way, Way::File { .. })) {
            written.extend(of_settings_files());
        }
        let includes_any = |reads: &Reads| written.iter().any(|path| reads.include(path, devices));
        for rule in &mut *rules {
            let mut conditions = Reads::of(variables, |visit| rule.conditions(visit));
            conditions.chooses_containers = rule.containers.is_some();
            rule.reads_own_changes = includes_any(&conditions);
        }
        let values = Reads::of(variables, |visit| {
            for rule in &*rules {
                rule.values(visit);
            }
            for settings in settings {
                settings.texts(visit);
            }
        });
        if edits_differ(rules) || includes_any(&values) {
            Self::Values
        } else if rules.iter().any(|rule| rule.reads_own_changes) {
            Self::Conditions
        } else {
            Self::None
        }
    }
}

/// Returns whether rules may change what the pod selects of its nodes, or its GPUs.
pub(super) fn may_move(rules: &[ActiveRule], devices: &Devices) -> bool {
    let names = BTreeSet::from(["totalGpus".to_owned()]);
    let reads = Reads { paths: ReadSet::default(), names, chooses_containers: true };
    let mut found = false;
    writes(rules, &mut |path| found |= reads.includes_built_in(&path, devices));
    found
}

/// Returns whether rules edit lists in strings with different separators: one may take for a single entry what another one
/// made of two.
fn edits_differ(rules: &[ActiveRule]) -> bool {
    let mut separators: BTreeSet<String> = BTreeSet::new();
    for rule in rules {
        let named = rule.pod.containers.iter().flat_map(|container| &container.instructions);
        for instruction in rule.container.iter().chain(&rule.pod.instructions).chain(named) {
            instruction.separators(&mut |separator| {
                separators.insert(separator.to_owned());
            });
        }
    }
    let insists = rules.iter().any(|rule| rule.on_conflict != OnConflict::Keep);
    separators.len() > 1 || insists && !separators.is_empty()
}

/// The places of a pod that expressions read.
struct Reads {
    /// From the pod.
    paths: ReadSet,
    /// The built-in names among what is read.
    names: BTreeSet<String>,
    /// True if a rule chooses containers by an expression of its own.
    chooses_containers: bool,
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
        Self { paths: pod, names, chooses_containers: false }
    }

    /// Returns whether a change at this place may change the value of an expression.
    fn include(&self, written: &Path, devices: &Devices) -> bool {
        let ReadSet::Paths(paths) = &self.paths else { return true };
        paths.iter().any(|read| overlap(read, written)) || self.includes_built_in(written, devices)
    }

    fn includes_built_in(&self, written: &Path, devices: &Devices) -> bool {
        let names: Vec<&str> =
            written.iter().map(|step| if let Step::Field(name) = step { name } else { "*" }).collect();
        match names.as_slice() {
            ["spec", "nodeSelector" | "affinity", ..] => true,
            ["spec", "hostNetwork"] => true,
            // A rule that chooses containers may choose the new one.
            ["spec", "containers" | "initContainers"] => self.chooses_containers,
            ["spec", "containers" | "initContainers", "*", "restartPolicy"] => {
                self.names.contains("totalGpus")
            }
            ["spec", "containers" | "initContainers", "*", "resources"] => true,
            ["spec", "containers" | "initContainers", "*", "resources", "limits" | "requests", rest @ ..] => {
                rest.first().is_none_or(|resource| devices.gpu_resources.iter().any(|gpu| gpu == resource))
            }
            ["spec", "containers" | "initContainers", "*", "resources", "claims"] => {
                devices.gpu_claims.is_some()
            }
            ["spec", "resourceClaims"] => devices.gpu_claims.is_some() || self.names.contains("claimNames"),
            // The devices that a rule adds are none of the pod's own; those that it removes were.
            ["metadata"] | ["metadata", "annotations"] | ["metadata", "annotations", NETWORKS] => {
                devices.own.replaces_networks && self.names.contains("ownFabric")
            }
            _ => false,
        }
    }
}

/// Calls `visit` with every place that the rules may change.
fn writes(rules: &[ActiveRule], visit: &mut dyn FnMut(Path)) {
    for rule in rules {
        let of = |instructions: &[Instruction], place: &[Step], visit: &mut dyn FnMut(Path)| {
            of_instructions(instructions, &place.to_vec(), visit);
        };
        for list in ["containers", "initContainers"] {
            of(&rule.container, &[field("spec"), field(list), Step::Every], visit);
        }
        of(&rule.pod.claims, &[], visit);
        of(&rule.pod.instructions, &[], visit);
        if !rule.pod.volumes.is_empty() {
            visit(vec![field("spec"), field("volumes")]);
        }
        for container in &rule.pod.containers {
            let list = [field("spec"), field(container.list)];
            visit(list.to_vec());
            let [spec, list] = list;
            of(&container.instructions, &[spec, list, Step::Every], visit);
        }
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

/// Returns whether one path leads to the other, or beyond it.
fn overlap(read: &Path, written: &Path) -> bool {
    let same = |(one, other): (&Step, &Step)| match (one, other) {
        (Step::Field(one), Step::Field(other)) => one == other,
        _ => true,
    };
    read.iter().zip(written).all(same)
}
