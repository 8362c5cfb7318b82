//! Names that policies of a fabric have, from `facts/names.yaml`, against which names in a policy are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

/// The names that are known without another policy.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownNames {
    /// Environment variables that libraries read.
    pub(crate) variables: Vec<String>,
    /// Those that have only a few values, and are variables, too.
    values: Vec<Values>,
    /// Variables of NCCL and libfabric that are no whole numbers.
    pub(crate) texts: BTreeSet<String>,
    /// The least and the greatest value of variables that are whole numbers.
    pub(crate) ranges: BTreeMap<String, [i64; 2]>,
    /// Variables with lists that have commas and no blanks.
    pub(crate) lists: BTreeSet<String>,
    /// Resources of device plugins.
    pub(crate) resources: Vec<String>,
    /// Annotations that attach networks.
    pub(crate) annotations: Vec<String>,
    /// The labels that Kubernetes itself gives to nodes.
    pub(crate) labels: Vec<String>,
}

/// The values of some variables.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Values {
    variables: Vec<String>,
    words: Vec<String>,
}

impl KnownNames {
    /// The words that a variable has for values, if it has only these and numbers.
    pub(crate) fn words(&self, variable: &str) -> Option<&[String]> {
        let row = self.values.iter().find(|row| row.variables.iter().any(|known| known == variable))?;
        Some(&row.words)
    }

    fn with_those_of_values(mut self) -> Self {
        self.variables.extend(self.values.iter().flat_map(|row| row.variables.clone()));
        self
    }
}

pub(crate) static NAMES: LazyLock<KnownNames> = LazyLock::new(|| {
    let read = fabric_yaml::read_value(include_str!("../../../facts/names.yaml"));
    let names: Option<KnownNames> =
        read.ok().and_then(|document| serde_json::from_value(document.root?).ok());
    names.unwrap_or_default().with_those_of_values()
});

#[cfg(test)]
mod tests {
    use super::NAMES;

    #[test]
    fn the_file_is_read() {
        let has = |list: &[String], name: &str| list.iter().any(|known| known == name);
        assert!(has(&NAMES.variables, "NCCL_DEBUG") && has(&NAMES.resources, "nvidia.com/gpu"));
        assert!(has(&NAMES.annotations, "k8s.v1.cni.cncf.io/networks"));
        assert!(has(&NAMES.labels, "kubernetes.io/arch") && NAMES.words("NCCL_DEBUG").is_some());
    }
}
