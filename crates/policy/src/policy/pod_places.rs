//! The places of a pod that expressions read, or that rules write.

use std::collections::BTreeSet;

use super::devices::Devices;
use crate::definition::Rule;
use crate::expression::Step;
use crate::interpolation::{Interpolation, JOB_ROLE, names_in};
use crate::overlay::Write;
use crate::parameter::Variable;
use crate::schema::{self, SETTINGS_DOMAIN};

/// A set of places: a part of the pod, such as `containers`, `env` and the name of a variable. All containers are one
/// place, and everything within a place belongs to it. `*` at its end is any text, and `.` whether a container is there.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeSet<Vec<String>>);

/// A place within the amounts of containers: those of GPUs, and those of devices of the fabric.
const GPUS: &[&str] = &["containers", "resources", "gpus"];
const DEVICES: &[&str] = &["containers", "resources", "devices"];
/// The places of claims.
const CLAIMS: [&[&str]; 2] = [&["containers", "resources", "claims"], &["spec", "resourceClaims"]];
/// Where the pod selects its nodes, on which all parameters depend.
pub(super) const NODES: [&[&str]; 2] = [&["spec", "nodeSelector"], &["spec", "affinity", "nodeAffinity"]];
/// The path of all containers.
const CONTAINER: &[&str] = &["spec", "containers", "*"];
/// The path of the environment variables of all containers.
const ENV: &[&str] = &["spec", "containers", "*", "env"];
/// Whether a container is there.
pub(super) const ADDED_CONTAINER: &[&str] = &["containers", "."];

impl Places {
    pub(super) fn new<'p>(places: impl IntoIterator<Item = &'p [&'p str]>) -> Self {
        Self(places.into_iter().map(|place| place.iter().map(|name| (*name).to_owned()).collect()).collect())
    }

    /// What a settings file writes.
    pub(super) fn of_settings_files() -> Self {
        let annotations = format!("{SETTINGS_DOMAIN}/*");
        let annotations = ["metadata", "annotations", &annotations];
        Self::new([&annotations[..], &["spec", "volumes"], &["containers", "volumeMounts"]])
    }

    pub(super) fn add<'p>(&mut self, places: impl IntoIterator<Item = &'p [&'p str]>) {
        self.0.extend(Self::new(places).0);
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns whether a place of one set is, or is within, one of the other.
    pub(super) fn meet(&self, other: &Self) -> bool {
        let matches = |pattern: &str, name: &str| {
            pattern.strip_suffix('*').is_some_and(|start| name.starts_with(start))
        };
        let is_same =
            |(one, other): (&String, &String)| one == other || matches(one, other) || matches(other, one);
        self.0.iter().any(|one| other.0.iter().any(|other| one.iter().zip(other).all(is_same)))
    }

    /// What these texts read, also through variables. A variable reads those before it.
    pub(super) fn read_by(
        variables: &[&Variable],
        devices: &Devices,
        texts: impl FnOnce(&mut dyn FnMut(&Interpolation)),
    ) -> Self {
        let (mut places, mut names) = (Self::default(), BTreeSet::new());
        let mut read = |text: &Interpolation, names: &mut BTreeSet<String>| {
            names.extend(names_in(text));
            for expression in text.expressions() {
                for (name, root) in [("pod", &[][..]), ("container", CONTAINER), ("containerEnv", ENV)] {
                    for path in expression.reads_of(name) {
                        places.path(root.iter().copied().chain(path.iter().map(Step::token)), devices);
                    }
                }
            }
        };
        texts(&mut |text| read(text, &mut names));
        for variable in variables.iter().rev() {
            if names.contains(&variable.name) {
                variable.value.texts(&mut |text| read(text, &mut names));
            }
        }
        for name in &names {
            places.built_in(name, devices);
        }
        places
    }

    /// Adds what a built-in name reads.
    fn built_in(&mut self, name: &str, devices: &Devices) {
        match name {
            "gpus" | "gpuCounts" | "totalGpus" | "ranks" | "launcher" => {
                self.add([GPUS]);
                if devices.gpu_claims.bring_devices() {
                    self.add(CLAIMS);
                }
                // The GPUs of an init container count next to those of the others if it keeps running.
                match name {
                    "totalGpus" => self.add([&["containers", "restartPolicy"][..]]),
                    "ranks" | "launcher" => self.add([&["metadata", "labels", JOB_ROLE][..]]),
                    _ => {}
                }
            }
            "claimNames" | "claimClasses" => self.add(CLAIMS),
            "hostNetwork" => self.add([&["spec", name][..]]),
            "hasDevice" => self.add([DEVICES]),
            _ => {}
        }
    }

    /// What a rule writes.
    pub(super) fn written_by(rule: &Rule, devices: &Devices) -> Self {
        let mut places = Self::default();
        rule.writes().for_each(|write| places.write(&write, devices));
        if rule.additions.iter().any(|addition| addition.container_name().is_some()) {
            places.add([ADDED_CONTAINER]);
        }
        if rule.device.is_some() {
            // `hasDevice` already includes the devices of an entry of `devices.add`.
            places.0.retain(|place| {
                !place.iter().map(String::as_str).zip(DEVICES).all(|(one, other)| one == *other)
            });
        }
        places
    }

    fn write(&mut self, write: &Write<'_>, devices: &Devices) {
        let root = if *write.object == *schema::pod() { &[] } else { CONTAINER };
        if write.value.is_empty() {
            return;
        }
        if write.path == ["resources", "claims"] && devices.own.claims.bring_devices() {
            self.add([DEVICES]);
        }
        let path = || root.iter().copied().chain(write.path.iter().copied());
        let mut names = write.names().peekable();
        if names.peek().is_none() {
            self.path(path().chain(write.is_amount().then_some("*")), devices);
        }
        names.for_each(|name| self.path(path().chain([name]), devices));
    }

    /// Adds the place at a path.
    fn path<'p>(&mut self, path: impl Iterator<Item = &'p str>, devices: &Devices) {
        let path: Vec<&str> = path.collect();
        let own = |name: &str| devices.own.resources.iter().any(|pattern| pattern.matches(name));
        let place = match path[..] {
            ["spec", "containers" | "initContainers", "*", "resources", "limits" | "requests", name, ..] => {
                let kind = match name {
                    "*" => "*",
                    name if devices.gpu_resources.iter().any(|gpu| gpu == name) => "gpus",
                    name if own(name) => "devices",
                    _ => "others",
                };
                vec!["containers", "resources", kind, name]
            }
            ["spec", "containers" | "initContainers", "*", "resources", "limits" | "requests"] => {
                vec!["containers", "resources", "*"]
            }
            ["spec", "containers" | "initContainers", _, ref rest @ ..] => {
                [&["containers"][..], rest].concat()
            }
            ["spec", "containers" | "initContainers"] => vec!["containers"],
            _ => path,
        };
        let place = if place == ADDED_CONTAINER {
            place
        } else {
            // The entry of another list, or of a map, is added with its content.
            place.into_iter().map(|name| if name == "." { "*" } else { name }).collect()
        };
        self.add([&place[..place.len().min(4)]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> Places {
        let mut places = Places::default();
        let devices = Devices { gpu_resources: vec!["nvidia.com/gpu".to_owned()], ..Devices::default() };
        places.path(path.split(' '), &devices);
        places
    }

    #[test]
    fn places_meet_within_each_other_and_by_name() {
        for (one, other) in [
            ("spec initContainers * env * name", "spec containers * env NCCL_NET"),
            ("spec containers * env .", "spec containers * env NCCL_NET"),
            ("spec containers", "spec containers * image"),
            ("spec containers * resources", "spec containers * resources claims"),
            ("spec containers * resources requests", "spec containers * resources limits nvidia.com/gpu"),
            ("spec containers * resources requests *", "spec containers * resources limits a/b"),
            ("spec containers * .", "spec containers * ."),
            ("metadata labels .", "metadata labels a"),
            ("spec affinity", "spec affinity nodeAffinity"),
        ] {
            assert!(at(one).meet(&at(other)) && at(other).meet(&at(one)), "{one}, {other}");
        }
        for (one, other) in [
            ("spec containers * .", "spec containers * env A"),
            ("spec containers * name", "spec containers * env A"),
            ("spec containers * resources limits nvidia.com/gpu", "spec containers * resources limits a/b"),
            ("metadata annotations a", "metadata annotations b"),
            ("spec affinity podAffinity", "spec affinity nodeAffinity"),
            ("spec containers * securityContext runAsUser", "spec containers * securityContext privileged"),
        ] {
            assert!(!at(one).meet(&at(other)) && !at(other).meet(&at(one)), "{one}, {other}");
        }
    }
}
