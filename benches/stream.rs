//! The cost of a stream of 10,000 documents through the program, next to reading the same documents only.
//!
//! `cargo bench --bench stream`. Prints, for one triggered pod, 10,000 triggered ones and 10,000 others: wall
//! clock of the process (median of five), its largest resident memory, and the time of the bare read.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops on what it does not expect"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fabric_injector::stream::RawDocuments;
use fabric_workloads::manifest::Document;

fn pod(index: usize, annotation: &str) -> String {
    format!(
        r#"---
apiVersion: v1
kind: Pod
metadata:
  name: worker-{index}
  namespace: training
  annotations:
    {annotation}: "true"
  ownerReferences:
  - apiVersion: batch/v1
    kind: Job
    name: job-{index}
    uid: 0f9b1f0e-5c6d-4f0e-9f0a-6f1d2c3b4a59
spec:
  restartPolicy: Never
  containers:
  - name: trainer
    image: registry.example.com/training:v2.0
    env:
    - name: NCCL_DEBUG
      value: INFO
    resources:
      limits:
        nvidia.com/gpu: 8
      requests:
        nvidia.com/gpu: 8
        cpu: "32"
        memory: 256Gi
    volumeMounts:
    - name: checkpoints
      mountPath: /checkpoints
  volumes:
  - name: checkpoints
    persistentVolumeClaim:
      claimName: training-checkpoints
"#
    )
}

/// One run of the binary: how long it took, and its peak memory in MiB as the kernel last told.
fn run(file: &Path) -> (Duration, f64) {
    let start = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fabric-injector"))
        .args(["mutate", "--quiet", "--policy", "aws-efa", "-f"])
        .arg(file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0.0;
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        peak = kib.map_or(peak, |kib| kib / 1024.0);
        std::thread::sleep(Duration::from_millis(1));
    }
    (start.elapsed(), peak)
}

fn bare_read(text: &str) -> Duration {
    let start = Instant::now();
    for piece in RawDocuments::new(text.as_bytes()) {
        std::hint::black_box(Document::read(&piece.unwrap()).unwrap());
    }
    start.elapsed()
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let trigger = "nmp.nvidia.com/enable-multi-node-networking";
    println!("{:<24} {:>10} {:>10} {:>12}", "", "wall", "peak", "bare read");
    for (name, count, annotation) in [
        ("1 pod", 1, trigger),
        ("10,000 pods", 10_000, trigger),
        ("10,000 without trigger", 10_000, "example.com/other"),
    ] {
        let text: String = (0..count).map(|index| pod(index, annotation)).collect();
        let file = folder.path().join("stream.yaml");
        fs::write(&file, &text).unwrap();
        let mut runs: Vec<(Duration, f64)> = (0..5).map(|_| run(&file)).collect();
        runs.sort_by_key(|(wall, _)| *wall);
        let peak = runs.iter().map(|(_, peak)| *peak).fold(0.0, f64::max);
        println!(
            "{name:<24} {:>7} ms {peak:>6.1} MiB {:>9} ms",
            runs[2].0.as_millis(),
            bare_read(&text).as_millis()
        );
    }
}
