//! `fabric-injector manifests`: what to apply to a cluster, for those who use neither Helm nor kustomize.

use anyhow::ensure;
use clap::{Args, ValueEnum};

use crate::core::installation::{GuardAction, Installation};
use crate::core::registration;
use crate::core::yaml;
use crate::shell::builtin;
use crate::shell::selection::Selection;

use super::Status;
use super::cluster::namespace;
use super::output::Output;
use super::selection::SelectionArguments;

/// Print the objects that install the webhook, for those who use neither Helm nor kustomize
///
/// The webhook is registered for the pods that the policies are for. What each choice is for stands in the comments of
/// `deploy/manifests` and in `docs/install.md`.
#[derive(Debug, Args)]
#[command(
    after_long_help = "To install: fabric-injector manifests --values values.yaml | kubectl apply -f -"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    selection: SelectionArguments,
    /// Where to install; the default one is printed as well, any other has to be there. Pods in it are not served
    #[arg(long, value_name = "NAME", default_value = "fabric-injector", value_parser = own_namespace)]
    namespace: String,
    /// The image of the server [default: that of this version]
    #[arg(long, value_name = "IMAGE", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    image: Option<String>,
    /// What becomes of a pod that asks for multi-node networking when no server answers
    #[arg(long, value_enum, default_value = "fail", ignore_case = true)]
    failure_policy: FailurePolicy,
    /// What a policy of the API server does about such a pod that was not served
    #[arg(long, value_enum, default_value = "warn", ignore_case = true)]
    guard: Guard,
}

/// A namespace that the servers may have for themselves: its pods are left alone.
fn own_namespace(text: &str) -> Result<String, String> {
    if text == "default" || text.starts_with("kube-") {
        return Err("pods of the servers' namespace are not served, so choose one of its own".to_owned());
    }
    namespace(text)
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FailurePolicy {
    /// Refused; all other pods start
    Fail,
    /// Let through as it came; the guard says so
    Ignore,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Guard {
    /// Tells whoever creates it
    Warn,
    /// Refuses it
    Deny,
    /// There is none
    None,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Status> {
    let sources = Selection::from(arguments.selection.clone()).read()?;
    let policies = sources.compile()?;
    let definitions = policies.policies().iter().map(crate::core::policy::Policy::definition);
    let (built_in, own): (Vec<_>, Vec<_>) = definitions.partition(|definition| {
        builtin::find(&definition.name).is_some_and(|one| one.text == definition.text)
    });
    let installation = Installation {
        namespace: arguments.namespace.clone(),
        image: arguments.image.clone(),
        failure_policy: match arguments.failure_policy {
            FailurePolicy::Fail => "Fail",
            FailurePolicy::Ignore => "Ignore",
        },
        guard: match arguments.guard {
            Guard::Warn => GuardAction::Warn,
            Guard::Deny => GuardAction::Deny,
            Guard::None => GuardAction::None,
        },
        settings: sources.settings()?,
        built_in: built_in.iter().map(|definition| definition.name.clone()).collect(),
        policies: own.iter().map(|one| (format!("{}.yaml", one.name), one.text.clone())).collect(),
        condition: registration::webhook_condition(&policies),
        guard_conditions: registration::guard_conditions(&policies),
    };
    let size: usize = installation.policies.iter().map(|(_, text)| text.len()).sum();
    ensure!(size <= MAX_CONFIG_MAP, "the policies have {size} bytes, and a ConfigMap holds {MAX_CONFIG_MAP}");
    let objects = installation.objects()?;
    let documents: Vec<String> = objects.iter().map(yaml::write).collect();
    output.data(documents.join("---\n").as_bytes())?;
    Ok(Status::Done)
}

/// What the API server takes, without its own part.
const MAX_CONFIG_MAP: usize = 1_000_000;
