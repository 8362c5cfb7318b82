//! Mounts and volumes of rules that never apply to one pod together.

use crate::core::policy::definition::{Definition, Rule};
use crate::core::policy::diagnostic::{Diagnostic, MOUNT_WITHOUT_VOLUME, VOLUME_WITHOUT_MOUNT};
use crate::core::policy::overlay::{Element, Written, writes};

use super::Finding;
use super::places::{Places, Step};
use super::samples::Samples;

/// A mount or a volume of a rule.
struct Part<'d> {
    rule: &'d Rule,
    volume: &'d str,
    path: Vec<Step>,
}

pub(super) fn findings(definition: &Definition, samples: &Samples<'_>) -> Vec<Finding> {
    let volumes: Vec<Part<'_>> = definition.rules.iter().flat_map(volumes).collect();
    let Some(mounts) = definition.rules.iter().map(mounts).collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    let mounts: Vec<Part<'_>> = mounts.into_iter().flatten().collect();
    let places = Places::of(definition);
    let mut found: Vec<Finding> = Vec::new();
    let mut reported: Vec<&str> = Vec::new();
    for (parts, others, code) in
        [(&mounts, &volumes, MOUNT_WITHOUT_VOLUME), (&volumes, &mounts, VOLUME_WITHOUT_MOUNT)]
    {
        for part in parts {
            let mut partners = others.iter().filter(|other| other.volume == part.volume).peekable();
            let Some(first) = partners.peek().map(|first| first.rule) else { continue };
            if reported.contains(&part.volume)
                || !partners.all(|other| exclude(part.rule, other.rule, samples))
            {
                continue;
            }
            let Some(place) = places.value(&part.rule.name, &part.path) else { continue };
            if place.file != definition.file {
                continue;
            }
            reported.push(part.volume);
            let message = if code == MOUNT_WITHOUT_VOLUME {
                format!(
                    "the volume `{}` of this mount is in rule `{}`, which never applies together with rule `{}`",
                    part.volume, first.name, part.rule.name
                )
            } else {
                format!(
                    "the volume `{}` is mounted in rule `{}`, which never applies together with rule `{}`",
                    part.volume, first.name, part.rule.name
                )
            };
            let hint = "write the mount and the volume in one rule";
            let diagnostic = Diagnostic::warning(code, place.span, message).hint(hint);
            found.push(Finding::placed(diagnostic, definition));
        }
    }
    found
}

/// Returns whether no pod meets the conditions of both rules.
fn exclude(one: &Rule, other: &Rule, samples: &Samples<'_>) -> bool {
    let [when, other_when] = [one, other].map(|rule| rule.when.iter().collect::<Vec<_>>());
    one.name != other.name && samples.exclude(&when, &other_when)
}

fn step(name: &str) -> Step {
    Step::Field(name.to_owned())
}

fn volumes(rule: &Rule) -> impl Iterator<Item = Part<'_>> {
    rule.pod.volumes.iter().filter_map(move |Element(volume)| {
        let name = volume.literal("name")?;
        let path = vec![step("pod"), step("spec"), step("volumes"), Step::Entry("name", name.to_owned())];
        Some(Part { rule, volume: name, path })
    })
}

/// The mounts of a rule; `None` if an expression yields one, or its volume.
fn mounts(rule: &Rule) -> Option<Vec<Part<'_>>> {
    if rule.pod.containers.iter().any(|container| container.name.as_text().is_none()) {
        return None;
    }
    let mut found = Vec::new();
    let named = rule.pod.containers.iter().filter_map(|container| {
        let name = container.name.as_text()?.to_owned();
        let path = vec![step("pod"), step("spec"), step(container.list), Step::Entry("name", name)];
        Some((path, &container.instructions))
    });
    for (start, instructions) in [(vec![step("container")], &rule.container)].into_iter().chain(named) {
        for write in writes(instructions).into_iter().filter(|write| write.path == ["volumeMounts"]) {
            let Written::Entry(Element(mount)) = write.value else { return None };
            let at = write.name().map(|path| Step::Entry("mountPath", path.to_owned()));
            let path = [step("volumeMounts")].into_iter().chain(at).chain([step("name")]);
            let path = start.iter().cloned().chain(path).collect();
            found.push(Part { rule, volume: mount.literal("name")?, path });
        }
    }
    Some(found)
}
