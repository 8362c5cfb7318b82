//! Every sample workload: its templates are found, and the trigger is looked for on each.

use std::fs;

use super::{all_workloads, aws, mutate, workloads};

/// A file, and its templates: the document, the path from its root, and whether `aws-efa` changes it.
type Expected = (&'static str, &'static [(u64, &'static str, bool)]);

const TEMPLATES: &[Expected] = &[
    ("admission-review.json", &[(1, "/request/object", true)]),
    ("cronjob.yaml", &[(1, "/spec/jobTemplate/spec/template", true)]),
    (
        "deepseek-r1-lws.yaml",
        &[
            (1, "/spec/leaderWorkerTemplate/leaderTemplate", true),
            (1, "/spec/leaderWorkerTemplate/workerTemplate", true),
        ],
    ),
    ("deepspeed-job.yaml", &[(3, "/spec/template", true)]),
    ("deployment.yaml", &[(1, "/spec/template", true)]),
    // Its launcher has neither trigger nor GPU.
    (
        "horovod-mpijob.yaml",
        &[
            (1, "/spec/mpiReplicaSpecs/Launcher/template", false),
            (1, "/spec/mpiReplicaSpecs/Worker/template", true),
        ],
    ),
    ("hostnetwork-job.yaml", &[(1, "/spec/template", true)]),
    ("jobset.yaml", &[(1, "/spec/replicatedJobs/0/template/spec/template", true)]),
    ("list.yaml", &[(1, "/items/1", true), (1, "/items/2/spec/template", false)]),
    ("nim-indexed-job.yaml", &[(2, "/spec/template", true)]),
    (
        "nim-lws-mpirun.yaml",
        &[
            (1, "/spec/leaderWorkerTemplate/leaderTemplate", true),
            (1, "/spec/leaderWorkerTemplate/workerTemplate", true),
        ],
    ),
    // Its launcher has the trigger and no GPU, and hands its environment to the ranks.
    (
        "nim-mpijob.yaml",
        &[
            (1, "/spec/mpiReplicaSpecs/Launcher/template", true),
            (1, "/spec/mpiReplicaSpecs/Worker/template", true),
        ],
    ),
    ("pod.yaml", &[(1, "", true)]),
    (
        "pytorchjob.yaml",
        &[
            (1, "/spec/pytorchReplicaSpecs/Master/template", true),
            (1, "/spec/pytorchReplicaSpecs/Worker/template", true),
        ],
    ),
    (
        "raycluster.yaml",
        &[(1, "/spec/headGroupSpec/template", false), (1, "/spec/workerGroupSpecs/0/template", true)],
    ),
    ("sglang-lws.yaml", &[(2, "/spec/leaderWorkerTemplate/workerTemplate", true)]),
    ("statefulset.yaml", &[(1, "/spec/template", true)]),
    ("torchrun-job.yaml", &[(1, "/spec/template", true)]),
    ("trainjob-gpu-init.yaml", &[(1, "/spec/template", true)]),
    // The TrainJob itself has no template, which is reported.
    (
        "trainjob.yaml",
        &[(1, "/spec/template/spec/replicatedJobs/0/template/spec/template", true), (2, "", false)],
    ),
    ("volcano-job.yaml", &[(1, "/spec/tasks/0/template", true), (1, "/spec/tasks/1/template", true)]),
    // Its master is a launcher by a label of its own.
    ("volcano-mpi-job.yaml", &[(1, "/spec/tasks/0/template", true), (1, "/spec/tasks/1/template", true)]),
];

#[test]
fn the_templates_of_every_kind_are_found_and_served_each_for_itself() {
    for (name, templates) in TEMPLATES {
        let path = format!("tests/workloads/{name}");
        let run = mutate(&["--policy", "aws-efa", "--report", "json", "-f", &path], "").exits(0);
        let reports = run.reports();
        let found: Vec<(u64, &str, bool)> = reports
            .iter()
            .map(|report| {
                assert_eq!(report["file"], path.as_str());
                let changed = report["outcome"] == "mutated";
                assert!(changed || report["outcome"] == "unchanged", "{report}");
                (report["document"].as_u64().unwrap(), report["path"].as_str().unwrap(), changed)
            })
            .collect();
        assert_eq!(found, *templates, "{name}");
    }
}

#[test]
fn every_template_of_the_sample_workloads_is_reported_once() {
    let run = mutate(&["--policy", "aws-efa", "--report", "json", "-f", "tests/workloads"], "").exits(0);
    let reports = run.reports();
    for path in workloads() {
        let text = fs::read_to_string(&path).unwrap();
        let lists = text.lines().map(str::trim).filter(|line| {
            ["containers:", "- containers:", "\"containers\":"].iter().any(|start| line.starts_with(start))
        });
        let name = path.file_name().unwrap().to_str().unwrap();
        let path = format!("tests/workloads/{name}");
        let own = reports
            .iter()
            .filter(|report| report["file"] == path.as_str() && report["reason"] != "no_pod_template");
        assert_eq!(own.count(), lists.count(), "{name}");
    }
}

#[test]
fn mutating_the_output_again_changes_no_byte_of_it() {
    for policy in ["aws-efa", "azure-infiniband", "gcp-tcpxo", "oci-sriov"] {
        let args = ["--policy", policy, "--report", "json"];
        let once = mutate(&args, all_workloads()).exits(0);
        let again = mutate(&args, &once.stdout).exits(0);
        assert_eq!(again.text(), once.text(), "{policy}");
        assert_eq!(again.reports().len(), once.reports().len(), "{policy}");
        for (before, after) in once.reports().iter().zip(again.reports()) {
            let wanted = if before["outcome"] == "skipped" { "skipped" } else { "unchanged" };
            assert_eq!(after["outcome"], wanted, "{policy}: {before}");
            if before["outcome"] == "mutated" {
                assert_eq!(after["reason"], "nothing_to_add", "{policy}: {before}");
            }
        }
    }
}

#[test]
fn two_gpu_containers_are_served_and_the_one_without_is_not() {
    let run = aws(&["-f", "tests/workloads/pod.yaml", "-o", "json"], "").exits(0);
    let counts: Vec<_> = run.values()[0]["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| {
            container["resources"]["limits"]["vpc.amazonaws.com/efa"].as_str().map(str::to_owned)
        })
        .collect();
    assert_eq!(counts, [Some("16".to_owned()), None, Some("16".to_owned())]);
}
