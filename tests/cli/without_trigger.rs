//! Workloads that span nodes and do not ask for the fabric.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{TRIGGER, mutate, run};

const CODE: &str = "workload_without_trigger";

/// A pod template with so many GPUs, and these fields of the pod.
fn template(gpus: u8, spec: &Value) -> Value {
    let container = json!({"name": "main", "image": "registry.example/train:1", "command": ["python", "train.py"],
        "resources": {"limits": {"nvidia.com/gpu": gpus}}});
    let mut all = json!({"containers": [container]});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"metadata": {}, "spec": all})
}

fn whole() -> Value {
    template(8, &json!({}))
}

fn object(api_version: &str, kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec})
}

fn group(size: u8, template: &Value) -> Value {
    let spec = json!({"replicas": 2, "leaderWorkerTemplate": {"size": size, "workerTemplate": template}});
    object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", &spec)
}

fn indexed(parallelism: u8, template: &Value) -> Value {
    let spec = json!({"completionMode": "Indexed", "completions": parallelism, "parallelism": parallelism,
        "template": template});
    object("batch/v1", "Job", &spec)
}

fn ray(kind: &str, field: Option<&str>, replicas: u8, more: &Value) -> Value {
    let groups = json!({"headGroupSpec": {"template": template(0, &json!({}))},
        "workerGroupSpecs": [{"groupName": "a", "replicas": replicas, "template": whole()}]});
    let mut spec = field.map_or(groups.clone(), |field| json!({field: groups}));
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object("ray.io/v1", kind, &spec)
}

fn train_job(nodes: u8, gpus: u8) -> Value {
    let trainer = json!({"numNodes": nodes, "resourcesPerNode": {"limits": {"nvidia.com/gpu": gpus}}});
    object(
        "trainer.kubeflow.org/v1alpha1",
        "TrainJob",
        &json!({"runtimeRef": {"name": "torch"}, "trainer": trainer}),
    )
}

/// What `lint` says without the options of a policy: `warning`, `note` or nothing.
#[track_caller]
fn level(arguments: &[&str], stream: &str) -> String {
    let run = run(&[&["lint", "-o", "json"], arguments].concat(), stream);
    let found: Value = serde_json::from_slice(&run.stdout).unwrap();
    let found = found.as_array().unwrap().iter().filter(|one| one["code"] == CODE);
    let mut levels: Vec<&str> = found.map(|one| one["severity"].as_str().unwrap()).collect();
    levels.dedup();
    levels.join(",")
}

/// Objects with what `lint` has to say about each, for one run.
#[derive(Default)]
struct Cases(Vec<(&'static str, Value)>);

impl Cases {
    fn says(&mut self, wanted: &'static str, object: &Value) {
        let mut object = object.clone();
        object["metadata"]["name"] = self.0.len().to_string().into();
        self.0.push((wanted, object));
    }

    #[track_caller]
    fn run(self) {
        let documents: Vec<String> = self.0.iter().map(|(_, object)| object.to_string()).collect();
        let stream = documents.join("\n---\n");
        let run = run(&["lint", "-o", "json"], &stream);
        let found: Value = serde_json::from_slice(&run.stdout).unwrap();
        let found: Vec<&Value> = found.as_array().unwrap().iter().filter(|one| one["code"] == CODE).collect();
        for (at, (wanted, object)) in self.0.iter().enumerate() {
            let name = format!("/{at}");
            let mut levels = found.iter().filter(|one| one["object"].as_str().unwrap().ends_with(&name));
            let level = levels.next().map_or("", |one| one["severity"].as_str().unwrap());
            assert_eq!(level, *wanted, "{object:#}");
        }
    }
}

#[test]
fn kinds_that_span_nodes_by_themselves_are_warned_about() {
    let mut cases = Cases::default();
    let kubeflow = |kind: &str, field: &str, replicas: u8| {
        let spec = json!({field: {"Worker": {"replicas": replicas, "template": whole()}}});
        object("kubeflow.org/v1", kind, &spec)
    };
    for (kind, field) in [
        ("MPIJob", "mpiReplicaSpecs"),
        ("PyTorchJob", "pytorchReplicaSpecs"),
        ("TFJob", "tfReplicaSpecs"),
        ("PaddleJob", "paddleReplicaSpecs"),
        ("XGBoostJob", "xgbReplicaSpecs"),
        ("JAXJob", "jaxReplicaSpecs"),
        ("MXJob", "mxReplicaSpecs"),
    ] {
        cases.says("warning", &kubeflow(kind, field, 2));
        cases.says("", &kubeflow(kind, field, 1));
    }
    let of_roles = json!({"Master": {"template": whole()}, "Worker": {"replicas": 1, "template": whole()}});
    cases
        .says("warning", &object("kubeflow.org/v1", "PyTorchJob", &json!({"pytorchReplicaSpecs": of_roles})));
    cases.says("warning", &group(2, &whole()));
    cases.says("", &group(1, &whole()));
    cases.says("warning", &train_job(2, 8));
    cases.says("", &train_job(1, 8));
    cases.says("", &train_job(2, 1));
    let service = |nodes: u8| {
        let service = json!({"multinode": {"nodeCount": nodes}, "resources": {"limits": {"gpu": "8"}}});
        object("nvidia.com/v1alpha1", "DynamoGraphDeployment", &json!({"services": {"decode": service}}))
    };
    cases.says("warning", &service(2));
    cases.says("", &service(1));
    let nim = json!({"multiNode": {"parallelism": {"pipeline": 2, "tensor": 8}},
        "resources": {"limits": {"nvidia.com/gpu": 8}}});
    cases.says("warning", &object("apps.nvidia.com/v1alpha1", "NIMService", &nim));
    cases.run();
}

#[test]
fn kinds_that_often_run_shards_need_a_second_sign() {
    let mut cases = Cases::default();
    let set = |jobs: u8| {
        let job = json!({"name": "a", "replicas": jobs, "template": {"spec": {"template": whole()}}});
        object("jobset.x-k8s.io/v1alpha2", "JobSet", &json!({"replicatedJobs": [job]}))
    };
    let volcano = |plugins: Value| {
        let task = json!({"replicas": 2, "template": whole()});
        object("batch.volcano.sh/v1alpha1", "Job", &json!({"plugins": plugins, "tasks": [task]}))
    };
    cases.says("note", &indexed(2, &whole()));
    cases.says("note", &set(2));
    cases.says("note", &volcano(json!({})));
    cases.says("note", &ray("RayCluster", None, 2, &json!({})));
    for one in [indexed(1, &whole()), set(1), ray("RayCluster", None, 1, &json!({}))] {
        cases.says("", &one);
    }
    cases.says("warning", &indexed(2, &template(8, &json!({"subdomain": "a"}))));
    cases.says("warning", &volcano(json!({"pytorch": []})));
    let serve = |text: &str| ray("RayService", Some("rayClusterConfig"), 2, &json!({"serveConfigV2": text}));
    cases.says("warning", &serve("engine_kwargs:\n  tensor_parallel_size: 8\n  pipeline_parallel_size: 2\n"));
    cases.says("note", &serve("engine_kwargs:\n  tensor_parallel_size: 8\n"));
    let job = |text: &str| ray("RayJob", Some("rayClusterSpec"), 2, &json!({"entrypoint": text}));
    cases.says("warning", &job("python run.py --tensor-parallel-size 16"));
    let with = |key: &str, value: Value| {
        let mut one = whole();
        one["spec"]["containers"][0][key] = value;
        indexed(2, &one)
    };
    cases.says("warning", &with("command", json!(["torchrun", "--nnodes=2", "a.py"])));
    cases.says("note", &with("command", json!(["torchrun", "--standalone", "a.py"])));
    cases.says("warning", &with("args", json!(["-c", "exec mpirun -np 16 ./a"])));
    cases.says("warning", &with("env", json!([{"name": "MASTER_ADDR", "value": "a-0"}])));
    cases.says("note", &with("env", json!([{"name": "HOME", "value": "/"}])));
    cases.says("note", &with("env", json!([{"name": "MASTER_ADDR", "value": "localhost"}])));
    cases.says("warning", &with("env", json!([{"name": "NIM_TENSOR_PARALLEL_SIZE", "value": "16"}])));
    cases.says("note", &with("command", json!(["sh", "-c", "pip install deepspeed && python a.py"])));
    cases.says("note", &with("command", json!(["torchrun", "--nnodes", "1", "a.py"])));
    cases.says("warning", &with("args", json!(["export MASTER_ADDR=a-0.a\npython a.py"])));
    cases.run();
}

#[test]
fn replicas_parts_of_nodes_and_pods_with_a_fabric_are_not_named() {
    let mut cases = Cases::default();
    let plain = json!({"parallelism": 4, "template": whole()});
    cases.says("", &object("batch/v1", "Job", &plain));
    cases.says("", &object("apps/v1", "Deployment", &json!({"replicas": 4, "template": whole()})));
    cases.says("", &object("apps/v1", "StatefulSet", &json!({"replicas": 4, "template": whole()})));
    let mut of_one_engine = whole();
    of_one_engine["spec"]["containers"][0]["command"] = json!(["sglang", "--tp", "16", "--nnodes", "2"]);
    cases.says(
        "warning",
        &object("apps/v1", "StatefulSet", &json!({"replicas": 2, "template": of_one_engine})),
    );
    let mut debugged = whole();
    debugged["spec"]["containers"][0]["env"] = json!([{"name": "NCCL_DEBUG", "value": "INFO"}]);
    cases.says("", &object("apps/v1", "StatefulSet", &json!({"replicas": 2, "template": debugged})));
    cases.says("warning", &indexed(2, &debugged));
    cases.says("", &group(2, &template(1, &json!({}))));
    cases.says("", &group(2, &template(4, &json!({}))));
    let gb200 = json!({"nodeSelector": {"node.kubernetes.io/instance-type": "p6e-gb200.36xlarge"}});
    cases.says("warning", &group(2, &template(4, &gb200)));
    // A machine of GKE without a fabric for GPUs.
    let l4 = json!({"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-l4"}});
    cases.says("", &group(2, &template(8, &l4)));
    // One of AWS.
    let p3 = json!({"nodeSelector": {"node.kubernetes.io/instance-type": "p3.16xlarge"}});
    cases.says("", &group(2, &template(8, &p3)));
    let with = |change: &dyn Fn(&mut Value)| {
        let mut one = whole();
        change(&mut one);
        group(2, &one)
    };
    cases.says("", &with(&|one| one["metadata"]["annotations"] = json!({TRIGGER: "true"})));
    cases.says("", &with(&|one| one["metadata"]["annotations"] = json!({TRIGGER: "false"})));
    cases.says(
        "",
        &with(&|one| one["metadata"]["annotations"] = json!({"networking.gke.io/interfaces": "[]"})),
    );
    cases.says("", &with(&|one| one["spec"]["resourceClaims"] = json!([{"name": "a"}])));
    let device = |name: &'static str| {
        with(&|one| one["spec"]["containers"][0]["resources"]["limits"][name] = json!(1))
    };
    cases.says("", &device("rdma/ib"));
    cases.says("warning", &device("smarter-devices/fuse"));
    cases.says("warning", &device("vpc.amazonaws.com/pod-eni"));
    cases.says(
        "",
        &with(&|one| {
            one["spec"]["volumes"] = json!([{"name": "a", "hostPath": {"path": "/dev/infiniband/uverbs0"}}]);
        }),
    );
    cases.run();
}

#[test]
fn nodes_say_how_many_gpus_a_machine_has() {
    let node = |gpus: &str| {
        json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a", "labels":
            {"node.kubernetes.io/instance-type": "p4d.24xlarge"}}, "status": {"capacity": {"nvidia.com/gpu": gpus,
            "vpc.amazonaws.com/efa": "4"}, "allocatable": {"nvidia.com/gpu": gpus, "vpc.amazonaws.com/efa": "4"},
            "conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nodes.json");
    for (gpus, wanted) in [("4", "warning"), ("8", "")] {
        std::fs::write(&path, node(gpus).to_string()).unwrap();
        let found =
            level(&["--nodes", path.to_str().unwrap()], &group(2, &template(4, &json!({}))).to_string());
        assert_eq!(found, wanted, "{gpus}");
    }
}

#[test]
fn a_runtime_that_asks_is_enough_for_a_train_job() {
    let runtime = |name: &str, annotations: &Value| {
        let mut one = whole();
        one["metadata"]["annotations"] = annotations.clone();
        let job = json!({"name": "node", "template": {"spec": {"template": one}}});
        json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime", "metadata": {"name": name},
            "spec": {"template": {"spec": {"replicatedJobs": [job]}}}})
    };
    let asks = json!({TRIGGER: "true"});
    let mut job = train_job(2, 8);
    job["spec"]["runtimeRef"]["kind"] = "TrainingRuntime".into();
    let with = |runtime: Value| format!("{job}\n---\n{runtime}\n");
    assert_eq!(level(&["--policy", "aws-efa"], &with(runtime("torch", &asks))), "");
    assert_eq!(level(&["--policy", "aws-efa"], &with(runtime("other", &asks))), "warning");
    assert_eq!(level(&["--policy", "aws-efa"], &with(runtime("torch", &json!({})))), "warning");
    let mut elsewhere = runtime("torch", &asks);
    elsewhere["metadata"]["namespace"] = "other".into();
    assert_eq!(level(&["--policy", "aws-efa"], &with(elsewhere)), "warning");
    let list = |items: &[&Value]| json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    assert_eq!(level(&["--policy", "aws-efa"], &list(&[&job, &runtime("torch", &asks)])), "");
    assert_eq!(level(&["--policy", "aws-efa"], &list(&[&job, &runtime("other", &asks)])), "warning");
    let wrapper =
        object("workload.codeflare.dev/v1beta2", "AppWrapper", &json!({"components": [{"template": job}]}));
    assert_eq!(level(&["--policy", "aws-efa"], &wrapper.to_string()), "warning");
}

#[test]
fn mutate_reports_the_same_and_a_note_fails_no_pipeline() {
    let arguments = ["--policy", "aws-efa", "--report", "json"];
    let report = mutate(&arguments, group(2, &whole()).to_string()).exits(0).reports().remove(0);
    assert_eq!(report["near_misses"][0]["code"], CODE);
    let message = report["near_misses"][0]["message"].as_str().unwrap();
    let linted = |object: &Value| run(&["lint", "--fail-on-warning"], object.to_string());
    let warned = linted(&group(2, &whole()));
    assert!(warned.text().contains(message), "{message}");
    assert_snapshot!(warned.recorded(), @r#"
    exit status: 1
    ----- stdout -----
    stdin:1: warning: LeaderWorkerSet/a: add `nmp.nvidia.com/enable-multi-node-networking: "true"` to `spec.leaderWorkerTemplate.workerTemplate.metadata.annotations`: 2 pods of this LeaderWorkerSet take whole nodes (8 `nvidia.com/gpu` each), and without a policy they exchange data by TCP (workload_without_trigger)
    ----- stderr -----
    0 errors and 1 warning
    "#);
    assert_snapshot!(linted(&indexed(2, &whole())).recorded(), @r#"
    exit status: 0
    ----- stdout -----
    stdin:1: note: Job/a: if its pods work together, add `nmp.nvidia.com/enable-multi-node-networking: "true"` to `spec.template.metadata.annotations`: 2 pods of this Job take whole nodes (8 `nvidia.com/gpu` each), and without a policy they exchange data by TCP (workload_without_trigger)
    ----- stderr -----
    0 errors and 0 warnings
    "#);
}

#[test]
fn what_a_subdomain_names_has_to_be_a_headless_service() {
    let pod = |probe: bool| {
        let mut one = template(8, &json!({"subdomain": "ranks"}));
        if probe {
            one["spec"]["containers"][0]["readinessProbe"] = json!({"tcpSocket": {"port": 1}});
        }
        indexed(2, &one)
    };
    let service = |spec: Value| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "ranks"}, "spec": spec})
            .to_string()
    };
    let codes = |stream: String| {
        let found: Value = serde_json::from_slice(&run(&["lint", "-o", "json"], &stream).stdout).unwrap();
        let found = found.as_array().unwrap().iter().filter(|one| one["code"] != CODE);
        found.map(|one| one["code"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(",")
    };
    let both = |probe: bool, spec: Value| codes(format!("{}\n---\n{}\n", service(spec), pod(probe)));
    assert_eq!(codes(pod(false).to_string()), "subdomain_without_service");
    assert_eq!(both(false, json!({})), "service_not_headless");
    assert_eq!(both(true, json!({"clusterIP": "None"})), "service_not_ready");
    assert_eq!(both(false, json!({"clusterIP": "None"})), "");
    assert_eq!(both(true, json!({"clusterIP": "None", "publishNotReadyAddresses": true})), "");
}

#[test]
fn a_workload_that_should_ask_is_not_one_that_asks_and_costs_no_injection() {
    let mut annotated = whole();
    annotated["metadata"]["annotations"] = json!({TRIGGER: "true"});
    let last = group(2, &annotated);
    let arguments = ["--policy", "aws-efa", "--require-mutated"];
    mutate(&arguments, format!("{last}\n---\n{}\n", group(2, &whole()))).exits(0);
    // The last of many texts asks, and the check of the others leaves it its work.
    let texts: Vec<Value> = (0..200)
        .map(|at| if at == 199 { last.to_string() } else { group(2, &whole()).to_string() })
        .map(|text| json!({"name": "a", "resource": {"action": "create", "manifest": text}}))
        .collect();
    let workflow = object("argoproj.io/v1alpha1", "Workflow", &json!({"templates": texts}));
    let reports =
        mutate(&["--policy", "aws-efa", "--report", "json"], workflow.to_string()).exits(0).reports();
    assert_eq!(reports.iter().filter(|report| report["outcome"] == "mutated").count(), 1);
}

#[test]
fn what_makes_a_job_hang_or_slow_next_to_its_fabric_is_named() {
    let codes = |policy: &str, change: &dyn Fn(&mut Value)| {
        let mut one = whole();
        one["metadata"]["annotations"] = json!({TRIGGER: "true"});
        change(&mut one);
        let arguments = ["--policy", policy, "--report", "json"];
        let report = mutate(&arguments, group(2, &one).to_string()).exits(0).reports().remove(0);
        let misses = report["near_misses"].as_array().unwrap();
        misses.iter().map(|miss| miss["code"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(",")
    };
    let annotated = |key: &'static str, value: &'static str| {
        move |one: &mut Value| one["metadata"]["annotations"][key] = value.into()
    };
    assert_eq!(codes("aws-efa", &|_| ()), "");
    assert_eq!(codes("aws-efa", &annotated("sidecar.istio.io/inject", "true")), "mesh_sidecar");
    assert_eq!(codes("aws-efa", &annotated("sidecar.istio.io/inject", "false")), "");
    assert_eq!(codes("aws-efa", &annotated("linkerd.io/inject", "enabled")), "mesh_sidecar");
    let on_host = |one: &mut Value| {
        annotated("sidecar.istio.io/inject", "true")(one);
        one["spec"]["hostNetwork"] = true.into();
    };
    assert_eq!(codes("azure-infiniband", &on_host), "");
    let label_off = |one: &mut Value| {
        annotated("sidecar.istio.io/inject", "true")(one);
        one["metadata"]["labels"] = json!({"sidecar.istio.io/inject": "false"});
    };
    assert_eq!(codes("aws-efa", &label_off), "");
    let variables = |on_host: bool, variables: &'static [(&str, &str)]| {
        move |one: &mut Value| {
            let env = variables
                .iter()
                .map(|(name, value)| json!({"name": name, "value": value}))
                .collect::<Value>();
            one["spec"]["containers"][0]["env"] = env;
            one["spec"]["hostNetwork"] = on_host.into();
        }
    };
    assert_eq!(
        codes("aws-efa", &variables(false, &[("NCCL_SOCKET_IFNAME", "ens5")])),
        "interface_not_in_pod"
    );
    assert_eq!(
        codes("aws-efa", &variables(false, &[("GLOO_SOCKET_IFNAME", "ens5")])),
        "interface_not_in_pod"
    );
    for (name, value) in
        [("NCCL_SOCKET_IFNAME", "ens,eth"), ("NCCL_SOCKET_IFNAME", "^ens5"), ("GLOO_SOCKET_IFNAME", "eth0")]
    {
        assert_eq!(codes("aws-efa", &variables(false, Vec::leak(vec![(name, value)]))), "", "{value}");
    }
    let both = [("NCCL_SOCKET_IFNAME", "ens5"), ("GLOO_SOCKET_IFNAME", "eth0")];
    assert_eq!(codes("azure-infiniband", &variables(true, Vec::leak(both.to_vec()))), "other_gloo_interface");
    assert_eq!(
        codes("azure-infiniband", &variables(true, &[("NCCL_SOCKET_IFNAME", "ens5")])),
        "other_gloo_interface"
    );
    let same = [("NCCL_SOCKET_IFNAME", "ens"), ("GLOO_SOCKET_IFNAME", "ens5")];
    assert_eq!(codes("azure-infiniband", &variables(true, Vec::leak(same.to_vec()))), "");
    let memory = |limit: &'static str| {
        move |one: &mut Value| {
            one["spec"]["volumes"] =
                json!([{"name": "s", "emptyDir": {"medium": "Memory", "sizeLimit": limit}}]);
            one["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "s", "mountPath": "/dev/shm"}]);
        }
    };
    assert_eq!(codes("aws-efa", &memory("7Gi")), "small_shared_memory");
    assert_eq!(codes("aws-efa", &memory("8Gi")), "");
    let capability = |name: &'static str| {
        move |one: &mut Value| {
            one["spec"]["containers"][0]["securityContext"] =
                json!({"capabilities": {"add": ["SYS_PTRACE", name]}});
        }
    };
    assert_eq!(codes("aws-efa", &capability("CAP_IPC_LOCK")), "capability_prefix");
    assert_eq!(codes("aws-efa", &capability("NET_ADMIN")), "");
    let label = |one: &mut Value| one["metadata"]["labels"] = json!({"sidecar.istio.io/inject": "true"});
    assert_eq!(codes("azure-infiniband", &label), "mesh_sidecar");
    let excluded = |one: &mut Value| {
        annotated("sidecar.istio.io/inject", "true")(one);
        annotated("traffic.sidecar.istio.io/excludeOutboundPorts", "29500")(one);
    };
    assert_eq!(codes("aws-efa", &excluded), "");
    let volume = |one: &mut Value| {
        one["spec"]["volumes"] = json!([{"name": "ib", "hostPath": {"path": "/dev/infiniband"}}]);
    };
    assert_eq!(codes("azure-infiniband", &volume), "adapters_by_path");
    let image = |one: &mut Value| one["spec"]["containers"][0]["image"] = "registry.example/llm-d:1".into();
    let by_hand = |one: &mut Value| {
        image(one);
        one["spec"]["containers"][0]["env"] = json!([{"name": "UCX_TLS", "value": "tcp"}]);
    };
    for policy in ["azure-infiniband", "coreweave-infiniband", "oci-sriov"] {
        assert_eq!(codes(policy, &by_hand), "data_over_tcp", "{policy}");
        // The policy leaves the transports to such an image.
        assert_eq!(codes(policy, &image), "", "{policy}");
    }
    assert_eq!(codes("aws-efa", &image), "");
}
