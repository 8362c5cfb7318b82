//! The settings of a policy reach ranks that do not inherit the environment of their container: an sshd starts them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::helpers::{items, on, pod, served};

/// The policies, each with a value of the node label that its nodes have.
const CLOUDS: [(&str, &str); 6] = [
    ("aws-efa", "p5.48xlarge"),
    ("azure-infiniband", "Standard_ND96isr_H100_v5"),
    ("gcp-gib", "a3-ultragpu-8g"),
    ("gcp-tcpx", "a3-highgpu-8g"),
    ("gcp-tcpxo", "a3-megagpu-8g"),
    ("oci-sriov", "BM.GPU.H100.8"),
];

/// A pod whose ranks an sshd starts, and the container in which they run.
fn workloads() -> [(&'static str, Value); 3] {
    let gpus = json!({"limits": {"nvidia.com/gpu": 8}});
    let sshd = json!(["/usr/sbin/sshd", "-De"]);
    let leader =
        json!(["sh", "-c", "mpirun --hostfile /tmp/hosts -x NIM_CACHE_PATH -x NGC_API_KEY nim-server"]);
    [
        // Every pod of NIM's LeaderWorkerSet runs an sshd; the leader runs `mpirun` and is a rank, too.
        ("NIM", json!([{"name": "nim", "image": "nim", "command": leader, "resources": gpus}])),
        ("MPIJob", json!([{"name": "worker", "image": "mpi", "command": sshd, "resources": gpus}])),
        (
            "Horovod",
            json!([
                {"name": "istio-proxy", "image": "proxy"},
                {"name": "horovod", "image": "horovod", "command": sshd, "resources": gpus,
                 "env": [{"name": "NCCL_DEBUG", "value": "INFO"}]}
            ]),
        ),
    ]
}

fn injected(policy: &str, instance_type: &str, containers: &Value) -> Value {
    served(policy, &[], on(instance_type, pod(&json!({"containers": containers})))).pod
}

/// Writes the files that the kubelet projects into the container, below a directory.
fn project(pod: &Value, container: &Value, root: &Path) {
    for mount in items(&container["volumeMounts"]) {
        let volume = items(&pod["spec"]["volumes"]).iter().find(|volume| volume["name"] == mount["name"]);
        for item in items(&volume.unwrap()["downwardAPI"]["items"]) {
            let field = item["fieldRef"]["fieldPath"].as_str().unwrap();
            let key = field.strip_prefix("metadata.annotations['").unwrap().strip_suffix("']").unwrap();
            let path = mount["mountPath"].as_str().unwrap().trim_start_matches('/');
            let path = match mount["subPath"].as_str() {
                Some(sub_path) => {
                    assert_eq!(item["path"], sub_path);
                    root.join(path)
                }
                None => root.join(path).join(item["path"].as_str().unwrap()),
            };
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, pod["metadata"]["annotations"][key].as_str().unwrap()).unwrap();
        }
    }
}

/// Reads a settings file as NCCL does, in a process with an empty environment but for `own`, and returns its
/// environment.
///
/// NCCL's `setEnvFile` skips lines without `=` and comments, cuts values at 1,023 bytes, and keeps a variable that is
/// set already.
fn environment_of_a_rank(file: &Path, own: &[(&str, &str)]) -> BTreeMap<String, String> {
    const READ: &str = r#"
while IFS= read -r line || [ -n "$line" ]; do
  case "$line" in \#*) continue ;; *=*) ;; *) continue ;; esac
  name=${line%%=*} value=$(printf '%s' "${line#*=}" | cut -b -1023)
  eval "known=\${$name+x}"
  [ -n "$known" ] || export "$name=$value"
done < "$0"
exec env"#;
    let shell = ["/bin/sh", "/usr/bin/sh"].into_iter().find(|path| Path::new(path).exists()).unwrap();
    let output = Command::new(shell)
        .args(["-c", READ])
        .arg(file)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .envs(own.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split_once('=')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}

fn file_of(root: &Path) -> PathBuf {
    root.join("etc/nccl.conf")
}

#[test]
fn every_setting_of_nccl_reaches_ranks_that_an_sshd_starts() {
    for (policy, instance_type) in CLOUDS {
        for (workload, containers) in workloads() {
            let pod = injected(policy, instance_type, &containers);
            let ranks = items(&pod["spec"]["containers"])
                .iter()
                .filter(|container| !container["resources"]["limits"]["nvidia.com/gpu"].is_null());
            for container in ranks {
                let root = tempfile::tempdir().unwrap();
                project(&pod, container, root.path());
                let seen = environment_of_a_rank(&file_of(root.path()), &[]);
                let own: BTreeSet<&str> = items(&containers)
                    .iter()
                    .flat_map(|container| items(&container["env"]))
                    .filter_map(|entry| entry["name"].as_str())
                    .collect();
                let mut count = 0;
                for entry in items(&container["env"]) {
                    let (name, value) = (entry["name"].as_str().unwrap(), entry["value"].as_str().unwrap());
                    if (name.starts_with("NCCL_") || name.starts_with("FI_")) && !own.contains(name) {
                        assert_eq!(
                            seen.get(name).map(String::as_str),
                            Some(value),
                            "{policy} {workload} {name}"
                        );
                        count += 1;
                    }
                }
                assert!(count >= 2, "{policy} {workload}: {count} settings");
            }
        }
    }
}

/// What `-x` hands on goes before the file.
#[test]
fn the_environment_of_a_rank_wins_over_the_file() {
    let (_, containers) = &workloads()[1];
    let pod = injected("oci-sriov", "BM.GPU.H100.8", containers);
    let root = tempfile::tempdir().unwrap();
    project(&pod, &pod["spec"]["containers"][0], root.path());
    let seen = environment_of_a_rank(&file_of(root.path()), &[("NCCL_IB_TC", "7")]);
    assert_eq!(seen["NCCL_IB_TC"], "7");
    assert_eq!(seen["NCCL_IB_GID_INDEX"], "3");
}
