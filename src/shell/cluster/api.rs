//! The few things that are asked of the API server, each of one object by its name.

use std::time::Duration;

use anyhow::{Context, anyhow};
use futures_util::StreamExt;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingAdmissionPolicy};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, WatchParams};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::rotation::Rotation;
use super::secret::{self, Data};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);
/// How long it may take to reach the API server.
const CONNECT: Duration = Duration::from_secs(3);
/// How long one watch lasts.
const WATCH: u32 = 240;
/// Who changes, in `managedFields`.
const MANAGER: &str = "fabric-injector";
/// Who makes an empty Secret. Another name than the above: who applies the same object without the data, in the same
/// name, takes the data away.
const CREATOR: &str = "fabric-injector-creation";

/// A change that came too late: somebody else was faster.
#[derive(Debug, thiserror::Error)]
#[error("somebody else changed {0} at the same time")]
pub(super) struct Outrun(String);

/// A client by the kubeconfig that is named in `KUBECONFIG`, else as the service account of the pod.
pub(super) async fn client() -> anyhow::Result<Client> {
    let mut config = Config::infer().await.map_err(|error| {
        anyhow!(
            "there is no way to an API server: {error}\nhint: run in a pod with a service account, or name a file with `KUBECONFIG`"
        )
    })?;
    config.connect_timeout = Some(CONNECT);
    Client::try_from(config).map_err(|error| anyhow!("there is no way to the API server: {}", cause(&error)))
}

/// The objects that a server looks after.
pub(super) struct Objects {
    client: Client,
    webhooks: Api<DynamicObject>,
    guards: Api<DynamicObject>,
}

/// A Secret as it was read.
pub(super) struct Stored {
    resource_version: String,
    /// What is in it.
    pub(super) data: Data,
}

impl Objects {
    /// Reaches the API server when it is asked for something.
    pub(super) async fn connect() -> anyhow::Result<Self> {
        let client = client().await?;
        let webhooks = ApiResource::erase::<MutatingWebhookConfiguration>(&());
        let guards = ApiResource::erase::<ValidatingAdmissionPolicy>(&());
        Ok(Self {
            webhooks: Api::all_with(client.clone(), &webhooks),
            guards: Api::all_with(client.clone(), &guards),
            client,
        })
    }

    /// The MutatingWebhookConfiguration, if there is one.
    pub(super) async fn webhook(&self, name: &str) -> anyhow::Result<Option<Value>> {
        read(&self.webhooks, "MutatingWebhookConfiguration", name).await
    }

    /// The ValidatingAdmissionPolicy, if there is one.
    pub(super) async fn guard(&self, name: &str) -> anyhow::Result<Option<Value>> {
        read(&self.guards, "ValidatingAdmissionPolicy", name).await
    }

    pub(super) async fn change_webhook(&self, name: &str, changes: json_patch::Patch) -> anyhow::Result<()> {
        change(&self.webhooks, "MutatingWebhookConfiguration", name, changes).await
    }

    pub(super) async fn change_guard(&self, name: &str, changes: json_patch::Patch) -> anyhow::Result<()> {
        change(&self.guards, "ValidatingAdmissionPolicy", name, changes).await
    }

    /// Tells of each change of the webhook configuration, for a few minutes.
    pub(super) async fn watch_webhook(&self, name: &str, changed: &Notify) -> anyhow::Result<()> {
        let parameters = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(WATCH);
        let mut events = std::pin::pin!(self.webhooks.watch(&parameters, "0").await?);
        while let Some(event) = events.next().await {
            event?;
            changed.notify_one();
        }
        Ok(())
    }

    /// The Secret, if there is one.
    pub(super) async fn secret(&self, namespace: &str, name: &str) -> anyhow::Result<Option<Stored>> {
        let what = format!("Secret `{name}` of namespace `{namespace}`");
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secret = in_time(&what, "read", secrets.get_opt(name)).await?;
        Ok(secret.map(Stored::from))
    }

    /// Makes the Secret, empty, or leaves the one that is there as it is. It goes when `owner` does.
    pub(super) async fn make_secret(
        &self,
        namespace: &str,
        name: &str,
        owner: &Value,
    ) -> anyhow::Result<Stored> {
        let what = format!("Secret `{name}` of namespace `{namespace}`");
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let object = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {
                "name": name,
                "labels": {"app.kubernetes.io/managed-by": "fabric-injector"},
                "ownerReferences": [{
                    "apiVersion": "admissionregistration.k8s.io/v1",
                    "kind": "MutatingWebhookConfiguration",
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                }],
            },
        });
        // Applied, not posted: a name in the path is what `resourceNames` can be held against.
        let parameters = PatchParams::apply(CREATOR).force();
        let patch = Patch::Apply(&object);
        let made = in_time(&what, "made", secrets.patch(name, &parameters, &patch)).await?;
        Ok(made.into())
    }

    /// Puts this into the Secret, if it is still the one that was read.
    pub(super) async fn write_secret(
        &self,
        namespace: &str,
        name: &str,
        stored: &Stored,
        rotation: &Rotation,
    ) -> anyhow::Result<()> {
        let what = format!("Secret `{name}` of namespace `{namespace}`");
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let patch = Patch::Merge(secret::merge_patch(rotation, &stored.resource_version));
        in_time(&what, "changed", secrets.patch(name, &changed_by(), &patch)).await?;
        Ok(())
    }
}

impl From<Secret> for Stored {
    fn from(secret: Secret) -> Self {
        Self {
            resource_version: secret.metadata.resource_version.unwrap_or_default(),
            data: secret.data.unwrap_or_default(),
        }
    }
}

fn changed_by() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

async fn read(api: &Api<DynamicObject>, kind: &str, name: &str) -> anyhow::Result<Option<Value>> {
    let object = in_time(&format!("{kind} `{name}`"), "read", api.get_opt(name)).await?;
    object.map(serde_json::to_value).transpose().context("an object of the API server cannot be read")
}

async fn change(
    api: &Api<DynamicObject>,
    kind: &str,
    name: &str,
    changes: json_patch::Patch,
) -> anyhow::Result<()> {
    let patch = Patch::Json::<()>(changes);
    in_time(&format!("{kind} `{name}`"), "changed", api.patch(name, &changed_by(), &patch)).await?;
    Ok(())
}

/// What the API server answers, or a sentence that says what it did not do.
async fn in_time<T>(
    what: &str,
    done: &str,
    asked: impl Future<Output = Result<T, kube::Error>>,
) -> anyhow::Result<T> {
    match timeout(ANSWER, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => match status.code {
            409 => Err(Outrun(what.to_owned()).into()),
            403 => anyhow::bail!(
                "{what} may not be {done}: {}\nhint: the role of the service account has to allow it, as that of the chart does",
                status.message
            ),
            _ => anyhow::bail!("{what} cannot be {done}: {}", status.message),
        },
        Ok(Err(error)) => Err(anyhow!("{what} cannot be {done}: {}", cause(&error))),
        Err(_) => {
            let time = humantime::format_duration(ANSWER);
            anyhow::bail!("{what} cannot be {done}: the API server does not answer within {time}")
        }
    }
}

/// What is at the bottom of an error; those above it each say it once more.
pub(super) fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
