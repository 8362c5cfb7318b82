//! Nodes whose GPUs come by dynamic resource allocation: they are in `ResourceSlices`, and in no capacity.

use serde_json::{Value, json};

use super::node_watch::all_tell;
use super::values;
use crate::cluster::Cluster;
use crate::processes::outcome;
use crate::workloads::{annotated_template, efa_devices, pod};
use crate::{eventually, nodes};

const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/fabric-injector-nodes";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";

/// A slice with the eight GPUs of a node.
fn slice() -> Value {
    let gpu =
        |number: usize| json!({"name": format!("gpu-{number}"), "attributes": {"type": {"string": "gpu"}}});
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "claimed-0-gpu"},
        "spec": {
            "driver": "gpu.nvidia.com", "nodeName": "claimed-0", "devices": (0..8).map(gpu).collect::<Value>(),
            "pool": {"name": "claimed-0", "generation": 1, "resourceSliceCount": 1},
        },
    })
}

/// The devices of a pod that has the GPUs of a node by claim, and what was said about it.
async fn devices(cluster: &Cluster) -> (String, Vec<String>) {
    let mut pod = pod("default", "claimed", &annotated_template());
    pod["spec"]["nodeSelector"] = json!({"pool": "claimed"});
    pod["spec"]["resourceClaims"] = json!([{"name": "gpus", "resourceClaimTemplateName": "8gpu"}]);
    pod["spec"]["containers"][0]["resources"] = json!({"claims": [{"name": "gpus"}]});
    let mut reply = cluster.api.post("/api/v1/namespaces/default/pods?dryRun=All", &pod).await;
    let warnings = std::mem::take(&mut reply.warnings);
    (efa_devices(&reply.ok()).to_owned(), warnings)
}

pub(super) async fn gpus_by_claim_are_known_and_kept_when_slices_may_no_longer_be_read(cluster: &Cluster) {
    cluster.ensure(&values()).await;
    nodes::add(&cluster.api, "claimed-0", ("pool", "claimed"), &[("vpc.amazonaws.com/efa", 24)]).await;
    nodes::heartbeat(&cluster.api).await;
    let (assumed, warnings) = devices(cluster).await;
    assert!(assumed == "8" && warnings.iter().any(|warning| warning.contains("is assumed")), "{warnings:?}");

    cluster.api.post(SLICES, &slice()).await.ok();
    eventually("GPUs of slices", async || devices(cluster).await.0 == "24").await;
    let (succeeded, said) =
        outcome(&mut cluster.program(&["nodes", "--policy", "aws-efa", "-o", "json"])).await;
    let found: Value =
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {succeeded} {said}"));
    let pools = found["pools"].as_array().unwrap();
    assert!(pools.iter().any(|pool| pool["gpus"] == json!({"gpu.nvidia.com/gpu": 8})), "{said}");

    let rule = cluster.api.get(ROLE).await.ok()["rules"][1].clone();
    cluster.api.patch(ROLE, &json!([{"op": "remove", "path": "/rules/1"}])).await.ok();
    all_tell(
        cluster,
        " in use\n[!]resource-slices: the watch failed\n    resourceslices.resource.k8s.io is forbidden: ",
    )
    .await;
    all_tell(cluster, "    hint: grant `list` and `watch` of resourceslices in a ClusterRole").await;
    assert_eq!(devices(cluster).await.0, "24", "by what was known last");
    cluster.api.patch(ROLE, &json!([{"op": "add", "path": "/rules/-", "value": rule}])).await.ok();
    all_tell(cluster, " in use\n").await;

    cluster.api.delete(&format!("{SLICES}/claimed-0-gpu")).await.ok();
    eventually("no slices", async || devices(cluster).await.0 == "8").await;
    cluster.api.delete("/api/v1/nodes/claimed-0").await.ok();
}

const TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";

/// Creates the template `run` for devices of a class.
async fn create_template(cluster: &Cluster, class: &str) {
    let request = json!({"name": "a", "exactly": {"deviceClassName": class}});
    let template = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "run"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    });
    cluster.api.post(TEMPLATES, &template).await.ok();
}

/// The devices of a pod with GPUs and a claim by `run`, what is recorded of the claim, and what was said.
async fn with_claim(cluster: &Cluster) -> (Value, Value, String) {
    let mut pod = pod("default", "classed", &annotated_template());
    pod["spec"]["resourceClaims"] = json!([{"name": "adapters", "resourceClaimTemplateName": "run"}]);
    pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "adapters"}]);
    let mut reply = cluster.api.post("/api/v1/namespaces/default/pods?dryRun=All", &pod).await;
    let warnings = std::mem::take(&mut reply.warnings).join("\n");
    let pod = reply.ok();
    let devices = &pod["spec"]["containers"][0]["resources"]["limits"]["vpc.amazonaws.com/efa"];
    (devices.clone(), pod["metadata"]["annotations"]["fabric-injector.io/claims"].clone(), warnings)
}

pub(super) async fn the_class_of_a_claim_decides_and_is_kept_when_templates_may_no_longer_be_read(
    cluster: &Cluster,
) {
    cluster.ensure(&values()).await;
    let (devices, recorded, _) = with_claim(cluster).await;
    assert!(
        devices.is_string() && recorded == r#"{"adapters/template/run":[]}"#,
        "by its name: {devices} {recorded}"
    );

    // A template that is created after the server started, and one of another class in its place.
    create_template(cluster, "efa.networking.k8s.aws").await;
    eventually("the template", async || with_claim(cluster).await.0.is_null()).await;
    let (_, recorded, warnings) = with_claim(cluster).await;
    assert_eq!(recorded, r#"{"adapters/template/run":["a:efa.networking.k8s.aws=1"]}"#);
    assert!(warnings.contains("the pod requests `run` itself"), "{warnings}");
    cluster.api.delete(&format!("{TEMPLATES}/run")).await.ok();
    create_template(cluster, "gpu.example.com").await;
    eventually("another class", async || with_claim(cluster).await.0.is_string()).await;
    assert_eq!(with_claim(cluster).await.1, r#"{"adapters/template/run":["a:gpu.example.com=1"]}"#);

    let rules = cluster.api.get(ROLE).await.ok()["rules"].clone();
    let of_templates = |rule: &Value| rule["resources"][0] == "resourceclaimtemplates";
    let at = rules.as_array().unwrap().iter().position(of_templates).unwrap();
    let path = format!("/rules/{at}");
    cluster.api.patch(ROLE, &json!([{"op": "remove", "path": path}])).await.ok();
    all_tell(cluster, "[!]resource-claim-templates: the watch failed\n").await;
    all_tell(cluster, "    hint: grant `list` and `watch` of resourceclaimtemplates in a ClusterRole").await;
    assert_eq!(
        with_claim(cluster).await.1,
        r#"{"adapters/template/run":["a:gpu.example.com=1"]}"#,
        "as it was known last"
    );
    cluster.api.patch(ROLE, &json!([{"op": "add", "path": path, "value": rules[at]}])).await.ok();
    all_tell(cluster, " in use\n").await;
    cluster.api.delete(&format!("{TEMPLATES}/run")).await.ok();
}
