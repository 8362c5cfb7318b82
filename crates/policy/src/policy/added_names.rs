//! The names under which the rules of a policy add devices. A pod that has them may have them from the policy, so they
//! do not count as the pod's own fabric.

use std::collections::BTreeSet;

use crate::definition::{DeviceNames, Rule};
use crate::interpolation::Evaluated;
use crate::overlay::{Target, Write};

/// The message for a device whose name is not known when the policy is loaded.
const DEPENDS_ON_POD: &str = "it names a device and depends on the pod, but the names of the devices that a policy \
                              adds must be the same for every pod: use only parameters";

/// The names that the rules of a policy write.
#[derive(Debug, Default)]
pub struct AddedNames {
    pub resources: BTreeSet<String>,
    /// Names of claims and of templates, of claims without a constant name within the pod.
    pub claims: BTreeSet<String>,
    /// The names of the claims within the pod, each with its claim or template, unless that depends on the pod.
    pub claim_entries: BTreeSet<(String, Option<String>)>,
}

/// Collects the names of rules that are evaluated: what an expression yields there depends on the pod.
pub(crate) fn added_names(rules: &[Rule], own: &DeviceNames) -> Evaluated<AddedNames> {
    let mut added = AddedNames::default();
    for write in rules.iter().flat_map(Rule::writes) {
        if *write.path == ["spec", "resourceClaims"] {
            if own.claims.bring_devices() {
                claim(&write, &mut added)?;
            }
        } else if !own.resources.is_empty() {
            resource(&write, &mut added)?;
        }
    }
    Ok(added)
}

fn resource(write: &Write<'_>, added: &mut AddedNames) -> Evaluated<()> {
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
    Ok(())
}

/// Adds the name of a claim within the pod, or without a constant one, that of the claim or template. A claim of the
/// pod's own can refer to the same template under another name.
fn claim(write: &Write<'_>, added: &mut AddedNames) -> Evaluated<()> {
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
