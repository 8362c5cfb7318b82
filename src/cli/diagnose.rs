//! `fabric-injector diagnose`: the network that a job used, from the logs of its pods.

use std::io::{self, Read};

use anyhow::Context;
use clap::{ArgGroup, Args};

use crate::cluster::{Selection, block_on, read_logs};
use crate::files::open;
use fabric_nccl::{Diagnosis, Log, Signatures, Verdict, text};

use super::ExitStatus;
use super::output::{Format, Output};
use super::parse::{namespace, object_name};

/// The bytes that are read at once.
const BLOCK: usize = 256 << 10;

/// Report which network a job uses, from the logs of its pods, and what to change. The exit status is 0 on the fabric,
/// 1 elsewhere, 3 if the logs do not show it
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("cluster").args(["pods", "selector", "job"]).multiple(true))]
pub(super) struct Arguments {
    /// A log, or `-` for standard input (the default): of any pods of a job, in any order, with or without the prefixes
    /// of `kubectl logs --prefix`, `stern` and container runtimes
    #[arg(value_name = "FILE|-", default_value = "-", hide_default_value = true)]
    files: Vec<String>,
    /// A pod whose log is read from the cluster, with its status from the API server; may be given several times
    #[arg(long = "pod", value_name = "NAME", value_parser = object_name, conflicts_with = "files")]
    pods: Vec<String>,
    /// The pods with these labels
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "files")]
    selector: Option<String>,
    /// The pods of a Job, JobSet, LeaderWorkerSet, RayCluster, or a job of Kubeflow or Volcano
    #[arg(long, value_name = "NAME", value_parser = object_name, conflicts_with = "files")]
    job: Option<String>,
    /// Keep reading until there is a verdict, or until Ctrl-C. Logs rotate away: begin while the job starts
    #[arg(long, requires = "cluster", conflicts_with = "files")]
    follow: bool,
    /// Where the logs do not show the network, read the files of NCCL's log in each pod, or else run a script, which reads
    /// the counters of its adapters. It takes four seconds, and needs the right to `create` `pods/exec`
    #[arg(long, requires = "cluster", conflicts_with = "files")]
    exec: bool,
    /// The namespace of the pods [default: that of the kubeconfig]
    #[arg(short, long, value_name = "NAME", value_parser = namespace, requires = "cluster", conflicts_with = "files")]
    namespace: Option<String>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "CONTEXT", requires = "cluster", conflicts_with = "files")]
    context: Option<String>,
    /// The form of the report
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let signatures = Signatures::built_in()?;
    let mut log = Log::new(signatures);
    let mut is_whole = true;
    let is_of_cluster = !arguments.pods.is_empty() || arguments.selector.is_some() || arguments.job.is_some();
    if is_of_cluster {
        for failure in block_on(read_logs(&arguments.selection(), signatures, &mut log))? {
            failure.lines().for_each(|line| output.message(line));
        }
    } else {
        let failures = arguments.read_files(&mut log);
        for failure in &failures {
            output.failure(&format!("{failure:#}"), None);
        }
        is_whole = failures.is_empty();
        if failures.len() == arguments.files.len() {
            return Ok(ExitStatus::Bad);
        }
    }
    let diagnosis = Diagnosis::read(&mut log);
    match arguments.output {
        Format::Text => output.text(&text(&diagnosis))?,
        Format::Json => output.json(&diagnosis.object())?,
    }
    Ok(match diagnosis.verdict {
        _ if !is_whole => ExitStatus::Bad,
        Verdict::Fabric => ExitStatus::Done,
        Verdict::Unknown => ExitStatus::Unknown,
        Verdict::SingleNode | Verdict::Tcp | Verdict::Mixed | Verdict::Crash => ExitStatus::Refused,
    })
}

impl Arguments {
    fn selection(&self) -> Selection<'_> {
        Selection {
            context: self.context.as_deref(),
            namespace: self.namespace.as_deref(),
            pods: &self.pods,
            selector: self.selector.as_deref(),
            job: self.job.as_deref(),
            follow: self.follow,
            exec: self.exec,
        }
    }

    /// Reads the files, and returns why some of them cannot be read.
    fn read_files(&self, log: &mut Log<'_>) -> Vec<anyhow::Error> {
        let mut failures = Vec::new();
        for name in &self.files {
            let done = open(name).and_then(|(name, opened)| read(log, name, opened));
            failures.extend(done.err());
        }
        failures
    }
}

fn read(log: &mut Log<'_>, source: &str, mut from: impl Read) -> anyhow::Result<()> {
    log.begin(source);
    let mut block = vec![0; BLOCK];
    loop {
        match from.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(length) => log.read(&block[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).with_context(|| format!("{source} cannot be read")),
        }
    }
}
