//! The cluster that all scenarios share, and what is installed on it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::Mutex as AsyncMutex;

use super::api::Api;
use super::binaries::Binaries;
use super::control_plane::{Beside, ControlPlane};
use super::discovery::objects;
use super::helm::{Helm, RELEASE};
use super::kubelet::Kubelet;
use super::processes::outcome;
use super::{eventually, kubelet, nodes, workloads};

/// Where the servers are.
pub(crate) const SERVERS: &str =
    "/api/v1/namespaces/fabric-injector/pods?labelSelector=app.kubernetes.io/component%3Dwebhook";
pub(crate) const VALUES: &str = "/api/v1/namespaces/fabric-injector/configmaps/fabric-injector-values";
pub(crate) const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/fabric-injector/deployments/fabric-injector";

/// A control plane, nodes, and Helm.
pub(crate) struct Cluster {
    pub(crate) api: Api,
    pub(crate) helm: Helm,
    kubectl: PathBuf,
    control_plane: ControlPlane,
    pub(crate) kubelet: Kubelet,
    /// What there was before anything was installed.
    pub(crate) before: BTreeSet<String>,
    /// The values of the release, once it is installed.
    installed: AsyncMutex<Option<Value>>,
    /// The namespaces of the scenarios.
    namespaces: Mutex<Vec<String>>,
}

impl Cluster {
    /// Starts everything.
    pub(crate) async fn start(binaries: &Binaries, folder: &Path) -> Self {
        // Containers run as users of their own.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder, open).unwrap();
        let (logs, pods) = (folder.join("logs"), folder.join("pods"));
        std::fs::create_dir_all(&logs).unwrap();
        let control_plane = ControlPlane::start(binaries, folder, &logs).await;
        let api = control_plane.api.clone();
        nodes::create(&api).await;
        let kubelet = kubelet::start(api.clone(), pods, logs);
        let cluster = Self {
            api: api.clone(),
            helm: Helm::new(&binaries.helm, &control_plane.kubeconfig, folder),
            kubectl: binaries.kubectl.clone(),
            control_plane,
            kubelet,
            before: BTreeSet::new(),
            installed: AsyncMutex::default(),
            namespaces: Mutex::default(),
        };
        cluster.make_release_namespace().await;
        Self { before: objects(&api, &[]).await, ..cluster }
    }

    /// The CA of the certificate with which the API server calls webhooks.
    pub(crate) fn client_ca(&self) -> &str {
        &self.control_plane.client_ca
    }

    /// Makes the namespace of the release, once the one before is gone.
    pub(crate) async fn make_release_namespace(&self) {
        let release = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RELEASE}});
        eventually("there is a namespace for the release", async || {
            self.api.create(&release).await.status == 201
        })
        .await;
        let certificate = format!("/api/v1/namespaces/{RELEASE}/configmaps/kube-root-ca.crt");
        eventually("pods can be made", async || self.api.get(&certificate).await.status == 200).await;
    }

    /// `kubectl` as an administrator.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        // Where it keeps what it knows of API servers.
        command.env_clear().env("HOME", self.control_plane.kubeconfig.parent().unwrap());
        command.arg("--kubeconfig").arg(&self.control_plane.kubeconfig).args(arguments);
        command
    }

    /// A client with a token of this service account, as a pod gets one.
    pub(crate) async fn service_account_client(&self, namespace: &str, name: &str) -> Api {
        Api::new(&self.service_account_kubeconfig(namespace, name).await).await
    }

    /// A kubeconfig with such a token.
    pub(crate) async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> String {
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let token = self.api.post(&path, &request).await.ok()["status"]["token"].clone();
        let text = std::fs::read_to_string(&self.control_plane.kubeconfig).unwrap();
        let mut kubeconfig: Value = serde_json::from_str(&text).unwrap();
        kubeconfig["users"][0]["user"] = json!({"token": token});
        kubeconfig.to_string()
    }

    /// Applies this as a field manager that takes nothing over from others, and sees that all stays as it is.
    pub(crate) async fn applies_without_change(&self, manager: &str, source: &[&str]) {
        let before = self.without_record(source).await;
        let manager = format!("--field-manager={manager}");
        let arguments = [&["apply", "--server-side", &manager], source].concat();
        let (succeeded, said) = outcome(&mut self.kubectl(&arguments)).await;
        assert!(succeeded, "{manager}: {said}");
        assert_eq!(self.without_record(source).await, before, "{manager}");
    }

    /// The objects of a source, without the record of who wrote them and without what controllers report.
    async fn without_record(&self, source: &[&str]) -> Value {
        let arguments = [&["get", "--output=json"], source].concat();
        let (succeeded, said) = outcome(&mut self.kubectl(&arguments)).await;
        assert!(succeeded, "{said}");
        let mut objects: Value = serde_json::from_str(&said).unwrap();
        for object in objects["items"].as_array_mut().unwrap() {
            let metadata = object["metadata"].as_object_mut().unwrap();
            metadata.retain(|key, _| !["managedFields", "resourceVersion"].contains(&key.as_str()));
            object.as_object_mut().unwrap().remove("status");
        }
        objects["items"].take()
    }

    /// The program as an administrator of the cluster.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
        command.env_clear().env("KUBECONFIG", &self.control_plane.kubeconfig).args(arguments);
        command
    }

    /// Kills the API server, and waits until its successor is ready.
    pub(crate) async fn restart_api_server(&self) {
        self.control_plane.restart_api_server().await;
    }

    /// An API server of the oldest release, for as long as it is kept.
    pub(crate) async fn start_oldest(&self) -> Beside {
        self.control_plane.start_oldest().await
    }

    /// Another API server with the same objects, for as long as it is kept.
    pub(crate) async fn start_second(&self) -> Beside {
        self.control_plane.start_second().await
    }

    /// A namespace for a scenario, with these labels; pods can be made in it at once.
    pub(crate) async fn namespace(&self, name: &str) -> String {
        let metadata = json!({"name": name});
        self.api.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).await.ok();
        self.namespaces.lock().unwrap().push(name.to_owned());
        let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
        eventually("pods can be made", async || self.api.get(&account).await.status == 200).await;
        name.to_owned()
    }

    /// Makes the service account that a pod names, unless it is there.
    pub(crate) async fn service_account(&self, namespace: &str, name: &Value) {
        if let Some(name) = name.as_str() {
            let metadata = json!({"namespace": namespace, "name": name});
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
            let reply = self.api.create(&account).await;
            assert!([201, 409].contains(&reply.status), "{reply:?}");
        }
    }

    /// Removes the namespace of a scenario, which gives its nodes back; others need not wait for it.
    pub(crate) async fn remove(&self, namespace: &str) {
        self.api.delete(&format!("/api/v1/namespaces/{namespace}")).await.ok();
    }

    /// The namespaces of all scenarios so far.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        self.namespaces.lock().unwrap().clone()
    }

    /// Sees to it that the chart is installed with these values, and that the servers go by them.
    pub(crate) async fn ensure(&self, values: &Value) {
        let mut installed = self.installed.lock().await;
        if installed.as_ref() == Some(values) {
            return;
        }
        let before = self.loads().await;
        let policies_of =
            |values: &Value| (values["multinodeNetworking"].clone(), values["extraPolicies"].clone());
        let reloads = installed.as_ref().is_some_and(|old| policies_of(old) != policies_of(values));
        *installed = None;
        self.helm.install(values).await;
        assert!(!self.servers().await.is_empty(), "the servers are found by their labels");
        if reloads {
            self.loaded_since(&before).await;
        }
        self.serves().await;
        *installed = Some(values.clone());
    }

    /// Sets the parameters of the provider in the ConfigMap, which takes less time than an upgrade of the release, and
    /// waits until the servers go by them.
    pub(crate) async fn reload(&self, networking: &Value) {
        let mut installed = self.installed.lock().await;
        let before = self.loads().await;
        let file = json!({"multinodeNetworking": networking}).to_string();
        self.api.merge(VALUES, &json!({"data": {"values.yaml": file}})).await.ok();
        self.loaded_since(&before).await;
        installed.as_mut().unwrap()["multinodeNetworking"] = networking.clone();
    }

    /// Waits until the servers have loaded their policies again.
    async fn loaded_since(&self, before: &[(String, u64)]) {
        eventually("the servers have loaded the new values", async || {
            let now = self.loads().await;
            now.iter().all(|(uid, loads)| {
                before.iter().find(|(old, _)| old == uid).is_none_or(|(_, before)| loads > before)
            })
        })
        .await;
    }

    /// Waits until annotated pods are injected, refused by a server that has no policy for them, or reported in audit mode:
    /// API servers hear of a registration a moment after it was written.
    pub(crate) async fn serves(&self) {
        let asked = workloads::pod("default", "asked", &workloads::annotated_template());
        eventually("annotated pods are injected", async || {
            let reply = self.api.post("/api/v1/namespaces/default/pods?dryRun=All", &asked).await;
            let audited = reply.warnings.iter().any(|warning| warning.contains("it would be injected by"));
            let refused =
                reply.status == 403 && reply.message().contains("denied the request: fabric-injector: ");
            refused || reply.status == 201 && (workloads::is_injected(&reply.body) || audited)
        })
        .await;
    }

    /// Whether a scenario has left the chart installed.
    pub(crate) async fn is_installed(&self) -> bool {
        self.installed.lock().await.is_some()
    }

    /// Uninstalls the chart, and waits until the last server is gone.
    pub(crate) async fn uninstall(&self) {
        self.helm.uninstall().await;
        eventually("the servers are gone", async || self.api.list(SERVERS).await.is_empty()).await;
        *self.installed.lock().await = None;
    }

    /// Forgets what is installed, since a scenario has changed it.
    pub(crate) async fn forget(&self) {
        *self.installed.lock().await = None;
    }

    /// The servers that are not about to end.
    pub(crate) async fn servers(&self) -> Vec<Value> {
        let mut pods = self.api.list(SERVERS).await;
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods
    }

    /// What the metrics of all servers say, added up: those samples whose name and labels begin so.
    pub(crate) async fn metric(&self, series: &str) -> u64 {
        let mut sum = 0;
        for pod in self.servers().await {
            sum += metric(&pod, series).await.unwrap_or_default();
        }
        sum
    }

    /// How often each server has loaded its policies.
    async fn loads(&self) -> Vec<(String, u64)> {
        let mut loads = Vec::new();
        for pod in self.servers().await {
            let series = "fabric_injector_reloads_total{what=\"policies\",result=\"success\"}";
            let uid = pod["metadata"]["uid"].as_str().unwrap().to_owned();
            loads.push((uid, metric(&pod, series).await.unwrap_or_default()));
        }
        loads
    }
}

/// What the metrics of a server say: the sum of the samples whose name and labels begin so.
pub(crate) async fn metric(pod: &Value, series: &str) -> Option<u64> {
    let address = pod["status"]["podIP"].as_str()?;
    let (_, text) = kubelet::get(address, 8080, "/metrics").await.ok()?;
    let samples = text.lines().filter(|line| line.starts_with(series));
    Some(samples.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum())
}
