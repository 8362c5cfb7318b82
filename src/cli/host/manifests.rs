//! `fabric-injector manifests`: the objects of an installation without Helm and kustomize.

use anyhow::ensure;
use clap::{Args, ValueEnum};

use crate::builtin;
use crate::policy_sources::PolicySources;
use fabric_engine::admission::Mode;
use fabric_engine::registration;
use fabric_policy::Definition;
use fabric_tools::manifests::{GuardAction, Installation};
use fabric_yaml as yaml;

use super::serve::ModeArgument;
use crate::cli::ExitStatus;
use crate::cli::output::Output;
use crate::cli::parse::namespace;

/// Print the objects that install the webhook without Helm and kustomize
///
/// The webhook is registered for the pods that the policies match. Without a policy or a provider, all built-in policies
/// are in use, and the nodes choose among them. The comments in `deploy/manifests` and `docs/registration.md` explain each
/// choice.
#[derive(Debug, Args)]
#[command(after_long_help = "To install: fabric-injector manifests --image IMAGE | kubectl apply -f -")]
pub(crate) struct Arguments {
    #[command(flatten)]
    policies: PolicySources,
    /// The namespace of the installation, whose pods are not injected; the output includes the default namespace;
    /// any other must already exist
    #[arg(long, value_name = "NAME", default_value = "fabric-injector", value_parser = added_namespace)]
    namespace: String,
    /// The image of the server, such as `registry.example.com/fabric-injector:0.1.0`; `docs/image.md` describes how to
    /// build and push one
    #[arg(long, value_name = "IMAGE", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    image: String,
    /// The response for a pod that requests multi-node networking when no replica answers
    #[arg(long, value_enum, default_value = "fail", ignore_case = true)]
    failure_policy: FailurePolicy,
    /// The action of a ValidatingAdmissionPolicy on such a pod that was not injected
    #[arg(long, value_enum, default_value = "warn", ignore_case = true)]
    guard: Guard,
    /// Whether pods are injected; with `audit`, the failure policy is `ignore` and there is no guard
    #[arg(long, value_enum, default_value = "inject", ignore_case = true)]
    mode: ModeArgument,
}

/// A namespace for the server alone, because its pods are not injected.
fn added_namespace(text: &str) -> Result<String, String> {
    if text == "default" || text.starts_with("kube-") {
        return Err(
            "pods in the namespace of the server are not injected; choose a namespace for the server alone"
                .to_owned(),
        );
    }
    namespace(text)
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FailurePolicy {
    /// The API server rejects it; all other pods start
    Fail,
    /// The API server admits it unchanged, and the guard reports it
    Ignore,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Guard {
    /// Warn the client that creates it
    Warn,
    /// Deny it
    Deny,
    /// No guard
    None,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let named = PolicySources { by_nodes: true, ..arguments.policies.clone() };
    let sources = named.read()?;
    let policies = sources.compile()?;
    sources.notes.iter().for_each(|note| output.message(note));
    let definitions = policies.policies().iter().map(fabric_policy::Policy::definition);
    let (built_in, own): (Vec<_>, Vec<_>) =
        definitions.partition(|definition| builtin::is_built_in(definition));
    // The values choose the policies of one provider, and all built-in policies.
    let is_chosen_by_values = own.is_empty() && (!policies.several_providers || named.policies.is_empty());
    let built_in = if is_chosen_by_values { Vec::new() } else { built_in };
    let mode = Mode::from(arguments.mode);
    let installation = Installation {
        namespace: arguments.namespace.clone(),
        image: arguments.image.clone(),
        failure_policy: match (mode, arguments.failure_policy) {
            (Mode::Inject, FailurePolicy::Fail) => "Fail",
            (Mode::Audit, _) | (_, FailurePolicy::Ignore) => "Ignore",
        },
        guard: match (mode, arguments.guard) {
            (Mode::Audit, _) | (_, Guard::None) => GuardAction::None,
            (_, Guard::Warn) => GuardAction::Warn,
            (_, Guard::Deny) => GuardAction::Deny,
        },
        mode,
        settings: sources.settings()?,
        built_in: built_in.iter().map(|definition| definition.name.clone()).collect(),
        policies: own_files(&own),
        conditions: registration::webhook_conditions(&policies),
        guard_conditions: registration::guard_conditions(&policies),
        advice_condition: registration::advice_condition(&policies),
    };
    let size: usize = installation.policies.iter().map(|(_, text)| text.len()).sum();
    ensure!(
        size <= MAX_CONFIG_MAP,
        "the policies have {size} bytes, and a ConfigMap holds at most {MAX_CONFIG_MAP}"
    );
    let objects = installation.objects()?;
    let documents: Vec<String> = objects.iter().map(yaml::write).collect();
    output.data(documents.join("---\n").as_bytes())?;
    Ok(ExitStatus::Done)
}

/// The files of policies that are not built in, with those that they extend.
fn own_files(own: &[&Definition]) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = Vec::new();
    for (policy, text) in own.iter().copied().flat_map(builtin::files_of) {
        let file = (format!("{policy}.yaml"), text.to_owned());
        if !builtin::has_file(policy, text) && !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// The size limit of a ConfigMap, less some space for its metadata.
const MAX_CONFIG_MAP: usize = 1_000_000;
