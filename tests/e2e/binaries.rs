//! Where the programs of a control plane are.

use std::env;
use std::path::{Path, PathBuf};

/// The folder that the ecosystem's tools fill, such as `setup-envtest`.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// The programs.
#[derive(Debug)]
pub(crate) struct Binaries {
    pub(crate) etcd: PathBuf,
    pub(crate) apiserver: PathBuf,
    pub(crate) controller_manager: PathBuf,
    pub(crate) scheduler: PathBuf,
    pub(crate) kubectl: PathBuf,
    pub(crate) helm: PathBuf,
}

impl Binaries {
    /// Finds all of them, or says what is missing.
    pub(crate) fn find() -> Result<Self, String> {
        Ok(Self {
            etcd: find("etcd", None)?,
            apiserver: find("kube-apiserver", None)?,
            controller_manager: find("kube-controller-manager", None)?,
            scheduler: find("kube-scheduler", None)?,
            kubectl: find("kubectl", None)?,
            helm: find("helm", env::var_os("HELM").map(PathBuf::from))?,
        })
    }
}

/// A program: the one that is named, that of the assets, or that of the cache. The assets need not have all of them:
/// `setup-envtest` brings neither a scheduler nor controllers.
fn find(name: &str, named: Option<PathBuf>) -> Result<PathBuf, String> {
    let assets = env::var_os(ASSETS).map(|folder| Path::new(&folder).join(name));
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/control-plane/.cache/bin").join(name);
    let found = [named, assets, Some(cache)].into_iter().flatten().find(|path| path.is_file());
    found.ok_or_else(|| {
        format!(
            "there is no `{name}`; set `{ASSETS}` to a folder with it, or run `tests/control-plane/build`"
        )
    })
}
