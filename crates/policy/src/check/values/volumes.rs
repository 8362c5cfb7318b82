//! Mounts and volumes without each other.

use std::collections::BTreeSet;

use crate::definition::Definition;
use crate::overlay::Tree;
use crate::source::{Diagnostic, MOUNT_WITHOUT_VOLUME, VOLUME_WITHOUT_MOUNT};
use fabric_yaml::Span;

use crate::check::writes;

/// The name of a volume, in a mount or a volume of a rule.
struct Part<'d> {
    volume: &'d str,
    span: Span,
}

pub(crate) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let (Some(volumes), Some(mounts)) = (volumes(definition), mounts(definition)) else { return Vec::new() };
    let alone = |parts: &[Part<'_>], others: &[Part<'_>], code, about: fn(&str) -> (String, &'static str)| {
        let mut seen: BTreeSet<&str> = others.iter().map(|other| other.volume).collect();
        let alone = parts.iter().filter(|part| seen.insert(part.volume));
        let finding = |part: &Part<'_>| {
            let (message, hint) = about(part.volume);
            Diagnostic::warning(code, part.span, message).hint(hint)
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

/// The volumes of the rules; `None` if an expression yields the name of one.
fn volumes(definition: &Definition) -> Option<Vec<Part<'_>>> {
    definition.rules.iter().flat_map(|rule| &rule.pod.volumes).map(named).collect()
}

/// The mounts of the rules; `None` if an expression yields one, its volume, or the name of its container.
fn mounts(definition: &Definition) -> Option<Vec<Part<'_>>> {
    let mut containers = definition.rules.iter().flat_map(|rule| &rule.pod.containers);
    if containers.any(|container| container.name.as_str().is_none()) {
        return None;
    }
    let mounts = writes(definition).filter(|write| write.path == ["volumeMounts"]);
    mounts.map(|mount| named(mount.value)).collect()
}

fn named(tree: &Tree) -> Option<Part<'_>> {
    let name = tree.get("name")?;
    Some(Part { volume: name.as_str()?, span: name.span })
}
