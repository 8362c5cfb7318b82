//! The programs that the scenarios start.

use std::path::PathBuf;

use super::programs::{find, helm};

/// The paths of the programs.
#[derive(Debug)]
pub(crate) struct Binaries {
    pub(crate) etcd: PathBuf,
    pub(crate) apiserver: PathBuf,
    /// Of the oldest release that the chart takes.
    pub(crate) oldest_apiserver: PathBuf,
    pub(crate) controller_manager: PathBuf,
    pub(crate) scheduler: PathBuf,
    pub(crate) kubectl: PathBuf,
    pub(crate) helm: PathBuf,
}

impl Binaries {
    /// Finds all of them, or returns which one is missing.
    pub(crate) fn find() -> Result<Self, String> {
        Ok(Self {
            etcd: find("etcd")?,
            apiserver: find("kube-apiserver")?,
            oldest_apiserver: find("kube-apiserver-oldest")?,
            controller_manager: find("kube-controller-manager")?,
            scheduler: find("kube-scheduler")?,
            kubectl: find("kubectl")?,
            helm: helm()?,
        })
    }
}
