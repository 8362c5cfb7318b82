//! `fabric-injector check`: a dry run that shows whether a cluster injects pods.

use anyhow::Context;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::core::admission::{UNCHANGED, WOULD_BE_INJECTED};
use crate::core::engine::{SKIPPED, STAMP};
use crate::shell::builtin;
use crate::shell::cluster::{DryRun, dry_run, uncalled};

use super::ExitStatus;
use super::output::Output;
use super::parse::{annotation, namespace};

/// The GPUs that the pod requests: a whole node of most clouds.
const GPUS: &str = "8";

/// Create a pod with the trigger annotation as a dry run, and report whether the webhook would inject it
///
/// The request passes the registration, the Service, the certificate and the policy like that of any pod. The API
/// server stores nothing.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Uses the cluster of `KUBECONFIG` or `~/.kube/config`, else the one of the pod in which it runs.\n\n\
    Exit status: 0 the pod would be injected; 1 it would not; 2 the API server could not be reached."
)]
pub(super) struct Arguments {
    /// The namespace of the pod
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = namespace)]
    namespace: String,
    /// An annotation of the pod; may be given several times [default: the trigger of the built-in policies]
    #[arg(long = "annotation", value_name = "KEY=VALUE", value_parser = annotation)]
    annotations: Vec<(String, String)>,
    /// The resource name of GPUs [default: that of the built-in policies]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    gpu_resource: Option<String>,
    /// A label that the pod selects its node by, such as `node.kubernetes.io/instance-type=p5.48xlarge`; may be given
    /// several times
    #[arg(long = "node-selector", value_name = "KEY=VALUE", value_parser = annotation)]
    node_selector: Vec<(String, String)>,
    /// Expect a webhook in audit mode, which reports the injection and leaves the pod unchanged
    #[arg(long)]
    audit: bool,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the runtime cannot be started")?;
    let pod = pod(arguments)?;
    let DryRun { result, warnings } = runtime.block_on(dry_run(&arguments.namespace, &pod))?;
    let was_called = warnings.iter().any(|warning| warning.starts_with("fabric-injector: "));
    let audited = warnings.iter().find_map(|warning| warning.strip_prefix(UNCHANGED)).map(str::to_owned);
    for warning in warnings {
        output.message(&format!("warning: {warning}"));
    }
    let pod = match result {
        Ok(pod) => pod,
        Err(message) => {
            output.message(&format!("error: the API server rejects the pod: {message}"));
            return Ok(ExitStatus::Refused);
        }
    };
    if let Some(policies) = pod["metadata"]["annotations"][SKIPPED].as_str() {
        output.message(&format!(
            "error: the pod would not be injected: {policies} matched it and left it alone; the warning above has the reason"
        ));
        return Ok(ExitStatus::Refused);
    }
    if let Some(audited) = audited {
        return in_audit_mode(arguments, &audited, output);
    }
    let Some(stamp) = pod["metadata"]["annotations"][STAMP].as_str() else {
        output.message(&format!(
            "error: the pod would not be injected: the API server returns it without the annotation `{STAMP}`"
        ));
        let hint = if was_called {
            "the API server called the webhook, which left the pod unchanged; the warning above has the reason".to_owned()
        } else {
            runtime.block_on(uncalled(&arguments.namespace))
        };
        output.message(&format!("hint: {hint}"));
        return Ok(ExitStatus::Refused);
    };
    output.data(format!("injected by {stamp}\n").as_bytes())?;
    if arguments.audit {
        output.message("error: the webhook injects pods: it is not in audit mode");
        return Ok(ExitStatus::Refused);
    }
    Ok(ExitStatus::Done)
}

/// Reports what a webhook in audit mode would do.
fn in_audit_mode(arguments: &Arguments, audited: &str, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let Some(stamp) = audited.strip_prefix(WOULD_BE_INJECTED) else {
        output.message("error: the pod would not be injected; the warning above has the reason");
        return Ok(ExitStatus::Refused);
    };
    if !arguments.audit {
        output.message(
            "error: the pod would not be injected: the webhook is in audit mode, and changes no pod",
        );
        output.message("hint: use `--audit` to check what it would do");
        return Ok(ExitStatus::Refused);
    }
    output.data(format!("audit mode: without it, the pod would be injected by {stamp}\n").as_bytes())?;
    Ok(ExitStatus::Done)
}

/// A pod that complies with the restricted Pod Security Standard, so that every namespace admits it.
fn pod(arguments: &Arguments) -> anyhow::Result<Value> {
    let built_in = builtin::find(builtin::DEFAULT).context("there is no built-in policy")?.definition()?;
    let annotations = match arguments.annotations.as_slice() {
        [] => built_in.triggers().iter().take(1).cloned().collect(),
        given => given.to_vec(),
    };
    let annotations: Map<String, Value> =
        annotations.into_iter().map(|(key, value)| (key, json!(value))).collect();
    let default = built_in.gpu_resources().first();
    let gpus = arguments.gpu_resource.as_ref().or(default).context("there is no resource name for GPUs")?;
    let limits = Map::from_iter([(gpus.clone(), json!(GPUS))]);
    let labels = arguments.node_selector.iter();
    let node_selector: Map<String, Value> = labels.map(|(key, value)| (key.clone(), json!(value))).collect();
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "fabric-injector-check-", "annotations": annotations},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": node_selector,
            "automountServiceAccountToken": false,
            "securityContext": {
                // Without `runAsUser`: OpenShift refuses a user that is not of the namespace.
                "runAsNonRoot": true,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "main",
                // A dry run pulls no image.
                "image": "registry.k8s.io/pause",
                "resources": {"limits": limits},
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    }))
}
