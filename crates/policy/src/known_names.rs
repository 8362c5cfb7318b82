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
    /// The values of variables that have only these.
    pub(crate) values: BTreeMap<String, Vec<String>>,
    /// Variables of NCCL that are no whole numbers.
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

pub(crate) static NAMES: LazyLock<KnownNames> = LazyLock::new(|| {
    let read = fabric_yaml::read_value(include_str!("../../../facts/names.yaml"));
    read.ok().and_then(|document| serde_json::from_value(document.root?).ok()).unwrap_or_default()
});

#[cfg(test)]
mod tests {
    use super::NAMES;

    #[test]
    fn the_file_is_read() {
        let has = |list: &[String], name: &str| list.iter().any(|known| known == name);
        assert!(has(&NAMES.variables, "NCCL_DEBUG") && has(&NAMES.resources, "nvidia.com/gpu"));
        assert!(has(&NAMES.annotations, "k8s.v1.cni.cncf.io/networks"));
        assert!(has(&NAMES.labels, "kubernetes.io/arch") && NAMES.values.contains_key("NCCL_DEBUG"));
    }
}
