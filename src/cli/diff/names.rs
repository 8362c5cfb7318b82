//! The names of files in a diff.
//!
//! `patch` and `git apply` accept neither an absolute path nor one with `..`, and change no file through a symbolic
//! link. A diff therefore names each file itself, below a folder that contains them all: the working directory, or one
//! above it.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};
use std::{env, fs};

/// The names of the files of a diff.
#[derive(Debug)]
pub(crate) struct Names {
    /// The folder in which the diff applies.
    root: PathBuf,
    /// The first file that is not below the working directory.
    outside: Option<PathBuf>,
    named: HashSet<PathBuf>,
}

impl Names {
    /// Finds the folder in which a diff of these files applies.
    pub(crate) fn new(files: &[PathBuf]) -> Self {
        let mut root = env::current_dir().and_then(fs::canonicalize).unwrap_or_default();
        let mut outside = None;
        for file in files {
            let Ok(target) = fs::canonicalize(file) else { continue };
            if target.is_file() && !target.starts_with(&root) {
                outside.get_or_insert_with(|| file.clone());
                while !target.starts_with(&root) && root.pop() {}
            }
        }
        Self { root, outside, named: HashSet::new() }
    }

    /// The name of a file. `None` if an earlier path leads to the same file, which the diff would change twice.
    pub(crate) fn name(&mut self, file: &Path) -> Option<Vec<u8>> {
        let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let below = target.strip_prefix(&self.root).unwrap_or(&target);
        let name: PathBuf = below.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        let name = name.as_os_str().as_encoded_bytes().to_vec();
        self.named.insert(target).then_some(name)
    }

    /// The reason why the diff does not apply in the working directory.
    pub(crate) fn elsewhere(&self) -> Option<String> {
        let (outside, root) = (self.outside.as_ref()?.display(), self.root.display());
        Some(format!("`{outside}` is outside of the working directory: apply the diff in `{root}`"))
    }
}

/// A file name as `patch` and `git apply` read it: with a tab after it if it has spaces, and in quotes if it ends with
/// one or has control characters.
pub(super) fn quoted(name: &[u8]) -> Vec<u8> {
    let is_special = |byte: &u8| byte.is_ascii_control() || matches!(byte, b'"' | b'\\');
    if !name.iter().any(is_special) && !name.ends_with(b" ") {
        let tab: &[u8] = if name.contains(&b' ') { b"\t" } else { b"" };
        return [name, tab].concat();
    }
    let mut out = vec![b'"'];
    for byte in name {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            b' '..=b'~' => out.push(*byte),
            byte => out.extend(format!("\\{byte:03o}").into_bytes()),
        }
    }
    out.push(b'"');
    out
}
