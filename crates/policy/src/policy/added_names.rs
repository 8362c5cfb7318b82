//! The names under which the rules of a policy add devices. A pod that has them may have them from the policy, so they
//! do not count as the pod's own fabric.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::definition::{DeviceNames, OnConflict, Rule};
use crate::interpolation::EvaluationError;
use crate::overlay::{NETWORKS, Target, Tree, Write, writes};
use crate::schema;

/// The message for a device whose name is not known when the policy is loaded.
const DEPENDS_ON_POD: &str = "it names a device and depends on the pod, but the names of the devices that a policy \
                              adds must be the same for every pod: use only parameters";

/// The names that the rules of a policy write.
#[derive(Debug, Default)]
pub struct AddedNames {
    pub resources: BTreeSet<String>,
    /// Texts of the networks annotation.
    pub networks: Vec<String>,
    /// Names of claims and of templates, of claims without a constant name within the pod.
    pub claims: BTreeSet<String>,
    /// The names of the claims within the pod, each with its claim or template, unless that depends on the pod.
    pub claim_entries: BTreeSet<(String, Option<String>)>,
    /// True if a rule may remove networks from the annotation of a pod.
    pub(crate) replaces_networks: bool,
}

/// Collects the names of rules that are evaluated: what an expression yields there depends on the pod.
pub(crate) fn added_names(rules: &[Rule], own: &DeviceNames) -> Result<AddedNames, EvaluationError> {
    let mut added = AddedNames::default();
    for rule in rules {
        if !own.resources.is_empty() {
            resources(&rule.container, &mut added)?;
            rule.pod.containers.iter().try_for_each(|named| resources(&named.fields, &mut added))?;
        }
        if own.claims.bring_devices() {
            for write in writes(&rule.pod.claims, schema::pod()) {
                claim(&write, &mut added)?;
            }
        }
        if !own.networks.is_empty() {
            let replaces = rule.on_conflict == OnConflict::Replace;
            annotations(&rule.pod.fields, replaces, &mut added)?;
        }
    }
    Ok(added)
}

fn resources(tree: &Tree, added: &mut AddedNames) -> Result<(), EvaluationError> {
    for write in writes(tree, schema::container()) {
        let of_amounts = ["resources", "limits", "requests"].contains(&write.field.name);
        if of_amounts && write.is_computed() {
            return Err(write.failed(DEPENDS_ON_POD));
        }
        if write.is_amount() {
            if let Target::Entry(entry) = write.target
                && let Some(computed) = entry.text()
            {
                return Err(computed.failed(DEPENDS_ON_POD));
            }
            added.resources.extend(write.names().map(str::to_owned));
        }
    }
    Ok(())
}

fn annotations(tree: &Tree, replaces: bool, added: &mut AddedNames) -> Result<(), EvaluationError> {
    for write in writes(tree, schema::pod()) {
        if write.is_computed() && ["metadata", "annotations"].contains(&write.field.name) {
            return Err(write.failed(DEPENDS_ON_POD));
        }
        let Target::Entry(entry) = write.target else { continue };
        if write.field.name != "annotations" {
            continue;
        }
        match (entry.text(), entry.name()) {
            (Some(computed), _) => return Err(computed.failed(DEPENDS_ON_POD)),
            (None, Some(NETWORKS)) => {}
            (None, _) => continue,
        }
        let is_list = write.is_edit() && write.value.literal("$key").is_none();
        added.replaces_networks |= replaces && !is_list;
        let names = if write.is_edit() { write.value.field("$append") } else { Some(write.value.clone()) };
        let names = names.and_then(Tree::into_value);
        added.networks.push(match names {
            Some(Value::String(name)) => name,
            Some(Value::Array(names)) if is_list => {
                names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
            }
            Some(entries @ Value::Array(_)) => entries.to_string(),
            _ => return Err(write.failed(DEPENDS_ON_POD)),
        });
    }
    Ok(())
}

/// Adds the name of a claim within the pod, or without a constant one, that of the claim or template. A claim of the
/// pod's own can refer to the same template under another name.
fn claim(write: &Write<'_>, added: &mut AddedNames) -> Result<(), EvaluationError> {
    if write.is_computed() {
        return Err(write.failed(DEPENDS_ON_POD));
    }
    let fields = ["resourceClaimName", "resourceClaimTemplateName"];
    let target = fields.into_iter().find_map(|field| write.value.literal(field));
    if let Some(name) = write.value.literal("name") {
        added.claim_entries.insert((name.to_owned(), target.map(str::to_owned)));
        return Ok(());
    }
    let target = target.ok_or_else(|| write.failed(DEPENDS_ON_POD))?;
    added.claims.insert(target.to_owned());
    Ok(())
}
