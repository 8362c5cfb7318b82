//! Facts about clouds are in the policies, not in the code.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        let is_code = path.extension().is_some_and(|extension| extension == "rs" || extension == "yaml");
        return is_code.then(|| path.to_owned()).into_iter().collect();
    }
    fs::read_dir(path).unwrap().flat_map(|entry| sources(&entry.unwrap().path())).collect()
}

/// The code of a file without its unit tests and comments.
fn code(file: &Path) -> String {
    if file.ends_with("tests.rs") {
        return String::new();
    }
    let text = fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Names of clouds, their resources and variables belong in `policies`.
#[test]
fn no_provider_knowledge_is_in_the_code() {
    let words = [
        "vpc.amazonaws",
        "efa",
        "mlnxnics",
        "hca_shared",
        "tcpxo",
        "fastrak",
        "rdma-vf",
        "sriov",
        "azure",
        "gke",
        "standard_nd",
        "p5.48",
        "fi_efa",
        "nccl_ib",
        "mlx5",
        "nmp.nvidia",
        "nhx.nvidia",
        "nvidia.com/gpu",
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path().join("src"));
    let folders: Vec<PathBuf> = crates.filter(|folder| folder.is_dir()).chain([root.join("src")]).collect();
    assert_eq!(folders.len(), 8, "{folders:?}");
    for file in folders.iter().flat_map(|folder| sources(folder)) {
        // The list of the built-in policies names their files.
        if file.ends_with("builtin.rs") {
            continue;
        }
        let code = code(&file).to_lowercase();
        for word in words {
            let found = code.match_indices(word).any(|(at, _)| {
                let before = code[..at].chars().next_back().is_none_or(|c| !c.is_ascii_alphanumeric());
                let after = code[at + word.len()..].chars().next().is_none_or(|c| !c.is_ascii_alphanumeric());
                before && after
            });
            assert!(!found, "{} names `{word}`", file.display());
        }
    }
}
