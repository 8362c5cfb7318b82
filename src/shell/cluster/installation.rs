//! Reads an installation for `check`. An object that cannot be read costs the checks that need it, and no others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, anyhow, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Request;
use kube::Client;
use serde_json::Value;
use tokio::time::{Duration, timeout};

use crate::core::inspection::{Certificate, DryRun, Facts, Line, Probe, Read, Release, inspect};
use crate::core::nodes::Nodes;
use crate::core::policy_set::PolicySet;
use crate::core::registration::ca_bundle;
use crate::shell::builtin;
use crate::shell::pem::Validity;
use crate::shell::policy_sources::RawPolicies;

use super::api::{cause, client_of};
use super::certificate::check;
use super::dry_run::dry_run;
use super::nodes::list_nodes;

/// The time within which the API server has to answer each request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";
const NOT_FOUND: u16 = 404;
const FORBIDDEN: u16 = 403;

/// Reads the cluster of a context, and examines the installation of this name. Fails if no API server answers.
pub(crate) async fn examine(
    context: Option<&str>,
    name: Option<&str>,
    probe: &Probe,
) -> anyhow::Result<Vec<Line>> {
    let client = client_of(context).await?;
    let version = match text(&client, "/version").await {
        Err((status, message)) if status != FORBIDDEN => bail!("the API server cannot be reached: {message}"),
        _ => get(&client, "/version").await,
    };
    let webhooks = get(&client, &format!("{REGISTRATION}/mutatingwebhookconfigurations")).await;
    // The Deployments of the Service's namespace, so that a right in it is enough.
    let namespace = Release::find(&webhooks, &Ok(Value::Null), name).namespace();
    let within = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    let selector = "labelSelector=app.kubernetes.io%2Fcomponent%3Dwebhook";
    let deployments = get(&client, &format!("/apis/apps/v1{within}/deployments?{selector}")).await;
    let namespaces = get(&client, "/api/v1/namespaces").await;
    let reader = Reader { client: &client, release: Release::find(&webhooks, &deployments, name) };
    let [endpoints, in_use] = reader.of_service().await;
    let policies = reader.policies().await.map_err(|error| format!("{error:#}"));
    let advice = reader.advice().await;
    let certificate = reader.certificate(advice.as_ref().ok()).await;
    let facts = Facts {
        endpoints,
        in_use,
        ready: reader.ready().await,
        guard: reader.admission_policy("guard").await,
        token: reader.admission_policy("token").await,
        nodes: reader.nodes().await.map_err(|error| format!("{error:#}")),
        certificate: certificate.map_err(|error| format!("{error:#}")),
        advice,
        dry_run: reader.dry_run(&namespaces, &policies, probe).await.map_err(|error| format!("{error:#}")),
        policies,
        version,
        webhooks,
        deployments,
        namespaces,
    };
    Ok(inspect(&facts, name, probe))
}

/// The body of an answer, or the status with the message of the API server; 0 without an answer.
async fn text(client: &Client, path: &str) -> Result<String, (u16, String)> {
    let answer = async {
        let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        client.request_text(request).await
    };
    match timeout(REQUEST_TIMEOUT, answer).await {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(kube::Error::Api(status))) => Err((status.code, status.message.clone())),
        Ok(Err(error)) => Err((0, cause(&error))),
        Err(_) => Err((0, "the API server did not answer within 10s".to_owned())),
    }
}

/// An object or a list; `null` if there is none.
async fn get(client: &Client, path: &str) -> Read {
    match text(client, path).await {
        Ok(text) => serde_json::from_str(&text).map_err(|error| format!("{path} is not JSON: {error}")),
        Err((NOT_FOUND, _)) => Ok(Value::Null),
        Err((_, message)) => Err(message),
    }
}

/// Reads the objects of an installation.
struct Reader<'r> {
    client: &'r Client,
    release: Release<'r>,
}

impl Reader<'_> {
    /// The endpoints of the Service, and the policies of a server.
    async fn of_service(&self) -> [Read; 2] {
        let (service, namespace) = self.release.service().unwrap_or_default();
        let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
        let slices = format!("{slices}?labelSelector=kubernetes.io%2Fservice-name%3D{service}");
        [get(self.client, &slices).await, get(self.client, &self.admin("policies")).await]
    }

    async fn ready(&self) -> Read<String> {
        text(self.client, &self.admin("readyz?verbose")).await.map_err(|(_, message)| message)
    }

    /// The path of a resource on the admin port of a server, by the proxy of the API server.
    fn admin(&self, resource: &str) -> String {
        let (service, namespace) = self.release.service().unwrap_or_default();
        format!("/api/v1/namespaces/{namespace}/services/{service}:admin/proxy/{resource}")
    }

    async fn admission_policy(&self, suffix: &str) -> [Read; 2] {
        let name = self.release.name().unwrap_or_default();
        let path = |kind: &str| format!("{REGISTRATION}/validatingadmission{kind}/{name}-{suffix}");
        [get(self.client, &path("policies")).await, get(self.client, &path("policybindings")).await]
    }

    async fn advice(&self) -> Read {
        let name = self.release.name().unwrap_or_default();
        get(self.client, &format!("{REGISTRATION}/validatingwebhookconfigurations/{name}")).await
    }

    /// The nodes, if the servers watch them.
    async fn nodes(&self) -> anyhow::Result<Arc<Nodes>> {
        let is_watched = self.release.option("--watch-nodes").next().is_some();
        Ok(Arc::new(if is_watched { list_nodes(self.client).await? } else { Nodes::default() }))
    }

    /// The data of a ConfigMap or a Secret.
    async fn data(&self, kind: &str, name: &str) -> anyhow::Result<BTreeMap<String, String>> {
        let namespace = self.release.namespace().unwrap_or_default();
        let object = get(self.client, &format!("/api/v1/namespaces/{namespace}/{kind}/{name}")).await;
        let mut object = object.map_err(|error| anyhow!(error))?;
        ensure!(!object.is_null(), "there is no `{name}` among the {kind} of the namespace `{namespace}`");
        Ok(serde_json::from_value(object["data"].take()).unwrap_or_default())
    }

    /// The policies of the Deployment, from its arguments and `ConfigMaps`.
    async fn policies(&self) -> anyhow::Result<PolicySet> {
        let config_map = |path: &str| self.release.volume(path)?["configMap"]["name"].as_str();
        let (mut built_in, mut files, mut values) = (Vec::new(), BTreeMap::new(), None);
        for path in self.release.option("--policy") {
            match config_map(path) {
                Some(map) => files.extend(self.data("configmaps", map).await?),
                None => built_in.push(path.to_owned()),
            }
        }
        for path in self.release.option("--values") {
            let (Some(map), Some((_, file))) = (config_map(path), path.rsplit_once('/')) else { continue };
            values = self.data("configmaps", map).await?.remove(file).map(|text| (file.to_owned(), text));
        }
        let by_nodes = self.release.option("--watch-nodes").next().is_some();
        RawPolicies::of_server(by_nodes, built_in, files, values)?.compile()
    }

    /// The serving certificate, verified as by an API server for either webhook.
    async fn certificate(&self, advice: Option<&Value>) -> anyhow::Result<Certificate> {
        let secret = self.release.secret().context("the Secret with the serving certificate is not known")?;
        let data = self.data("secrets", secret).await?;
        let cert = data.get("tls.crt").with_context(|| format!("the Secret `{secret}` has no `tls.crt`"))?;
        let cert = String::from_utf8(STANDARD.decode(cert)?)?;
        let (service, namespace) = self.release.service().context("the webhook has no Service")?;
        let now = SystemTime::now();
        let accepted = |webhook: Option<&Value>| {
            let trusted = webhook.and_then(ca_bundle).unwrap_or_default();
            check(&trusted, &cert, &format!("{service}.{namespace}.svc"), now)
                .map_err(|error| format!("{error:#}"))
        };
        let validity = Validity::of(&format!("the Secret `{secret}`"), cert.as_bytes())?;
        Ok(Certificate {
            secret: secret.to_owned(),
            accepted: accepted(self.release.webhook),
            accepted_for_advice: accepted(advice),
            expires: humantime::format_rfc3339_seconds(validity.not_after).to_string(),
            left: validity.not_after.duration_since(now).unwrap_or_default(),
            duration: validity.duration(),
        })
    }

    async fn dry_run(
        &self,
        namespaces: &Read,
        policies: &Read<PolicySet>,
        probe: &Probe,
    ) -> anyhow::Result<DryRun> {
        let default = builtin::find(builtin::DEFAULT).context("there is no built-in policy")?.definition()?;
        let policies = match policies {
            Ok(policies) => policies,
            Err(_) => &PolicySet::new(vec![(default, BTreeMap::new())])?,
        };
        let namespace = probe.namespace(&self.release, namespaces, policies);
        let namespace = namespace.context("the webhook gets the pods of no namespace")?;
        let pod = probe.pod(policies, &namespace).context(
            "no policy injects a pod that has nothing but an annotation, labels and a known node; choose one with \
             `--annotation`, `--gpu-resource` and `--node-selector`",
        )?;
        dry_run(self.client, &namespace, &pod).await
    }
}
