//! Mounts and volumes without each other.

use std::collections::BTreeSet;

use crate::definition::{At, Definition, Rule, in_volume, keys};
use crate::overlay::{Element, Written};
use crate::source::{Diagnostic, MOUNT_WITHOUT_VOLUME, VOLUME_WITHOUT_MOUNT};

use crate::check::writes;

/// A mount or a volume of a rule.
struct Part<'d> {
    rule: &'d Rule,
    volume: &'d str,
    path: Vec<At>,
}

pub(crate) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let (Some(volumes), Some(mounts)) = (volumes(definition), mounts(definition)) else { return Vec::new() };
    let alone = |parts: &[Part<'_>], others: &[Part<'_>], code, about: fn(&str) -> (String, &'static str)| {
        let mut seen: BTreeSet<&str> = others.iter().map(|other| other.volume).collect();
        let alone = parts.iter().filter(|part| seen.insert(part.volume));
        let finding = |part: &Part<'_>| {
            let (message, hint) = about(part.volume);
            let span = definition.place_in(part.rule, &part.path);
            Diagnostic::warning(code, span, message).hint(hint)
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
    let mut found = Vec::new();
    for rule in &definition.rules {
        for Element(volume) in &rule.pod.volumes {
            let volume = volume.literal("name")?;
            found.push(Part { rule, volume, path: in_volume(volume, &[]) });
        }
    }
    Some(found)
}

/// The mounts of the rules; `None` if an expression yields one, its volume, or the name of its container.
fn mounts(definition: &Definition) -> Option<Vec<Part<'_>>> {
    let mut containers = definition.rules.iter().flat_map(|rule| &rule.pod.containers);
    if containers.any(|container| container.name.as_text().is_none()) {
        return None;
    }
    let mut found = Vec::new();
    for placed in writes(definition).filter(|placed| placed.write.path == ["volumeMounts"]) {
        let Written::Entry(Element(mount)) = placed.write.value else { return None };
        let path = placed.path().into_iter().chain(keys(["name"])).collect();
        found.push(Part { rule: placed.rule, volume: mount.literal("name")?, path });
    }
    Some(found)
}
