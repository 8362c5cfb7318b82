//! `fabric-injector check`: whether pods of a cluster are served.

use anyhow::Context;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::core::engine::STAMP;
use crate::shell::builtin;
use crate::shell::cluster::{DryRun, dry_run};

use super::Status;
use super::cluster::namespace;
use super::output::Output;

/// GPUs that the pod asks for: those of a whole node of most clouds.
const GPUS: &str = "8";

/// Ask a cluster, as a dry run, for a pod with the trigger's annotation, and tell whether it would be served
///
/// The pod takes the way of every pod: registration, Service, certificate, policy. Nothing is stored.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Asks the cluster that `KUBECONFIG` or `~/.kube/config` leads to, else that of the pod it runs in.\n\n\
    Exit status: 0 the pod would be served; 1 it would not; 2 nobody could be asked."
)]
pub(super) struct Arguments {
    /// Where the pod would be created
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = namespace)]
    namespace: String,
    /// An annotation of the pod; may be given several times [default: the trigger of the built-in policies]
    #[arg(long = "annotation", value_name = "KEY=VALUE", value_parser = pair)]
    annotations: Vec<(String, String)>,
    /// The resource that counts as a GPU [default: that of the built-in policies]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    gpu_resource: Option<String>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.to_owned(), value.to_owned())).ok_or_else(|| "write `KEY=VALUE`".to_owned())
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Status> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("no thread to ask with")?;
    let pod = pod(arguments)?;
    let DryRun { result, warnings } = runtime.block_on(dry_run(&arguments.namespace, &pod))?;
    let was_asked = warnings.iter().any(|warning| warning.starts_with("fabric-injector: "));
    for warning in warnings {
        output.message(&format!("warning: {warning}"));
    }
    let pod = match result {
        Ok(pod) => pod,
        Err(message) => {
            output.message(&format!("error: the API server refuses the pod: {message}"));
            return Ok(Status::Refused);
        }
    };
    let Some(stamp) = pod["metadata"]["annotations"][STAMP].as_str() else {
        output.message(&format!(
            "error: the pod would not be served: it comes back without the annotation `{STAMP}`"
        ));
        let hint = if was_asked {
            "the webhook was asked and left the pod alone; the warning above says why".to_owned()
        } else {
            format!(
                "the webhook was not asked; see for which pods it is, and whether `{}` is left out: kubectl get \
                 mutatingwebhookconfigurations -o jsonpath='{{..matchConditions}} {{..namespaceSelector}}'",
                arguments.namespace
            )
        };
        output.message(&format!("hint: {hint}"));
        return Ok(Status::Refused);
    };
    output.data(format!("served by {stamp}\n").as_bytes())?;
    Ok(Status::Done)
}

/// A pod that any namespace takes, also one that enforces the restricted standard.
fn pod(arguments: &Arguments) -> anyhow::Result<Value> {
    let built_in = builtin::find(builtin::DEFAULT).context("there is no built-in policy")?.definition()?;
    let annotations = match arguments.annotations.as_slice() {
        [] => built_in.triggers().iter().take(1).cloned().collect(),
        given => given.to_vec(),
    };
    let annotations: Map<String, Value> =
        annotations.into_iter().map(|(key, value)| (key, json!(value))).collect();
    let of_policy = built_in.gpu_resources().first();
    let gpus = arguments.gpu_resource.as_ref().or(of_policy).context("there is no name for GPUs")?;
    let limits = Map::from_iter([(gpus.clone(), json!(GPUS))]);
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "fabric-injector-check-", "annotations": annotations},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "main",
                // Never pulled.
                "image": "registry.k8s.io/pause",
                "resources": {"limits": limits},
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    }))
}
