//! Reads an installation for `check`. If an object cannot be read, only the checks that need it are missing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use hyper::Request;
use kube::Client;
use serde_json::Value;
use tokio::time::Duration;

use crate::builtin;
use crate::pem::Validity;
use crate::policy_sources::RawPolicies;
use fabric_engine::policy_set::PolicySet;
use fabric_engine::registration::ca_bundle;
use fabric_policy::PodContext;
use fabric_policy::nodes::Nodes;
use fabric_policy::objects::ObjectKind;
use fabric_tools::inspection::{
    Certificate, DryRun, Facts, Line, Probe, Read, Refused, Release, Server, Unread, Workloads, endpoints,
    inspect, is_restricted, last_time, other_selectors,
};

use super::api::{FORBIDDEN, answer, client_of, unread_of_status};
use super::asked::ClusterObjects;
use super::certificate::check;
use super::dry_run::dry_run;
use super::node_watch::list_objects;
use super::running_pods::{self, PENDING, RUNNING};

const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";
const NOT_FOUND: u16 = 404;
const UNAVAILABLE: u16 = 503;
/// The admin port if the `EndpointSlices` name none.
const ADMIN_PORT: u64 = 8080;
/// The age up to which Events count: controllers pause for up to 17 minutes between two attempts.
const RECENT: Duration = Duration::from_mins(20);

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
    let deployments = installed(&client, &webhooks, name).await;
    let namespaces = get(&client, "/api/v1/namespaces").await;
    let reader = Reader { client: &client, release: Release::find(&webhooks, &deployments, name) };
    let endpoints = reader.endpoints().await;
    let objects = reader.objects().await.map_err(unread);
    let policies = reader.policies().await.map_err(unread);
    let advice = reader.advice().await;
    let certificate = reader.certificate(advice.as_ref().ok()).await;
    let guard = reader.admission_policy("guard").await;
    let others = other_selectors(&advice, &guard[0]);
    let workloads = reader.workloads(&namespaces, &others, &policies, &objects).await;
    let nodes = objects.map(|objects| objects.nodes);
    let dry_runs = reader.dry_runs(&namespaces, &policies, &nodes, probe).await;
    let facts = Facts {
        pods: reader.pods().await,
        pod_events: reader.pod_events().await,
        events: recent_events(&client).await,
        daemon_sets: get(&client, "/apis/apps/v1/daemonsets").await,
        servers: reader.servers(&endpoints).await,
        endpoints,
        guard,
        token: reader.admission_policy("token").await,
        nodes,
        certificate: certificate.map_err(unread),
        advice,
        workloads: workloads.map_err(unread),
        dry_runs: dry_runs.map_err(unread),
        policies,
        version,
        webhooks,
        deployments,
        namespaces,
    };
    Ok(inspect(&facts, name, probe))
}

/// Tries the pods of a cluster that have not started.
pub(crate) async fn try_pending(
    context: Option<&str>,
    policies: &PolicySet,
    objects: &ClusterObjects,
) -> anyhow::Result<Refused> {
    let (client, nothing) = (client_of(context).await?, Ok(Value::Null));
    let release = Release::find(&nothing, &nothing, None);
    let begin = || Workloads::new(policies, objects.context(), &release, &nothing, &[]);
    let read = running_pods::read(&client, PENDING, begin, Workloads::page).await;
    Ok(read.map(Workloads::finish)?)
}

/// The policies of the one installation of a cluster, with the nodes if its servers watch them.
pub(super) async fn installed_policies(client: &Client) -> anyhow::Result<(PolicySet, Arc<Nodes>)> {
    let webhooks = get(client, &format!("{REGISTRATION}/mutatingwebhookconfigurations")).await;
    let deployments = installed(client, &webhooks, None).await;
    let reader = Reader { client, release: Release::find(&webhooks, &deployments, None) };
    ensure!(reader.release.deployment.is_some(), "no installation can be found");
    Ok((reader.policies().await?, reader.objects().await?.nodes))
}

/// The Deployments of the Service's namespace. Permission in that namespace is enough.
async fn installed(client: &Client, webhooks: &Read, name: Option<&str>) -> Read {
    let namespace = Release::find(webhooks, &Ok(Value::Null), name).namespace();
    let within = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    let selector = "labelSelector=app.kubernetes.io%2Fcomponent%3Dwebhook";
    get(client, &format!("/apis/apps/v1{within}/deployments?{selector}")).await
}

/// The body of an answer, or the status with the message of the API server; 0 without an answer.
async fn text(client: &Client, path: &str) -> Result<String, (u16, String)> {
    let request = Request::get(path).body(Vec::new()).map_err(|error| (0, error.to_string()))?;
    answer(client, request).await
}

/// The Events of the last minutes about pods that could not be created.
async fn recent_events(client: &Client) -> Read {
    let mut events = get(client, "/api/v1/events?fieldSelector=reason%3DFailedCreate").await?;
    let begin = humantime::format_rfc3339_seconds(SystemTime::now() - RECENT).to_string();
    if let Some(items) = events["items"].as_array_mut() {
        items.retain(|event| last_time(event) >= begin.as_str());
    }
    Ok(events)
}

/// An object or a list; `null` if there is none.
async fn get(client: &Client, path: &str) -> Read {
    match text(client, path).await {
        Ok(text) => Ok(serde_json::from_str(&text).map_err(|error| format!("{path} is not JSON: {error}"))?),
        Err((NOT_FOUND, _)) => Ok(Value::Null),
        Err((status, message)) => Err(unread_of_status(status, message)),
    }
}

/// `/readyz?verbose` of a server, which has another status if the server is not ready.
async fn report(client: &Client, path: &str) -> Read<String> {
    match text(client, path).await {
        Err((UNAVAILABLE, report)) if report.trim_end().ends_with("not ready") => Ok(report),
        other => other.map_err(|(status, message)| unread_of_status(status, message)),
    }
}

/// An error with its causes, among which the missing right may be.
#[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
fn unread(error: anyhow::Error) -> Unread {
    let message = format!("{error:#}");
    match error.downcast_ref() {
        Some(Unread::Forbidden(_)) => Unread::Forbidden(message),
        Some(Unread::Unanswered(_)) => Unread::Unanswered(message),
        _ => Unread::Failed(message),
    }
}

/// Reads the objects of an installation.
struct Reader<'r> {
    client: &'r Client,
    release: Release<'r>,
}

impl Reader<'_> {
    /// Name and namespace of the Service. No object with an unknown name is requested.
    fn service(&self) -> Result<(&str, &str), String> {
        self.release.service().ok_or_else(|| "the Service is not known: see the line `webhook`".to_owned())
    }

    fn name(&self) -> Result<&str, String> {
        self.release.name().ok_or_else(|| "the installation is not known: see the line `webhook`".to_owned())
    }

    /// The `EndpointSlices` of the Service.
    async fn endpoints(&self) -> Read {
        let (service, namespace) = self.service()?;
        let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
        get(self.client, &format!("{slices}?labelSelector=kubernetes.io%2Fservice-name%3D{service}")).await
    }

    /// The pods of the servers.
    async fn pods(&self) -> Read {
        let deployment = self.release.deployment.ok_or("the Deployment was not found")?;
        let labels = deployment["spec"]["selector"]["matchLabels"].as_object().into_iter().flatten();
        let pairs = labels.map(|(key, value)| format!("{key}%3D{}", value.as_str().unwrap_or_default()));
        let selector = pairs.collect::<Vec<_>>().join("%2C").replace('/', "%2F");
        let namespace = self.release.namespace().unwrap_or_default();
        get(self.client, &format!("/api/v1/namespaces/{namespace}/pods?labelSelector={selector}")).await
    }

    /// The warnings about pods in the namespace of the servers.
    async fn pod_events(&self) -> Read {
        let namespace = self.release.namespace().ok_or("the namespace of the servers is not known")?;
        let selector = "fieldSelector=type%3DWarning%2CinvolvedObject.kind%3DPod";
        get(self.client, &format!("/api/v1/namespaces/{namespace}/events?{selector}")).await
    }

    /// Queries all servers at the same time through the proxy of the API server.
    async fn servers(&self, slices: &Read) -> Vec<Server> {
        let (Ok(slices), Some(namespace)) = (slices, self.release.namespace()) else { return Vec::new() };
        let asked = endpoints(slices).into_iter().map(|endpoint| async move {
            let port = endpoint.admin_port.unwrap_or(ADMIN_PORT);
            let pod = format!("/api/v1/namespaces/{namespace}/pods/{}:{port}/proxy", endpoint.name);
            let ready = report(self.client, &format!("{pod}/readyz?verbose")).await;
            let in_use = match &ready {
                Ok(_) => get(self.client, &format!("{pod}/policies")).await,
                Err(error) => Err(error.clone()),
            };
            Server { name: endpoint.name, is_ready: endpoint.is_ready, ready, in_use }
        });
        join_all(asked).await
    }

    async fn admission_policy(&self, suffix: &str) -> [Read; 2] {
        let name = match self.name() {
            Ok(name) => name,
            Err(error) => return [Err(error.clone().into()), Err(error.into())],
        };
        let path = |kind: &str| format!("{REGISTRATION}/validatingadmission{kind}/{name}-{suffix}");
        [get(self.client, &path("policies")).await, get(self.client, &path("policybindings")).await]
    }

    async fn advice(&self) -> Read {
        let path = format!("{REGISTRATION}/validatingwebhookconfigurations/{}", self.name()?);
        get(self.client, &path).await
    }

    /// The nodes, and the objects that pods name, if the servers watch them.
    async fn objects(&self) -> anyhow::Result<ClusterObjects> {
        let is_watched = self.release.option("--watch-nodes").next().is_some();
        let is_unwatched = |kind: &ObjectKind| {
            self.release
                .option("--unwatched")
                .any(|names| names.split(',').any(|name| name == kind.api().name))
        };
        let kinds: Vec<_> = ObjectKind::all().filter(|kind| !is_unwatched(kind)).collect();
        if is_watched { list_objects(self.client, &kinds).await } else { Ok(ClusterObjects::default()) }
    }

    /// The data of a ConfigMap or a Secret.
    async fn data(&self, kind: &str, name: &str) -> anyhow::Result<BTreeMap<String, String>> {
        let namespace = self.release.namespace().context("the namespace of the servers is not known")?;
        let object = get(self.client, &format!("/api/v1/namespaces/{namespace}/{kind}/{name}")).await;
        let mut object = object?;
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
            let none = "it is empty or no text, or webhooks of the configuration have different ones";
            let trusted = webhook.and_then(ca_bundle).ok_or(none)?;
            check(&trusted, &cert, &format!("{service}.{namespace}.svc"), now)
                .map_err(|error| format!("{error:#}"))
        };
        let validity = Validity::parse(&format!("the Secret `{secret}`"), cert.as_bytes())?;
        Ok(Certificate {
            secret: secret.to_owned(),
            accepted: accepted(self.release.webhook),
            accepted_for_advice: accepted(advice),
            expires: humantime::format_rfc3339_seconds(validity.not_after).to_string(),
            left: validity.not_after.duration_since(now).unwrap_or_default(),
            duration: validity.duration(),
        })
    }

    /// Tries the pods of the cluster with the policies, page by page.
    async fn workloads(
        &self,
        namespaces: &Read,
        others: &[&Value],
        policies: &Read<PolicySet>,
        objects: &Read<ClusterObjects>,
    ) -> anyhow::Result<Refused> {
        let policies = policies.as_ref().map_err(Unread::clone)?;
        let cluster = match objects {
            Err(error) if policies.several_providers => return Err(error.clone().into()),
            Err(_) => PodContext::default(),
            Ok(objects) => objects.context(),
        };
        let begin = || Workloads::new(policies, cluster.clone(), &self.release, namespaces, others);
        let read = running_pods::read(self.client, RUNNING, begin, Workloads::page).await;
        Ok(read.map(Workloads::finish)?)
    }

    async fn dry_runs(
        &self,
        namespaces: &Read,
        policies: &Read<PolicySet>,
        nodes: &Read<Arc<Nodes>>,
        probe: &Probe,
    ) -> anyhow::Result<Vec<DryRun>> {
        let default = builtin::find(builtin::DEFAULT).context("there is no built-in policy")?.definition()?;
        let policies = match policies {
            Ok(policies) => policies,
            Err(_) => &PolicySet::new(vec![(default, BTreeMap::new())])?,
        };
        let namespace = probe.namespace(&self.release, namespaces, policies);
        let namespace = namespace.context("the webhook gets the pods of no namespace")?;
        let hardened = is_restricted(namespaces, &namespace);
        let pods = probe.pods(policies, &namespace, hardened, nodes.as_ref().ok());
        ensure!(
            !pods.is_empty(),
            "no policy injects a pod that has nothing but an annotation, labels and a known node; choose one with \
             `--annotation`, `--gpu-resource` and `--node-selector`"
        );
        let mut dry_runs = Vec::new();
        for pod in pods {
            dry_runs.push(dry_run(self.client, &namespace, &pod).await?);
        }
        Ok(dry_runs)
    }
}
