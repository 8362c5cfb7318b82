//! Requests for the fabric that have no effect: each is found, with the change and its place.

use serde_json::Value;

use super::{POD, SETTINGS, TRIGGER, file, mutate};

/// A Job with this metadata, this metadata of its template, and these resources.
fn job(own: &str, template: &str, resources: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: train{own}}}\nspec:\n  template:\n    metadata: {{{template}}}\n    \
         spec:\n      containers:\n      - name: main\n        image: registry.example/train:1\n        resources: {{{resources}}}\n"
    )
}

const GPUS: &str = "limits: {nvidia.com/gpu: 8}";

/// The reports of a run with `aws-efa`.
#[track_caller]
fn reports(stream: &str) -> Vec<Value> {
    mutate(&["--policy", "aws-efa", "--report", "json"], stream).exits(0).reports()
}

/// The near misses of the only template: code, path and message.
#[track_caller]
fn near_misses(stream: &str) -> Vec<(String, String, String)> {
    let reports = reports(stream);
    assert_eq!(reports.len(), 1, "{reports:?}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let misses = reports[0]["near_misses"].as_array().unwrap();
    misses.iter().map(|miss| (text(&miss["code"]), text(&miss["path"]), text(&miss["message"]))).collect()
}

/// Fails unless the only near miss has this code and path, and its message has these parts.
#[track_caller]
fn finds(stream: &str, code: &str, path: &str, parts: &[&str]) {
    let found = near_misses(stream);
    assert_eq!(found.len(), 1, "{found:?}");
    let (found_code, found_path, message) = &found[0];
    assert_eq!((found_code.as_str(), found_path.as_str()), (code, path), "{message}");
    for part in parts {
        assert!(message.contains(part), "no {part} in {message}");
    }
}

const ADD: &str = "`nmp.nvidia.com/enable-multi-node-networking: \"true\"`";

#[test]
fn a_misspelled_trigger_is_found() {
    for key in [
        "nmp.nvidia.com/enable-multi-node-netwroking",
        "nvidia.com/enable-multi-node-networking",
        "nmp.nvidia.com/enable-multinode-networking",
    ] {
        let stream = job("", &format!("annotations: {{{key}: \"true\"}}"), GPUS);
        let path = format!("/spec/template/metadata/annotations/{}", key.replace('/', "~1"));
        let seen = format!("instead of `{key}: \"true\"` in `spec.template.metadata.annotations`");
        finds(&stream, "misspelled_trigger", &path, &[ADD, &seen]);
    }
}

#[test]
fn a_trigger_in_another_place_is_found() {
    let at = |own: &str, template: &str| {
        let entry = format!("{{{TRIGGER}: \"true\"}}");
        job(&own.replace("{}", &entry), &template.replace("{}", &entry), GPUS)
    };
    let key = TRIGGER.replace('/', "~1");
    let to = "to `spec.template.metadata.annotations`";
    finds(
        &at("", "labels: {}"),
        "trigger_as_label",
        &format!("/spec/template/metadata/labels/{key}"),
        &[ADD, to, "move `", "from `spec.template.metadata.labels` to `"],
    );
    finds(
        &at(", annotations: {}", ""),
        "trigger_on_workload",
        &format!("/metadata/annotations/{key}"),
        &[ADD, to, "from `metadata.annotations`", "of a Job"],
    );
    let misplaced =
        at("", "").replace("    spec:\n", &format!("    annotations: {{{TRIGGER}: \"true\"}}\n    spec:\n"));
    finds(
        &misplaced,
        "misplaced_trigger",
        &format!("/spec/template/annotations/{key}"),
        &[ADD, to, "from `spec.template.annotations`"],
    );
}

#[test]
fn a_trigger_on_a_lws_names_each_template() {
    let text = file("tests/workloads/deepseek-r1-lws.yaml");
    let annotation = format!("{TRIGGER}: \"true\"");
    assert_eq!(text.matches(&annotation).count(), 2);
    let text = text.replace(&annotation, "example.com/a: b").replacen(
        "metadata:\n",
        &format!("metadata:\n  annotations: {{{annotation}}}\n"),
        1,
    );
    let reports = reports(&text);
    assert_eq!(reports.len(), 2);
    for (report, template) in reports.iter().zip(["leaderTemplate", "workerTemplate"]) {
        let miss = &report["near_misses"][0];
        assert_eq!(miss["code"], "trigger_on_workload");
        let message = miss["message"].as_str().unwrap();
        let place = format!("to `spec.leaderWorkerTemplate.{template}.metadata.annotations`");
        assert!(message.contains(&place) && message.contains("LeaderWorkerSet"), "{message}");
    }
}

#[test]
fn another_value_of_the_trigger_is_found_unless_it_turns_the_fabric_off() {
    let with = |value: &str| job("", &format!("annotations: {{{TRIGGER}: {value}}}"), GPUS);
    let path = format!("/spec/template/metadata/annotations/{}", TRIGGER.replace('/', "~1"));
    for value in ["\"True\"", "\"yes\"", "\"1\"", "\"enabled\""] {
        finds(&with(value), "other_trigger_value", &path, &[ADD, "in `spec.template.metadata.annotations`"]);
    }
    for value in ["true", "yes", "1"] {
        finds(&with(value), "trigger_not_a_string", &path, &[ADD, "with quotes"]);
    }
    for value in ["\"false\"", "\"no\"", "false", "\"\"", "\"off\""] {
        assert_eq!(near_misses(&with(value)), [], "{value}");
    }
    let report = &reports(&with("true"))[0];
    assert!(report["message"].as_str().unwrap().contains("is the boolean `true`"), "{report}");
    let report = &reports(&with("\"yes\""))[0];
    assert!(
        report["message"].as_str().unwrap().ends_with("is `yes`, but only `true` requests the fabric"),
        "{report}"
    );
}

#[test]
fn requests_for_gpus_that_do_not_count_are_found() {
    let with = |resources: &str| job("", &format!("annotations: {{{TRIGGER}: \"true\"}}"), resources);
    let container = "/spec/template/spec/containers/0";
    let limits = "`spec.template.spec.containers[main].resources.limits`";
    for name in ["nvidia.com/gpus", "nvidia/gpu", "gpu", "nvida.com/gpu"] {
        let path = format!("{container}/resources/limits/{}", name.replace('/', "~1"));
        finds(
            &with(&format!("limits: {{{name}: 8}}")),
            "misspelled_gpu",
            &path,
            &["write `nvidia.com/gpu` instead of", limits],
        );
    }
    finds(
        &with("requests: {nvidia.com/gpu: 8}"),
        "gpu_without_limit",
        &format!("{container}/resources/requests/nvidia.com~1gpu"),
        &["add `nvidia.com/gpu: 8` to", limits],
    );
    finds(
        &with("nvidia.com/gpu: 8"),
        "misplaced_gpu",
        &format!("{container}/resources/nvidia.com~1gpu"),
        &[limits],
    );
    finds(
        &with("limits: {cpu: 8}"),
        "no_gpu_request",
        "/spec/template/spec/containers",
        // One of the fourteen that policies count.
        &["request `nvidia.com/gpu` in `", limits],
    );
    finds(
        &with("limits: {amd.com/gpu: 8}"),
        "no_gpu_request",
        "/spec/template/spec/containers",
        &["counts `amd.com/gpu`"],
    );
}

#[test]
fn a_launcher_is_advised_neither_to_request_gpus_nor_to_select_nodes() {
    for policy in
        ["aws-efa", "azure-infiniband", "gcp-tcpxo", "oci-sriov", "coreweave-infiniband", "onprem-rdma"]
    {
        let args = [
            "--policy",
            policy,
            "-f",
            "tests/workloads/nim-mpijob.yaml",
            "-f",
            "tests/workloads/onprem-sriov-mpijob.yaml",
        ];
        let run = mutate(&args, "").exits(0);
        let launcher = run.stderr.split("tests/workloads/").filter(|part| part.contains("/Launcher/"));
        let launchers: Vec<&str> = launcher.collect();
        assert_eq!(launchers.len(), 2, "{}", run.stderr);
        for text in launchers {
            for advice in ["select ", "instance type", "near miss", "request `"] {
                assert!(!text.contains(advice), "{policy}: `{advice}` in {text}");
            }
        }
    }
    let alone = POD
        .replace("  annotations:\n", "  labels: {training.kubeflow.org/job-role: launcher}\n  annotations:\n")
        .replace("nvidia.com/gpu", "cpu");
    let run = mutate(&["--policy", "gcp-tcpx"], alone).exits(0);
    assert!(!run.stderr.contains("near miss"), "{}", run.stderr);
}

#[test]
fn a_pod_with_gpus_that_asks_for_nothing_gets_the_annotation_and_its_place() {
    let report = &reports(&job("", "", GPUS))[0];
    assert_eq!(
        report["message"],
        format!(
            "no policy matches this pod; to inject it, add {ADD} to `spec.template.metadata.annotations`"
        )
    );
    assert_eq!(report["near_misses"], serde_json::json!([]));
    // A pod without GPUs is not asked to get the fabric.
    let report = &reports(&job("", "", "limits: {cpu: 8}"))[0];
    assert_eq!(report["message"], "no policy matches this pod");
    let run = mutate(&["--policy", "aws-efa"], job("", "", GPUS)).exits(0);
    run.says(&["no policy matches this pod; to inject it, add", "(no_policy_matches)"]);
}

#[test]
fn sample_workloads_have_no_near_miss() {
    for policy in ["aws-efa", "azure-infiniband", "gcp-tcpxo", "oci-sriov"] {
        let run = mutate(&["--policy", policy, "-f", "tests/workloads"], "").exits(0);
        let mut misses = run.stderr.lines().filter(|line| line.contains("near miss"));
        // One workload names an interface that only its own cluster has.
        let is_known = |line: &str| line.contains("and no `ens6f0`");
        assert!(misses.all(is_known), "{policy}: {}", run.stderr);
    }
}

#[test]
fn a_workload_without_a_pod_template_is_reported() {
    let overrides = format!(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {{name: t}}\nspec:\n  runtimeRef: {{name: torch}}\n  \
         podTemplateOverrides:\n  - targetJobs: [{{name: node}}]\n    metadata: {{annotations: {{{TRIGGER}: \"true\"}}}}\n    \
         spec: {{containers: [{{name: node, env: [{{name: A, value: b}}]}}]}}\n"
    );
    let report = &reports(&overrides)[0];
    assert_eq!((&report["outcome"], &report["reason"]), (&"unchanged".into(), &"no_pod_template".into()));
    assert!(
        report["message"].as_str().unwrap().contains("`spec.podTemplateOverrides[0].metadata.annotations["),
        "{report}"
    );
    let service = "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: s}\nspec:\n  predictor:\n    \
                   containers: [{name: a, image: b}]\n";
    let run = mutate(&["--policy", "aws-efa"], service).exits(0);
    run.says(&[
        "stdin: document 1: InferenceService/s: unchanged: ",
        "`spec.predictor.containers[a]`",
        "(no_pod_template)",
    ]);
}

#[test]
fn a_kind_whose_operator_makes_the_pods_is_reported_with_the_place_of_the_annotation() {
    let annotated = format!("annotations: {{{TRIGGER}: \"true\"}}");
    for (api, kind, spec, place) in [
        (
            "nvidia.com/v1alpha1",
            "DynamoGraphDeployment",
            "services: {w: {resources: {limits: {gpu: '8'}}}}",
            "`annotations` of each of its `spec.services`",
        ),
        ("nvidia.com/v1alpha1", "DynamoComponentDeployment", "serviceName: w", "`spec.annotations`"),
        (
            "apps.nvidia.com/v1alpha1",
            "NIMService",
            &format!("{annotated}, resources: {{limits: {{nvidia.com/gpu: 8}}}}"),
            "`spec.annotations`",
        ),
        (
            "apps.nvidia.com/v1alpha1",
            "NIMPipeline",
            "services: []",
            "`spec.annotations` of each of its `spec.services`",
        ),
        (
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            "executor: {gpu: {name: nvidia.com/gpu, quantity: 8}}",
            "`annotations` of `spec.driver` and `spec.executor`",
        ),
        (
            "sparkoperator.k8s.io/v1beta2",
            "ScheduledSparkApplication",
            "schedule: '@daily'",
            "`annotations` of `spec.template.driver`",
        ),
        (
            "tekton.dev/v1",
            "Task",
            "steps: [{name: a, image: b, computeResources: {limits: {nvidia.com/gpu: 8}}}]",
            "`metadata.annotations`",
        ),
        (
            "serving.kserve.io/v1beta1",
            "InferenceService",
            &format!("predictor: {{{annotated}}}"),
            "`spec.predictor.annotations`",
        ),
        (
            "serving.kserve.io/v1alpha2",
            "LLMInferenceService",
            "template: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 8}}}]}",
            "`metadata.annotations`",
        ),
        (
            "slinky.slurm.net/v1beta1",
            "NodeSet",
            "slurmd: {resources: {limits: {nvidia.com/gpu: 8}}}",
            "`spec.template.metadata.annotations`",
        ),
        (
            "grove.io/v1alpha1",
            "PodCliqueSet",
            &format!("template: {{cliques: [{{name: w, {annotated}}}]}}"),
            "`annotations` of each of its `spec.template.cliques`",
        ),
    ] {
        let text = format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{name: x}}\nspec: {{{spec}}}\n");
        let run = mutate(&["--policy", "aws-efa"], &text).exits(0);
        assert_eq!(run.text(), text);
        run.says(&[
            &format!("stdin: document 1: {kind}/x: unchanged: the pods of the kind {kind} get their annotations from {place}"),
            "`mutate` does not see these pods, and the webhook injects them",
            "(no_pod_template)",
        ]);
    }
    let pipeline = format!(
        "apiVersion: tekton.dev/v1\nkind: PipelineRun\nmetadata: {{name: x, {annotated}}}\nspec: {{pipelineRef: {{name: p}}}}\n"
    );
    mutate(&["--policy", "aws-efa"], pipeline).exits(0).says(&[&format!(
        "(the object has `metadata.annotations[{TRIGGER}]`): `mutate` does not see these pods"
    )]);
    let ci =
        "apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: x}\nspec: {steps: [{name: a, image: b}]}\n";
    assert_eq!(mutate(&["--policy", "aws-efa"], ci).exits(0).stderr, "");
}

#[test]
fn other_documents_are_not_reported() {
    let nodes = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: n}\nspec: {limits: {nvidia.com/gpu: 8}}\n";
    let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {requests.nvidia.com/gpu: 8}}\n";
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}]}\n";
    let values = "resources: {limits: {nvidia.com/gpu: 8}}\npodAnnotations: {nmp.nvidia.com/enable-multi-node-networking: \"true\"}\n";
    let policy = file("policies/aws-efa.yaml");
    for text in [SETTINGS, nodes, quota, service, values, &policy] {
        assert_eq!(mutate(&["--policy", "aws-efa"], text).exits(0).stderr, "", "{text}");
    }
}

/// An Argo Workflow that creates the object of this text.
fn workflow(manifest: &str) -> String {
    let lines: Vec<String> = manifest.lines().map(|line| format!("        {line}\n")).collect();
    format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {{generateName: w-}}\nspec:\n  templates:\n  - name: train\n    \
         resource:\n      action: create\n      manifest: |\n{}",
        lines.concat()
    )
}

#[test]
fn a_manifest_within_an_argo_workflow_is_injected() {
    let inner = job("", &format!("annotations: {{{TRIGGER}: \"true\"}}"), GPUS)
        .replace("spec:\n  template", "# kept\nspec:\n  template");
    let stream = workflow(&inner);
    let run = mutate(&["--policy", "aws-efa", "--report", "json"], &stream).exits(0);
    let report = &run.reports()[0];
    assert_eq!(report["path"], "/spec/templates/0/resource/manifest#/spec/template");
    assert_eq!(report["outcome"], "mutated");
    let text = |document: &Value| {
        document["spec"]["templates"][0]["resource"]["manifest"].as_str().unwrap().to_owned()
    };
    let after = text(&run.documents()[0]);
    assert!(after.contains("# kept\n"), "{after}");
    // The text is what `mutate` makes of the manifest alone.
    assert_eq!(after, mutate(&["--policy", "aws-efa"], &inner).exits(0).text());
    let patch = &mutate(&["--policy", "aws-efa", "-o", "patch"], &stream).exits(0).lines()[0]["patch"];
    assert_eq!(
        patch[0],
        serde_json::json!({"op": "replace", "path": "/spec/templates/0/resource/manifest", "value": after})
    );
    let misspelled = workflow(&inner.replace("networking", "netwroking"));
    let miss = &near_misses(&misspelled)[0];
    assert!(
        miss.1.starts_with("/spec/templates/0/resource/manifest#/spec/template/metadata/annotations/"),
        "{miss:?}"
    );
}

#[test]
fn a_manifest_within_an_argo_workflow_that_cannot_be_read_is_reported() {
    let inner = job("", "", GPUS).replace("name: main", "name: [{{inputs.parameters.name}");
    let stream = workflow(&inner);
    let run = mutate(&["--policy", "aws-efa"], &stream).exits(0);
    assert_eq!(run.text(), stream);
    run.says(&["/spec/templates/0/resource/manifest: unchanged: the manifest in `spec.templates[train].resource.manifest`", "(unreadable_manifest)"]);
    let annotated = job("", &format!("annotations: {{{TRIGGER}: \"true\"}}"), GPUS);
    let nested = |times| (0..times).fold(annotated.clone(), |inner, _| workflow(&inner));
    assert_ne!(mutate(&["--policy", "aws-efa"], nested(8)).exits(0).text(), nested(8));
    let run = mutate(&["--policy", "aws-efa"], nested(9)).exits(0);
    assert_eq!(run.text(), nested(9));
    run.says(&["it is nested in more than 8 other manifests (unreadable_manifest)"]);
    let own = "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: w}\nspec:\n  templates:\n  - name: a\n    \
               container: {image: b, resources: {limits: {nvidia.com/gpu: 8}}}\n";
    mutate(&["--policy", "aws-efa"], own)
        .exits(0)
        .says(&["`spec.templates[a].container`", "(no_pod_template)"]);
}
