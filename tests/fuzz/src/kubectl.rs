//! kubectl's reader, a process that answers one stream after the other, and the comparison of `tests/yaml`.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::json::change_by;

#[path = "../../yaml/classes.rs"]
mod classes;
#[path = "../../yaml/comparison.rs"]
mod comparison;
#[path = "../../yaml/reader.rs"]
mod reader;

use comparison::{Reading, all_same, kind};

struct Process {
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

thread_local! {
    static PROCESS: RefCell<Process> = RefCell::new(Process::start());
}

impl Process {
    fn start() -> Self {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let program = reader::Reader::build(Path::new(root), &std::env::temp_dir()).unwrap().0;
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { _child: child, input, output }
    }

    fn read(&mut self, stream: &str) -> Result<Vec<Value>, String> {
        self.input.write_all(&u32::try_from(stream.len()).unwrap().to_be_bytes()).unwrap();
        self.input.write_all(stream.as_bytes()).unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        reader::answer(line.trim_end_matches('\n'))
    }
}

fn read(stream: &str) -> Result<Vec<Value>, String> {
    PROCESS.with_borrow_mut(|process| process.read(stream))
}

/// Fails if kubectl reads a stream differently, as it is or after a change, and no class of `tests/yaml` says why.
pub fn compare(stream: &str) {
    let ours = Reading::changed(stream, &mut |map| change_by(stream, map));
    let theirs = read(stream);
    match (&ours.values, &theirs) {
        (Ok(values), Ok(expected)) => {
            assert!(all_same(values, expected), "{stream:?}\n  is read as {values:?}\n  not {expected:?}");
            let Some((text, wanted)) = &ours.edited else { return };
            let theirs = read(text);
            assert!(
                theirs.as_ref().is_ok_and(|values| all_same(wanted, values)),
                "{stream:?}\n  became {text:?}\n  of {wanted:?}\n  is {theirs:?}"
            );
        }
        (Err(_), Err(_)) => {}
        (Err(error), Ok(expected)) if classes::refused(&kind(error)).is_none() => {
            let before = classes::before(stream, error);
            let before =
                before.unwrap_or_else(|| panic!("{stream:?}\n  is refused: {error}\n  not {expected:?}"));
            // Of a few streams, kubectl refuses the part.
            let Ok(before) = read(before) else { return };
            let same = expected.len() >= before.len() && all_same(&before, &expected[..before.len()]);
            assert!(same, "{stream:?}\n  is refused: {error}\n  not {expected:?}");
        }
        (Err(_), Ok(_)) => {}
        (Ok(values), Err(error)) => {
            assert!(
                classes::accepted(error).is_some(),
                "{stream:?}\n  is read as {values:?}\n  refused: {error}"
            );
        }
    }
}
