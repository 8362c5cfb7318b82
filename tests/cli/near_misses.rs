//! Requests for the fabric that have no effect: each is found, with the change and its place.

use insta::assert_snapshot;
use serde_json::Value;

use super::{POD, SETTINGS, TRIGGER, assert_file_snapshot, file, mutate, run, sections};

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

/// The near misses of the only template, as text.
#[track_caller]
fn found(stream: &str) -> String {
    let misses = near_misses(stream).into_iter();
    misses.map(|(code, path, message)| format!("{code} {path}\n{message}\n")).collect::<Vec<_>>().concat()
}

#[test]
fn a_misspelled_trigger_is_found() {
    let answers = [
        "nmp.nvidia.com/enable-multi-node-netwroking",
        "nvidia.com/enable-multi-node-networking",
        "nmp.nvidia.com/enable-multinode-networking",
    ]
    .map(|key| (key, found(&job("", &format!("annotations: {{{key}: \"true\"}}"), GPUS))));
    assert_snapshot!(sections(answers), @r#"
    ## nmp.nvidia.com/enable-multi-node-netwroking
    misspelled_trigger /spec/template/metadata/annotations/nmp.nvidia.com~1enable-multi-node-netwroking
    write `nmp.nvidia.com/enable-multi-node-networking: "true"` instead of `nmp.nvidia.com/enable-multi-node-netwroking: "true"` in `spec.template.metadata.annotations`: no policy reads an annotation with that name

    ## nvidia.com/enable-multi-node-networking
    misspelled_trigger /spec/template/metadata/annotations/nvidia.com~1enable-multi-node-networking
    write `nmp.nvidia.com/enable-multi-node-networking: "true"` instead of `nvidia.com/enable-multi-node-networking: "true"` in `spec.template.metadata.annotations`: no policy reads an annotation with that name

    ## nmp.nvidia.com/enable-multinode-networking
    misspelled_trigger /spec/template/metadata/annotations/nmp.nvidia.com~1enable-multinode-networking
    write `nmp.nvidia.com/enable-multi-node-networking: "true"` instead of `nmp.nvidia.com/enable-multinode-networking: "true"` in `spec.template.metadata.annotations`: no policy reads an annotation with that name
    "#);
}

#[test]
fn a_trigger_in_another_place_is_found() {
    let at = |own: &str, template: &str| {
        let entry = format!("{{{TRIGGER}: \"true\"}}");
        job(&own.replace("{}", &entry), &template.replace("{}", &entry), GPUS)
    };
    assert_snapshot!(found(&at("", "labels: {}")), @r#"
    trigger_as_label /spec/template/metadata/labels/nmp.nvidia.com~1enable-multi-node-networking
    move `nmp.nvidia.com/enable-multi-node-networking: "true"` from `spec.template.metadata.labels` to `spec.template.metadata.annotations`: policies read annotations, not labels
    "#);
    assert_snapshot!(found(&at(", annotations: {}", "")), @r#"
    trigger_on_workload /metadata/annotations/nmp.nvidia.com~1enable-multi-node-networking
    move `nmp.nvidia.com/enable-multi-node-networking: "true"` from `metadata.annotations` to `spec.template.metadata.annotations`: pods do not get the annotations of a Job
    "#);
    let misplaced =
        at("", "").replace("    spec:\n", &format!("    annotations: {{{TRIGGER}: \"true\"}}\n    spec:\n"));
    assert_snapshot!(found(&misplaced), @r#"
    misplaced_trigger /spec/template/annotations/nmp.nvidia.com~1enable-multi-node-networking
    move `nmp.nvidia.com/enable-multi-node-networking: "true"` from `spec.template.annotations` to `spec.template.metadata.annotations`: it is not an annotation there
    "#);
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
    assert_snapshot!(mutate(&["--policy", "aws-efa"], text).exits(0).said(), @r#"
    stdin: document 1: LeaderWorkerSet/r1 /spec/leaderWorkerTemplate/leaderTemplate: unchanged: no policy matches this pod (no_policy_matches)
      near miss: move `nmp.nvidia.com/enable-multi-node-networking: "true"` from `metadata.annotations` to `spec.leaderWorkerTemplate.leaderTemplate.metadata.annotations`: pods do not get the annotations of a LeaderWorkerSet (trigger_on_workload)
    stdin: document 1: LeaderWorkerSet/r1 /spec/leaderWorkerTemplate/workerTemplate: unchanged: no policy matches this pod (no_policy_matches)
      near miss: move `nmp.nvidia.com/enable-multi-node-networking: "true"` from `metadata.annotations` to `spec.leaderWorkerTemplate.workerTemplate.metadata.annotations`: pods do not get the annotations of a LeaderWorkerSet (trigger_on_workload)
    "#);
}

#[test]
fn another_value_of_the_trigger_is_found_unless_it_turns_the_fabric_off() {
    let with = |value: &str| job("", &format!("annotations: {{{TRIGGER}: {value}}}"), GPUS);
    let values = ["\"True\"", "\"yes\"", "\"1\"", "\"enabled\"", "true", "yes", "1"];
    let said = |value| mutate(&["--policy", "aws-efa"], with(value)).exits(0).said();
    assert_file_snapshot!(sections(values.map(|value| (value, said(value)))));
    for value in ["\"false\"", "\"no\"", "false", "\"\"", "\"off\""] {
        assert_eq!(near_misses(&with(value)), [], "{value}");
    }
}

#[test]
fn requests_for_gpus_that_do_not_count_are_found() {
    let answers = [
        "limits: {nvidia.com/gpus: 8}",
        "limits: {nvidia/gpu: 8}",
        "limits: {gpu: 8}",
        "limits: {nvida.com/gpu: 8}",
        "requests: {nvidia.com/gpu: 8}",
        "nvidia.com/gpu: 8",
        "limits: {cpu: 8}",
        "limits: {amd.com/gpu: 8}",
    ]
    .map(|resources| {
        (resources, found(&job("", &format!("annotations: {{{TRIGGER}: \"true\"}}"), resources)))
    });
    assert_file_snapshot!(sections(answers));
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
    let said = |resources| mutate(&["--policy", "aws-efa"], job("", "", resources)).exits(0).said();
    assert_snapshot!(said(GPUS), @r#"stdin: document 1: Job/train /spec/template: unchanged: no policy matches this pod; to inject it, add `nmp.nvidia.com/enable-multi-node-networking: "true"` to `spec.template.metadata.annotations` (no_policy_matches)"#);
    // A pod without GPUs is not asked to get the fabric.
    assert_snapshot!(said("limits: {cpu: 8}"), @"stdin: document 1: Job/train /spec/template: unchanged: no policy matches this pod (no_policy_matches)");
}

#[test]
fn sample_workloads_have_no_near_miss() {
    for policy in ["aws-efa", "azure-infiniband", "gcp-tcpxo", "oci-sriov"] {
        let run = mutate(&["--policy", policy, "-f", "tests/workloads"], "").exits(0);
        let mut misses = run.stderr.lines().filter(|line| line.contains("near miss"));
        // One workload names an interface that only its own cluster has, one leaves NIXL's backend to vLLM.
        let is_known = |line: &str| line.contains("and no `ens6f0`") || line.ends_with("(nixl_over_ucx)");
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
    assert_snapshot!(mutate(&["--policy", "aws-efa"], overrides).exits(0).said(), @"stdin: document 1: TrainJob/t: unchanged: a TrainJob has no pod template; the webhook injects its pods if they get the annotation from `spec.podTemplateOverrides[0].metadata.annotations[nmp.nvidia.com/enable-multi-node-networking]`, and `mutate` cannot (no_pod_template)");
    let service = "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: s}\nspec:\n  predictor:\n    \
                   containers: [{name: a, image: b, resources: {limits: {nvidia.com/gpu: 1}}}]\n";
    assert_eq!(
        run(&["lint"], service.split(", resources").next().unwrap().to_owned() + "}]\n").exits(0).text(),
        ""
    );
    assert_snapshot!(mutate(&["--policy", "aws-efa"], service).exits(0).said(), @"stdin: document 1: InferenceService/s: unchanged: the pods of the kind InferenceService get their annotations from `spec.predictor.annotations` (the object has `spec.predictor.containers[a]`): `mutate` does not see these pods, and the webhook injects them (no_pod_template)");
}

#[test]
fn a_kind_whose_operator_makes_the_pods_is_reported_with_the_place_of_the_annotation() {
    let annotated = format!("annotations: {{{TRIGGER}: \"true\"}}");
    let answers = [
        ("nvidia.com/v1alpha1", "DynamoGraphDeployment", "services: {w: {resources: {limits: {gpu: '8'}}}}"),
        ("nvidia.com/v1alpha1", "DynamoComponentDeployment", "serviceName: w"),
        (
            "apps.nvidia.com/v1alpha1",
            "NIMService",
            &format!("{annotated}, resources: {{limits: {{nvidia.com/gpu: 8}}}}"),
        ),
        ("apps.nvidia.com/v1alpha1", "NIMPipeline", "services: []"),
        (
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            "executor: {gpu: {name: nvidia.com/gpu, quantity: 8}}",
        ),
        ("sparkoperator.k8s.io/v1beta2", "ScheduledSparkApplication", "schedule: '@daily'"),
        (
            "tekton.dev/v1",
            "Task",
            "steps: [{name: a, image: b, computeResources: {limits: {nvidia.com/gpu: 8}}}]",
        ),
        ("serving.kserve.io/v1beta1", "InferenceService", &format!("predictor: {{{annotated}}}")),
        (
            "serving.kserve.io/v1alpha2",
            "LLMInferenceService",
            "template: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 8}}}]}",
        ),
        ("slinky.slurm.net/v1beta1", "NodeSet", "slurmd: {resources: {limits: {nvidia.com/gpu: 8}}}"),
        ("grove.io/v1alpha1", "PodCliqueSet", &format!("template: {{cliques: [{{name: w, {annotated}}}]}}")),
    ]
    .map(|(api, kind, spec)| {
        let text = format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{name: x}}\nspec: {{{spec}}}\n");
        let run = mutate(&["--policy", "aws-efa"], &text).exits(0);
        assert_eq!(run.text(), text);
        run.said()
    });
    assert_file_snapshot!(answers.concat());
    let pipeline = format!(
        "apiVersion: tekton.dev/v1\nkind: PipelineRun\nmetadata: {{name: x, {annotated}}}\nspec: {{pipelineRef: {{name: p}}}}\n"
    );
    assert_snapshot!(mutate(&["--policy", "aws-efa"], pipeline).exits(0).said(), @"stdin: document 1: PipelineRun/x: unchanged: the pods of the kind PipelineRun get their annotations from `metadata.annotations` (the object has `metadata.annotations[nmp.nvidia.com/enable-multi-node-networking]`): `mutate` does not see these pods, and the webhook injects them (no_pod_template)");
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
    assert_snapshot!(run.said(), @"stdin: document 1: Workflow/w- /spec/templates/0/resource/manifest: unchanged: the manifest in `spec.templates[train].resource.manifest` cannot be read: line 10, column 9: not valid YAML: invalid indentation in flow construct, within the brackets that begin on line 9; it stays as it is, and the webhook injects its pods (unreadable_manifest)");
    let annotated = job("", &format!("annotations: {{{TRIGGER}: \"true\"}}"), GPUS);
    let nested = |times| (0..times).fold(annotated.clone(), |inner, _| workflow(&inner));
    assert_ne!(mutate(&["--policy", "aws-efa"], nested(8)).exits(0).text(), nested(8));
    let run = mutate(&["--policy", "aws-efa"], nested(9)).exits(0);
    assert_eq!(run.text(), nested(9));
    assert_snapshot!(run.said(), @"stdin: document 1: Workflow/w- /spec/templates/0/resource/manifest#/spec/templates/0/resource/manifest#/spec/templates/0/resource/manifest#/spec/templates/0/resource/manifest#/spec/templates/0/resource/manifest#/spec/templates/0/resource/manifest#/spec/templates/0/resource/manifest#/spec/templates/0/resource/manifest#/spec/templates/0/resource/manifest: unchanged: the manifest in `spec.templates[train].resource.manifest` cannot be read: line 1, column 1: it is nested in more than 8 other manifests; it stays as it is, and the webhook injects its pods (unreadable_manifest)");
    let own = "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: w}\nspec:\n  templates:\n  - name: a\n    \
               container: {image: b, resources: {limits: {nvidia.com/gpu: 8}}}\n";
    assert_snapshot!(mutate(&["--policy", "aws-efa"], own).exits(0).said(), @"stdin: document 1: Workflow/w: unchanged: the pods of the kind Workflow get their annotations from `metadata.annotations` of each of its `templates` (the object has `spec.templates[a].container`): `mutate` does not see these pods, and the webhook injects them (no_pod_template)");
}
