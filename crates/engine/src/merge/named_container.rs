//! Containers of a pod that an overlay names.

use serde_json::Value;

use fabric_policy::definition::{Precedence, Subject};
use fabric_policy::expression::Bindings;
use fabric_policy::overlay::{Addition, Evaluation, Place, Tree};
use fabric_policy::schema;
use fabric_policy::{OnConflict, Rule};

use super::Injection;
use super::rule::{Merge, brief};
use crate::evaluate::failed;
use crate::record::{Author, ChangeLog, Cursor, Kept, Reason, WarningKind, add_container};

impl<'a> Injection<'a> {
    /// Merges a container that a rule names into the pod's container of that name, or adds it.
    pub(super) fn named_container(
        &mut self,
        rule: &'a Rule,
        addition: &'a Addition,
        bindings: &Bindings<'_, '_>,
        precedence: &Precedence<'a>,
        pod: &mut Value,
    ) -> Result<(), Reason> {
        let Some(container) = addition.container_name() else { return Ok(()) };
        let (scope, list) = (self.rules.scope, container.list);
        let value = |tree, field| {
            let value = Evaluation::new(bindings, false).value_of(tree, schema::container(), field);
            value
                .map(|value| value.and_then(Tree::into_value))
                .map_err(|error| failed(scope, &rule.name, error))
        };
        self.log.go_to_pod();
        self.log.written_by(|| Author::Rule(rule.name.clone()));
        let Some(Value::String(name)) = value(&container.name, "name")? else {
            let name = container.name.source().unwrap_or_default();
            self.log.left_out(&["spec", list], || format!("`{name}` is null"));
            return Ok(());
        };
        let fields = precedence.left(rule, addition);
        let image = image_for(rule, addition, precedence).map_or(Ok(None), |image| value(image, "image"))?;
        self.log.takes(self.rules.analysis.containers.len());
        self.facts.note_outside(pod);
        if is_kept(rule, list, &name, image.as_ref(), pod, self.log)? {
            return Ok(());
        }
        let index = match (position(pod, list, &name), image) {
            (Some(index), _) => index,
            (None, Some(_)) => add_container(pod, self.log, list, &name)?,
            (None, None) => {
                self.log.go_to_pod();
                let warn = |log: &mut ChangeLog| log.warn(WarningKind::NoSuchContainer { name }, &rule.name);
                self.log.at("spec", |log| log.at(list, warn));
                return Ok(());
            }
        };
        self.facts.requested.go_to(pod, list, index);
        let mut cursor = Cursor::container(pod, self.log, list, index)?;
        let mut merge = Merge::new(rule, self.rules.analysis, self.facts);
        merge.merge(&mut cursor, &fields, schema::container(), (scope, bindings))
    }
}

/// The image of a container that a rule names: that of another rule if it belongs to that, which may leave it out.
fn image_for<'r>(rule: &'r Rule, addition: &'r Addition, precedence: &Precedence<'r>) -> Option<&'r Tree> {
    let is_image = |place: &Place| place.path == ["image"] && place.name.is_none();
    let subject = Subject::new(&addition.section);
    let mut taken = subject.iter().flat_map(|subject| precedence.taken(rule, subject));
    match taken.find(|(place, _)| is_image(place)) {
        Some((_, first)) => first.additions_to(&addition.section).find_map(Addition::image),
        None => addition.image(),
    }
}

/// Returns whether the pod has a container of that name that stays as it is, and reports it: one in the other list,
/// because names are unique among all containers of a pod, or one with another image, which is another program.
fn is_kept(
    rule: &Rule,
    list: &'static str,
    name: &str,
    image: Option<&Value>,
    pod: &mut Value,
    log: &mut ChangeLog,
) -> Result<bool, Reason> {
    let other = if list == "containers" { "initContainers" } else { "containers" };
    let (list, index, seen, wanted) = if let Some(index) = position(pod, list, name) {
        let seen = &pod["spec"][list][index]["image"];
        let Some(image) = image.filter(|image| !seen.is_null() && *image != seen) else { return Ok(false) };
        if rule.on_conflict != OnConflict::Keep {
            return Ok(false);
        }
        (list, index, format!("image {}", brief(seen)), format!("image {}", brief(image)))
    } else if let Some(index) = position(pod, other, name) {
        (other, index, format!("one of {other}"), format!("{name} in {list}"))
    } else {
        return Ok(false);
    };
    let kind = WarningKind::Kept { what: Kept::Container, seen, wanted };
    Cursor::container(pod, log, list, index)?.log.warn(kind, &rule.name);
    Ok(true)
}

fn position(pod: &Value, list: &str, name: &str) -> Option<usize> {
    pod["spec"][list].as_array()?.iter().position(|container| container["name"].as_str() == Some(name))
}
