//! Claims of devices (`resource.k8s.io/v1`) that a policy adds to pods.

use serde_json::{Value, json};

use super::controllers::bound;
use super::values;
use crate::cluster::Cluster;
use crate::nodes;
use crate::workloads::{annotated_template, is_injected, job, pod, template};

/// The driver and the class of the channels, as NVIDIA's driver for `ComputeDomain` names them.
const DRIVER: &str = "compute-domain.nvidia.com";
const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
const CLASS: &str = "compute-domain-default-channel.nvidia.com";

/// A claim for each GPU pod. `train-channel` is the template that a `ComputeDomain` makes.
const POLICY: &str = r#"apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata:
  name: lab-channel
spec:
  provider: lab
  description: A ComputeDomain channel for each GPU pod
  gpus: {resources: [nvidia.com/gpu]}
  match:
    anyAnnotation:
      nmp.nvidia.com/enable-multi-node-networking: "true"
  rules:
    - name: channel
      pod:
        spec:
          resourceClaims:
            - name: lab-channel
              resourceClaimTemplateName: train-channel
      container:
        resources:
          claims:
            - name: lab-channel
"#;

/// Nodes that publish a channel each.
struct Channels<'a> {
    cluster: &'a Cluster,
    nodes: [&'a str; 2],
}

impl<'a> Channels<'a> {
    /// Makes what the operator and a `ComputeDomain` make: the class, the channels of the nodes, the template, a claim.
    async fn publish(cluster: &'a Cluster, namespace: &str, nodes: [&'a str; 2]) -> Self {
        let object = |kind: &str, metadata: Value, spec: Value| json!({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec});
        let class = object("DeviceClass", json!({"name": CLASS}), json!({}));
        cluster.api.post(CLASSES, &class).await.ok();
        let devices = json!({"requests": [{"name": "channel", "exactly": {"deviceClassName": CLASS}}]});
        let claim = json!({"devices": devices});
        let named = |name: &str| json!({"name": name, "namespace": namespace});
        let template = object("ResourceClaimTemplate", named("train-channel"), json!({"spec": claim}));
        cluster.api.create(&template).await.ok();
        cluster.api.create(&object("ResourceClaim", named("own-claim"), claim)).await.ok();
        for node in nodes {
            let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
            let devices = json!([{"name": "channel-0"}]);
            let spec = json!({"driver": DRIVER, "pool": pool, "nodeName": node, "devices": devices});
            let metadata = json!({"name": format!("channels-{node}")});
            cluster.api.create(&object("ResourceSlice", metadata, spec)).await.ok();
        }
        Self { cluster, nodes }
    }

    /// Asserts that the two pods of a Job are on the nodes, with a claim of this name that has the node's channel.
    async fn assert_carried(&self, namespace: &str, name: &str) {
        let pods = bound(self.cluster, namespace, 2).await;
        let mut nodes: Vec<&str> = pods.iter().map(|pod| pod["spec"]["nodeName"].as_str().unwrap()).collect();
        nodes.sort_unstable();
        assert_eq!(nodes, self.nodes, "the nodes with a channel");
        for pod in &pods {
            assert!(is_injected(pod), "{pod}");
            let added = json!([{"name": name, "resourceClaimTemplateName": "train-channel"}]);
            assert_eq!(claims(pod), (&added, &json!([{"name": name}])));
            let claim = pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"].as_str().unwrap();
            let path = format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{claim}");
            let claim = self.cluster.api.get(&path).await.ok();
            let device = &claim["status"]["allocation"]["devices"]["results"][0];
            assert_eq!(device["pool"], pod["spec"]["nodeName"], "{claim}");
        }
    }

    async fn remove(&self) {
        for node in self.nodes {
            let slice = format!("/apis/resource.k8s.io/v1/resourceslices/channels-{node}");
            self.cluster.api.delete(&slice).await.ok();
        }
        self.cluster.api.delete(&format!("{CLASSES}/{CLASS}")).await.ok();
    }
}

/// The claims of a pod and those of its container.
fn claims(pod: &Value) -> (&Value, &Value) {
    (&pod["spec"]["resourceClaims"], &pod["spec"]["containers"][0]["resources"]["claims"])
}

pub(super) async fn pods_carry_the_claim_of_a_policy_and_keep_their_own(cluster: &Cluster) {
    cluster.ensure(&json!({"extraPolicies": {"lab-channel.yaml": POLICY}})).await;
    let namespace = cluster.namespace("claims").await;
    let channels = Channels::publish(cluster, &namespace, ["p5-0", "p5-1"]).await;
    cluster.api.create(&job(&namespace, "train", 2, &annotated_template())).await.ok();
    channels.assert_carried(&namespace, "lab-channel").await;

    let mut own = annotated_template();
    own["spec"]["resourceClaims"] = json!([{"name": "lab-channel", "resourceClaimName": "own-claim"}]);
    let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    let reply = cluster.api.post(&path, &pod(&namespace, "own", &own)).await;
    let told = reply.warnings.iter().any(|warning| warning.contains("spec.resourceClaims[lab-channel]"));
    assert!(told, "{:?}", reply.warnings);
    let made = reply.ok();
    assert!(is_injected(&made), "{made}");
    assert_eq!(claims(&made), (&own["spec"]["resourceClaims"], &json!([{"name": "lab-channel"}])));
    channels.remove().await;
    cluster.remove(&namespace).await;
}

pub(super) async fn the_template_of_a_compute_domain_is_that_of_the_job(cluster: &Cluster) {
    let (instance_type, nodes) = ("p6e-gb200.36xlarge", ["p6e-0", "p6e-1"]);
    let mut values = values();
    values["multinodeNetworking"]["aws"]["computeDomainTemplate"] =
        json!("{batch.kubernetes.io/job-name}-channel");
    cluster.ensure(&values).await;
    let namespace = cluster.namespace("compute-domain").await;
    let devices = [("nvidia.com/gpu", 4), ("vpc.amazonaws.com/efa", 4)];
    for node in nodes {
        nodes::add(&cluster.api, node, ("node.kubernetes.io/instance-type", instance_type), &devices).await;
    }
    nodes::heartbeat(&cluster.api).await;
    let channels = Channels::publish(cluster, &namespace, nodes).await;
    let mut template = template(true, instance_type);
    template["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = json!(4);
    cluster.api.create(&job(&namespace, "train", 2, &template)).await.ok();
    channels.assert_carried(&namespace, "compute-domain-channel").await;
    channels.remove().await;
    cluster.remove(&namespace).await;
    for node in nodes {
        cluster.api.delete(&format!("/api/v1/nodes/{node}")).await.ok();
    }
}
