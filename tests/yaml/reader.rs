//! The reader of kubectl, which is written in Go.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// A program that reads streams as kubectl does.
pub(crate) struct Reader(pub(crate) PathBuf);

impl Reader {
    /// Builds the program, which Go keeps in its cache.
    pub(crate) fn build(root: &Path, folder: &Path) -> Result<Self, String> {
        let program = folder.join("read-yaml");
        let built = Command::new("go")
            .args(["build", "-mod=readonly", "-buildvcs=false", "-o"])
            .arg(&program)
            .arg("./read-yaml")
            .current_dir(root.join("tests/control-plane"))
            .env("GOFLAGS", "")
            .env("GOWORK", "off")
            .env("GOTOOLCHAIN", "local")
            .output()
            .map_err(|error| format!("there is no Go to build kubectl's reader with: {error}"))?;
        if built.status.success() {
            Ok(Self(program))
        } else {
            Err(format!("kubectl's reader cannot be built: {}", String::from_utf8_lossy(&built.stderr)))
        }
    }

    /// The values of each stream, or why it has none.
    pub(crate) fn read<'t>(
        &self,
        streams: impl Iterator<Item = &'t str> + Send,
    ) -> Vec<Result<Vec<Value>, String>> {
        let mut child = Command::new(&self.0).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let answers = std::thread::scope(|scope| {
            scope.spawn(move || {
                for text in streams {
                    input.write_all(&u32::try_from(text.len()).unwrap().to_be_bytes()).unwrap();
                    input.write_all(text.as_bytes()).unwrap();
                }
            });
            BufReader::new(output).lines().map(|line| answer(&line.unwrap())).collect()
        });
        assert!(child.wait().unwrap().success());
        answers
    }
}

/// What a line of the program says.
pub(crate) fn answer(line: &str) -> Result<Vec<Value>, String> {
    match line.strip_prefix("error: ") {
        Some(error) => Err(error.to_owned()),
        None => Ok(serde_json::from_str(line).unwrap()),
    }
}
