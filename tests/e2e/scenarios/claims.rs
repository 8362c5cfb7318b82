//! Claims of devices (`resource.k8s.io/v1`) that a policy adds to pods.

use serde_json::{Value, json};

use super::controllers::bound;
use super::values;
use crate::cluster::Cluster;
use crate::workloads::{annotated_template, is_injected, job, pod};

/// The driver and the class of the channels, as NVIDIA's driver for `ComputeDomain` names them.
const DRIVER: &str = "compute-domain.nvidia.com";
const CLASS: &str = "compute-domain-default-channel.nvidia.com";
/// The nodes that publish a channel.
const NODES: [&str; 2] = ["p5-0", "p5-1"];

/// The built-in policy with a claim for each GPU pod. `train-channel` is the template that a `ComputeDomain` makes.
const POLICY: &str = r"apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata:
  name: efa-with-channel
spec:
  extends: aws-efa
  rules:
    - name: lab-channel
      pod:
        spec:
          resourceClaims:
            - name: lab-channel
              resourceClaimTemplateName: train-channel
      container:
        resources:
          claims:
            - name: lab-channel
";

/// What the operator and a `ComputeDomain` make: the class, the channels of the nodes, the template, a claim.
async fn channels(cluster: &Cluster, namespace: &str) {
    let object = |kind: &str, metadata: Value, spec: Value| json!({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec});
    let devices = json!({"requests": [{"name": "channel", "exactly": {"deviceClassName": CLASS}}]});
    let claim = json!({"devices": devices});
    let named = |name: &str| json!({"name": name, "namespace": namespace});
    let mut objects = vec![
        object("DeviceClass", json!({"name": CLASS}), json!({})),
        object("ResourceClaimTemplate", named("train-channel"), json!({"spec": claim})),
        object("ResourceClaim", named("own-claim"), claim),
    ];
    for node in NODES {
        let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
        let spec =
            json!({"driver": DRIVER, "pool": pool, "nodeName": node, "devices": [{"name": "channel-0"}]});
        objects.push(object("ResourceSlice", json!({"name": format!("channels-{node}")}), spec));
    }
    for object in &objects {
        let reply = if object["kind"] == "DeviceClass" {
            cluster.api.post("/apis/resource.k8s.io/v1/deviceclasses", object).await
        } else {
            cluster.api.create(object).await
        };
        reply.ok();
    }
}

/// The claims of a pod and those of its container.
fn claims(pod: &Value) -> (&Value, &Value) {
    (&pod["spec"]["resourceClaims"], &pod["spec"]["containers"][0]["resources"]["claims"])
}

pub(super) async fn pods_carry_the_claim_of_a_policy_and_keep_their_own(cluster: &Cluster) {
    let mut values = values();
    values["extraPolicies"] = json!({"efa-with-channel.yaml": POLICY});
    cluster.ensure(&values).await;
    let namespace = cluster.namespace("claims").await;
    channels(cluster, &namespace).await;

    cluster.api.create(&job(&namespace, "train", 2, &annotated_template())).await.ok();
    let pods = bound(cluster, &namespace, 2).await;
    let mut nodes: Vec<&str> = pods.iter().map(|pod| pod["spec"]["nodeName"].as_str().unwrap()).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, NODES, "the nodes with a channel");
    for pod in &pods {
        assert!(is_injected(pod), "{pod}");
        let (of_pod, of_container) = claims(pod);
        let added = json!([{"name": "lab-channel", "resourceClaimTemplateName": "train-channel"}]);
        assert_eq!((of_pod, of_container), (&added, &json!([{"name": "lab-channel"}])));
        let claim = pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"].as_str().unwrap();
        let path = format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{claim}");
        let devices = &cluster.api.get(&path).await.ok()["status"]["allocation"]["devices"]["results"];
        assert_eq!(devices[0]["pool"], pod["spec"]["nodeName"], "{devices}");
    }

    let mut own = annotated_template();
    own["spec"]["resourceClaims"] = json!([{"name": "lab-channel", "resourceClaimName": "own-claim"}]);
    let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    let reply = cluster.api.post(&path, &pod(&namespace, "own", &own)).await;
    let told = reply.warnings.iter().any(|warning| warning.contains("spec.resourceClaims[lab-channel]"));
    assert!(told, "{:?}", reply.warnings);
    let made = reply.ok();
    assert!(is_injected(&made), "{made}");
    assert_eq!(claims(&made), (&own["spec"]["resourceClaims"], &json!([{"name": "lab-channel"}])));

    for node in NODES {
        let slice = format!("/apis/resource.k8s.io/v1/resourceslices/channels-{node}");
        cluster.api.delete(&slice).await.ok();
    }
    cluster.api.delete(&format!("/apis/resource.k8s.io/v1/deviceclasses/{CLASS}")).await.ok();
    cluster.remove(&namespace).await;
}
