//! Containers of a pod that rules name.

use std::collections::BTreeMap;

use serde_json::Value;

use fabric_policy::definition::Ordered;
use fabric_policy::overlay::{Evaluation, Tree};
use fabric_policy::schema;
use fabric_policy::{OnConflict, Rule};

use super::rule::brief;
use super::{At, Injection, Part};
use crate::evaluate::failed;
use crate::record::{Author, ChangeLog, Cursor, OrReason, Place, ValueKind, WarningKind, add_container};

/// What rules add to containers that they name, by the list and name of the container.
#[derive(Default)]
pub(super) struct Named<'r>(BTreeMap<(&'static str, String), Vec<Ordered<'r>>>);

impl<'r> Named<'r> {
    /// What is added to a container of the pod. It counts once.
    pub(super) fn of_container(&mut self, list: &'static str, container: &Value) -> Vec<Ordered<'r>> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let name = container["name"].as_str().unwrap_or_default().to_owned();
        self.0.remove(&(list, name)).unwrap_or_default()
    }
}

impl<'a> Injection<'a> {
    /// What the rules that apply add to containers that they name.
    pub(super) fn named(&mut self, at: At<'_>) -> OrReason<Named<'a>> {
        let mut named = Named::default();
        self.log.go_to_pod();
        for of in self.rules.additions() {
            let Some(container) = of.addition.container_name() else { continue };
            if let Some(Value::String(name)) = value(of.rule, &container.name, "name", at)? {
                named.0.entry((container.list, name)).or_default().push(of);
                continue;
            }
            self.log.written_by(|| Author::Rule(of.rule.name.clone()));
            let name = container.name.source().unwrap_or_default();
            self.log.left_out(&["spec", container.list], || format!("`{name}` is null"));
        }
        Ok(named)
    }

    /// What rules add to a container of the pod. One with another image is another program, which stays as it is unless
    /// the rule replaces values.
    pub(super) fn of_same_program<'s>(
        &mut self,
        group: &[Ordered<'a>],
        place: Place,
        at: At<'s>,
        pod: &mut Value,
    ) -> OrReason<Vec<Part<'a, 's>>> {
        let mut parts = Vec::new();
        for of in group {
            let (list, index) = place;
            let seen = &pod["spec"][list][index]["image"];
            let image = image(*of, group, at)?.filter(|image| !seen.is_null() && image != seen);
            match image.filter(|_| of.rule.on_conflict == OnConflict::Keep) {
                Some(image) => {
                    let (seen, wanted) =
                        (format!("image {}", brief(seen)), format!("image {}", brief(&image)));
                    let kind = WarningKind::Kept { what: ValueKind::Container, seen, wanted };
                    self.log.written_by(|| Author::Rule(of.rule.name.clone()));
                    Cursor::container(pod, self.log, place)?.log.warn(kind, &of.rule.name);
                }
                None => parts.push(Part { of: *of, at }),
            }
        }
        Ok(parts)
    }

    /// Adds the containers that the pod does not have. Without an image, there is none.
    pub(super) fn other_containers(
        &mut self,
        Named(named): Named<'a>,
        at: At<'_>,
        pod: &mut Value,
    ) -> OrReason {
        let mut named: Vec<_> = named.into_iter().collect();
        named.sort_by_key(|(_, group)| group[0].at);
        for ((list, name), group) in named {
            self.log.takes(self.rules.analysis.containers.len());
            let other = if list == "containers" { "initContainers" } else { "containers" };
            // Names are unique among all containers of a pod.
            let in_other_list = position(pod, other, &name);
            let mut is_added = false;
            for of in group.iter().filter(|_| in_other_list.is_none()) {
                is_added |= image(*of, &group, at)?.is_some();
            }
            if is_added {
                let index = add_container(pod, self.log, list, &name)?;
                self.container((list, index), group.into_iter().map(|of| Part { of, at }).collect(), pod)?;
                continue;
            }
            for Ordered { rule, .. } in group {
                self.log.written_by(|| Author::Rule(rule.name.clone()));
                if let Some(index) = in_other_list {
                    let (seen, wanted) = (format!("one of {other}"), format!("{name} in {list}"));
                    let kind = WarningKind::Kept { what: ValueKind::Container, seen, wanted };
                    Cursor::container(pod, self.log, (other, index))?.log.warn(kind, &rule.name);
                } else {
                    self.log.go_to_pod();
                    let kind = WarningKind::NoSuchContainer { name: name.clone() };
                    let warn = |log: &mut ChangeLog| log.warn(kind, &rule.name);
                    self.log.at("spec", |log| log.at(list, warn));
                }
            }
        }
        Ok(())
    }
}

/// The value of a field of a container; none for `null`.
fn value(rule: &Rule, tree: &Tree, field: &str, at: At<'_>) -> OrReason<Option<Value>> {
    let value = Evaluation::new(at.bindings, false).value_of(tree, schema::container(), field);
    value.map(|value| value.and_then(Tree::into_value)).map_err(|error| failed(at.scope, &rule.name, error))
}

/// The image that a rule wants for a container: that of the rule to which it belongs, which may leave it out.
fn image(of: Ordered<'_>, group: &[Ordered<'_>], at: At<'_>) -> OrReason<Option<Value>> {
    let first = group.iter().filter(|other| other.rule.rank > of.rule.rank && other.addition.sets_image());
    let first = first.min_by_key(|other| other.precedence()).copied().unwrap_or(of);
    first.addition.image().map_or(Ok(None), |image| value(first.rule, image, "image", at))
}

fn position(pod: &Value, list: &str, name: &str) -> Option<usize> {
    pod["spec"][list].as_array()?.iter().position(|container| container["name"].as_str() == Some(name))
}
