//! The names of GPUs and of devices of the fabric, for certain parameter values.

use super::own_names::{Collector, OwnNames};
use crate::core::policy::definition::{ClaimedGpus, Definition, FabricNames, Rule};
use crate::core::policy::expression::Bindings;
use crate::core::policy::interpolation::EvaluationError;

#[derive(Debug, Default)]
pub(crate) struct Devices {
    pub(crate) gpu_resources: Vec<String>,
    pub(crate) gpu_claims: Option<ClaimedGpus>,
    pub(crate) fabric: FabricNames,
    /// The names among them that the policy's own rules write.
    pub(crate) own: OwnNames,
    /// True if a rule reads `ownFabric`.
    pub(crate) rules_read_own_fabric: bool,
}

impl Devices {
    pub(crate) fn of(
        definition: &Definition,
        bindings: &Bindings<'_, '_>,
        rules: &[Rule],
    ) -> Result<Self, EvaluationError> {
        let gpu_claims = definition.gpus.claims.as_ref().map(|claims| claims.resolve(bindings));
        let fabric = definition.fabric.as_ref().map(|fabric| fabric.resolve(bindings));
        let fabric = fabric.transpose()?.unwrap_or_default();
        let collector = Collector { names: &definition.names, fixed: bindings, fabric: &fabric };
        let own = if definition.reads("ownFabric") { collector.collect(rules)? } else { OwnNames::default() };
        Ok(Self {
            gpu_resources: definition.gpus.resources.clone(),
            gpu_claims: gpu_claims.transpose()?.flatten(),
            fabric,
            own,
            rules_read_own_fabric: false,
        })
    }
}
