//! Containers of a pod that an overlay names.

use serde_json::Value;

use fabric_policy::OnConflict;
use fabric_policy::overlay::Tree;
use fabric_policy::schema;

use super::apply::object;
use super::rule::{Merge, brief};
use crate::record::{Author, ChangeLog, Cursor, Kept, Reason, Stop, WarningKind, add_container};

/// A container that a rule names, for this pod.
pub(super) struct Named<'a> {
    pub(super) list: &'static str,
    pub(super) name: &'a str,
    /// The image that the container gets, by this rule or by one that precedes it.
    pub(super) image: Option<Value>,
}

/// Merges a container of an overlay into the pod's container of that name, or adds it. `evaluate` yields its fields.
pub(super) fn inject_named(
    merge: &mut Merge<'_, '_>,
    Named { list, name, image }: Named<'_>,
    pod: &mut Value,
    log: &mut ChangeLog,
    evaluate: impl FnOnce(&mut ChangeLog) -> Result<Tree, Stop>,
) -> Result<(), Stop> {
    log.takes(merge.analysis.containers.len());
    merge.pod.note_outside(pod);
    log.written_by(|| Author::Rule(merge.rule.to_owned()));
    if is_kept(merge, list, name, image.as_ref(), pod, log)? {
        return Ok(());
    }
    let index = match (position(pod, list, name), image) {
        (Some(index), _) => index,
        (None, Some(_)) => add_container(pod, log, list, name)?,
        (None, None) => {
            let kind = WarningKind::NoSuchContainer { name: name.to_owned() };
            Cursor::pod(pod, log)?.within("spec", |spec| {
                spec.warn(list, kind, merge.rule);
                Ok(())
            })?;
            return Ok(());
        }
    };
    merge.pod.requested.go_to(pod, list, index);
    let fields = evaluate(Cursor::container(pod, log, list, index)?.log())?;
    let mut cursor = Cursor::container(pod, log, list, index)?;
    cursor.written_by_rule(merge.rule);
    Ok(object(merge, &mut cursor, fields.into_entries(), schema::container())?)
}

/// Returns whether the pod has a container of that name that stays as it is, and reports it: one in the other list,
/// because names are unique among all containers of a pod, or one with another image, which is another program.
fn is_kept(
    merge: &Merge<'_, '_>,
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
        if merge.on_conflict != OnConflict::Keep {
            return Ok(false);
        }
        (list, index, format!("image {}", brief(seen)), format!("image {}", brief(image)))
    } else if let Some(index) = position(pod, other, name) {
        (other, index, format!("one of {other}"), format!("{name} in {list}"))
    } else {
        return Ok(false);
    };
    let kind = WarningKind::Kept { what: Kept::Container, seen, wanted };
    Cursor::container(pod, log, list, index)?.warn_here(kind, merge.rule);
    Ok(true)
}

fn position(pod: &Value, list: &str, name: &str) -> Option<usize> {
    pod["spec"][list].as_array()?.iter().position(|container| container["name"].as_str() == Some(name))
}
