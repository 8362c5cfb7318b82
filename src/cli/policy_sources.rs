//! The options `--policy`, `--values` and `--set`.

use crate::policy_sources::PolicySources;

#[derive(Debug, Clone, clap::Args)]
pub(super) struct PolicyArguments {
    /// A built-in policy, a policy file, or a folder of them; may be given several times
    #[arg(
        long = "policy",
        value_name = "NAME|PATH|DIR",
        value_delimiter = ',',
        env = "FABRIC_INJECTOR_POLICY",
        hide_env_values = true
    )]
    policies: Vec<String>,
    /// A file with a `multinodeNetworking:` block, such as a Helm values file as it is
    #[arg(long, value_name = "FILE", env = "FABRIC_INJECTOR_VALUES", hide_env_values = true)]
    values: Option<String>,
    /// A parameter of the policies in use that have it; wins over the values file
    #[arg(long = "set", value_name = "KEY=VALUE", env = "FABRIC_INJECTOR_SET", hide_env_values = true)]
    sets: Vec<String>,
}

impl PolicyArguments {
    /// Returns whether they name no policy and no provider.
    pub(super) fn are_empty(&self) -> bool {
        self.policies.is_empty() && self.values.is_none()
    }
}

impl From<PolicyArguments> for PolicySources {
    fn from(PolicyArguments { policies, values, sets }: PolicyArguments) -> Self {
        Self { policies, values, sets, by_nodes: false }
    }
}
