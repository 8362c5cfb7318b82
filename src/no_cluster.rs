//! In place of `cluster`, for a page, which has no connection to a cluster.

#[path = "cluster/asked.rs"]
mod asked;

use std::future::Ready;

use anyhow::anyhow;

use fabric_nccl::{Log, Signatures};

pub(crate) use asked::{ClusterObjects, Selection};

/// The result of work that has ended.
pub(crate) fn block_on<T>(work: Ready<anyhow::Result<T>>) -> anyhow::Result<T> {
    work.into_inner()
}

pub(crate) fn objects_of_cluster(_context: Option<&str>) -> Ready<anyhow::Result<ClusterObjects>> {
    no_cluster()
}

pub(crate) fn read_logs(
    _selection: &Selection<'_>,
    _signatures: &Signatures,
    _log: &mut Log<'_>,
) -> Ready<anyhow::Result<Vec<String>>> {
    no_cluster()
}

fn no_cluster<T>() -> Ready<anyhow::Result<T>> {
    std::future::ready(Err(anyhow!("a page has no connection to a cluster")))
}
