//! Pods and policies to run the program on.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Where the repository is.
pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A small policy for tests that need any one.
pub(crate) const SMALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/small.yaml");

/// The trigger's annotation.
pub(crate) const TRIGGER: &str = "nmp.nvidia.com/enable-multi-node-networking";

/// A pod with 8 GPUs that every built-in policy serves.
pub(crate) const POD: &str = r#"apiVersion: v1
kind: Pod
metadata:
  name: trainer
  annotations:
    nmp.nvidia.com/enable-multi-node-networking: "true"
spec:
  containers:
  - name: main
    image: registry.example/train:1
    resources:
      limits:
        nvidia.com/gpu: 8
"#;

/// An object that no policy is for, in a layout that no writer has.
pub(crate) const SETTINGS: &str = "apiVersion:   v1\nkind: ConfigMap   # settings\nmetadata: {name: 'settings'}\ndata:\n    mode:  \"0755\"\n";

/// A policy that is small enough to break in one place. Its rule sets the variable `FABRIC`.
pub(crate) const POLICY: &str = r#"apiVersion: fabric-injector.io/v1alpha1
kind: FabricPolicy
metadata:
  name: lab
spec:
  provider: lab
  description: A policy to try things on
  gpus: {resources: [nvidia.com/gpu]}
  match:
    anyAnnotation:
      nmp.nvidia.com/enable-multi-node-networking: "true"
  parameters:
    nicsPerGPU:
      type: number
      description: NICs for each GPU
      default: 2
      minimum: 0
  rules:
    - name: nics
      containers: gpus > 0
      container:
        resources:
          limits:
            example.com/nic: ${devices(gpus, nicsPerGPU)}
          requests:
            example.com/nic: ${devices(gpus, nicsPerGPU)}
        securityContext: {capabilities: {add: [IPC_LOCK]}}
      env:
        FABRIC: lab
"#;

/// The policy, which refuses a pod with another value of `FABRIC`.
pub(crate) fn refusing() -> String {
    format!(
        "{POLICY}  checks:\n    - {{name: other_fabric, env: FABRIC, when: value != 'lab', \
         action: refuse, message: '`FABRIC` is `${{value}}`; remove it'}}\n"
    )
}

/// A folder with these files in it.
pub(crate) fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// The text of a file of the repository.
pub(crate) fn file(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap()
}

/// Every sample workload, by name.
pub(crate) fn workloads() -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(ROOT).join("tests/workloads")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| ["yaml", "json"].map(OsStr::new).contains(&file.extension().unwrap_or_default()));
    files.sort();
    assert!(!files.is_empty(), "there are sample workloads");
    files
}

/// All sample workloads as one stream, the JSON ones first.
pub(crate) fn all_workloads() -> String {
    let (json, yaml): (Vec<_>, Vec<_>) =
        workloads().into_iter().partition(|file| file.extension() == Some(OsStr::new("json")));
    let text = |file: &PathBuf| fs::read_to_string(file).unwrap();
    let json: Vec<String> = json.iter().map(|file| format!("{}\n", text(file).trim_end())).collect();
    let yaml: Vec<String> = yaml.iter().map(|file| format!("---\n{}", text(file))).collect();
    json.concat() + &yaml.concat()
}
