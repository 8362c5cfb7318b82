//! Mounts and volumes without each other.

use std::collections::BTreeSet;

use crate::definition::Definition;
use crate::overlay::Tree;
use crate::source::{Diagnostic, MOUNT_WITHOUT_VOLUME, VOLUME_WITHOUT_MOUNT};

use crate::check::writes;

pub(crate) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let (Some(volumes), Some(mounts)) = (volumes(definition), mounts(definition)) else { return Vec::new() };
    let alone = |names: &[&Tree], others: &[&Tree], code, about: fn(&str) -> (String, &'static str)| {
        let mut seen: BTreeSet<Option<&str>> = others.iter().map(|other| other.as_str()).collect();
        let alone = names.iter().filter(|name| seen.insert(name.as_str()));
        let finding = |name: &&Tree| {
            let (message, hint) = about(name.as_str().unwrap_or_default());
            Diagnostic::warning(code, name.span, message).hint(hint)
        };
        alone.map(finding).collect::<Vec<_>>()
    };
    let mut found = alone(&mounts, &volumes, MOUNT_WITHOUT_VOLUME, |volume| {
        let message = format!(
            "no rule has the volume `{volume}` of this mount, so only pods with such a volume get the mount"
        );
        (message, "add the volume to `pod.spec.volumes` of a rule")
    });
    found.extend(alone(&volumes, &mounts, VOLUME_WITHOUT_MOUNT, |volume| {
        let message = format!("no rule mounts the volume `{volume}`, so it is not added");
        (message, "add `volumeMounts` to `container` of a rule, or remove the volume")
    }));
    found
}

/// The names of the volumes of the rules; `None` if an expression yields the name of one.
fn volumes(definition: &Definition) -> Option<Vec<&Tree>> {
    definition.rules.iter().flat_map(|rule| &rule.pod.volumes).map(named).collect()
}

/// The names of the volumes of mounts; `None` if an expression yields one, its volume, or the name of its container.
fn mounts(definition: &Definition) -> Option<Vec<&Tree>> {
    let mut containers = definition.rules.iter().flat_map(|rule| &rule.pod.containers);
    if containers.any(|container| container.name.as_str().is_none()) {
        return None;
    }
    let mounts = writes(definition).filter(|write| write.path == ["volumeMounts"]);
    mounts.map(|mount| named(mount.value)).collect()
}

fn named(tree: &Tree) -> Option<&Tree> {
    tree.get("name").filter(|name| name.as_str().is_some())
}
