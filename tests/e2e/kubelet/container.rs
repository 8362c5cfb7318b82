//! A container as a process.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::process::Command;

use super::Node;
use super::image::ENTRYPOINT;
use crate::control_plane::{ADDRESS, PORT};
use crate::isolation;
use crate::processes::Process;

/// What the program listens on unless it is told otherwise.
const LISTENS: [(&str, &str); 2] =
    [("FABRIC_INJECTOR_LISTEN", "0.0.0.0:8443"), ("FABRIC_INJECTOR_ADMIN_LISTEN", "0.0.0.0:8080")];

/// Makes the root of a container: the image, and nothing that it could write to.
pub(super) fn make_root(node: &Node, pod: &Value) -> PathBuf {
    let root = node.folder.join(pod["metadata"]["uid"].as_str().unwrap());
    node.image.unpack(&root);
    fs::create_dir_all(root.join("dev")).unwrap();
    root
}

/// Starts the process of a container.
pub(super) fn start(node: &Node, pod: &Value, container: &Value, root: &Path, address: &str) -> Process {
    let name = pod["metadata"]["name"].as_str().unwrap();
    let mut command = Command::new("prlimit");
    command.args(&*node.limits.lock().unwrap()).arg("chroot");
    if isolation::has_all_users() {
        command.arg(format!(
            "--userspec={}:{}",
            id(pod, container, "runAsUser"),
            id(pod, container, "runAsGroup")
        ));
    }
    command.arg(root);
    let texts =
        |key: &str| container[key].as_array().into_iter().flatten().map(|text| text.as_str().unwrap());
    if container["command"].is_null() {
        command.arg(ENTRYPOINT);
    }
    let here = |text: &str| text.replace("0.0.0.0:", &format!("{address}:"));
    command.args(texts("command").chain(texts("args")).map(here));
    // The environment of a container is its own.
    command.env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
    command.env("HOSTNAME", name).env("KUBERNETES_SERVICE_HOST", ADDRESS);
    command.env("KUBERNETES_SERVICE_PORT", PORT.to_string());
    command.env("KUBERNETES_SERVICE_PORT_HTTPS", PORT.to_string());
    for (variable, default) in LISTENS {
        command.env(variable, here(default));
    }
    for variable in container["env"].as_array().into_iter().flatten() {
        let path = || variable["valueFrom"]["fieldRef"]["fieldPath"].as_str();
        let unknown = || panic!("this kubelet does not know this variable: {variable}");
        let taken = || field(pod, path().unwrap_or_else(unknown));
        let value = variable["value"].as_str().map_or_else(taken, str::to_owned);
        command.env(variable["name"].as_str().unwrap(), here(&value));
    }
    Process::start(&mut command, &node.logs.join(format!("{name}.log")))
}

/// A user or group: of the container, else of the pod.
fn id(pod: &Value, container: &Value, key: &str) -> u64 {
    let of = |object: &Value| object["securityContext"][key].as_u64();
    of(container).or_else(|| of(&pod["spec"])).unwrap_or_default()
}

/// A field of a pod: `metadata.namespace`, or an entry such as `metadata.annotations['KEY']`.
pub(super) fn field(pod: &Value, path: &str) -> String {
    let (keys, last) = match path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        Some((keys, entry)) => (keys, Some(entry)),
        None => (path, None),
    };
    let value = keys.split('.').chain(last).fold(pod, |value, key| &value[key]);
    value.as_str().unwrap_or_else(|| panic!("there is no {path}")).to_owned()
}
