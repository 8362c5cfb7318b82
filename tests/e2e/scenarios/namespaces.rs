//! Namespaces that request injection by a label.

use serde_json::json;

use super::values;
use crate::cluster::Cluster;
use crate::workloads::{annotated_template, is_injected, pod};

const LABEL: &str = "fabric-injector.io/inject";

pub(super) async fn a_label_of_the_namespace_opts_in(cluster: &Cluster) {
    let label = async |value| {
        let labels = json!({"metadata": {"labels": {LABEL: value}}});
        cluster.api.merge("/api/v1/namespaces/default", &labels).await.ok();
    };
    label(json!("true")).await;
    let namespace = cluster.namespace("without-label").await;
    let mut values = values();
    let expression = json!({"key": LABEL, "operator": "In", "values": ["true"]});
    values["webhook"] = json!({"namespaceSelectorExpressions": [expression]});
    cluster.ensure(&values).await;
    for (namespace, injected) in [("default", true), (&namespace, false)] {
        let asked = pod(namespace, "asked", &annotated_template());
        let reply =
            cluster.api.post(&format!("/api/v1/namespaces/{namespace}/pods?dryRun=All"), &asked).await;
        assert_eq!(is_injected(&reply.body), injected, "{reply:?}");
        // The guard has the same selector.
        assert!(!reply.warnings.iter().any(|warning| warning.contains("did not inject it")), "{reply:?}");
    }
    label(json!(null)).await;
    cluster.remove(&namespace).await;
}
