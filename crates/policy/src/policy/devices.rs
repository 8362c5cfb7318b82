//! The names of GPUs and of devices of the fabric, for certain parameter values.

use super::added_names::{AddedNames, added_names};
use crate::definition::{ClaimNames, Definition, DeviceNames, Rule};
use crate::expression::Bindings;
use crate::interpolation::Evaluated;

#[derive(Debug, Default)]
pub struct Devices {
    pub gpu_resources: Vec<String>,
    pub gpu_claims: ClaimNames,
    /// The names that count as a device of the fabric.
    pub own: DeviceNames,
    /// The names among them that the policy's own rules write.
    pub added: AddedNames,
    /// True if something is left out for a pod that brings its own devices.
    pub give_way: bool,
}

impl Devices {
    pub(crate) fn new(
        definition: &Definition,
        bindings: &Bindings<'_, '_>,
        rules: &[Rule],
        give_way: bool,
    ) -> Evaluated<Self> {
        let own = definition.device_list.as_ref().map(|list| list.evaluate(bindings));
        let own = own.transpose()?.unwrap_or_default();
        let are_read = definition.adds_devices() || definition.reads("ownDevices");
        let added = if are_read { added_names(rules, &own)? } else { AddedNames::default() };
        Ok(Self {
            gpu_resources: definition.gpus.resources.clone(),
            gpu_claims: definition.gpus.claims.evaluate(bindings)?,
            own,
            added,
            give_way,
        })
    }
}
