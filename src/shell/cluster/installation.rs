//! Reads an installation for `check`. An object that cannot be read costs the checks that need it, and no others.

use std::collections::BTreeMap;
use std::time::SystemTime;

use anyhow::{Context, anyhow, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Request;
use kube::Client;
use serde_json::Value;
use tokio::time::{Duration, timeout};

use crate::core::inspection::{Certificate, DryRun, Facts, Line, Probe, Read, Release, inspect};
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
const NOT_FOUND: u16 = 404;
const FORBIDDEN: u16 = 403;

/// Reads the cluster of a context, and examines the installation of this name. Fails if no API server answers.
pub(crate) async fn examine(
    context: Option<&str>,
    name: Option<&str>,
    probe: &Probe,
) -> anyhow::Result<Vec<Line>> {
    let reader = Reader(match context {
        Some(context) => client_of(context).await?,
        None => client().await?,
    });
    let version = match reader.text("/version").await {
        Err((status, message)) if status != FORBIDDEN => bail!("the API server cannot be reached: {message}"),
        _ => reader.get("/version").await,
    };
    let webhooks = reader.get(&format!("{REGISTRATION}/mutatingwebhookconfigurations")).await;
    let deployments = reader.deployments(&webhooks, name).await;
    let facts = reader.facts(version, webhooks, deployments, name, probe).await;
    Ok(inspect(&facts, name, probe))
}

struct Reader(Client);

impl Reader {
    /// The body of an answer, or the status with the message of the API server; 0 without an answer.
    async fn text(&self, path: &str) -> Result<String, (u16, String)> {
        let answer = async {
            let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
            self.0.request_text(request).await
        };
        match timeout(REQUEST_TIMEOUT, answer).await {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(kube::Error::Api(status))) => Err((status.code, status.message.clone())),
            Ok(Err(error)) => Err((0, cause(&error))),
            Err(_) => Err((0, "the API server did not answer within 10s".to_owned())),
        }
    }

    /// An object or a list; `null` if there is none.
    async fn get(&self, path: &str) -> Read {
        match self.text(path).await {
            Ok(text) => serde_json::from_str(&text).map_err(|error| format!("{path} is not JSON: {error}")),
            Err((NOT_FOUND, _)) => Ok(Value::Null),
            Err((_, message)) => Err(message),
        }
    }

    /// The Deployments that may be the servers: those of the Service's namespace, so that a right in it is enough.
    async fn deployments(&self, webhooks: &Read, name: Option<&str>) -> Read {
        let namespace = Release::find(webhooks, &Ok(Value::Null), name).namespace().map(str::to_owned);
        let within = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
        let selector = "labelSelector=app.kubernetes.io%2Fcomponent%3Dwebhook";
        self.get(&format!("/apis/apps/v1{within}/deployments?{selector}")).await
    }

    async fn facts(
        &self,
        version: Read,
        webhooks: Read,
        deployments: Read,
        name: Option<&str>,
        probe: &Probe,
    ) -> Facts {
        let release = Release::find(&webhooks, &deployments, name);
        let namespaces = self.get("/api/v1/namespaces").await;
        let policies = self.policies(&release).await;
        let (service, namespace) = release.service().unwrap_or_default();
        let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
        let endpoints =
            self.get(&format!("{slices}?labelSelector=kubernetes.io%2Fservice-name%3D{service}")).await;
        let guard = format!("{}-guard", release.name().unwrap_or_default());
        let guard = [
            self.get(&format!("{REGISTRATION}/validatingadmissionpolicies/{guard}")).await,
            self.get(&format!("{REGISTRATION}/validatingadmissionpolicybindings/{guard}")).await,
        ];
        // The admin port of a server, by the proxy of the API server.
        let proxy = format!("/api/v1/namespaces/{namespace}/services/{service}:admin/proxy");
        let ready = self.text(&format!("{proxy}/readyz?verbose")).await.map_err(|(_, message)| message);
        let in_use = self.get(&format!("{proxy}/policies")).await;
        let certificate = self.certificate(&release).await.map_err(|error| format!("{error:#}"));
        let dry_run = self.dry_run(&release, &namespaces, policies.as_ref().ok(), probe).await;
        Facts {
            version,
            webhooks,
            deployments,
            namespaces,
            endpoints,
            certificate,
            policies: policies.map_err(|error| format!("{error:#}")),
            guard,
            ready,
            in_use,
            dry_run: dry_run.map_err(|error| format!("{error:#}")),
        }
    }

    /// The data of a ConfigMap or a Secret of the installation.
    async fn data(
        &self,
        release: &Release<'_>,
        kind: &str,
        name: &str,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let namespace = release.namespace().unwrap_or_default();
        let object = self.get(&format!("/api/v1/namespaces/{namespace}/{kind}/{name}")).await;
        let mut object = object.map_err(|error| anyhow!(error))?;
        ensure!(!object.is_null(), "there is no `{name}` among the {kind} of the namespace `{namespace}`");
        Ok(serde_json::from_value(object["data"].take()).unwrap_or_default())
    }

    /// The policies of the Deployment, from its arguments and ConfigMaps.
    async fn policies(&self, release: &Release<'_>) -> anyhow::Result<PolicySet> {
        let config_map = |path: &str| release.volume(path)?["configMap"]["name"].as_str();
        let (mut built_in, mut files, mut values) = (Vec::new(), BTreeMap::new(), None);
        for path in release.option("--policy") {
            match config_map(path) {
                Some(map) => files.extend(self.data(release, "configmaps", map).await?),
                None => built_in.push(path.to_owned()),
            }
        }
        for path in release.option("--values") {
            let (Some(map), Some((_, file))) = (config_map(path), path.rsplit_once('/')) else { continue };
            let text = self.data(release, "configmaps", map).await?.remove(file);
            values = text.map(|text| (file.to_owned(), text));
        }
        let by_nodes = release.option("--watch-nodes").next().is_some();
        RawPolicies::of_server(by_nodes, built_in, files, values)?.compile()
    }

    /// The serving certificate, verified as by an API server.
    async fn certificate(&self, release: &Release<'_>) -> anyhow::Result<Certificate> {
        let secret = release.secret().context("the Secret with the serving certificate is not known")?;
        let data = self.data(release, "secrets", secret).await?;
        let cert = data.get("tls.crt").with_context(|| format!("the Secret `{secret}` has no `tls.crt`"))?;
        let cert = String::from_utf8(STANDARD.decode(cert)?)?;
        let webhook = release.webhook.context("the webhook was not found")?;
        let (service, namespace) = service(webhook).context("the webhook has no Service")?;
        let (trusted, now) = (ca_bundle(webhook).unwrap_or_default(), SystemTime::now());
        let accepted = check(&trusted, &cert, &format!("{service}.{namespace}.svc"), now);
        let validity = Validity::of(&format!("the Secret `{secret}`"), cert.as_bytes())?;
        Ok(Certificate {
            secret: secret.to_owned(),
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
        policies: Option<&PolicySet>,
        probe: &Probe,
    ) -> anyhow::Result<DryRun> {
        let default = builtin::find(builtin::DEFAULT).context("there is no built-in policy")?.definition()?;
        let policies = match policies {
            Some(policies) => policies,
            None => &PolicySet::new(vec![(default, BTreeMap::new())])?,
        };
        let namespace = probe.namespace(release, namespaces, policies);
        let namespace = namespace.context("the webhook gets the pods of no namespace")?;
        let pod = probe.pod(policies, &namespace).context(
            "no policy injects a pod that has nothing but an annotation, labels and a known node; choose one with \
             `--annotation`, `--gpu-resource` and `--node-selector`",
        )?;
        dry_run(&self.0, &namespace, &pod).await
    }
}
