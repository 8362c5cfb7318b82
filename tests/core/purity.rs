//! The core decides about pods and does nothing else: what it may import is held here.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders of `src`: the first is pure, the second is not. A module in neither fails the test.
const CORE: &[&str] = &["core.rs", "core"];
const SHELL: &[&str] = &["main.rs", "lib.rs", "shell.rs", "shell"];

/// What such a module must not name, and where it may be named instead.
const IMPURE: &[(&str, &str)] = &[
    ("std::fs", "files are read by `cli`"),
    ("std::io", "streams are read by `manifest::stream` and written by `cli::output`"),
    ("std::net", "the network is the server's"),
    ("std::time", "the core knows no clock"),
    ("std::env", "the environment is the shell's"),
    ("std::process", "the process is the shell's"),
    ("std::thread", "the core does not know who calls it"),
    ("tokio", "the core does not wait"),
    ("axum", "HTTP is the server's"),
    ("kube::", "the API is asked by `cluster`"),
    ("tracing", "the core reports, others log"),
    ("println!", "only `cli::output` prints"),
    ("hyper", "HTTP is the server's"),
    ("prometheus", "the core reports, others count"),
    ("clap", "arguments are the command line's"),
    ("crate::shell", "arrows point from the shell to the core"),
];

fn sources(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        // Data, such as the table of workloads, is no code.
        let is_code = path.extension().is_some_and(|extension| extension == "rs");
        return is_code.then(|| path.to_owned()).into_iter().collect();
    }
    fs::read_dir(path).unwrap().flat_map(|entry| sources(&entry.unwrap().path())).collect()
}

fn source_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
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

#[test]
fn every_module_is_in_the_core_or_in_the_shell() {
    let mut found: Vec<String> = fs::read_dir(source_root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    found.sort();
    let mut known: Vec<&str> = CORE.iter().chain(SHELL).copied().collect();
    known.sort_unstable();
    assert_eq!(found, known);
}

#[test]
fn the_core_imports_no_input_or_output() {
    for module in CORE {
        for file in sources(&source_root().join(module)) {
            let code = code(&file);
            for (name, instead) in IMPURE {
                assert!(!code.contains(name), "{} names `{name}`, but {instead}", file.display());
            }
        }
    }
}

#[test]
fn one_module_reads_yaml_one_knows_cel_and_one_prints() {
    let only = [
        ("saphyr_parser", "src/core/yaml/"),
        ("cel::", "src/core/policy/expression"),
        ("io::stdout", "src/shell/cli/output.rs"),
        ("io::stderr", "src/shell/cli/output.rs"),
    ];
    for file in sources(&source_root()) {
        let code = code(&file);
        for (name, home) in only {
            let at_home = file.to_string_lossy().contains(home);
            assert!(
                at_home || !code.contains(name),
                "{} names `{name}`, which is for {home}",
                file.display()
            );
        }
    }
}

/// Names of clouds, their resources and variables belong into `policies`.
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
    for file in sources(&source_root()) {
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
