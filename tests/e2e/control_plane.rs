//! etcd, API server, controllers and scheduler.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fabric_injector::authority::{Authority, KeyPair};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::Mutex as AsyncMutex;

use super::api::Api;
use super::binaries::Binaries;
use super::eventually;
use super::processes::Process;

/// Where pods and clients find the API server; loopback would not do for what it says of itself.
pub(crate) const ADDRESS: &str = "198.18.0.1";
pub(crate) const PORT: u16 = 6443;
const OLDEST_PORT: u16 = 6444;
const SECOND_PORT: u16 = 6445;
const ETCD: &str = "http://127.0.0.1:2379";

/// The processes, and how to get at them.
pub(crate) struct ControlPlane {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) api: Api,
    /// The CA of the certificate with which the API server calls webhooks.
    pub(crate) client_ca: String,
    files: Files,
    logs: PathBuf,
    apiserver: PathBuf,
    oldest: PathBuf,
    api_server: AsyncMutex<Process>,
    _processes: Vec<Process>,
}

/// An API server beside the others, for as long as it is kept.
pub(crate) struct Beside {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) api: Api,
    _process: Process,
}

impl ControlPlane {
    /// Starts all of it in a folder, and waits until it is ready.
    pub(crate) async fn start(binaries: &Binaries, folder: &Path, logs: &Path) -> Self {
        let files = Files::write(folder);
        let start = |name: &str, command: &mut Command| Process::start(command, &logs.join(name));
        let mut processes = vec![start("etcd.log", &mut etcd(binaries, folder))];
        let mut api_server = start("kube-apiserver.log", &mut apiserver(&binaries.apiserver, &files, logs));
        let api = Api::new(&files.kubeconfig("admin")).await;
        is_ready(&api, &mut api_server).await;
        processes.push(start("kube-controller-manager.log", &mut controller_manager(binaries, &files)));
        processes.push(start("kube-scheduler.log", &mut scheduler(binaries, &files)));
        // The last thing that a pod needs before it can be admitted.
        eventually("the controllers run", async || {
            api.get("/api/v1/namespaces/default/serviceaccounts/default").await.status == 200
                && api.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt").await.status == 200
        })
        .await;
        Self {
            kubeconfig: files.path("admin.kubeconfig"),
            api,
            client_ca: files.client_ca.clone(),
            files,
            logs: logs.to_owned(),
            apiserver: binaries.apiserver.clone(),
            oldest: binaries.oldest_apiserver.clone(),
            api_server: AsyncMutex::new(api_server),
            _processes: processes,
        }
    }

    /// Kills the API server, starts it again, and waits until it is ready.
    pub(crate) async fn restart_api_server(&self) {
        let mut process = self.api_server.lock().await;
        process.signal(Signal::KILL);
        eventually("the API server has ended", async || process.ended().is_some()).await;
        let mut command = apiserver(&self.apiserver, &self.files, &self.logs);
        *process = Process::start(&mut command, &self.logs.join("kube-apiserver.log"));
        is_ready(&self.api, &mut process).await;
    }

    /// Starts an API server of the oldest release on the same etcd, with objects of its own, on which no controller works.
    pub(crate) async fn start_oldest(&self) -> Beside {
        let mut command = apiserver(&self.oldest, &self.files, &self.logs);
        command.args(["--etcd-prefix", "/oldest"]);
        // There is no controller to make the service account of a namespace.
        command.args(["--disable-admission-plugins", "ServiceAccount"]);
        self.start_beside(command, "oldest", OLDEST_PORT).await
    }

    /// Starts another API server with the same objects, which can be stopped.
    pub(crate) async fn start_second(&self) -> Beside {
        let command = apiserver(&self.apiserver, &self.files, &self.logs);
        self.start_beside(command, "second", SECOND_PORT).await
    }

    /// Starts an API server, and waits until it is ready.
    async fn start_beside(&self, mut command: Command, name: &str, port: u16) -> Beside {
        // A later option takes the place of an earlier one.
        command.args(["--secure-port", &port.to_string()]);
        command.arg("--audit-log-path").arg(self.logs.join(format!("{name}-audit.log")));
        let mut process = Process::start(&mut command, &self.logs.join(format!("kube-apiserver-{name}.log")));
        let text = self.files.kubeconfig_for("admin", port);
        let kubeconfig = self.files.path(&format!("{name}.kubeconfig"));
        fs::write(&kubeconfig, &text).unwrap();
        let api = Api::new(&text).await;
        is_ready(&api, &mut process).await;
        Beside { kubeconfig, api, _process: process }
    }
}

/// Waits until an API server is ready.
async fn is_ready(api: &Api, process: &mut Process) {
    eventually("the API server is ready", async || {
        assert!(process.ended().is_none(), "the API server ended");
        let ready = api.try_send(hyper::Method::GET, "/readyz", "text/plain", None).await;
        ready.is_ok_and(|reply| reply.status == 200)
    })
    .await;
}

fn etcd(binaries: &Binaries, folder: &Path) -> Command {
    let mut command = Command::new(&binaries.etcd);
    command.arg("--data-dir").arg(folder.join("etcd"));
    command.args(["--listen-client-urls", ETCD, "--advertise-client-urls", ETCD]);
    command.args(["--listen-peer-urls", "http://127.0.0.1:2380"]);
    // What is in it is of no use after the run.
    command.arg("--unsafe-no-fsync");
    command
}

fn apiserver(program: &Path, files: &Files, logs: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["--etcd-servers", ETCD, "--advertise-address", ADDRESS]);
    command.args(["--secure-port", &PORT.to_string(), "--service-cluster-ip-range", "10.0.0.0/16"]);
    // Some workloads have privileged containers.
    command.args(["--authorization-mode", "RBAC", "--allow-privileged"]);
    // There is no kube-proxy: calls of webhooks go to the endpoints of their Service.
    command.arg("--enable-aggregator-routing=true");
    command.args(["--service-account-issuer", "https://kubernetes.default.svc"]);
    for (option, file) in [
        ("--tls-cert-file", "apiserver.crt"),
        ("--tls-private-key-file", "apiserver.key"),
        ("--service-account-signing-key-file", "service-accounts.key"),
        ("--service-account-key-file", "service-accounts.crt"),
        ("--token-auth-file", "tokens.csv"),
        ("--audit-policy-file", "audit.json"),
        ("--admission-control-config-file", "admission.yaml"),
    ] {
        command.arg(option).arg(files.path(file));
    }
    command.arg("--audit-log-path").arg(logs.join("audit.log"));
    command
}

fn controller_manager(binaries: &Binaries, files: &Files) -> Command {
    let mut command = Command::new(&binaries.controller_manager);
    command.arg("--kubeconfig").arg(files.path("controllers.kubeconfig"));
    command.arg("--service-account-private-key-file").arg(files.path("service-accounts.key"));
    command.arg("--root-ca-file").arg(files.path("ca.crt"));
    command.args(["--use-service-account-credentials=true", "--leader-elect=false", "--secure-port=0"]);
    command
}

fn scheduler(binaries: &Binaries, files: &Files) -> Command {
    let mut command = Command::new(&binaries.scheduler);
    command.arg("--kubeconfig").arg(files.path("scheduler.kubeconfig"));
    command.args(["--leader-elect=false", "--secure-port=0"]);
    command
}

/// A client's certificate of a CA.
fn client_certificate(ca: &Authority) -> KeyPair {
    let issuer = Issuer::from_ca_cert_pem(&ca.cert, rcgen::KeyPair::from_pem(&ca.key).unwrap()).unwrap();
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    let cert = params.signed_by(&key, &issuer).unwrap();
    KeyPair { cert: cert.pem(), key: key.serialize_pem() }
}

/// The two files by which the API server shows that certificate, as the page on certificates has them.
fn documented_configuration(folder: &Path) -> [String; 2] {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("certs/README.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, page) = page.split_once("## Client certificates").unwrap();
    let mut examples = page.split("```yaml\n").skip(1);
    [(); 2].map(|()| {
        let (example, _) = examples.next().unwrap().split_once("```").unwrap();
        example.replace("/etc/kubernetes/admission", folder.to_str().unwrap())
    })
}

/// Certificates, keys and who may call.
struct Files {
    folder: PathBuf,
    ca: String,
    client_ca: String,
}

impl Files {
    /// Users: name, and the group or the user that has the rights.
    const USERS: [(&str, &str, &str); 3] = [
        ("admin", "admin", "system:masters"),
        ("controllers", "system:kube-controller-manager", ""),
        ("scheduler", "system:kube-scheduler", ""),
    ];

    fn write(folder: &Path) -> Self {
        let (now, day) = (SystemTime::now(), Duration::from_hours(24));
        let ca = Authority::new(now).unwrap();
        let names = ["kubernetes.default.svc".to_owned(), "localhost".to_owned()];
        let addresses: [IpAddr; 2] = [ADDRESS.parse().unwrap(), "10.0.0.1".parse().unwrap()];
        let serving = ca.issue(&names, &addresses, now, day).unwrap();
        // Of this pair, tokens are signed with the key; a certificate is one of the forms of a public key.
        let service_accounts = Authority::new(now).unwrap();
        let client_ca = Authority::new(now).unwrap();
        let client = client_certificate(&client_ca);
        let [admission, webhooks] = documented_configuration(folder);
        let files = Self { folder: folder.to_owned(), ca: ca.cert.clone(), client_ca: client_ca.cert };
        let tokens = Self::USERS.map(|(token, user, group)| format!("{token},{user},{token},\"{group}\"\n"));
        let audit = json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata", "verbs": ["create"], "resources": [{"resources": ["pods"]}]}],
        });
        for (name, text) in [
            ("ca.crt", &ca.cert),
            ("apiserver.crt", &serving.cert),
            ("apiserver.key", &serving.key),
            ("service-accounts.crt", &service_accounts.cert),
            ("service-accounts.key", &service_accounts.key),
            ("tokens.csv", &tokens.concat()),
            ("audit.json", &audit.to_string()),
            ("client.crt", &client.cert),
            ("client.key", &client.key),
            ("admission.yaml", &admission),
            ("webhooks.kubeconfig", &webhooks),
        ] {
            fs::write(files.path(name), text).unwrap();
        }
        for (token, _, _) in Self::USERS {
            fs::write(files.path(&format!("{token}.kubeconfig")), files.kubeconfig(token)).unwrap();
        }
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn kubeconfig(&self, token: &str) -> String {
        self.kubeconfig_for(token, PORT)
    }

    fn kubeconfig_for(&self, token: &str, port: u16) -> String {
        let cluster: Value = json!({
            "server": format!("https://{ADDRESS}:{port}"),
            "certificate-authority-data": BASE64_STANDARD.encode(&self.ca),
        });
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        })
        .to_string()
    }
}
