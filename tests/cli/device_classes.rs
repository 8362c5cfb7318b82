//! Devices of classes: what nodes offer, and claims that no node satisfies.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{Run, folder, run};

const GPU: &str = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'";

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}},
        "status": {"capacity": {"cpu": "96"}, "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// The eight devices of a driver on a node; without a name, on no node alone.
fn slice(node: &str, driver: &str, attributes: &Value) -> Value {
    let device = |at: usize| {
        let mut attributes = attributes.clone();
        attributes["address"] = json!({"string": at.to_string()});
        json!({"name": at.to_string(), "attributes": attributes})
    };
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("{node}-{driver}")},
        "spec": {"driver": driver, "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": (0..8).map(device).collect::<Vec<_>>()}})
}

fn class(name: &str, selector: &str, resource: Option<&str>) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": selector}}], "extendedResourceName": resource}})
}

/// Two nodes whose GPUs and adapters are devices of drivers, with a class for each.
fn cluster(adapters: &Value, resource: Option<&str>) -> Vec<Value> {
    let gpu = json!({"type": {"string": "gpu"}, "driverVersion": {"version": "570.1.0"}});
    let of_node = |name: &str| {
        [
            node(name),
            slice(name, "gpu.nvidia.com", &gpu),
            slice(name, "dra.net", &json!({"dra.net/rdma": adapters})),
        ]
    };
    let mut items: Vec<Value> = ["a", "b"].iter().flat_map(|name| of_node(name)).collect();
    items.push(class("gpu.nvidia.com", GPU, Some("nvidia.com/gpu")));
    items.push(class("roce", "device.driver == 'dra.net' && device.attributes['dra.net'].rdma", resource));
    items
}

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: w, annotations: {nmp.nvidia.com/enable-multi-node-networking: \"true\"}}\n\
    spec:\n  containers:\n  - name: w\n    image: registry.example/w:1\n    resources: {limits: {nvidia.com/gpu: 8}}\n";

/// What `mutate` makes of the amounts of the pod.
fn amounts(items: &[Value], parameters: &[&str]) -> Value {
    let nodes = json!({"kind": "List", "items": items}).to_string();
    let folder = folder(&[("nodes.json", &nodes), ("pod.yaml", POD)]);
    let [nodes, pod] = ["nodes.json", "pod.yaml"].map(|name| folder.path().join(name).display().to_string());
    let options = ["mutate", "--policy", "onprem-rdma", "--nodes", &nodes, "-f", &pod];
    let run = run(&[&options, parameters].concat(), "").exits(0);
    run.documents()[0]["spec"]["containers"][0]["resources"]["limits"].clone()
}

#[test]
fn a_cluster_of_slices_alone_offers_the_resources_of_its_classes() {
    let yes = json!({"bool": true});
    let items = cluster(&yes, Some("nvidia.com/sriov_rdma"));
    let nodes = |items: &[Value]| {
        run(
            &["nodes", "--policy", "onprem-rdma", "-f", "-"],
            json!({"kind": "List", "items": items}).to_string(),
        )
    };
    assert_snapshot!(nodes(&items).recorded(), @"
    exit status: 0
    ----- stdout -----
    MACHINE                READY  GPUS                                    DEVICES                  POLICY       PARAMETERS
    NVIDIA-H100-80GB-HBM3  2/2    8 gpu.nvidia.com/gpu, 8 nvidia.com/gpu  8 nvidia.com/sriov_rdma  onprem-rdma  rdmaDevicesPerGPU=1 (nodes)
    ");
    // No device meets the class.
    assert_snapshot!(nodes(&cluster(&json!({"bool": false}), Some("nvidia.com/sriov_rdma"))).recorded(), @"
    exit status: 1
    ----- stdout -----
    MACHINE                READY  GPUS                                    DEVICES  POLICY       PARAMETERS
    NVIDIA-H100-80GB-HBM3  2/2    8 gpu.nvidia.com/gpu, 8 nvidia.com/gpu           onprem-rdma

    warning: NVIDIA-H100-80GB-HBM3: the pod requests 1 of `rdma/rdma_shared_device_a`, and no node that it fits offers any: check whether the device plugin runs there (no_node_fits)
    ");
    assert_eq!(amounts(&items, &[]), json!({"nvidia.com/gpu": 8, "nvidia.com/sriov_rdma": "8"}));
    let by_class = amounts(&cluster(&yes, None), &["--set", "attachment=deviceClass"]);
    assert_eq!(by_class, json!({"nvidia.com/gpu": 8, "deviceclass.resource.kubernetes.io/roce": "8"}));
    // A class whose selector is not known offers nothing.
    let mut unknown = cluster(&yes, Some("nvidia.com/sriov_rdma"));
    unknown.pop();
    unknown.push(class(
        "roce",
        "device.attributes['dra.net'].address.startsWith('1')",
        Some("nvidia.com/sriov_rdma"),
    ));
    assert_eq!(amounts(&unknown, &[]), json!({"nvidia.com/gpu": 8, "rdma/rdma_shared_device_a": "1"}));
}

/// `lint` of a pod that claims these devices, on these nodes.
fn lint(items: &[Value], class: &str, count: u32, selector: &str) -> Run {
    let selectors = if selector.is_empty() {
        String::new()
    } else {
        format!(", selectors: [{{cel: {{expression: '{selector}'}}}}]")
    };
    let claimed = format!(
        "{}  resourceClaims: [{{name: nics, resourceClaimTemplateName: t}}]\n---\napiVersion: resource.k8s.io/v1\nkind: \
         ResourceClaimTemplate\nmetadata: {{name: t}}\nspec: {{spec: {{devices: {{requests: [{{name: a, exactly: \
         {{deviceClassName: {class}, count: {count}{selectors}}}}}]}}}}}}\n",
        POD.replace(
            "metadata: {name: w, annotations: {nmp.nvidia.com/enable-multi-node-networking: \"true\"}}",
            "metadata: {name: w}"
        )
    );
    let nodes = json!({"kind": "List", "items": items}).to_string();
    let folder = folder(&[("nodes.json", &nodes), ("pod.yaml", &claimed)]);
    let [nodes, pod] = ["nodes.json", "pod.yaml"].map(|name| folder.path().join(name).display().to_string());
    run(&["lint", "--policy", "onprem-rdma", "--nodes", &nodes, "-f", &pod], "")
}

#[test]
fn a_claim_that_no_node_satisfies_is_told() {
    const CHANNEL: &str = "compute-domain-default-channel.nvidia.com";
    let (yes, no) = (json!({"bool": true}), json!({"bool": false}));
    let with = |more: Value| [cluster(&yes, None), vec![more]].concat();
    let other = class("other", "device.driver == 'other.example'", None);
    for (items, class, count, selector, wanted) in [
        (cluster(&yes, None), "roce", 8, "", ""),
        (
            cluster(&yes, None),
            "roce",
            9,
            "",
            "it requests 9 devices of the driver `dra.net`, and the nodes that the pod fits have at most 8",
        ),
        (
            cluster(&no, None),
            "roce",
            1,
            "",
            "meets `device.driver == 'dra.net' && device.attributes['dra.net'].rdma`, and the first has `false`",
        ),
        (
            cluster(&yes, None),
            "roce",
            1,
            "device.attributes[\"dra.net\"].rdma == false",
            "meets `device.attributes[\"dra.net\"].rdma == false`, and the first has `true`",
        ),
        // What is not known is met.
        (cluster(&yes, None), "roce", 1, "device.attributes[\"dra.net\"].address == \"99\"", ""),
        (
            cluster(&yes, None),
            CHANNEL,
            1,
            "",
            "a device of the class `compute-domain-default-channel.nvidia.com`, and no node that the pod fits has one of the driver `compute-domain.nvidia.com`",
        ),
        (with(other.clone()), "other", 1, "", "has one of the driver `other.example`"),
        (with(class("any", "true", None)), "any", 99, "", ""),
        // Devices that are not of one node, and a cluster without slices.
        ([with(other.clone()), vec![slice("", "other.example", &json!({}))]].concat(), "other", 1, "", ""),
        (vec![node("a"), other], "other", 1, "", ""),
        (cluster(&yes, None), "unknown", 1, "", ""),
    ] {
        let printed = lint(&items, class, count, selector).recorded();
        let found = printed.contains("requested_by_hand");
        assert_eq!(found, !wanted.is_empty(), "{class} {count} {selector}: {printed}");
        assert!(printed.contains(wanted), "{class} {count} {selector}: {printed}");
    }
}

#[test]
fn the_nodes_of_a_domain_are_compared_with_the_pods_that_claim_its_template() {
    let manifest = |nodes: u32, workload: &str| {
        let domain = format!(
            "apiVersion: resource.nvidia.com/v1beta1\nkind: ComputeDomain\nmetadata: {{name: d}}\nspec: {{numNodes: {nodes}, channel: {{resourceClaimTemplate: {{name: t}}}}}}\n---\n"
        );
        run(&["lint", "--policy", "aws-efa", "-f", "-"], &(domain + workload)).recorded()
    };
    let template = "{spec: {restartPolicy: Never, resourceClaims: [{name: c, resourceClaimTemplateName: t}], containers: [{name: c, image: x, resources: {claims: [{name: c}]}}]}}";
    let job = |rest: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j}}\nspec: {{{rest}template: {template}}}\n"
        )
    };
    let set = format!(
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {{name: j}}\nspec: {{replicatedJobs: [{{name: a, replicas: 2, template: {{spec: {{parallelism: 4, template: {template}}}}}}}]}}\n"
    );
    let own = format!(
        "apiVersion: example.com/v1\nkind: Own\nmetadata: {{name: o}}\nspec: {{template: {template}}}\n"
    );
    for (nodes, workload, found) in [
        (2, job(""), true),
        (1, job(""), false),
        (0, job(""), false),
        (2, job("parallelism: 2, "), false),
        (8, set.clone(), false),
        (9, set.clone(), true),
        // The pods of two workloads.
        (9, format!("{set}---\n{}", job("")), false),
        // The number of pods is not known, nobody claims it, or another namespace does.
        (2, own, false),
        (2, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n".to_owned(), false),
        (2, job("").replace("{name: j}", "{name: j, namespace: other}"), false),
    ] {
        let printed = manifest(nodes, &workload);
        assert_eq!(printed.contains("domain_nodes"), found, "{nodes} {workload} {printed}");
    }
}
