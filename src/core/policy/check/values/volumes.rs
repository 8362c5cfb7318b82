//! Mounts and volumes without each other, or in rules that never apply to one pod together.

use crate::core::policy::definition::{At, Definition, Rule, in_volume, keys};
use crate::core::policy::overlay::{Element, Written};
use crate::core::policy::source::{Diagnostic, MOUNT_WITHOUT_VOLUME, VOLUME_WITHOUT_MOUNT};

use crate::core::policy::check::expressions::samples::Samples;
use crate::core::policy::check::writes;

/// A mount or a volume of a rule.
struct Part<'d> {
    rule: &'d Rule,
    volume: &'d str,
    path: Vec<At>,
}

pub(in crate::core::policy::check) fn findings(
    definition: &Definition,
    samples: &Samples<'_>,
) -> Vec<Diagnostic> {
    let (Some(volumes), Some(mounts)) = (volumes(definition), mounts(definition)) else { return Vec::new() };
    let mut found: Vec<Diagnostic> = Vec::new();
    let mut reported: Vec<&str> = Vec::new();
    for (parts, others, code) in
        [(&mounts, &volumes, MOUNT_WITHOUT_VOLUME), (&volumes, &mounts, VOLUME_WITHOUT_MOUNT)]
    {
        for part in parts {
            let mut partners = others.iter().filter(|other| other.volume == part.volume).peekable();
            let first = partners.peek().map(|first| first.rule);
            if reported.contains(&part.volume)
                || !partners.all(|other| exclude(part.rule, other.rule, samples))
            {
                continue;
            }
            reported.push(part.volume);
            let is_mount = code == MOUNT_WITHOUT_VOLUME;
            let (message, hint) = about(is_mount, part, first);
            let span = definition.place_in(part.rule, &part.path);
            found.push(Diagnostic::warning(code, span, message).hint(hint));
        }
    }
    found
}

/// The message about a mount or a volume whose first partner is in a rule of its own, or nowhere.
fn about(is_mount: bool, part: &Part<'_>, partner: Option<&Rule>) -> (String, &'static str) {
    let Part { rule, volume, .. } = part;
    let Some(partner) = partner else {
        return if is_mount {
            let message = format!(
                "no rule has the volume `{volume}` of this mount, which only pods with such a volume get"
            );
            (message, "add the volume to `pod.spec.volumes` of a rule")
        } else {
            let message = format!("no rule mounts the volume `{volume}`, so that it is not added");
            (message, "add `volumeMounts` to `container` of a rule, or remove the volume")
        };
    };
    let what = if is_mount {
        format!("the volume `{volume}` of this mount is in")
    } else {
        format!("the volume `{volume}` is mounted in")
    };
    let message =
        format!("{what} rule `{}`, which never applies together with rule `{}`", partner.name, rule.name);
    (message, "write the mount and the volume in one rule")
}

/// Returns whether no pod meets the conditions of both rules.
fn exclude(one: &Rule, other: &Rule, samples: &Samples<'_>) -> bool {
    let [when, other_when] = [one, other].map(|rule| rule.when.iter().collect::<Vec<_>>());
    one.name != other.name && samples.exclude(&when, &other_when)
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
