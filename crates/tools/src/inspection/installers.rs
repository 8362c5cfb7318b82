//! Compares parameters with the releases that `DaemonSets` install on the nodes.

use serde::Deserialize;
use serde_json::Value;

use fabric_policy::{Override, Policy};
use fabric_yaml::read_value;

use super::{Found, Seen, list, name, ok, text, unread, warn};

/// A parameter that has to be the tag of an image.
#[derive(Deserialize)]
struct Installer {
    /// The last part of the image's name.
    image: String,
    parameter: String,
}

fn installers() -> Result<Vec<Installer>, String> {
    let read = read_value(include_str!("../../../../facts/installers.yaml"))
        .map_err(|error| format!("installers.yaml: {error:?}"))?;
    serde_json::from_value(read.root.unwrap_or_default()).map_err(|error| format!("installers.yaml: {error}"))
}

pub(super) fn releases(seen: &Seen<'_>) -> Found {
    let installers = installers().map_err(|error| unread(&error.into()))?;
    let parameters = |policy| installers.iter().filter_map(move |one| Some((one, value(policy, one)?)));
    let named: Vec<(&Installer, &str)> = seen.chosen(seen.policies()?).flat_map(parameters).collect();
    if named.is_empty() {
        return ok("no parameter names what DaemonSets install");
    }
    let sets = seen.facts.daemon_sets.as_ref().map_err(unread)?;
    let installed = list(sets, "items").flat_map(|set| images(set).map(move |image| (set, image)));
    let (mut others, mut remedy) = (Vec::new(), String::new());
    for (set, (image, tag)) in installed {
        let differ = |(one, value): &&(&Installer, &str)| one.image == image && *value != tag;
        for (Installer { parameter, .. }, value) in named.iter().filter(differ) {
            let place = format!("{}/{}", text(&set["metadata"], "namespace"), name(set));
            if others.is_empty() {
                remedy = format!(
                    "set `{parameter}` to `{tag}`, or update the DaemonSet: if they do not belong together, NCCL fails or \
                     uses TCP"
                );
            }
            others.push(format!("`{parameter}` is `{value}`, and the DaemonSet `{place}` installs `{tag}`"));
        }
    }
    if others.is_empty() {
        return ok("no DaemonSet installs another release than its parameter names");
    }
    warn(others.join("; "), remedy)
}

/// The value of the parameter that a policy has, if it is the same for all pods.
fn value<'p>(policy: &'p Policy, installer: &Installer) -> Option<&'p str> {
    let parameter = policy.definition().parameters.iter().find(|one| one.name == installer.parameter)?;
    match policy.overrides().get(&parameter.name) {
        None => parameter.default.as_str(),
        Some(Override::Value(value)) => value.as_str(),
        Some(Override::Table { .. }) => None,
    }
}

/// The images of a `DaemonSet`: the last part of each name, and the tag.
fn images(set: &Value) -> impl Iterator<Item = (&str, &str)> {
    let spec = &set["spec"]["template"]["spec"];
    let containers = list(spec, "initContainers").chain(list(spec, "containers"));
    containers.filter_map(|container| {
        let (image, tag) = text(container, "image").split('@').next()?.rsplit_once(':')?;
        Some((image.rsplit('/').next()?, tag))
    })
}
