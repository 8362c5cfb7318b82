//! `fabric-injector check`: examines an installation in a cluster.

use clap::Args;
use serde_json::json;

use crate::cluster::{block_on, examine};
use fabric_tools::inspection::{Line, Probe, Status, checks};

use crate::cli::ExitStatus;
use crate::cli::fail_on::FailOnArguments;
use crate::cli::output::{Format, Output};
use crate::cli::parse::{annotation, namespace, object_name};

/// The version of the JSON form, which changes if a field is removed or changes its meaning.
const VERSION: u32 = 1;

/// Examine an installation: its registration, certificate, conditions, guard, policies, servers and namespaces, whether
/// pods with the trigger annotation are injected, and which running workloads would be refused now
///
/// The pods are created as dry runs. The requests pass the registration, the Service, the certificate and the policy
/// like that of any pod, and the API server stores nothing.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Uses the cluster of `KUBECONFIG` or `~/.kube/config`, else the one of the pod in which it runs. A check that needs \
    a right which is missing is a warning that names the right; if most checks cannot be made, the line `rights` fails.\n\n\
    Exit status: 0 no check fails; 1 a check fails, or a warning counts by `--fail-on`, whose codes are the names of checks; \
    2 bad usage, or the API server could not be reached."
)]
pub(crate) struct Arguments {
    /// The name of the release, or of its objects [default: the only one in the cluster]
    #[arg(long, value_name = "RELEASE", value_parser = object_name)]
    name: Option<String>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    /// The namespace of the pod [default: `default` if the webhook gets its pods, else the first such namespace]
    #[arg(long, value_name = "NAME", value_parser = namespace)]
    namespace: Option<String>,
    /// An annotation of the pod; may be given several times [default: the trigger of the installed policies]
    #[arg(long = "annotation", value_name = "KEY=VALUE", value_parser = annotation)]
    annotations: Vec<(String, String)>,
    /// The resource name of GPUs [default: that of the installed policies]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    gpu_resource: Option<String>,
    /// A label that the pod selects its node by, such as `node.kubernetes.io/instance-type=p5.48xlarge`; may be given
    /// several times [default: nodes of the cluster, or else one that the installed policies know]
    #[arg(long = "node-selector", value_name = "KEY=VALUE", value_parser = annotation)]
    node_selector: Vec<(String, String)>,
    /// Expect a webhook in audit mode, which reports the injection and leaves the pod unchanged
    #[arg(long)]
    audit: bool,
    /// The form of the output
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text")]
    output: Format,
    #[command(flatten)]
    fail_on: FailOnArguments,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let fail_on = arguments.fail_on.given();
    fail_on.map_or(Ok(()), |fail_on| fail_on.validate(checks()))?;
    let probe = Probe {
        namespace: arguments.namespace.clone(),
        annotations: arguments.annotations.clone(),
        gpu_resource: arguments.gpu_resource.clone(),
        node_selector: arguments.node_selector.clone(),
        audit: arguments.audit,
    };
    let (context, name) = (arguments.context.as_deref(), arguments.name.as_deref());
    let lines = block_on(examine(context, name, &probe))?;
    match arguments.output {
        Format::Text => output.text(&lines.iter().map(text).collect::<String>())?,
        Format::Json => output.json(&json!({"version": VERSION, "checks": lines}))?,
    }
    let counts = |line: &Line| match line.status {
        Status::Ok => false,
        Status::Warn => fail_on.is_some_and(|fail_on| fail_on.counts(line.check)),
        Status::Fail => true,
    };
    Ok(if lines.iter().any(counts) { ExitStatus::Refused } else { ExitStatus::Done })
}

/// The line of a check. Continuation lines are below its text.
fn text(Line { check, status, seen, remedy }: &Line) -> String {
    let status = match status {
        Status::Ok => "ok",
        Status::Warn => "warn",
        Status::Fail => "fail",
    };
    let remedy = if remedy.is_empty() { String::new() } else { format!("\nremedy: {remedy}") };
    let below = format!("\n{:22}", "");
    format!("{status:<6}{check:<16}{}\n", format!("{seen}{remedy}").replace('\n', &below))
}
