//! What the samples show about what rules write: values of variables that a library reads as others, and containers that
//! no kubelet starts.

use core::slice;
use std::collections::BTreeMap;

use serde_json::Value;

use fabric_policy::overlay::{Addition, Tree};
use fabric_policy::source::ODD_TEXT;
use fabric_policy::{Definition, Diagnostic, wrong_value};
use fabric_yaml::Span;

use crate::record::{Author, FieldOutcome, FieldState};

/// What is wrong with the variables and the containers that rules add, by the names of the rule and the entry: the field of
/// the entry, and the finding without its place.
#[derive(Default)]
pub(super) struct Written(BTreeMap<(String, String), (&'static str, Diagnostic)>);

impl Written {
    /// Looks at what a rule added to a sample.
    pub(super) fn add(&mut self, pod: &Value, outcome: &FieldOutcome) {
        let FieldOutcome { author: Author::Rule(rule), pointer, state: FieldState::Added, .. } = outcome
        else {
            return;
        };
        let (list, added) = match pod.pointer(pointer) {
            Some(Value::Array(items)) => (&**pointer, &**items),
            Some(item) => (pointer.rsplit_once('/').map_or("", |(list, _)| list), slice::from_ref(item)),
            None => return,
        };
        for item in added {
            let name = item["name"].as_str().unwrap_or_default();
            let found = if list.ends_with("/env") {
                let value = item["value"].as_str().filter(|value| !value.is_empty() && !value.contains('$'));
                let found = value.and_then(|value| wrong_value(name, value, Span::default()));
                found.map(|found| ("value", found))
            } else if list.ends_with("ontainers") {
                of_container(item)
            } else {
                None
            };
            self.0.extend(found.map(|found| ((rule.clone(), name.to_owned()), found)));
        }
    }

    /// The findings where the rules write what is wrong. A value without expressions is told with the file.
    pub(super) fn findings(mut self, definition: &Definition) -> Vec<Diagnostic> {
        let mut all = Vec::new();
        for rule in &definition.rules {
            let writes = rule.writes().filter(|write| write.path == ["env"]);
            let variables = writes.filter_map(|write| Some((write.name()?.to_owned(), write.value)));
            let names = |addition: &'_ Addition| Some(addition.container_name()?.name.as_str()?.to_owned());
            let containers = rule.additions.iter().filter_map(|one| Some((names(one)?, &one.tree)));
            for (name, tree) in variables.chain(containers) {
                let Some((field, found)) = self.0.remove(&(rule.name.clone(), name)) else { continue };
                let written = tree.get(field);
                let is_literal = written.and_then(Tree::source).is_some_and(|text| !text.contains("${"));
                if field != "value" || !is_literal {
                    all.push(Diagnostic { span: written.map_or(tree.span, |value| value.span), ..found });
                }
            }
        }
        all
    }
}

/// What keeps a container from starting, or its probes from being answered: the field, and the finding without its place.
fn of_container(container: &Value) -> Option<(&'static str, Diagnostic)> {
    let warning = |field, message: String, hint: &str| {
        Some((field, Diagnostic::warning(ODD_TEXT, Span::default(), message).hint(hint)))
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
        let hint = "write the number of the port; a name is one of `ports`, which pods with `hostNetwork` do not get";
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
