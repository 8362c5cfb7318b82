//! What the samples show about what rules write: values of variables that a library reads as others, and containers that
//! no kubelet starts.

use std::collections::BTreeMap;

use serde_json::Value;

use fabric_policy::overlay::{Addition, Tree, Write};
use fabric_policy::source::ODD_TEXT;
use fabric_policy::{Definition, Diagnostic, Rule, wrong_value};
use fabric_yaml::Span;

use crate::record::{Author, FieldOutcome, FieldState};

/// The first finding about each variable and container that a rule adds, by its name and that of the rule.
#[derive(Default)]
pub(super) struct Written(BTreeMap<(String, String), Diagnostic>);

impl Written {
    /// Looks at what a rule added to a sample.
    pub(super) fn add(&mut self, definition: &Definition, pod: &Value, outcome: &FieldOutcome) {
        let FieldOutcome { author: Author::Rule(rule), pointer, state: FieldState::Added, .. } = outcome
        else {
            return;
        };
        let Some(added) = pod.pointer(pointer) else { return };
        match added {
            Value::Array(items) => {
                for item in items {
                    self.add_entry(definition, rule, pointer, item);
                }
            }
            item => {
                let list = pointer.rsplit_once('/').map_or("", |(list, _)| list);
                self.add_entry(definition, rule, list, item);
            }
        }
    }

    /// Looks at an entry of a list.
    fn add_entry(&mut self, definition: &Definition, rule: &str, list: &str, added: &Value) {
        let name = added["name"].as_str().unwrap_or_default();
        let key = (rule.to_owned(), name.to_owned());
        if name.is_empty() || self.0.contains_key(&key) {
            return;
        }
        let Some(rule) = definition.rules.iter().find(|known| known.name == rule) else { return };
        let found = if list.ends_with("/env") {
            // Those that are written out are told with the file.
            let value = added["value"].as_str().filter(|value| !value.is_empty() && !value.contains('$'));
            value.zip(evaluated(rule, name)).and_then(|(value, span)| wrong_value(name, value, span))
        } else if list.ends_with("ontainers") {
            let is_there = |addition: &&Addition| {
                addition.container_name().is_some_and(|container| container.name.as_str() == Some(name))
            };
            rule.additions.iter().find(is_there).and_then(|addition| of_container(added, &addition.tree))
        } else {
            None
        };
        self.0.extend(found.map(|found| (key, found)));
    }

    pub(super) fn findings(self) -> impl Iterator<Item = Diagnostic> {
        self.0.into_values()
    }
}

/// The place of a variable that a rule sets, if its value is that of an expression.
fn evaluated(rule: &Rule, name: &str) -> Option<Span> {
    let is_there = |write: &Write<'_>| write.path == ["env"] && write.name() == Some(name);
    let write = rule.writes().find(is_there)?;
    let value = write.value.get("value")?.source()?;
    value.contains("${").then(|| write.span())
}

/// What keeps a container from starting, or its probes from being answered. `tree` is that of the rule.
fn of_container(container: &Value, tree: &Tree) -> Option<Diagnostic> {
    let warning = |field: &str, message: String, hint: &str| {
        let span = tree.get(field).map_or(tree.span, |value| value.span);
        Some(Diagnostic::warning(ODD_TEXT, span, message).hint(hint))
    };
    let image = container["image"].as_str().unwrap_or_default();
    if let Some(hint) = wrong_image(image) {
        return warning("image", format!("`{image}` does not name an image"), &hint);
    }
    let ports = container["ports"].as_array().into_iter().flatten();
    let names: Vec<&str> = ports.filter_map(|port| port["name"].as_str()).collect();
    ["livenessProbe", "readinessProbe", "startupProbe"].into_iter().find_map(|probe| {
        let ports = ["httpGet", "tcpSocket"].map(|kind| container[probe][kind]["port"].as_str());
        let port = ports.into_iter().flatten().find(|port| !names.contains(port))?;
        let message = format!("`{probe}` asks the port `{port}`, and no entry of `ports` has this name");
        let hint = if container["ports"].is_null() && tree.get("ports").is_some() {
            "write the number of the port: pods with `hostNetwork` get no `ports`"
        } else {
            "write the number of the port, or a name of `ports`"
        };
        warning(probe, message, hint)
    })
}

/// What to do about a text that is no reference to an image, if it is none.
fn wrong_image(image: &str) -> Option<String> {
    if let Some((_, rest)) = image.split_once("://") {
        return Some(format!("write `{rest}`, without the scheme"));
    }
    let (path, digest) = image.split_once('@').unwrap_or((image, ""));
    let is_digest = |digest: &str| {
        let hexadecimal = digest.split_once(':').map_or("", |(_, digits)| digits);
        hexadecimal.len() >= 32 && hexadecimal.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    if path.len() < image.len() && !is_digest(digest) {
        return Some(format!("write `{path}:TAG`, or a digest such as `{path}@sha256:…`"));
    }
    let is_upper = |text: &str| text.bytes().any(|byte| byte.is_ascii_uppercase());
    let (domain, path) = match path.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" || is_upper(first) => {
            (first, rest)
        }
        _ => ("", path),
    };
    let name = path.split(':').next().unwrap_or_default();
    if is_upper(name) {
        let slash = if domain.is_empty() { "" } else { "/" };
        let lower = name.to_lowercase();
        return Some(format!("write `{domain}{slash}{lower}`: the name of an image has small letters"));
    }
    // The label of a sample's node may be a pattern of `machines`.
    let is_odd = |c: char| !(c.is_ascii_alphanumeric() || "._-/:*".contains(c));
    let has_gap = !image.is_empty() && path.split(['/', ':']).any(str::is_empty);
    (path.contains(is_odd) || has_gap).then(|| "write `REGISTRY/NAME:TAG`".to_owned())
}
