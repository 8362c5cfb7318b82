//! `lint`: what becomes of workloads, at its line.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{Run, TRIGGER, all_workloads, assert_file_snapshot, file, folder, run, run_in, sections};

/// A stream with a good Job and, in a document after it, a LeaderWorkerSet whose groups differ.
fn stream(leader: &str, worker: &str, leader_node: &str, worker_node: &str) -> String {
    let template = |annotation: &str, node: &str| {
        format!(
            "      metadata:\n        annotations: {{{annotation}}}\n      spec:\n        nodeSelector:\n          \
             node.kubernetes.io/instance-type: {node}\n        containers:\n        - name: main\n          \
             image: registry.example/train:1\n          resources: {{limits: {{nvidia.com/gpu: 8}}}}\n"
        )
    };
    format!(
        "# a comment\n{}---\napiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {{name: serve}}\n\
         spec:\n  leaderWorkerTemplate:\n    leaderTemplate:\n{}    workerTemplate:\n{}",
        file("tests/workloads/torchrun-job.yaml"),
        template(leader, leader_node),
        template(worker, worker_node),
    )
}

fn asks() -> String {
    format!("{TRIGGER}: \"true\"")
}

fn lint(arguments: &[&str], stream: &str) -> Run {
    run(&[&["lint", "--policy", "aws-efa"], arguments].concat(), stream)
}

/// The findings that ask for action: the text of the line, severity and code.
#[track_caller]
fn findings(stream: &str) -> Vec<(String, String, String)> {
    let run = lint(&["-o", "json"], stream);
    let found: Value = serde_json::from_slice(&run.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let action = found.as_array().unwrap().iter().filter(|one| one["severity"] != "note");
    let line = |one: &Value| {
        let number = usize::try_from(one["line"].as_u64().unwrap()).unwrap();
        stream.lines().nth(number - 1).unwrap().trim().to_owned()
    };
    action.map(|one| (line(one), text(&one["severity"]), text(&one["code"]))).collect()
}

fn finding(line: &str, severity: &str, code: &str) -> (String, String, String) {
    (line.to_owned(), severity.to_owned(), code.to_owned())
}

#[test]
fn groups_of_which_one_does_not_ask_are_found_either_way() {
    let (asks, p5) = (asks(), "p5.48xlarge");
    let found = finding("workerTemplate:", "warning", "peer_without_trigger");
    assert_eq!(findings(&stream(&asks, "", p5, p5)), [found]);
    let found = finding("leaderTemplate:", "warning", "peer_without_trigger");
    assert_eq!(findings(&stream("", &asks, p5, p5)), [found]);
    for (leader, worker) in [("", ""), (asks.as_str(), asks.as_str())] {
        assert_eq!(findings(&stream(leader, worker, p5, p5)), []);
    }
    // A group that is turned off is so on purpose.
    assert_eq!(findings(&stream(&asks, &asks.replace("true", "false"), p5, p5)), []);
}

#[test]
fn groups_on_different_nodes_are_found() {
    let asks = asks();
    let place = "node.kubernetes.io/instance-type: p4d.24xlarge";
    let found = finding(place, "warning", "different_nodes");
    assert_eq!(findings(&stream(&asks, &asks, "p5.48xlarge", "p4d.24xlarge")), [found]);
    // Only groups that use the fabric have to be on alike nodes.
    assert_eq!(findings(&stream(&asks, &asks.replace("true", "false"), "p5.48xlarge", "p4d.24xlarge")), []);
}

#[test]
fn every_near_miss_of_mutate_is_a_finding() {
    let job = file("tests/workloads/torchrun-job.yaml").replace(&asks(), &asks().replace("true", "yes"));
    let line = asks().replace("true", "yes");
    assert_eq!(findings(&job), [finding(&line, "warning", "other_trigger_value")]);
}

#[test]
fn a_train_job_that_asks_for_itself_is_told_where_its_template_is() {
    let job = format!(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata:\n  name: t\n  annotations: {{{}}}\n\
         spec: {{runtimeRef: {{name: torch}}}}\n",
        asks()
    );
    assert_snapshot!(lint(&[], &job).recorded(), @"
    exit status: 0
    ----- stdout -----
    stdin:1: warning: TrainJob/t: annotate the template in its runtime `torch`, or in `spec.runtimePatches`: a TrainJob has no pod template, and its pods do not get `metadata.annotations[nmp.nvidia.com/enable-multi-node-networking]` (no_pod_template)
    ----- stderr -----
    0 errors and 1 warning
    ");
    let patched = job
        .replace("spec: {", "spec: {runtimePatches: [{a: {metadata: {annotations: {X}}}}], ")
        .replace(&format!("  annotations: {{{}}}\n", asks()), "")
        .replace("{X}", &format!("{{{}}}", asks()));
    assert_snapshot!(lint(&[], &patched).recorded(), @"
    exit status: 0
    ----- stdout -----
    stdin:1: note: TrainJob/t: a TrainJob has no pod template; the webhook injects its pods if they get the annotation from `spec.runtimePatches[0].a.metadata.annotations[nmp.nvidia.com/enable-multi-node-networking]`, and `mutate` cannot (no_pod_template)
    ----- stderr -----
    0 errors and 0 warnings
    ");
}

#[test]
fn the_exit_status_is_that_of_policy_check() {
    let asks = asks();
    let (good, warned) =
        (stream(&asks, &asks, "p5.48xlarge", "p5.48xlarge"), stream(&asks, "", "p5.48xlarge", "p5.48xlarge"));
    lint(&["--fail-on-warning"], &good).exits(0).says(&["0 errors and 0 warnings"]);
    lint(&[], &warned).exits(0).says(&["0 errors and 1 warning"]);
    lint(&["--fail-on-warning"], &warned).exits(1);
    lint(&["--fail-on", "warning=peer_without_trigger"], &warned).exits(1);
    // It lists all codes.
    lint(&["--fail-on", "warning=kept_env,conflict,few_gpus"], &warned).exits(2).says(&["`few_gpus`"]);
    lint(&["--fail-on", "warning=different_nodes"], &warned).exits(0);
    // Documents after one that cannot be read are still checked.
    assert_snapshot!(lint(&[], &format!("a: [\n---\n{warned}")).recorded(), @r#"
    exit status: 2
    ----- stdout -----
    stdin:2: error: not valid YAML: while parsing a node, did not find expected node content, within the brackets that begin on line 1 (bad_document)
    stdin:18: note: Job/ddp-tune: `spec.template`: aws-efa injects these pods: torch: vpc.amazonaws.com/efa 32, env NCCL_NET_PLUGIN NCCL_SOCKET_IFNAME FI_EFA_USE_HUGE_PAGE, mount /opt/amazon-efa-ofi /etc/nccl.conf, capability IPC_LOCK; pod: volume amazon-efa nccl-settings, annotation settings.fabric-injector.io/nccl fabric-injector.io/injected (injected)
    stdin:108: note: LeaderWorkerSet/serve: `spec.leaderWorkerTemplate.leaderTemplate`: aws-efa injects these pods: main: vpc.amazonaws.com/efa 32, env NCCL_NET_PLUGIN NCCL_SOCKET_IFNAME FI_EFA_USE_HUGE_PAGE, mount /dev/shm /opt/amazon-efa-ofi /etc/nccl.conf, capability IPC_LOCK; pod: volume nv-shared-memory amazon-efa nccl-settings, annotation settings.fabric-injector.io/nccl fabric-injector.io/injected (injected)
    stdin:118: warning: LeaderWorkerSet/serve: add `nmp.nvidia.com/enable-multi-node-networking: "true"` to `spec.leaderWorkerTemplate.workerTemplate.metadata.annotations`: the pods of `spec.leaderWorkerTemplate.leaderTemplate` use the fabric, and these GPU pods do not (peer_without_trigger)
    ----- stderr -----
    1 error and 1 warning
    "#);
    assert_snapshot!(lint(&["-f", "no-such-file.yaml"], "").recorded(), @"
    exit status: 2
    ----- stdout -----
    no-such-file.yaml:1: error: no-such-file.yaml cannot be read: No such file or directory (os error 2) (unreadable_file)
    ----- stderr -----
    1 error and 0 warnings
    ");
}

#[test]
fn each_form_has_the_same_findings() {
    let (asks, p5) = (asks(), "p5.48xlarge");
    let warned = stream(&asks, "", p5, p5);
    let folder = folder(&[("a,b.yaml", &warned)]);
    let path = folder.path().join("a,b.yaml");
    let answers = ["text", "github", "json", "sarif"].map(|format| {
        let args = ["lint", "--policy", "aws-efa", "-f", path.to_str().unwrap(), "-o", format];
        (format, run_in(folder.path(), &args, "").recorded().replace(env!("CARGO_PKG_VERSION"), "[version]"))
    });
    assert_file_snapshot!(sections(answers));
}

/// The examples are good: nothing is wrong with any of them for the policy of its cloud.
#[test]
fn no_example_has_a_fault_of_the_workload() {
    let run = lint(&[], &all_workloads());
    for code in ["peer_without_trigger", "different_nodes", "workload_without_trigger"] {
        assert!(!run.text().contains(code), "{}", run.text());
    }
}

#[test]
fn without_a_policy_the_nodes_choose_one() {
    let node = "kind: Node\nmetadata: {name: a}\nspec: {providerID: 'aws:///us-east-1a/i-1'}\nstatus:\n  capacity: \
                {nvidia.com/gpu: 8, vpc.amazonaws.com/efa: 32}\n  conditions: [{type: Ready, status: 'True'}]\n";
    let nodes = folder(&[("nodes.yaml", node)]);
    let nodes = nodes.path().join("nodes.yaml");
    let job = file("tests/workloads/torchrun-job.yaml");
    let linted = run(&["lint", "--nodes", nodes.to_str().unwrap()], &job).exits(0);
    assert!(linted.text().contains("aws-efa injects these pods"), "{}", linted.text());
}

/// Manifests are kept as templates of `envsubst`, Helm and the like, which no API server gets as they are.
#[test]
fn a_placeholder_is_a_note_and_a_wrong_value_an_error() {
    let job = file("tests/workloads/torchrun-job.yaml");
    for (value, status, code) in [
        ("\"${GPU_PER_NODE}\"", 0, "placeholder"),
        ("'{{ .Values.gpus }}'", 0, "placeholder"),
        ("eight", 2, "malformed_pod"),
    ] {
        let text = job.replace("nvidia.com/gpu: 8", &format!("nvidia.com/gpu: {value}"));
        assert_ne!(text, job, "the Job has 8 GPUs");
        let run = lint(&["-o", "json"], &text);
        assert!(run.text().contains(&format!("\"{code}\"")), "{}", run.text());
        run.exits(status);
    }
}

/// What a pod requests by hand is compared with its nodes, or with the table of its machine.
#[test]
fn devices_by_hand_are_compared_with_those_of_the_machine() {
    let pod = |machine: &str, gpus: u32, efa: u32, annotation: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, annotations: {{{annotation}}}}}\nspec:\n  nodeSelector: \
             {{node.kubernetes.io/instance-type: {machine}}}\n  containers:\n  - {{name: c, image: i, resources: {{limits: \
             {{nvidia.com/gpu: {gpus}, vpc.amazonaws.com/efa: {efa}}}}}}}\n"
        )
    };
    let nodes = |efa: u32| {
        json!({"kind": "NodeList", "items": [{"kind": "Node", "metadata": {"name": "n",
            "labels": {"node.kubernetes.io/instance-type": "p5en.48xlarge"}}, "spec": {"providerID": "aws:///a/i-1"},
            "status": {"capacity": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": efa.to_string()},
                "conditions": [{"type": "Ready", "status": "True"}]}}]})
        .to_string()
    };
    let (by_hand, fewer) = ("requested_by_hand", "fewer_devices");
    for (machine, gpus, efa, offered, wanted) in [
        ("p5en.48xlarge", 8, 32, None, by_hand),
        ("p5en.48xlarge", 8, 16, None, ""),
        ("p5en.48xlarge", 8, 8, None, fewer),
        // One GPU of many may have all interfaces.
        ("p5en.48xlarge", 1, 16, None, ""),
        ("g5.xlarge", 1, 1, None, by_hand),
        // No table has the machine.
        ("p99.48xlarge", 8, 32, None, ""),
        ("p5en.48xlarge", 8, 32, Some(16), by_hand),
        ("p5en.48xlarge", 8, 16, Some(0), by_hand),
        ("p5en.48xlarge", 8, 16, Some(16), ""),
    ] {
        let folder = folder(&[("nodes.json", &offered.map(nodes).unwrap_or_default())]);
        let path = folder.path().join("nodes.json");
        let of_nodes = ["--nodes", path.to_str().unwrap()];
        let arguments = [&["-o", "json"][..], if offered.is_some() { &of_nodes[..] } else { &[] }].concat();
        let run = lint(&arguments, &pod(machine, gpus, efa, ""));
        let found: Value = serde_json::from_slice(&run.stdout).unwrap();
        let codes: Vec<&str> =
            found.as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap()).collect();
        let compared: Vec<&str> = codes.into_iter().filter(|code| [by_hand, fewer].contains(code)).collect();
        let wanted = if wanted.is_empty() { Vec::new() } else { vec![wanted] };
        assert_eq!(compared, wanted, "{machine} {gpus} {efa} {offered:?}: {found:#}");
    }
    // The same with the annotation.
    let annotated = pod("p5en.48xlarge", 8, 32, &asks());
    assert!(findings(&annotated).iter().any(|(.., code)| code == by_hand));
}

/// A setting that turns off the devices of a pod without the annotation.
#[test]
fn settings_that_turn_devices_off_are_named() {
    for (policy, device, name, value, count) in [
        ("azure-infiniband", "rdma/ib: 8", "NCCL_IB_DISABLE", "1", 1),
        ("azure-infiniband", "rdma/ib: 8", "NCCL_IB_DISABLE", "0", 0),
        ("azure-infiniband", "rdma/ib: 8", "NCCL_NET", "Socket", 1),
        ("aws-efa", "vpc.amazonaws.com/efa: 8", "FI_PROVIDER", "tcp", 1),
        ("aws-efa", "vpc.amazonaws.com/efa: 8", "NCCL_NET", "Socket", 1),
        // Without devices, the author may want TCP.
        ("azure-infiniband", "cpu: 8", "NCCL_IB_DISABLE", "1", 0),
    ] {
        let pod = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n  - {{name: c, image: i, env: [{{name: \
             {name}, value: \"{value}\"}}], resources: {{limits: {{nvidia.com/gpu: 8, {device}}}}}}}\n"
        );
        let found = run(&["lint", "--policy", policy], &pod);
        assert_eq!(found.text().matches("turned_off_by_hand").count(), count, "{name} {}", found.text());
    }
}

/// The resources of GKE's networks, and the interfaces that they need.
#[test]
fn networks_of_google_by_hand_are_compared() {
    let pod = |annotation: &str, limits: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, annotations: {{{annotation}}}}}\nspec:\n  nodeSelector: \
             {{cloud.google.com/gke-accelerator: nvidia-gb200}}\n  containers:\n  - {{name: c, image: i, resources: {{limits: \
             {{nvidia.com/gpu: 4{limits}}}}}}}\n"
        )
    };
    let network = ", networking.gke.io.networks/rdma-0";
    let interfaces = "networking.gke.io/interfaces: '[{\"interfaceName\":\"eth2\",\"network\":\"rdma-0\"}]'";
    let without = run(&["lint"], pod("", &format!("{network}: 1"))).exits(0);
    for with in [pod(interfaces, &format!("{network}: 1")), pod("", ""), pod("", &format!("{network}: 0"))] {
        assert_eq!(run(&["lint"], &with).exits(0).recorded().matches("network").count(), 0, "{with}");
    }
    let capacity: serde_json::Map<String, Value> = (0..4)
        .map(|at| (format!("networking.gke.io.networks/rdma-{at}.IP"), json!("1")))
        .chain([("nvidia.com/gpu".to_owned(), json!("4"))])
        .collect();
    let nodes = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n", "labels":
        {"cloud.google.com/gke-accelerator": "nvidia-gb200"}}, "spec": {"providerID": "gce://n"},
        "status": {"capacity": capacity, "conditions": [{"type": "Ready", "status": "True"}]}});
    let folder = folder(&[("nodes.json", &nodes.to_string())]);
    let path = folder.path().join("nodes.json");
    let lint = |pod: &str| run(&["lint", "--nodes", path.to_str().unwrap()], pod).exits(0);
    assert_file_snapshot!(without.recorded() + &lint(&pod(interfaces, "")).recorded());
    let cured = lint(&pod(interfaces, &format!("{network}: 0")));
    assert_eq!(cured.recorded().matches("requested_by_hand").count(), 0, "{}", cured.text());
}

/// A device is compared with the network that a policy attaches with it, and a claim with the devices of the nodes.
#[test]
fn networks_and_claims_by_hand_are_compared() {
    let pod = |annotations: &str, limits: &str, more: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, annotations: {{{annotations}}}}}\nspec:\n  nodeSelector: \
             {{node.kubernetes.io/instance-type: BM.GPU.H100.8}}\n{more}  containers:\n  - {{name: c, image: i, resources: \
             {{limits: {{nvidia.com/gpu: 8{limits}}}, claims: [{{name: nics}}]}}}}\n"
        )
    };
    let codes = ["device_without_network", "network_without_device", "fewer_devices", "requested_by_hand"];
    let compared = |arguments: &[&str], manifest: &str| {
        let run = run(&[&["lint", "--policy", "oci-sriov", "-o", "json"], arguments].concat(), manifest);
        let found: Value = serde_json::from_slice(&run.stdout).unwrap();
        let all = found.as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap().to_owned());
        all.filter(|code| codes.contains(&code.as_str())).collect::<Vec<_>>().join(",")
    };
    let network = "k8s.v1.cni.cncf.io/networks: \"a/sriov-net\"";
    for (annotations, limits, wanted) in [
        ("", ", nvidia.com/mlnxnics: 16", "device_without_network"),
        (network, ", nvidia.com/mlnxnics: 16", ""),
        (network, "", "network_without_device"),
        ("k8s.v1.cni.cncf.io/networks: macvlan", "", ""),
        // A slot of an adapter that pods share.
        ("", ", nvidia.com/mlnxnics: 1", ""),
        ("", ", rdma/shared_ib: 1", ""),
        ("", "", ""),
    ] {
        let manifest = pod(annotations, limits, "").replace(", claims: [{name: nics}]", "");
        assert_eq!(compared(&[], &manifest), wanted, "{annotations} {limits}");
    }
    // A policy injects this machine, which has no devices, for NVLink.
    let without = pod(&asks(), ", nvidia.com/mlnxnics: 8", "").replace(", claims: [{name: nics}]", "");
    let without = without.replace("BM.GPU.H100.8", "BM.GPU.GB200.4").replace("gpu: 8", "gpu: 4");
    assert_eq!(compared(&[], &without), "requested_by_hand");
    let node = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n",
        "labels": {"node.kubernetes.io/instance-type": "BM.GPU.H100.8"}}, "status": {"capacity": {"nvidia.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True"}]}});
    let slice = |driver: &str| {
        json!({"kind": "ResourceSlice", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "s"}, "spec": {"nodeName": "n",
            "driver": driver, "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "a"}, {"name": "b"}]}})
    };
    let claim = |class: &str, count: u32| {
        format!(
            "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {{name: t}}\nspec: {{spec: {{devices: \
             {{requests: [{{name: a, exactly: {{deviceClassName: {class}, count: {count}}}}}]}}}}}}\n"
        )
    };
    // Another claim of the pod has as many as there are.
    let claims =
        "[{name: other, resourceClaimTemplateName: other}, {name: nics, resourceClaimTemplateName: t}]";
    let one = pod("", "", &format!("  resourceClaims: {claims}\n"))
        + &claim("dra.net", 1).replace("name: t}", "name: other}");
    for (driver, class, count, wanted) in [
        ("dra.net", "dra.net", 3, "requested_by_hand"),
        ("dra.net", "dra.net", 2, ""),
        // The devices of a driver without slices are unknown.
        ("other.example", "dra.net", 3, ""),
        ("dra.net", "own.example", 3, ""),
    ] {
        let nodes = json!({"kind": "List", "apiVersion": "v1", "items": [node, slice(driver)]}).to_string();
        let folder = folder(&[("nodes.json", &nodes)]);
        let path = folder.path().join("nodes.json");
        let manifest = format!("{one}{}", claim(class, count));
        assert_eq!(
            compared(&["--nodes", path.to_str().unwrap()], &manifest),
            wanted,
            "{driver} {class} {count}"
        );
    }
}

/// The lines about these objects that contain a code.
fn lines_with(code: &str, arguments: &[&str], stream: &str) -> Vec<String> {
    let run = lint(arguments, stream);
    run.text().lines().filter(|line| line.contains(&format!("({code})"))).map(str::to_owned).collect()
}

#[test]
fn the_namespace_of_a_pod_can_request_a_mesh_for_it() {
    let job = file("tests/workloads/torchrun-job.yaml").replace("namespace: research", "namespace: ml");
    let stream = |label: &str, job: &str| {
        format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: ml, labels: {{{label}}}}}\n---\n{job}")
    };
    let of = |label: &str, job: &str| lines_with("mesh_sidecar", &[], &stream(label, job)).len();
    assert_eq!((of("istio-injection: enabled", &job), of("istio.io/rev: stable", &job)), (1, 1));
    assert_eq!((of("istio-injection: disabled", &job), of("team: a", &job)), (0, 0));
    let refused =
        job.replacen("annotations:\n", "annotations:\n        sidecar.istio.io/inject: \"false\"\n", 1);
    assert_ne!(refused, job);
    assert_eq!(of("istio-injection: enabled", &refused), 0);
    assert_eq!(of("istio-injection: enabled", &job.replace("namespace: ml", "namespace: other")), 0);
}

#[test]
fn pods_that_fit_several_zones_have_a_note() {
    let node = |name: &str, zone: &str| {
        json!({"kind": "Node", "metadata": {"name": name, "labels": {"node.kubernetes.io/instance-type": "p5.48xlarge",
            "topology.kubernetes.io/zone": zone}}, "spec": {"providerID": "aws:///a/i-1"},
            "status": {"capacity": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"},
                "conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let job = |more: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: t}}\nspec:\n  template:\n    metadata: {{annotations: \
             {{{}}}}}\n    spec:\n      nodeSelector: {{node.kubernetes.io/instance-type: p5.48xlarge}}\n{more}      \
             restartPolicy: Never\n      containers:\n      - name: m\n        image: registry.example/train:1\n        \
             resources: {{limits: {{nvidia.com/gpu: 8}}}}\n",
            asks()
        )
    };
    let affinity = "      affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
                    topology.kubernetes.io/zone, labelSelector: {matchLabels: {a: b}}}]}}\n";
    for (zones, more, count) in [(["a", "b"], "", 1), (["a", "a"], "", 0), (["a", "b"], affinity, 0)] {
        let nodes =
            json!({"kind": "NodeList", "items": [node("x", zones[0]), node("y", zones[1])]}).to_string();
        let folder = folder(&[("nodes.json", &nodes)]);
        let path = folder.path().join("nodes.json");
        let found = lines_with("several_zones", &["--nodes", path.to_str().unwrap()], &job(more));
        assert_eq!(found.len(), count, "{zones:?} {more}");
    }
}

#[test]
fn a_train_job_gives_its_gpus_to_its_runtime() {
    let stream = |kind: &str, gpus: u32, name: &str| {
        format!(
            "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {{name: t}}\nspec:\n  runtimeRef: \
             {{name: {name}, kind: {kind}}}\n  trainer: {{numNodes: 2, resourcesPerNode: {{limits: {{nvidia.com/gpu: \
             {gpus}}}}}}}\n---\napiVersion: trainer.kubeflow.org/v1alpha1\nkind: {kind}\nmetadata: {{name: r}}\nspec:\n  \
             template:\n    spec:\n      replicatedJobs:\n      - name: node\n        template:\n          metadata: {{labels: \
             {{trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}}\n          spec:\n            template:\n              \
             metadata: {{annotations: {{{}}}}}\n              spec:\n                nodeSelector: \
             {{node.kubernetes.io/instance-type: p5.48xlarge}}\n                containers: [{{name: node, image: i}}]\n",
            asks()
        )
    };
    for kind in ["TrainingRuntime", "ClusterTrainingRuntime"] {
        let injected = lines_with("injected", &[], &stream(kind, 8, "r"));
        assert_eq!(injected.len(), 1, "{injected:?}");
        assert!(injected[0].contains("TrainJob/t: with its runtime: "), "{injected:?}");
        assert!(injected[0].contains("vpc.amazonaws.com/efa 32"), "{injected:?}");
        assert!(lines_with("injected", &[], &stream(kind, 8, "other")).is_empty());
        let declined = stream(kind, 8, "r").replace("\"true\"", "\"false\"");
        assert!(lines_with("workload_without_trigger", &[], &declined).is_empty(), "{declined}");
        let undecided = stream(kind, 8, "r").replace(&asks(), "");
        assert_eq!(lines_with("workload_without_trigger", &[], &undecided).len(), 1, "{undecided}");
    }
}

/// Found by the fuzzer of reviews: a number where a container should be ended the server's review, and the command.
#[test]
fn whichever_value_is_of_another_type_there_is_an_answer() {
    let pod = json!({
        "metadata": {"annotations": {TRIGGER: "true"}},
        "spec": {"containers": [{"name": "node", "resources": {"limits": {"nvidia.com/gpu": 8, "rdma/ib": 1}}}]},
    });
    let runtime = "trainer.kubeflow.org/v1alpha1";
    let job = json!({
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}, "spec": {"template": pod},
        },
    });
    let documents = json!([
        {"apiVersion": runtime, "kind": "TrainJob", "metadata": {"name": "t"}, "spec": {
            "runtimeRef": {"name": "r", "kind": "TrainingRuntime"},
            "trainer": {"numNodes": 2, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}},
        }},
        {"apiVersion": runtime, "kind": "TrainingRuntime", "metadata": {"name": "r"},
            "spec": {"template": {"spec": {"replicatedJobs": [job]}}}},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": 2, "template": pod}},
    ]);
    for pointer in pointers(&documents) {
        let mut odd = documents.clone();
        *odd.pointer_mut(&pointer).unwrap() = json!(1);
        let stream: Vec<String> = odd.as_array().into_iter().flatten().map(Value::to_string).collect();
        let said = lint(&[], &stream.join("\n---\n")).recorded();
        assert!(said.contains("exit status: 0") || said.contains("exit status: 2"), "{pointer}: {said}");
    }
}

/// The JSON Pointers to the values below a value.
fn pointers(value: &Value) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Array(items) => items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.replace('/', "~1"), value)).collect(),
        _ => Vec::new(),
    };
    let below = |(key, child): (String, &Value)| {
        let of_child = pointers(child).into_iter().map(|rest| format!("/{key}{rest}")).collect::<Vec<_>>();
        [vec![format!("/{key}")], of_child].concat()
    };
    children.into_iter().flat_map(below).collect()
}
