//! The names under which the rules of a policy add devices. A pod that has them may have them from the policy, so they
//! do not count as the pod's own fabric.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::definition::{DeviceNames, OnConflict, Rule};
use crate::expression::Bindings;
use crate::interpolation::{EvaluationError, Interpolation, Names, Phase};
use crate::overlay::{Element, Instruction, Key, NETWORKS, Template, Written, writes};

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

/// Collects the names of rules that are folded: what an expression yields there depends on the pod.
pub(crate) struct Collector<'a, 'p, 'v> {
    pub(crate) names: &'a Names,
    pub(crate) fixed: &'a Bindings<'p, 'v>,
    pub(crate) own: &'a DeviceNames,
}

impl Collector<'_, '_, '_> {
    pub(crate) fn collect(&self, rules: &[Rule]) -> Result<AddedNames, EvaluationError> {
        let mut added = AddedNames::default();
        for rule in rules {
            if !self.own.resources.is_empty() {
                Self::resources(&rule.container, &mut added)?;
                for named in &rule.pod.containers {
                    Self::resources(&named.instructions, &mut added)?;
                }
            }
            if self.own.claims.bring_devices() {
                Self::claims(&rule.pod.claims, &mut added)?;
            }
            if !self.own.networks.is_empty() {
                let replaces = rule.on_conflict == OnConflict::Replace;
                self.annotations(&rule.pod.instructions, replaces, &mut added)?;
            }
        }
        Ok(added)
    }

    fn resources(instructions: &[Instruction], added: &mut AddedNames) -> Result<(), EvaluationError> {
        for write in writes(instructions) {
            match write.value {
                Written::Amount(amount) => match &amount.resource {
                    Interpolation::Literal(name) => _ = added.resources.insert(name.clone()),
                    computed => return Err(computed.failed(DEPENDS_ON_POD)),
                },
                Written::Computed { field, expression, .. }
                    if ["resources", "limits", "requests"].contains(&field.name) =>
                {
                    return Err(expression.failed(DEPENDS_ON_POD));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn claims(instructions: &[Instruction], added: &mut AddedNames) -> Result<(), EvaluationError> {
        for write in writes(instructions) {
            match write.value {
                Written::Entry(entry) => claim(entry, added)?,
                Written::Computed { expression, .. } => return Err(expression.failed(DEPENDS_ON_POD)),
                _ => {}
            }
        }
        Ok(())
    }

    fn annotations(
        &self,
        instructions: &[Instruction],
        replaces: bool,
        added: &mut AddedNames,
    ) -> Result<(), EvaluationError> {
        for write in writes(instructions) {
            match (write.key, write.value) {
                (_, Written::Computed { field, expression, .. })
                    if ["metadata", "annotations"].contains(&field.name) =>
                {
                    return Err(expression.failed(DEPENDS_ON_POD));
                }
                (Key::Of(key), value) if write.field() == "annotations" => {
                    match key {
                        Interpolation::Literal(key) if key != NETWORKS => continue,
                        Interpolation::Literal(_) => {}
                        computed => return Err(computed.failed(DEPENDS_ON_POD)),
                    }
                    added.replaces_networks |= replaces && !matches!(value, Written::Networks(_));
                    added.networks.push(self.networks(value)?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The networks that a value of the annotation names, as the text of one.
    fn networks(&self, value: Written<'_>) -> Result<String, EvaluationError> {
        let mut all_known = Ok(());
        let mut check = |text: &Interpolation| {
            if all_known.is_ok() && text.phase(self.names) != Phase::Fixed {
                all_known = Err(text.failed(DEPENDS_ON_POD));
            }
        };
        match value {
            Written::Value(Template::Constant(Value::String(text))) => Ok(text.clone()),
            Written::Networks(edit) => {
                edit.name_texts(&mut check);
                all_known?;
                Ok(edit.all(self.fixed)?.join(","))
            }
            Written::Entries(edit) => {
                edit.texts(&mut check);
                all_known?;
                let entries = edit.evaluate(self.fixed)?.into_iter().map(Value::Object).collect();
                Ok(Value::Array(entries).to_string())
            }
            other => Err(EvaluationError::about(|visit| other.texts(visit), DEPENDS_ON_POD)),
        }
    }
}

/// Adds the name of a claim within the pod, or without a constant one, that of the claim or template. A claim of the
/// pod's own can refer to the same template under another name.
fn claim(entry: &Element, added: &mut AddedNames) -> Result<(), EvaluationError> {
    let fields = ["resourceClaimName", "resourceClaimTemplateName"];
    let target = fields.into_iter().find_map(|field| entry.0.literal(field));
    if let Some(name) = entry.0.literal("name") {
        added.claim_entries.insert((name.to_owned(), target.map(str::to_owned)));
        return Ok(());
    }
    let Some(target) = target else {
        return Err(EvaluationError::about(|visit| entry.0.texts(visit), DEPENDS_ON_POD));
    };
    added.claims.insert(target.to_owned());
    Ok(())
}
