//! Helm, with the chart.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::process::Command;

use super::eventually;
use super::kubelet::image::REPOSITORY;
use super::processes::outcome;

/// The release, its namespace, and what its objects are called.
pub(crate) const RELEASE: &str = "fabric-injector";

/// Helm on the cluster.
pub(crate) struct Helm {
    program: PathBuf,
    kubeconfig: PathBuf,
    folder: PathBuf,
}

/// The chart.
pub(crate) fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/helm").join(RELEASE)
}

/// Copies the chart into a folder, with these texts of its templates replaced: file, old text, new text.
pub(crate) fn copy_chart(folder: &Path, replaced: &[(&str, &str, &str)]) {
    let copied = std::process::Command::new("cp").arg("-rT").arg(chart()).arg(folder).status().unwrap();
    assert!(copied.success());
    for (file, old, new) in replaced {
        let path = folder.join("templates").join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(old), "{file}");
        std::fs::write(path, text.replace(old, new)).unwrap();
    }
}

impl Helm {
    /// Helm keeps what it writes in this folder.
    pub(crate) fn new(program: &Path, kubeconfig: &Path, folder: &Path) -> Self {
        Self { program: program.to_owned(), kubeconfig: kubeconfig.to_owned(), folder: folder.join("helm") }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("HOME", &self.folder).env("KUBECONFIG", &self.kubeconfig);
        command.args(arguments).args(["--namespace", RELEASE]);
        command
    }

    /// Runs a subcommand: whether it succeeded, and what it said.
    pub(crate) async fn run(&self, arguments: &[&str]) -> (bool, String) {
        outcome(&mut self.command(arguments)).await
    }

    /// Starts a subcommand, and kills it as soon as something holds.
    pub(crate) async fn interrupt(&self, arguments: &[&str], holds: impl AsyncFnMut() -> bool) {
        let mut helm = self.command(arguments).kill_on_drop(true).spawn().unwrap();
        eventually("the subcommand has begun", holds).await;
        helm.kill().await.unwrap();
    }

    /// Runs a subcommand on the chart with values.
    pub(crate) async fn run_with(&self, arguments: &[&str], values: &Value) -> (bool, String) {
        self.run_on(&chart(), arguments, values).await
    }

    /// Runs a subcommand on the chart in a folder with values.
    pub(crate) async fn run_on(&self, chart: &Path, arguments: &[&str], values: &Value) -> (bool, String) {
        std::fs::create_dir_all(&self.folder).unwrap();
        let file = self.folder.join("values.json");
        std::fs::write(&file, values.to_string()).unwrap();
        let image = format!("image.repository={REPOSITORY}");
        let mut command = self.command(arguments);
        outcome(command.arg(chart).args(["--set", &image]).arg("--values").arg(file)).await
    }

    /// Installs the chart or upgrades the release, and waits until its pods are ready.
    pub(crate) async fn install(&self, values: &Value) {
        self.install_from(&chart(), values).await;
    }

    /// The same with the chart in a folder.
    pub(crate) async fn install_from(&self, chart: &Path, values: &Value) {
        let arguments = ["upgrade", "--install", RELEASE, "--wait", "--timeout", "90s"];
        let (succeeded, said) = self.run_on(chart, &arguments, values).await;
        assert!(succeeded, "{said}");
    }

    /// Uninstalls the release, if there is one, and waits until all that it made is gone.
    pub(crate) async fn uninstall(&self) {
        let uninstall = ["uninstall", RELEASE, "--ignore-not-found", "--wait", "--timeout", "90s"];
        let (succeeded, said) = self.run(&uninstall).await;
        assert!(succeeded, "{said}");
    }
}
