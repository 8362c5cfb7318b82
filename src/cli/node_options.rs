//! The options for the nodes of the cluster in which the pods will run.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, ensure};
use clap::Args;

use crate::cluster::{ClusterObjects, block_on, objects_of_cluster};
use crate::files::{Allowed, read_bounded};
use fabric_policy::device_classes::with_classes;
use fabric_policy::nodes::Objects;
use fabric_policy::objects::NamedObject;
use fabric_workloads::manifest::{Document, List, RawDocument};

/// The limit on a file with nodes. One node takes about 20 KiB.
const FILE: Allowed = Allowed { what: "list of nodes", mebibytes: 1024, pipes: true };

/// The options for the nodes of the cluster in which the pods will run.
#[derive(Debug, Clone, Args)]
pub(super) struct NodeArguments {
    /// The nodes of the cluster in which the pods will run: the output of `kubectl get nodes -o json` or `-o yaml`, or
    /// `-` for standard input; with `kubectl get nodes,resourceslices`, GPUs of DRA drivers count, too
    #[arg(long, value_name = "FILE|-", conflicts_with = "cluster")]
    nodes: Option<String>,
    /// The nodes of the cluster of `KUBECONFIG` or `~/.kube/config`, else of the one of the pod in which the command
    /// runs
    #[arg(long)]
    cluster: bool,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "CONTEXT", requires = "cluster")]
    context: Option<String>,
}

impl NodeArguments {
    /// The nodes of a file, or of the cluster of a context if there is none.
    pub(super) fn new(file: Option<String>, context: Option<String>) -> Self {
        Self { cluster: file.is_none(), nodes: file, context }
    }

    pub(super) fn are_given(&self) -> bool {
        self.cluster || self.nodes.is_some()
    }

    /// The nodes and claims, if an option names them. `reads_stdin` says whether a manifest comes from standard input.
    pub(super) fn read(&self, reads_stdin: bool) -> anyhow::Result<Option<ClusterObjects>> {
        let objects = match self.nodes.as_deref() {
            None if self.cluster => block_on(objects_of_cluster(self.context.as_deref()))?,
            None => return Ok(None),
            Some("-") => {
                ensure!(
                    !reads_stdin,
                    "`--nodes -` reads standard input, and so does the manifest\nhint: name a file for one of them"
                );
                let mut bytes = Vec::new();
                let limit = FILE.mebibytes << 20;
                io::stdin().lock().take(limit + 1).read_to_end(&mut bytes).context("stdin cannot be read")?;
                ensure!(bytes.len() as u64 <= limit, "stdin exceeds the {} MiB limit", FILE.mebibytes);
                parse("stdin", bytes)?
            }
            Some(name) => parse(name, read_bounded(Path::new(name), Path::new(name), FILE)?)?,
        };
        Ok(Some(objects))
    }
}

/// Reads a list of nodes item by item if it can be split, because the value of a whole list takes much more memory than
/// the parts that are kept.
fn parse(name: &str, bytes: Vec<u8>) -> anyhow::Result<ClusterObjects> {
    let raw = RawDocument::new(bytes);
    if let Some(mut list) = List::split(&raw) {
        let mut objects = Objects::default();
        let are_read = (0..list.count()).all(|at| match list.read(at) {
            Some((_, Document { value: Some(value), .. })) => objects.read(&value["items"][0]).is_ok(),
            _ => false,
        });
        if are_read {
            return Ok(cluster(objects));
        }
    }
    let document = Document::read(&raw).map_err(|error| anyhow!("{name}: {error}"))?;
    Objects::of_list(&document.value.unwrap_or_default())
        .map(cluster)
        .map_err(|error| anyhow!("{name}: {error}\nhint: write it with `kubectl get nodes -o json`, or `kubectl get nodes,resourceslices -o json`"))
}

fn cluster(mut objects: Objects) -> ClusterObjects {
    let named = std::mem::take(&mut objects.named);
    let nodes = with_classes(objects.nodes(), named.iter().filter_map(NamedObject::class)).into();
    let named = (!named.is_empty()).then(|| Arc::new(named.into_iter().collect()));
    ClusterObjects { objects: named, nodes, unread: Vec::new() }
}
