//! `fabric-injector nodes`: the pools of a cluster, and the results for pods on them.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};

use crate::cluster::{block_on, try_pending};
use crate::policy_sources::PolicySources;
use fabric_policy::objects::ObjectName;
use fabric_tools::explain::{SourceKind, Sources, Text};
use fabric_tools::inspection::of_absent;
use fabric_tools::pools::{Pool, pools};
use fabric_workloads::advice::claims_without_devices;
use fabric_yaml::counted;

use crate::cli::ExitStatus;
use crate::cli::node_options::NodeArguments;
use crate::cli::output::{Format, Output};

/// Show the pools of a cluster: their machines, GPUs and devices, the result for a pod there, and problems
///
/// A pool is the nodes with the same GPUs and the same labels, as far as policies read them. Without a policy or a
/// provider, all built-in policies are in use, and the nodes choose among them.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Exit status: 0 nothing is wrong; 1 a pool has a problem; 2 bad usage, input or policy."
)]
pub(crate) struct Arguments {
    /// The nodes: the output of `kubectl get nodes -o json` or `-o yaml`, or `-` for standard input [default: those of
    /// the cluster of `KUBECONFIG` or `~/.kube/config`]
    #[arg(short = 'f', long = "filename", value_name = "FILE|-")]
    file: Option<String>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "CONTEXT", conflicts_with = "file")]
    context: Option<String>,
    #[command(flatten)]
    policies: PolicySources,
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let options = NodeArguments::new(arguments.file.clone(), arguments.context.clone());
    let objects = options.read(false)?.unwrap_or_default();
    let (nodes, known) = (&objects.nodes, objects.objects.as_ref());
    let sources = PolicySources { by_nodes: true, ..arguments.policies.clone() };
    let loaded = sources.load_with_origins()?;
    loaded.notes.iter().for_each(|note| output.message(note));
    let origins = Sources { values: loaded.values.as_ref(), sets: &loaded.sets };
    let pools = pools(&loaded.policies, origins, nodes, known);
    match arguments.output {
        Format::Json => output.json(&json!({"version": 1, "nodes": nodes.len(), "pools": pools}))?,
        Format::Text if pools.is_empty() => {
            output.message(&format!("{}, and no GPU that a policy knows", counted(nodes.len(), "node")));
        }
        Format::Text => output.text(&text(&pools))?,
    }
    let unmet = known.map(|known| claims_without_devices(nodes, known)).unwrap_or_default();
    for (ObjectName { kind, namespace, name }, problem) in &unmet {
        let kind = &kind.api().kind;
        output.message(&format!("warning: {kind} `{name}` of the namespace `{namespace}`: {problem}"));
    }
    if arguments.file.is_none() {
        // The nodes are the result, also for a user who may not list pods.
        let tried = block_on(try_pending(arguments.context.as_deref(), &loaded.policies, &objects));
        if let Some((seen, remedy)) = tried.ok().as_ref().and_then(of_absent) {
            output.message(&format!("warning: {seen}\nhint: {remedy}"));
        }
    }
    let is_well = unmet.is_empty() && pools.iter().all(|pool| pool.problems.is_empty());
    Ok(if is_well { ExitStatus::Done } else { ExitStatus::Warned })
}

fn text(pools: &[Pool]) -> String {
    let heads = ["MACHINE", "READY", "GPUS", "DEVICES", "POLICY", "PARAMETERS"].map(str::to_owned);
    let rows: Vec<[String; 6]> = [heads].into_iter().chain(pools.iter().map(row)).collect();
    let mut text = Text::default();
    text.rows(0, &rows);
    for pool in pools {
        for problem in &pool.problems {
            text.section(&format!("warning: {}: {} ({})", machine(pool), problem.message, problem.code));
        }
    }
    text.finish()
}

fn row(pool: &Pool) -> [String; 6] {
    let counts = |counts: &BTreeMap<String, i64>| {
        counts.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
    };
    let parameters = pool.parameters.iter().map(|parameter| {
        let source = match parameter.value.source {
            SourceKind::Nodes => "nodes",
            _ => "table",
        };
        let value = match &parameter.value.value {
            Value::String(text) => text.clone(),
            // A whole number of the type `number`.
            other => other.to_string().trim_end_matches(".0").to_owned(),
        };
        format!("{}={value} ({source})", parameter.value.name)
    });
    [
        machine(pool).to_owned(),
        format!("{}/{}", pool.ready, pool.nodes),
        counts(&pool.gpus),
        counts(&pool.devices),
        pool.policy.clone().unwrap_or_else(|| "none".to_owned()),
        parameters.collect::<Vec<_>>().join(", "),
    ]
}

fn machine(pool: &Pool) -> &str {
    if pool.machine.is_empty() { "(no label)" } else { &pool.machine }
}
