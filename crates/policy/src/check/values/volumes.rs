//! Mounts and volumes without each other.

use std::collections::BTreeSet;

use crate::definition::Definition;
use crate::overlay::{Tree, Write};
use crate::source::{Diagnostic, MOUNT_WITHOUT_VOLUME, VOLUME_WITHOUT_MOUNT, closest};
use fabric_yaml::Span;

use crate::check::{named_containers, writes};

pub(crate) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let (Some(volumes), Some(mounts)) = (volumes(definition), mounts(definition)) else { return Vec::new() };
    let mut unmounted = alone(&volumes, &mounts);
    let mut found = Vec::new();
    for (mount, span) in alone(&mounts, &volumes) {
        let message = format!(
            "no rule has the volume `{mount}` of this mount, so only pods with such a volume get the mount"
        );
        // A mount and a volume with almost the same name are meant for each other.
        let is_near = |(volume, _): &(&str, Span)| {
            closest(mount, [*volume]).is_some() || mount.starts_with(volume) || volume.starts_with(mount)
        };
        let hint = match unmounted.iter().position(is_near) {
            Some(at) => format!("did you mean the volume `{}`?", unmounted.remove(at).0),
            None => "add the volume to `pod.spec.volumes` of a rule".to_owned(),
        };
        found.push(Diagnostic::warning(MOUNT_WITHOUT_VOLUME, span, message).hint(hint));
    }
    found.extend(unmounted.into_iter().map(|(volume, span)| {
        let message = format!("no rule mounts the volume `{volume}`, so it is not added");
        Diagnostic::warning(VOLUME_WITHOUT_MOUNT, span, message)
            .hint("add `volumeMounts` to `container` of a rule, or remove the volume")
    }));
    found
}

/// The names that are not among others, each with its first place.
fn alone<'d>(names: &[&'d Tree], others: &[&Tree]) -> Vec<(&'d str, Span)> {
    let mut seen: BTreeSet<&str> = others.iter().filter_map(|other| other.as_str()).collect();
    let names = names.iter().filter_map(|name| Some((name.as_str()?, name.span)));
    names.filter(|(name, _)| seen.insert(name)).collect()
}

/// The names of the volumes of the rules; `None` if an expression yields the name of one.
fn volumes(definition: &Definition) -> Option<Vec<&Tree>> {
    writes(definition).filter(Write::is_volume).map(|volume| named(volume.value)).collect()
}

/// The names of the volumes of mounts; `None` if an expression yields one, its volume, or the name of its container.
fn mounts(definition: &Definition) -> Option<Vec<&Tree>> {
    if named_containers(definition).any(|(container, _)| container.name.as_str().is_none()) {
        return None;
    }
    let mounts = writes(definition).filter(|write| write.path == ["volumeMounts"]);
    mounts.map(|mount| named(mount.value)).collect()
}

fn named(tree: &Tree) -> Option<&Tree> {
    tree.get("name").filter(|name| name.as_str().is_some())
}
