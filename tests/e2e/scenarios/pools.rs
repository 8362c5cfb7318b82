//! A cluster with several node pools behind one annotation, told apart by a label of the operator's.

use serde_json::{Map, Value, json};

use super::controllers::{bound, pods};
use super::values;
use crate::cluster::Cluster;
use crate::workloads::{annotated_template, efa_devices, is_injected, job, pod};
use crate::{eventually, nodes};

const LABEL: &str = "pool";
const EFA: &str = "vpc.amazonaws.com/efa";

/// A pool of two nodes.
struct Pool {
    name: &'static str,
    /// The EFA interfaces of a node, which has 8 GPUs.
    interfaces: u32,
    /// The entry of the operator's table.
    ratio: f64,
}

const POOLS: [Pool; 5] = [
    Pool { name: "p4d", interfaces: 4, ratio: 0.5 },
    Pool { name: "p5", interfaces: 32, ratio: 4.0 },
    Pool { name: "p6-b200", interfaces: 8, ratio: 1.0 },
    Pool { name: "without-efa", interfaces: 0, ratio: 0.0 },
    Pool { name: "late", interfaces: 16, ratio: 2.0 },
];

impl Pool {
    fn nodes(&self) -> [String; 2] {
        [0, 1].map(|number| format!("pool-{}-{number}", self.name))
    }

    async fn start(&self, cluster: &Cluster) {
        let devices = [("nvidia.com/gpu", 8), (EFA, self.interfaces)];
        for name in self.nodes() {
            nodes::add(&cluster.api, &name, (LABEL, self.name), &devices).await;
        }
        nodes::heartbeat(&cluster.api).await;
    }

    /// Asserts that a Job's pods are on the nodes of the pool, with all of their interfaces.
    async fn assert_bound(&self, cluster: &Cluster, namespace: &str) {
        let node = |pod: &Value| pod["spec"]["nodeName"].as_str().unwrap().to_owned();
        let pods = bound(cluster, namespace, 2).await;
        let mut on: Vec<String> = pods.iter().map(node).collect();
        on.sort();
        assert_eq!(on, self.nodes());
        for pod in &pods {
            assert_eq!(is_injected(pod), self.interfaces > 0, "{pod}");
            assert_eq!(efa_devices(pod), self.interfaces.to_string(), "{pod}");
        }
    }
}

pub(super) async fn pods_get_the_devices_of_the_pool_that_they_select(cluster: &Cluster) {
    let table: Map<_, _> = POOLS.iter().map(|pool| (pool.name.to_owned(), json!(pool.ratio))).collect();
    let mut values = values();
    values["multinodeNetworking"]["aws"]["efaDevicesPerGPU"] = json!({LABEL: table});
    cluster.ensure(&values).await;
    let (late, ready) = POOLS.split_last().unwrap();
    for pool in ready {
        pool.start(cluster).await;
    }
    for pool in &POOLS {
        let namespace = cluster.namespace(&format!("pool-{}", pool.name)).await;
        let mut template = annotated_template();
        template["spec"]["nodeSelector"] = json!({LABEL: pool.name});
        let asked = pod(&namespace, "asked", &template);
        let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
        let warned = cluster.api.post(&path, &asked).await.warnings;
        let told = |text: &str| warned.iter().any(|warning| warning.contains(text));
        assert_eq!(told("left alone: the instance type has no EFA"), pool.interfaces == 0, "{warned:?}");
        assert!(!told("is assumed"), "{warned:?}");
        cluster.api.create(&job(&namespace, "train", 2, &template)).await.ok();
    }
    for pool in ready {
        pool.assert_bound(cluster, &format!("pool-{}", pool.name)).await;
    }
    let namespace = format!("pool-{}", late.name);
    eventually("the scheduler finds no node for the pods of the last pool", async || {
        let pods = pods(cluster, &namespace, 2).await;
        pods.iter().all(|pod| {
            pod["spec"]["nodeName"].is_null() && pod["status"]["conditions"][0]["reason"] == "Unschedulable"
        })
    })
    .await;
    late.start(cluster).await;
    late.assert_bound(cluster, &namespace).await;
    for pool in &POOLS {
        cluster.remove(&format!("pool-{}", pool.name)).await;
        for node in pool.nodes() {
            cluster.api.delete(&format!("/api/v1/nodes/{node}")).await.ok();
        }
    }
}
