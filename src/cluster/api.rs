//! The requests to the API server, each about one object by its name.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use futures_util::StreamExt;
use hyper::Request;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, WatchParams};
use kube::config::KubeConfigOptions;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::rotation::Certificates;
use super::secret;

use fabric_tools::inspection::Unread;

/// The time limit for an answer of the API server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// That for an answer to a command that examines a cluster.
const EXAMINATION_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The idle time after which a connection is closed. In a watch, the API server sends something each minute.
const READ_TIMEOUT: Duration = Duration::from_secs(90);
/// The duration of one watch, in seconds.
const WATCH_SECONDS: u32 = 240;
/// The time between two watches.
const WATCH_PAUSE: Duration = Duration::from_secs(3);
/// The field manager of changes.
const FIELD_MANAGER: &str = "fabric-injector";
/// The field manager of the empty Secret. It differs from the other one, because applying an object without a field
/// removes the field if the same manager had set it.
const CREATOR: &str = "fabric-injector-creation";

/// A write to an object that has changed since it was read (HTTP 409).
#[derive(Debug, thiserror::Error)]
#[error("another client changed {0} at the same time")]
pub(super) struct Conflict(String);

/// A client with the kubeconfig that `KUBECONFIG` names, else with the service account of the pod.
pub(super) async fn client() -> anyhow::Result<Client> {
    connect(inferred().await?, Some(READ_TIMEOUT))
}

/// The same, or one with a context of the kubeconfig. It reports errors and does not retry.
pub(super) async fn client_of(context: Option<&str>) -> anyhow::Result<Client> {
    connect(config_of(context).await?, Some(READ_TIMEOUT))
}

/// The same, for a stream that may be silent for long.
pub(super) async fn client_to_stream(context: Option<&str>) -> anyhow::Result<Client> {
    connect(config_of(context).await?, None)
}

async fn config_of(context: Option<&str>) -> anyhow::Result<Config> {
    let mut config = match context {
        Some(context) => {
            let options =
                KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
            let config = Config::from_kubeconfig(&options).await.map_err(|error| of_kubeconfig(&error));
            config.with_context(|| format!("the context `{context}` of the kubeconfig cannot be used"))?
        }
        None => inferred().await?,
    };
    config.default_retry = false;
    Ok(config)
}

/// The text of an error that quotes the path of its file twice.
fn of_kubeconfig(error: &dyn std::error::Error) -> anyhow::Error {
    anyhow!(error.to_string().replace("'\"", "`").replace("\"'", "`"))
}

async fn inferred() -> anyhow::Result<Config> {
    Config::infer().await.map_err(|error| {
        // That of the kubeconfig, which names its file.
        let of_file = of_kubeconfig(std::error::Error::source(&error).unwrap_or(&error));
        anyhow!(
            "no API server is configured: there is no service account, and the kubeconfig cannot be used: {of_file}\nhint: run \
             in a pod with a service account, or name a file with `KUBECONFIG`"
        )
    })
}

fn connect(mut config: Config, read_timeout: Option<Duration>) -> anyhow::Result<Client> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = read_timeout;
    Client::try_from(config).map_err(|error| anyhow!("the API server cannot be reached: {}", cause(&error)))
}

/// A webhook configuration that a server manages.
#[derive(Debug, Clone, Copy)]
pub(super) enum Registered {
    /// That of the pods.
    Webhook,
    /// That of the advice on workloads.
    Advice,
}

impl Registered {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Webhook => "MutatingWebhookConfiguration",
            Self::Advice => "ValidatingWebhookConfiguration",
        }
    }
}

/// The objects that a server manages.
pub(super) struct Objects {
    client: Client,
}

/// The Secret of a name.
pub(super) struct SecretApi {
    /// The words for it in messages.
    what: String,
    name: String,
    api: Api<Secret>,
}

impl Objects {
    /// The connection is opened by the first request.
    pub(super) async fn connect() -> anyhow::Result<Self> {
        Ok(Self { client: client().await? })
    }

    fn configurations(&self, kind: Registered) -> Api<DynamicObject> {
        let resource = match kind {
            Registered::Webhook => ApiResource::erase::<MutatingWebhookConfiguration>(&()),
            Registered::Advice => ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
        };
        Api::all_with(self.client.clone(), &resource)
    }

    /// A webhook configuration, if there is one.
    pub(super) async fn configuration(&self, kind: Registered, name: &str) -> anyhow::Result<Option<Value>> {
        let what = format!("{} `{name}`", kind.name());
        let object = in_time(&what, "read", self.configurations(kind).get_opt(name)).await?;
        object.map(serde_json::to_value).transpose().context("an object of the API server cannot be read")
    }

    pub(super) async fn change(
        &self,
        kind: Registered,
        name: &str,
        changes: json_patch::Patch,
    ) -> anyhow::Result<()> {
        let what = format!("{} `{name}`", kind.name());
        let patch = Patch::Json::<()>(changes);
        in_time(&what, "changed", self.configurations(kind).patch(name, &changed_by(), &patch)).await?;
        Ok(())
    }

    /// Notifies of each change of the webhook configuration: a wrong one may reject pods until it is reconciled. Without
    /// the permission to watch, changes are found at the next reconciliation.
    pub(super) fn watch_webhook(self: Arc<Self>, name: String, changed: Arc<Notify>) -> JoinHandle<()> {
        tokio::spawn(async move {
            loop {
                if let Err(error) = self.watch_webhook_once(&name, &changed).await {
                    let error = format!("{error:#}");
                    tracing::debug!(error, "the webhook configuration cannot be watched");
                }
                sleep(WATCH_PAUSE).await;
            }
        })
    }

    /// Does so for a few minutes.
    async fn watch_webhook_once(&self, name: &str, changed: &Notify) -> anyhow::Result<()> {
        let parameters =
            WatchParams::default().fields(&format!("metadata.name={name}")).timeout(WATCH_SECONDS);
        let webhooks = self.configurations(Registered::Webhook);
        let mut events = std::pin::pin!(webhooks.watch(&parameters, "0").await?);
        while let Some(event) = events.next().await {
            event?;
            changed.notify_one();
        }
        Ok(())
    }

    /// The requests about a Secret.
    pub(super) fn secret(&self, namespace: &str, name: &str) -> SecretApi {
        let what = format!("Secret `{name}` of namespace `{namespace}`");
        SecretApi { what, name: name.to_owned(), api: Api::namespaced(self.client.clone(), namespace) }
    }
}

impl SecretApi {
    /// The Secret, if there is one.
    pub(super) async fn read(&self) -> anyhow::Result<Option<Secret>> {
        in_time(&self.what, "read", self.api.get_opt(&self.name)).await
    }

    /// Creates the Secret without data, unless it exists. It is garbage-collected with `owner`.
    pub(super) async fn create(&self, owner: &Value) -> anyhow::Result<Secret> {
        let object = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {
                "name": self.name,
                "labels": {"app.kubernetes.io/managed-by": "fabric-injector"},
                "ownerReferences": [{
                    "apiVersion": "admissionregistration.k8s.io/v1",
                    "kind": "MutatingWebhookConfiguration",
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                }],
            },
        });
        // Server-side apply rather than create: RBAC checks `resourceNames` against the name in the path.
        let parameters = PatchParams::apply(CREATOR).force();
        let patch = Patch::Apply(&object);
        let created = self.api.patch(&self.name, &parameters, &patch);
        in_time(&self.what, "created", created).await
    }

    /// Writes the certificates into the Secret, unless it has changed since it was read.
    pub(super) async fn write(&self, stored: &Secret, certificates: &Certificates) -> anyhow::Result<()> {
        let version = stored.metadata.resource_version.as_deref().unwrap_or_default();
        let patch = Patch::Merge(secret::merge_patch(certificates, version));
        in_time(&self.what, "changed", self.api.patch(&self.name, &changed_by(), &patch)).await?;
        Ok(())
    }
}

fn changed_by() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

/// The answer of the API server, or an error that names the object and the operation.
pub(super) async fn in_time<T>(
    what: &str,
    done: &str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> anyhow::Result<T> {
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => match status.code {
            409 => Err(Conflict(what.to_owned()).into()),
            FORBIDDEN => anyhow::bail!(
                "{what} may not be {done}: {}\nhint: grant it in the role of the service account, as the chart does",
                status.message
            ),
            _ => anyhow::bail!("{what} cannot be {done}: {}", status.message),
        },
        Ok(Err(error)) => Err(anyhow!("{what} cannot be {done}: {}", cause(&error))),
        Err(_) => Err(anyhow!("{what} cannot be {done}: {}", no_answer(REQUEST_TIMEOUT))),
    }
}

/// The body of an answer, or the status with the message of the API server; 0 without an answer.
pub(super) async fn answer(client: &Client, request: Request<Vec<u8>>) -> Result<String, (u16, String)> {
    match timeout(EXAMINATION_TIMEOUT, client.request_text(request)).await {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(kube::Error::Api(status))) => Err((status.code, status.message.clone())),
        Ok(Err(error)) => Err((0, cause(&error))),
        Err(_) => Err((0, no_answer(EXAMINATION_TIMEOUT))),
    }
}

/// The status of a request without the right for it.
pub(super) const FORBIDDEN: u16 = 403;

/// The error of a request with this status, 0 without an answer.
pub(super) fn unread_of_status(status: u16, message: String) -> Unread {
    if status == FORBIDDEN { Unread::Forbidden(message) } else { Unread::Unanswered(message) }
}

/// The message about a request that has no answer by this time.
pub(super) fn no_answer(limit: Duration) -> String {
    format!("no answer within {}", humantime::format_duration(limit))
}

/// The innermost cause of an error; the outer ones repeat it.
pub(super) fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    anyhow::Chain::new(error).next_back().map(ToString::to_string).unwrap_or_default()
}
