//! What is asked about a cluster, and the answer.

use std::sync::Arc;

use fabric_policy::nodes::Nodes;
use fabric_policy::objects::KnownObjects;

/// The nodes of a cluster, and the objects that pods name.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClusterObjects {
    pub(crate) nodes: Arc<Nodes>,
    /// `None` if nothing was asked about them.
    pub(crate) objects: Option<Arc<KnownObjects>>,
    /// The objects that cannot be read, each with the reason. Names decide in their place.
    pub(crate) unread: Vec<String>,
}

/// The pods whose logs are read.
#[derive(Debug)]
pub(crate) struct Selection<'a> {
    pub(crate) context: Option<&'a str>,
    /// That of the kubeconfig if `None`.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) pods: &'a [String],
    pub(crate) selector: Option<&'a str>,
    pub(crate) job: Option<&'a str>,
    /// Keeps reading until there is a verdict.
    pub(crate) follow: bool,
    /// Runs a script in the pods whose logs do not show the network.
    pub(crate) exec: bool,
}
