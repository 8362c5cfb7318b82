//! The fabric that pods request by hand, and what is around it.

use serde_json::{Value, json};

use super::{TRIGGER, folder, run};

/// The codes that `lint` prints, notes in parentheses, but that a policy injects.
fn codes(arguments: &[&str], stream: &str) -> String {
    let found = run(&[&["lint", "-o", "json"], arguments].concat(), stream).exits(0);
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    let code = |one: &Value| {
        let code = one["code"].as_str().unwrap();
        if one["severity"] == "note" { format!("({code})") } else { code.to_owned() }
    };
    let codes = found.as_array().unwrap().iter().map(code).filter(|code| code != "(injected)");
    codes.collect::<Vec<_>>().join(" ")
}

/// A pod with a device for its GPUs, and no fault.
fn pod(machine: Option<(&str, &str)>, device: &str, count: u8, networks: &str) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {}}, "spec": {
        "containers": [{"name": "main", "image": "registry.example/nixl:1",
            "resources": {"limits": {"nvidia.com/gpu": 8, device: count}},
            "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
            "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]}});
    if let Some((label, value)) = machine {
        pod["spec"]["nodeSelector"] = json!({label: value});
    }
    if !networks.is_empty() {
        pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = networks.into();
    }
    pod
}

fn with_env(name: &str, value: &str) -> impl Fn(&mut Value) {
    let env = json!([{"name": name, "value": value}]);
    move |pod: &mut Value| pod["spec"]["containers"][0]["env"] = env.clone()
}

type Fault<'a> = (&'a str, Box<dyn Fn(&mut Value)>);

/// Each single fault is told, whoever requests the device.
#[test]
fn settings_by_hand_have_the_findings_of_injected_ones() {
    let instance = "node.kubernetes.io/instance-type";
    let rails = vec!["oci-rdma-sriov/sriov-rdma-vf"; 16].join(",");
    let pods = [
        pod(Some((instance, "p5.48xlarge")), "vpc.amazonaws.com/efa", 32, ""),
        pod(Some((instance, "Standard_ND96isr_H100_v5")), "rdma/hca_shared_devices_a", 8, ""),
        pod(Some((instance, "BM.GPU.H100.8")), "nvidia.com/sriov-rdma-vf", 16, &rails),
        pod(None, "rdma/rdma_shared_device_a", 1, "rail-0@net5"),
    ];
    let capability = |name: &'static str| {
        move |pod: &mut Value| {
            pod["spec"]["containers"][0]["securityContext"] = json!({"capabilities": {"add": [name]}});
        }
    };
    let faults: [Fault<'_>; 8] = [
        ("", Box::new(|_: &mut Value| ())),
        ("turned_off_by_hand|interface_not_in_pod", Box::new(with_env("NCCL_SOCKET_IFNAME", "ib0"))),
        ("interface_not_in_pod", Box::new(with_env("GLOO_SOCKET_IFNAME", "bond0"))),
        ("capability_prefix", Box::new(capability("CAP_IPC_LOCK"))),
        (
            "small_shared_memory",
            Box::new(|pod| pod["spec"]["volumes"][0]["emptyDir"]["sizeLimit"] = json!("64Mi")),
        ),
        ("data_over_tcp", Box::new(with_env("UCX_TLS", "tcp,cuda_copy"))),
        (
            "mesh_sidecar",
            Box::new(|pod| pod["metadata"]["labels"] = json!({"sidecar.istio.io/inject": "true"})),
        ),
        ("no_locked_memory|(no_locked_memory)", Box::new(capability("NET_RAW"))),
    ];
    for pod in &pods {
        let device = pod["spec"]["containers"][0]["resources"]["limits"].to_string();
        for (wanted, fault) in &faults {
            let mut pod = pod.clone();
            fault(&mut pod);
            let found = codes(&[], &pod.to_string());
            // The nodes of EFA set no limit on locked memory.
            let is_none = wanted.is_empty() || device.contains("efa") && wanted.contains("no_locked");
            let is_wanted =
                if is_none { found.is_empty() } else { wanted.split('|').any(|one| one == found) };
            assert!(is_wanted, "{device}: `{found}`, not `{wanted}`");
        }
    }
}

/// An interface is one of the pod's networks, by its name or by its place.
#[test]
fn the_interfaces_of_networks_are_those_of_the_pod() {
    let json = r#"[{"name": "a"}, {"name": "b", "interface": "rail1"}]"#;
    for (networks, interface, wanted) in [
        ("", "eth0", ""),
        ("", "net1", "interface_not_in_pod"),
        ("a,b", "net2", ""),
        ("a,b", "net3", "interface_not_in_pod"),
        ("a@rail0,b", "rail0", ""),
        ("a@rail0,b", "net1", "interface_not_in_pod"),
        ("a@rail0,b", "eth1", "interface_not_in_pod"),
        (json, "rail1", ""),
        (json, "net1", ""),
        (json, "bond0", "interface_not_in_pod"),
        ("a", "^lo,docker", ""),
    ] {
        for variable in ["NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"] {
            let mut pod = pod(None, "rdma/ib", 1, networks);
            with_env(variable, interface)(&mut pod);
            assert_eq!(codes(&[], &pod.to_string()), wanted, "{networks} {variable}={interface}");
        }
    }
}

#[test]
fn devices_that_pods_share_say_nothing_by_their_number() {
    let azure = Some(("node.kubernetes.io/instance-type", "Standard_ND96isr_H100_v5"));
    assert_eq!(codes(&[], &pod(azure, "rdma/hca_shared_devices_a", 1, "").to_string()), "");
    // One of 32 is a mistake, half of some GPUs a choice.
    let aws = Some(("node.kubernetes.io/instance-type", "p5.48xlarge"));
    assert_eq!(codes(&[], &pod(aws, "vpc.amazonaws.com/efa", 1, "").to_string()), "fewer_devices");
    assert_eq!(codes(&[], &pod(aws, "vpc.amazonaws.com/efa", 24, "").to_string()), "(fewer_devices)");
    // RoCE needs a network, InfiniBand none.
    assert_eq!(codes(&[], &pod(None, "rdma/rdma1", 1, "").to_string()), "(device_without_network)");
    assert_eq!(codes(&[], &pod(None, "rdma/ib", 1, "").to_string()), "");
    let mut hosts = pod(None, "nvidia.com/hostdev", 8, "");
    with_env("NCCL_TOPO_FILE", "/opt/nccl_topo/h100-80gb-sxm-roce.xml")(&mut hosts);
    assert_eq!(codes(&[], &hosts.to_string()), "(device_without_network)");
    with_env("NCCL_TOPO_FILE", "/opt/nccl_topo/h100-80gb-sxm-ib-cloud-hypervisor.xml")(&mut hosts);
    assert_eq!(codes(&[], &hosts.to_string()), "");
    // All adapters of a node are those of a pod with all of its GPUs.
    hosts["spec"]["volumes"] = json!([{"name": "ib", "hostPath": {"path": "/dev/infiniband"}}]);
    assert_eq!(codes(&[], &hosts.to_string()), "");
    hosts["spec"]["containers"][0]["resources"]["limits"] =
        json!({"nvidia.com/gpu": 2, "nvidia.com/hostdev": 2});
    assert_eq!(codes(&[], &hosts.to_string()), "(adapters_by_path)");
}

/// The number of pods by the fields of their operator.
#[test]
fn pods_of_an_operator_are_counted_as_it_does() {
    let limits = json!({"limits": {"nvidia.com/gpu": 8}});
    let container = json!({"name": "main", "image": "registry.example/serve:1", "resources": limits});
    let service = |parallelism: Value| {
        json!({"apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService", "metadata": {"name": "s"},
            "spec": {"parallelism": parallelism, "worker": {"containers": [container]}}})
    };
    let set = |replicas: u8| {
        json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": "s"},
            "spec": {"template": {"cliques": [{"name": "c", "spec": {"replicas": replicas,
                "podSpec": {"containers": [container]}}}]}}})
    };
    for (object, wanted) in [
        (service(json!({"pipeline": 2})), "workload_without_trigger: 2 pods"),
        (service(json!({"data": 16, "dataLocal": 8})), "workload_without_trigger: 2 pods"),
        (service(json!({"data": 8, "dataLocal": 8})), "(no_pod_template)"),
        (set(4), "(workload_without_trigger): 4 pods"),
        (set(1), "(no_pod_template)"),
    ] {
        let text = object.to_string();
        let count = run(&["lint"], &text).exits(0).stdout;
        let count = String::from_utf8(count).unwrap();
        let pods = count.split_once(" pods of this ").and_then(|(before, _)| before.rsplit(' ').next());
        let found = codes(&[], &text);
        let found = pods.map_or(found.clone(), |pods| format!("{found}: {pods} pods"));
        assert_eq!(found, wanted, "{text}");
    }
}

#[test]
fn data_over_nvlink_is_not_data_over_tcp() {
    let mut pod = pod(None, "rdma/ib", 1, "");
    let tls = json!({"name": "UCX_TLS", "value": "cuda_copy,cuda_ipc,tcp"});
    let mut lints = |env: Value| {
        pod["spec"]["containers"][0]["env"] = env;
        codes(&[], &pod.to_string())
    };
    assert_eq!(lints(json!([tls])), "data_over_tcp");
    assert_eq!(lints(json!([tls, {"name": "UCX_CUDA_IPC_ENABLE_MNNVL", "value": "n"}])), "data_over_tcp");
    assert_eq!(lints(json!([tls, {"name": "UCX_CUDA_IPC_ENABLE_MNNVL", "value": "y"}])), "");
}

/// vLLM and `SGLang` give NIXL the backend UCX, unless they are told otherwise.
#[test]
fn nixl_over_ucx_is_told_on_the_fabric_that_it_does_not_fit() {
    let aws = Some(("node.kubernetes.io/instance-type", "p5.48xlarge"));
    let vllm = json!(["--kv-transfer-config", r#"{"kv_connector":"NixlConnector"}"#]);
    let named = json!([
        "--kv-transfer-config",
        r#"{"kv_connector":"NixlConnector","kv_connector_extra_config":{"backends":["LIBFABRIC"]}}"#
    ]);
    let sglang = json!(["--disaggregation-transfer-backend", "nixl"]);
    let (none, ignored) = (("A", "b"), ("NIXL_BACKEND", "LIBFABRIC"));
    let set = ("SGLANG_DISAGGREGATION_NIXL_BACKEND", "LIBFABRIC");
    for (device, args, (name, value), wanted) in [
        ("vpc.amazonaws.com/efa", &vllm, none, "nixl_over_ucx"),
        ("vpc.amazonaws.com/efa", &vllm, ignored, "nixl_over_ucx"),
        ("vpc.amazonaws.com/efa", &named, none, ""),
        ("vpc.amazonaws.com/efa", &sglang, none, "nixl_over_ucx"),
        ("vpc.amazonaws.com/efa", &sglang, set, ""),
        ("vpc.amazonaws.com/efa", &json!(["train.py"]), none, ""),
        ("rdma/ib", &vllm, none, ""),
    ] {
        for annotation in [None, Some("true")] {
            let mut pod = pod(aws.filter(|_| device.contains("efa")), device, 32, "");
            with_env(name, value)(&mut pod);
            pod["spec"]["containers"][0]["args"] = args.clone();
            if let Some(annotation) = annotation.filter(|_| device.contains("efa")) {
                pod["metadata"]["annotations"][TRIGGER] = annotation.into();
            }
            assert_eq!(codes(&[], &pod.to_string()), wanted, "{device} {args} {name} {annotation:?}");
        }
    }
}

/// Memory, processors and huge pages are compared with the nodes, of which one that grows may get larger ones.
#[test]
fn other_requests_are_compared_with_the_nodes() {
    let lints = |label: &str, requests: Value| {
        let node = json!({"kind": "Node", "metadata": {"name": "n", "labels": {label: "a"}},
            "spec": {"providerID": "aws:///a/i-1"}, "status": {
                "capacity": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"},
                "allocatable": {"cpu": "95690m", "memory": "1000Gi", "hugepages-2Mi": "0", "ephemeral-storage": "80Gi"},
                "conditions": [{"type": "Ready", "status": "True"}]}});
        let folder = folder(&[("nodes.json", &node.to_string())]);
        let mut pod = pod(None, "vpc.amazonaws.com/efa", 32, "");
        let limits = pod["spec"]["containers"][0]["resources"]["limits"].as_object_mut().unwrap();
        limits.extend(requests.as_object().unwrap().clone());
        codes(&["--nodes", folder.path().join("nodes.json").to_str().unwrap()], &pod.to_string())
    };
    for (requests, fixed, grows) in [
        (json!({"cpu": 90, "memory": "900Gi"}), "", ""),
        (json!({"cpu": 96}), "no_node_fits", "(no_node_fits)"),
        (json!({"memory": "2Ti"}), "no_node_fits", "(no_node_fits)"),
        (json!({"ephemeral-storage": "100G"}), "no_node_fits", "(no_node_fits)"),
        (json!({"hugepages-2Mi": "5120Mi"}), "no_node_fits", "no_node_fits"),
        (json!({"hugepages-1Gi": "4Gi"}), "no_node_fits", "no_node_fits"),
    ] {
        assert_eq!(lints("pool", requests.clone()), fixed, "{requests}");
        assert_eq!(lints("karpenter.sh/nodepool", requests.clone()), grows, "{requests}");
    }
}

/// What a document says about the pods of another.
#[test]
fn documents_of_one_input_are_read_together() {
    let annotated = |container: Value| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "labels": {"job": "a"}, "annotations": {TRIGGER: "true"}},
            "spec": {"nodeSelector": {"node.kubernetes.io/instance-type": "p5.48xlarge"}, "containers": [container]}})
    };
    let plain = json!({"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 8}}});
    let policy = |spec: Value| json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "n"}, "spec": spec});
    let lints = |documents: &[Value]| {
        codes(&[], &documents.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n"))
    };
    let peer = |labels: Value| json!([{"podSelector": {"matchLabels": labels}}]);
    for (spec, wanted) in [
        (json!({"podSelector": {}}), "network_policy"),
        (json!({"podSelector": {}, "policyTypes": ["Egress"]}), "network_policy"),
        (json!({"podSelector": {"matchLabels": {"job": "b"}}}), ""),
        (json!({"podSelector": {}, "ingress": [{}]}), ""),
        (json!({"podSelector": {}, "ingress": [{"from": peer(json!({"job": "a"}))}]}), ""),
        (json!({"podSelector": {}, "ingress": [{"from": peer(json!({"job": "b"}))}]}), "network_policy"),
        (
            json!({"podSelector": {}, "ingress": [{"from": peer(json!({"job": "a"})), "ports": [{"port": 22}]}]}),
            "network_policy",
        ),
        (json!({"podSelector": {}, "ingress": [{"ports": [{"protocol": "TCP"}]}]}), ""),
        (json!({"podSelector": {}, "ingress": [{"ports": [{"port": 1, "endPort": 65535}]}]}), ""),
        (
            json!({"podSelector": {}, "ingress": [{"ports": [{"port": 1, "endPort": 1023}]}]}),
            "network_policy",
        ),
        // A controller may add the label, and an address may be that of a pod.
        (json!({"podSelector": {}, "ingress": [{"from": peer(json!({"of-controller": "b"}))}]}), ""),
        (json!({"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}), ""),
    ] {
        assert_eq!(lints(&[annotated(plain.clone()), policy(spec.clone())]), wanted, "{spec}");
    }

    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"},
        "data": {"NCCL_SOCKET_IFNAME": "eth0", "A": "b"}});
    let mut from = plain.clone();
    from["envFrom"] = json!([{"configMapRef": {"name": "m"}}]);
    assert_eq!(lints(&[map.clone(), annotated(from.clone())]), "overrides_config_map");
    let mut equal = map.clone();
    equal["data"]["NCCL_SOCKET_IFNAME"] = json!("^lo,docker,veth,eni,pod-id-link0");
    assert_eq!(lints(&[equal, annotated(from.clone())]), "");
    from["env"] = json!([{"name": "NCCL_SOCKET_IFNAME", "value": "eth0"}]);
    assert_eq!(lints(&[map.clone(), annotated(from)]), "");
    assert_eq!(lints(&[map, annotated(plain)]), "");
}

/// With Trainer up to 2.2, the resources of a job replace those of its runtime.
#[test]
fn resources_that_a_train_job_replaces_are_told() {
    let lints = |devices: Value, of_job: Value| {
        let container = json!({"name": "node", "image": "i", "resources": {"limits": devices}});
        let pod = json!({"metadata": {"annotations": {TRIGGER: "true"}}, "spec": {"containers": [container],
            "nodeSelector": {"node.kubernetes.io/instance-type": "p5.48xlarge"}}});
        let runtime = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
            "metadata": {"name": "r"}, "spec": {"template": {"spec": {"replicatedJobs": [
                {"name": "node", "template": {"spec": {"template": pod}}}]}}}});
        let job = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "t"},
            "spec": {"runtimeRef": {"name": "r"}, "trainer": {"numNodes": 2, "resourcesPerNode": {"limits": of_job}}}});
        let found = codes(&[], &format!("{runtime}\n---\n{job}"));
        found.split(' ').find(|code| code.contains("replaced")).unwrap_or_default().to_owned()
    };
    let (gpus, both) =
        (json!({"nvidia.com/gpu": 8}), json!({"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}));
    assert_eq!(lints(both.clone(), gpus.clone()), "replaced_resources");
    assert_eq!(lints(gpus.clone(), gpus.clone()), "(replaced_resources)");
    assert_eq!(lints(both.clone(), both.clone()), "");
    assert_eq!(lints(gpus, both), "");
}

#[test]
fn more_ranks_than_gpus_and_repeated_keys_are_told() {
    let job = |slots: u8, key: &str| {
        format!(
            "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {{name: m}}\nspec:\n  slotsPerWorker: {slots}\n  \
             mpiReplicaSpecs:\n    Worker:\n      replicas: 1\n      template:\n        spec:\n          containers:\n          \
             - name: w\n            image: i\n            {key}: {{}}\n            resources: {{limits: {{nvidia.com/gpu: 4}}}}\n"
        )
    };
    assert_eq!(codes(&[], &job(4, "x")), "");
    assert_eq!(codes(&[], &job(8, "x")), "more_ranks_than_gpus");
    assert_eq!(codes(&[], &job(4, "resources")), "(repeated_key)");
}
