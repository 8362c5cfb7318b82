//! Running `helm`.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::{chart, root};

/// The release in all tests. The plain manifests have the same names.
pub(crate) const RELEASE: &str = "fabric-injector";
pub(crate) const NAMESPACE: &str = "fabric-injector";

#[derive(Debug)]
pub(crate) struct Helm {
    binary: PathBuf,
}

impl Helm {
    /// The `helm` that there is. Without one the test is skipped, and says so.
    pub(crate) fn find() -> Option<Self> {
        let built = root().join("tests/control-plane/.cache/bin/helm");
        let binary = std::env::var_os("HELM").map_or(built, PathBuf::from);
        if binary.is_file() {
            return Some(Self { binary });
        }
        let reason = format!("there is no helm at {}; set HELM to one", binary.display());
        assert!(std::env::var_os("CI_REQUIRE_CONTROL_PLANE").is_none(), "{reason}");
        eprintln!("skipped: {reason}");
        None
    }

    /// Renders the chart with these values: the objects as text, or what Helm says against it.
    pub(crate) fn template(&self, values: &Value) -> Result<String, String> {
        // A `helm` that was built without its release flags takes itself for one of an old Kubernetes.
        let arguments =
            ["template", RELEASE, "--namespace", NAMESPACE, "--kube-version", "1.36.3", "--values", "-"];
        let output = self.run(&arguments, values);
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(String::from_utf8(output.stderr).unwrap())
        }
    }

    pub(crate) fn lint(&self, values: &Value) -> Output {
        self.run(&["lint", "--strict", "--kube-version", "1.36.3", "--values", "-"], values)
    }

    /// Runs `helm` on the chart with values on its standard input.
    fn run(&self, arguments: &[&str], values: &Value) -> Output {
        let mut command = Command::new(&self.binary);
        command.args(arguments).arg(chart()).env_remove("KUBECONFIG");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(values.to_string().as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}
