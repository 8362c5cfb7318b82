//! Policies that read what they inject.
//!
//! The API server may call a webhook again for a pod that it has changed. Where no expression reads a place that an
//! overlay changes, every expression has the same value in that second pass, so that it changes nothing. Where one
//! may, the engine looks again, and repeats the pass until it changes nothing.

use std::collections::{BTreeSet, HashMap};

use super::active::{ActiveRule, names_in};
use super::definition::OnConflict;
use super::devices::Devices;
use super::expression::{Path, ReadSet, Step};
use super::interpolation::Interpolation;
use super::overlay::{Instruction, StringWrite, of_instructions, strings_of};
use super::own_names::NETWORKS;
use super::settings::{Settings, Way};
use super::variable::Variable;

/// The expressions of a policy that may read a place which the policy changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Feedback {
    None,
    /// Those of some rules: another pass changes the pod only if one of them applies to more containers, or has other
    /// values where it still applies.
    Rules,
    /// Others, so that another pass may always change the pod.
    Any,
}

impl Feedback {
    /// The feedback of rules, with the variables that they read. Marks the rules whose conditions may change.
    pub(super) fn of(
        rules: &mut [ActiveRule],
        variables: &[&Variable],
        settings: &[Settings],
        devices: &Devices,
    ) -> Self {
        // Most rules change the same places.
        let mut written = BTreeSet::new();
        writes(rules, &mut |path| _ = written.insert(path));
        if settings.iter().any(|settings| matches!(settings.way, Way::File { .. })) {
            written.extend(of_settings_files());
        }
        // Nor do most rules read something else than the others.
        let mut known: HashMap<(ReadSet, BTreeSet<String>, bool), bool> = HashMap::new();
        let mut includes_any = |reads: Reads| {
            let any = || written.iter().any(|path| reads.include(path, devices));
            let Reads { paths, names, chooses_containers } = &reads;
            let names = DECISIVE.iter().filter(|name| names.contains(**name)).map(|name| (*name).to_owned());
            *known.entry((paths.clone(), names.collect(), *chooses_containers)).or_insert_with(any)
        };
        for rule in &mut *rules {
            let mut conditions = Reads::of(variables, |visit| rule.conditions(visit));
            conditions.chooses_containers = rule.containers.is_some();
            rule.reads_own_changes = includes_any(conditions);
            let values = Reads::of(variables, |visit| rule.values(visit));
            rule.values_read_own_changes = includes_any(values);
        }
        let of_settings = Reads::of(variables, |visit| {
            for settings in settings {
                settings.texts(visit);
            }
        });
        let reads = |rule: &ActiveRule| rule.reads_own_changes || rule.values_read_own_changes;
        if edits_differ(rules) || includes_any(of_settings) {
            Self::Any
        } else if rules.iter().any(reads) {
            Self::Rules
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

/// Returns whether rules may change which containers count for `totalGpus`. Whether the number changes depends on the pod.
pub(super) fn may_recount(rules: &[ActiveRule]) -> bool {
    let mut found = false;
    writes(rules, &mut |path| found |= decides_on_total(&path));
    found
}

fn decides_on_total(written: &Path) -> bool {
    written.len() == 4 && matches!(written.last(), Some(Step::Field(name)) if name == "restartPolicy")
}

/// Returns whether rules edit the list in a string in different ways: with another separator, one may take for a single
/// entry what another one made of two, and a rule that insists on a value replaces the list.
fn edits_differ(rules: &[ActiveRule]) -> bool {
    let mut writes: Vec<(StringWrite<'_>, bool)> = Vec::new();
    for rule in rules {
        let insists = rule.on_conflict != OnConflict::Keep;
        let named = rule.pod.containers.iter().map(|container| &container.instructions);
        for instructions in [&rule.container, &rule.pod.instructions].into_iter().chain(named) {
            strings_of(instructions, &mut |write| writes.push((write, insists)));
        }
    }
    let edits = writes.iter().filter(|(write, _)| write.separator.is_some());
    edits.into_iter().any(|(edit, _)| {
        writes.iter().any(|(other, insists)| {
            let differs = other.separator.is_some_and(|separator| Some(separator) != edit.separator);
            (differs || *insists) && edit.may_be_of_the_same(other)
        })
    })
}

/// The built-in names of which a change may depend on the place that changes.
const DECISIVE: &[&str] = &["totalGpus", "claimNames", "ownFabric"];

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
        let is_counted_again = decides_on_total(written);
        paths.iter().any(|read| overlap(read, written))
            || !is_counted_again && self.includes_built_in(written, devices)
    }

    fn includes_built_in(&self, written: &Path, devices: &Devices) -> bool {
        // No pattern below is longer than seven steps, except for its rest.
        let mut names = [""; 8];
        for (name, step) in names.iter_mut().zip(written) {
            *name = if let Step::Field(name) = step { name } else { "*" };
        }
        match &names[..written.len().min(names.len())] {
            ["spec", "nodeSelector" | "affinity", ..] => true,
            ["spec", "hostNetwork"] => true,
            // A rule that chooses containers may choose the new one.
            ["spec", "containers" | "initContainers"] => self.chooses_containers,
            ["spec", "containers" | "initContainers", "*", "restartPolicy"] => {
                self.names.contains("totalGpus")
            }
            ["spec", "containers" | "initContainers", "*", "resources"] => true,
            ["spec", "containers" | "initContainers", "*", "resources", "limits" | "requests", rest @ ..] => {
                rest.first().is_none_or(|resource| devices.gpu_resources.iter().any(|gpu| gpu == *resource))
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

/// Returns whether a change of what is written may change what is read.
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
        // The entry of a map is added with what is within it.
        assert!(overlaps("spec/*/.", "spec/affinity/nodeAffinity"));
        assert!(overlaps("metadata/labels/*/.", "metadata/labels/a"));
    }
}
