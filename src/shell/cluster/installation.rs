//! Reads an installation for `check`. An object that cannot be read costs the checks that need it, and no others.

use std::collections::BTreeMap;
use std::time::SystemTime;

use anyhow::{Context, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Request;
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Duration, timeout};

use crate::core::inspection::{
    Certificate, DryRun, Facts, Line, Probe, Read, Release, inspect, probe_namespace,
};
use crate::core::policy_set::PolicySet;
use crate::core::registration::{ca_bundle, service};
use crate::shell::builtin;
use crate::shell::pem::Validity;
use crate::shell::policy_sources::RawPolicies;

use super::api::{cause, client, client_of};
use super::certificate::check;
use super::dry_run::dry_run;

/// The time within which the API server has to answer each request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";

/// The installation to examine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Examined {
    /// The context of the kubeconfig.
    pub(crate) context: Option<String>,
    /// The name of the release or of its objects.
    pub(crate) name: Option<String>,
    pub(crate) probe: Probe,
}

/// Reads the cluster and examines the installation. Fails if no API server answers.
pub(crate) async fn examine(examined: &Examined) -> anyhow::Result<Vec<Line>> {
    let client = match &examined.context {
        Some(context) => client_of(context).await?,
        None => client().await?,
    };
    let version = match request(&client, "/version").await {
        Err(Failure::Status(403, message)) => Err(message),
        Err(Failure::Status(_, message) | Failure::NoAnswer(message)) => {
            bail!("the API server cannot be reached: {message}")
        }
        Ok(version) => Ok(version),
    };
    let reader = Reader(client);
    let webhooks = reader.get(&format!("{REGISTRATION}/mutatingwebhookconfigurations")).await;
    let deployments = reader.deployments(&webhooks, examined.name.as_deref()).await;
    let facts = reader.facts(version, webhooks, deployments, examined).await;
    Ok(inspect(&facts, examined.name.as_deref(), &examined.probe))
}

/// A request without the object that it asks for.
enum Failure {
    /// The status of HTTP, and the message of the API server.
    Status(u16, String),
    NoAnswer(String),
}

async fn request<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, Failure> {
    let request =
        Request::get(path).body(Vec::new()).map_err(|error| Failure::NoAnswer(error.to_string()))?;
    answered(client.request(request)).await
}

async fn answered<T>(answer: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failure> {
    match timeout(REQUEST_TIMEOUT, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => Err(Failure::Status(status.code, status.message.clone())),
        Ok(Err(error)) => Err(Failure::NoAnswer(cause(&error))),
        Err(_) => Err(Failure::NoAnswer("the API server did not answer within 10s".to_owned())),
    }
}

struct Reader(Client);

impl Reader {
    /// An object or a list; `null` if there is none.
    async fn get(&self, path: &str) -> Read {
        match request(&self.0, path).await {
            Ok(value) => Ok(value),
            Err(Failure::Status(404, _)) => Ok(Value::Null),
            Err(Failure::Status(_, message) | Failure::NoAnswer(message)) => Err(message),
        }
    }

    /// The Deployments that may be the servers: those of the Service's namespace, so that a right in it is enough.
    async fn deployments(&self, webhooks: &Read, name: Option<&str>) -> Read {
        let none = Ok(Value::Null);
        let namespace = Release::find(webhooks, &none, name).namespace();
        let within = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
        let selector = "labelSelector=app.kubernetes.io%2Fcomponent%3Dwebhook";
        self.get(&format!("/apis/apps/v1{within}/deployments?{selector}")).await
    }

    async fn facts(&self, version: Read, webhooks: Read, deployments: Read, examined: &Examined) -> Facts {
        let release = Release::find(&webhooks, &deployments, examined.name.as_deref());
        let namespaces = self.get("/api/v1/namespaces").await;
        let policies = self.policies(&release).await.map_err(|error| format!("{error:#}"));
        let endpoints = match release.service() {
            Some((name, namespace)) => {
                let selector = format!("labelSelector=kubernetes.io%2Fservice-name%3D{name}");
                self.get(&format!(
                    "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?{selector}"
                ))
                .await
            }
            None => Ok(Value::Null),
        };
        let certificate = self.certificate(&release).await.map_err(|error| format!("{error:#}"));
        let guard = self.admission_policy(&release, "guard").await;
        let token = self.admission_policy(&release, "token").await;
        let ready = self.of_server(&release, "readyz?verbose").await;
        let in_use = self.of_server(&release, "policies").await.and_then(|text| {
            serde_json::from_str(&text)
                .map_err(|error| format!("`/policies` of a server is not JSON: {error}"))
        });
        let dry_run = self.dry_run(&release, &namespaces, &policies, &examined.probe).await;
        let dry_run = dry_run.map_err(|error| format!("{error:#}"));
        Facts {
            version,
            webhooks,
            deployments,
            namespaces,
            endpoints,
            certificate,
            policies,
            guard,
            token,
            ready,
            in_use,
            dry_run,
        }
    }

    /// A ValidatingAdmissionPolicy of the installation, and its binding.
    async fn admission_policy(&self, release: &Release<'_>, suffix: &str) -> [Read; 2] {
        let name = release.name().unwrap_or_default();
        let path = |kind: &str| format!("{REGISTRATION}/{kind}/{name}-{suffix}");
        [
            self.get(&path("validatingadmissionpolicies")).await,
            self.get(&path("validatingadmissionpolicybindings")).await,
        ]
    }

    /// A resource of the admin port of a server, by the proxy of the API server.
    async fn of_server(&self, release: &Release<'_>, resource: &str) -> Read<String> {
        let Some((service, namespace)) = release.service() else {
            return Err("the Service was not found".to_owned());
        };
        let path = format!("/api/v1/namespaces/{namespace}/services/{service}:admin/proxy/{resource}");
        let request = Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
        answered(self.0.request_text(request)).await.map_err(|failure| match failure {
            Failure::Status(_, message) | Failure::NoAnswer(message) => message,
        })
    }

    /// The data of a ConfigMap or a Secret.
    async fn data(
        &self,
        release: &Release<'_>,
        kind: &str,
        name: &str,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let namespace = release.namespace().unwrap_or_default();
        let object = self.get(&format!("/api/v1/namespaces/{namespace}/{kind}/{name}")).await;
        let mut object = object.map_err(|error| anyhow!(error))?;
        if object.is_null() {
            bail!("there is no object `{name}` among the {kind} of the namespace `{namespace}`");
        }
        Ok(serde_json::from_value(object["data"].take()).unwrap_or_default())
    }

    /// The policies of the Deployment, from its arguments and ConfigMaps.
    async fn policies(&self, release: &Release<'_>) -> anyhow::Result<PolicySet> {
        release.deployment.context("the Deployment was not found")?;
        let mut built_in = Vec::new();
        let mut files = BTreeMap::new();
        for name in release.options("--policy") {
            match release.config_map(name) {
                Some(map) => files.extend(self.data(release, "configmaps", map).await?),
                None => built_in.push(name.to_owned()),
            }
        }
        let mut values = None;
        if let Some(path) = release.option("--values")
            && let Some(map) = release.config_map(path)
        {
            let file = path.rsplit('/').next().unwrap_or(path);
            let text = self.data(release, "configmaps", map).await?.remove(file);
            values = text.map(|text| (file.to_owned(), text));
        }
        RawPolicies::of_server(release.has_flag("--watch-nodes"), built_in, files, values)?.compile()
    }

    /// The serving certificate, as the API server verifies it.
    async fn certificate(&self, release: &Release<'_>) -> anyhow::Result<Certificate> {
        let name = release.secret().context("the Secret with the serving certificate is not known")?;
        let data = self.data(release, "secrets", name).await?;
        let cert = data.get("tls.crt").with_context(|| format!("the Secret `{name}` has no `tls.crt`"))?;
        let cert = String::from_utf8(STANDARD.decode(cert)?)?;
        let webhook = release.webhook.context("the webhook was not found")?;
        let (service, namespace) = service(webhook).context("the webhook has no Service")?;
        let now = SystemTime::now();
        let accepted =
            check(&ca_bundle(webhook).unwrap_or_default(), &cert, &format!("{service}.{namespace}.svc"), now);
        let validity = Validity::of(&format!("the Secret `{name}`"), cert.as_bytes())?;
        Ok(Certificate {
            secret: name.to_owned(),
            accepted: accepted.map_err(|error| format!("{error:#}")),
            expires: humantime::format_rfc3339_seconds(validity.not_after).to_string(),
            left: validity.not_after.duration_since(now).unwrap_or_default(),
            duration: validity.duration(),
        })
    }

    async fn dry_run(
        &self,
        release: &Release<'_>,
        namespaces: &Read,
        policies: &Read<PolicySet>,
        probe: &Probe,
    ) -> anyhow::Result<DryRun> {
        let chosen = probe.namespace.clone().or_else(|| probe_namespace(release, namespaces, policies));
        let namespace = chosen.context("the webhook gets the pods of no namespace")?;
        let pod = match policies {
            Ok(policies) => probe.pod(policies, &namespace),
            Err(_) => {
                let default = builtin::find(builtin::DEFAULT).context("there is no built-in policy")?;
                probe.pod(&PolicySet::new(vec![(default.definition()?, BTreeMap::new())])?, &namespace)
            }
        };
        let pod = pod.context(
            "no policy injects a pod that has nothing but an annotation, labels and a known node; choose one with \
             `--annotation`, `--gpu-resource` and `--node-selector`",
        )?;
        dry_run(&self.0, &namespace, &pod).await
    }
}
