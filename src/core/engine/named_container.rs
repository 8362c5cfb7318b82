//! Containers of a pod that an overlay names.

use serde_json::Value;

use crate::core::policy::expression::Bindings;
use crate::core::policy::overlay::NamedContainer;
use crate::core::policy::{ActiveRule, OnConflict};

use super::context::{Merge, PodFacts, brief};
use super::cursor::{Cursor, add_container};
use super::log::ChangeLog;
use super::merge::apply_rule;
use super::report::{Kept, Reason, Warning, WarningKind};
use super::trace::Author;

/// Merges a container of an overlay into the pod's container of that name, or adds it.
pub(super) fn inject_named(
    rule: &ActiveRule,
    container: &NamedContainer,
    bindings: &Bindings<'_, '_>,
    pod: &mut Value,
    facts: &mut PodFacts,
    log: &mut ChangeLog,
) -> Result<(), Reason> {
    facts.note_outside(pod);
    let mut merge = Merge::new(rule, bindings, facts);
    let Some(Value::String(name)) = merge.build(&container.name)? else { return Ok(()) };
    let image = container.image().map(|image| merge.build(image)).transpose()?.flatten();
    if is_kept(rule, container.list, &name, image.as_ref(), pod, log)? {
        return Ok(());
    }
    let index = match (position(pod, container.list, &name), image) {
        (Some(index), _) => index,
        (None, Some(_)) => {
            log.written_by(|| Author::Rule(rule.name.clone()));
            add_container(pod, log, container.list, &name)?
        }
        (None, None) => {
            let path = format!("/spec/{}", container.list);
            let kind = WarningKind::NoSuchContainer { name };
            log.warnings.push(Warning { path, kind, rule: rule.name.clone() });
            return Ok(());
        }
    };
    let mut cursor = Cursor::container(pod, log, container.list, index)?;
    apply_rule(&mut merge, &mut cursor, &container.instructions)
}

/// Returns whether the pod has a container of that name that stays as it is, and reports it: one in the other list, as
/// names are unique among all containers of a pod, or one with another image, which is another program.
fn is_kept(
    rule: &ActiveRule,
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
    Cursor::container(pod, log, list, index)?.warn_here(kind, &rule.name);
    Ok(true)
}

fn position(pod: &Value, list: &str, name: &str) -> Option<usize> {
    pod["spec"][list].as_array()?.iter().position(|container| container["name"].as_str() == Some(name))
}
