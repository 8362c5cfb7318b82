//! The programs of a control plane, for the tests that run them.

use std::env;
use std::path::{Path, PathBuf};

/// The folder that the ecosystem's tools fill, such as `setup-envtest`.
const ASSETS: &str = "KUBEBUILDER_ASSETS";
/// Set in the environment, this turns each test that would be ignored for the lack of a program into a failure.
const REQUIRED: &str = "CI_REQUIRE_CONTROL_PLANE";

/// Finds a program: in the assets, in the cache that `tests/control-plane/build` fills, or else on the `PATH`. The
/// assets need not have all of them: `setup-envtest` brings neither a scheduler nor controllers.
pub(crate) fn find(name: &str) -> Result<PathBuf, String> {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/control-plane/.cache/bin");
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::var_os(ASSETS).map(PathBuf::from).into_iter().chain([cache]);
    folders
        .chain(env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| {
            format!(
                "there is no `{name}`: put one on the `PATH`, set `{ASSETS}` to a folder with it, or run \
                 `tests/control-plane/build`"
            )
        })
}

/// Finds Helm: the file that `HELM` names, or else as any other program.
pub(crate) fn helm() -> Result<PathBuf, String> {
    let Some(named) = env::var_os("HELM").map(PathBuf::from) else { return find("helm") };
    if named.is_file() {
        Ok(named)
    } else {
        Err(format!("`HELM` is set to `{}`, which is no file", named.display()))
    }
}

/// Returns true if the lack of a program is a failure.
pub(crate) fn required() -> bool {
    env::var_os(REQUIRED).is_some()
}
