//! The settings of a policy on their way into the file of a container.

use std::collections::BTreeMap;
use std::fs;

use serde_json::json;

use super::controllers::bound;
use crate::cluster::Cluster;
use crate::workloads::{is_injected, job, template};

/// The providers, each with the instance type of its nodes.
const CLOUDS: [(&str, &str); 4] = [
    ("aws", "p5.48xlarge"),
    ("azure", "Standard_ND96isr_H100_v5"),
    ("gcp", "a3-megagpu-8g"),
    ("oci", "BM.GPU.H100.8"),
];

/// The variables of NCCL and libfabric.
fn settings<'a>(variables: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeMap<&'a str, &'a str> {
    variables.filter(|(name, _)| name.starts_with("NCCL_") || name.starts_with("FI_")).collect()
}

pub(super) async fn the_file_of_a_container_has_the_settings_of_its_environment(cluster: &Cluster) {
    for (provider, instance_type) in CLOUDS {
        cluster.ensure(&json!({"multinodeNetworking": {provider: {"enabled": true}}})).await;
        let namespace = cluster.namespace(&format!("settings-{provider}")).await;
        cluster.api.create(&job(&namespace, "train", 2, &template(true, instance_type))).await.ok();
        for pod in bound(cluster, &namespace, 2).await {
            assert!(is_injected(&pod), "{pod}");
            let container = &pod["spec"]["containers"][0];
            let root = tempfile::tempdir().unwrap();
            cluster.kubelet.mount(&pod, container, root.path()).await;
            let file = fs::read_to_string(root.path().join("etc/nccl.conf")).unwrap();
            let projected = settings(file.lines().map(|line| line.split_once('=').unwrap()));
            let variables = container["env"].as_array().unwrap().iter();
            let environment = variables.filter_map(|variable| {
                let name = variable["name"].as_str()?;
                variable["value"].as_str().map(|value| (name, value))
            });
            assert_eq!(projected, settings(environment), "{provider}");
            assert!(projected.contains_key("NCCL_SOCKET_IFNAME"), "{provider}: {projected:?}");
            // A file that a setting names is there, too.
            if let Some(path) = projected.get("NCCL_TOPO_FILE") {
                let topology = fs::read_to_string(root.path().join(path.trim_start_matches('/'))).unwrap();
                assert!(topology.starts_with("<system version=\"1\">"), "{topology}");
            }
        }
        cluster.remove(&namespace).await;
    }
}
