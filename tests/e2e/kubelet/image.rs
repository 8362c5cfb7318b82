//! The image of the program: its binary with the libraries that it is linked to, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The repository of the image in all scenarios.
pub(crate) const REPOSITORY: &str = "registry.example/fabric-injector";
/// The program in the image.
pub(super) const ENTRYPOINT: &str = "/fabric-injector";

/// A folder that the roots of containers are made from.
pub(super) struct Image {
    /// Files below the root of a container, and where they lie.
    files: Vec<(PathBuf, PathBuf)>,
}

impl Image {
    /// Gathers the image in a folder.
    pub(super) fn new(folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_fabric-injector"));
        let mut files = vec![(PathBuf::from(ENTRYPOINT), program.to_owned())];
        files.extend(libraries(program).into_iter().map(|library| (library.clone(), library)));
        // Copies, of which containers have links: the program may lie on another file system than the containers.
        for (number, (_, source)) in files.iter_mut().enumerate() {
            let copy = folder.join(number.to_string());
            fs::copy(&source, &copy).unwrap();
            *source = copy;
        }
        Self { files }
    }

    /// Whether a pod is to run the program.
    pub(super) fn is_of(pod: &Value) -> bool {
        let image = pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
        image.strip_prefix(REPOSITORY).is_some_and(|rest| rest.starts_with([':', '@']))
    }

    /// Makes the root of a container.
    pub(super) fn unpack(&self, root: &Path) {
        for (path, source) in &self.files {
            let target = root.join(path.strip_prefix("/").unwrap());
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::hard_link(source, target).unwrap();
        }
    }
}

/// The libraries that a program is linked to, and what loads them; none of a static one.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words = text.split_whitespace().filter(|word| word.starts_with('/'));
    words.map(PathBuf::from).filter(|path| path.is_file()).collect()
}
