//! The program as its users meet it: the real binary, its arguments, its streams and its exit status.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod by_hand;
mod certs;
mod certs_folder;
mod certs_refused;
mod changed;
mod claims;
mod cluster;
mod completions;
mod conditions;
mod control;
mod dependencies;
mod device_classes;
mod devices;
mod diagnose;
mod diffs;
mod docs;
mod documents;
mod edits;
mod errors;
mod exit_policy;
mod explain;
mod extended_parameters;
mod extended_rules;
mod extends;
mod first_policy;
mod in_place;
mod input;
mod interrupted;
mod kubectl;
mod limits;
mod lint;
mod lists;
mod man;
mod manifests;
mod nccl_test;
mod near_misses;
mod nodes;
mod operating_docs;
mod output;
mod parts;
mod pipeline;
mod policy_check;
mod policy_coverage;
mod policy_errors;
mod policy_list;
mod policy_new;
mod policy_schema;
mod policy_test;
mod pools;
mod readme;
mod report;
mod restamped;
mod review;
mod samples;
mod serve_docs;
mod server;
mod sets;
mod streams;
mod untouched;
mod usage;
mod values;
mod without_trigger;
mod workloads;

#[path = "../injection/golden/masked.rs"]
mod masked;

use std::fmt::Display;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use masked::without_digests;
use samples::{
    POD, POLICY, ROOT, SETTINGS, SMALL, TRIGGER, all_workloads, file, folder, refusing, workloads,
};

/// What a run of the program left behind.
#[derive(Debug)]
struct Run {
    /// The exit status; `None` if a signal ended it.
    status: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
    /// Where it ran.
    folder: String,
}

impl Run {
    /// The run, if it ended with this status.
    #[track_caller]
    fn exits(self, status: i32) -> Self {
        assert_eq!(self.status, Some(status), "stdout:\n{}\nstderr:\n{}", self.text_lossy(), self.stderr);
        self
    }

    /// Standard output as text.
    #[track_caller]
    fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("standard output is UTF-8")
    }

    fn text_lossy(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard output as JSON values, one after another.
    #[track_caller]
    fn values(&self) -> Vec<Value> {
        let values = serde_json::Deserializer::from_slice(&self.stdout).into_iter();
        values.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error} in\n{}", self.text_lossy()))
    }

    /// Standard output as JSON values, each on a line of its own.
    #[track_caller]
    fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// Standard output as YAML documents, blank ones left out.
    #[track_caller]
    fn documents(&self) -> Vec<Value> {
        documents(self.text())
    }

    /// What `--report json` wrote.
    #[track_caller]
    fn reports(&self) -> Vec<Value> {
        self.stderr.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// The exit status and what it wrote, as snapshots have them: without paths and digests of their own time.
    #[track_caller]
    fn recorded(&self) -> String {
        let mut text =
            format!("exit status: {}\n", self.status.map_or("none".to_owned(), |status| status.to_string()));
        for (name, stream) in [("stdout", self.text()), ("stderr", &self.stderr)] {
            if !stream.is_empty() {
                let end = if stream.ends_with('\n') { "" } else { "\n[no newline]\n" };
                text += &format!("----- {name} -----\n{stream}{end}");
            }
        }
        self.masked(&text)
    }

    /// Standard error alone, as snapshots have it.
    fn said(&self) -> String {
        self.masked(&self.stderr)
    }

    fn masked(&self, text: &str) -> String {
        without_digests(&text.replace(&self.folder, "[folder]").replace(ROOT, "[repository]"))
    }

    /// Fails unless standard error has all of these in it.
    #[track_caller]
    fn says(&self, parts: &[&str]) -> &Self {
        for part in parts {
            assert!(self.stderr.contains(part), "no `{part}` in standard error:\n{}", self.stderr);
        }
        self
    }

    /// Fails unless standard output is empty.
    #[track_caller]
    fn writes_nothing(&self) -> &Self {
        assert!(self.stdout.is_empty(), "standard output:\n{}", self.text_lossy());
        self
    }
}

/// A snapshot in `tests/cli/snapshots`, for what is too long to stand in its test.
macro_rules! assert_file_snapshot {
    ($text:expr) => {
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!($text) })
    };
}
pub(crate) use assert_file_snapshot;

/// Texts, each below what it is about.
fn sections<About: Display>(texts: impl IntoIterator<Item = (About, String)>) -> String {
    let sections = texts.into_iter().map(|(about, text)| format!("## {about}\n{text}"));
    sections.collect::<Vec<_>>().join("\n")
}

/// The program with no environment but its own, in a folder.
fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
    command.env_clear().current_dir(folder);
    command
}

/// Runs the program in the repository.
fn run(args: &[&str], stdin: impl AsRef<[u8]>) -> Run {
    run_in(Path::new(ROOT), args, stdin)
}

/// Runs the program in a folder.
fn run_in(folder: &Path, args: &[&str], stdin: impl AsRef<[u8]>) -> Run {
    let mut command = command(folder);
    command.args(args);
    finish(&mut command, stdin.as_ref())
}

/// Runs `mutate` in the repository.
fn mutate(args: &[&str], stdin: impl AsRef<[u8]>) -> Run {
    run(&[&["mutate"], args].concat(), stdin)
}

/// Runs `mutate` with a small policy and no report.
fn small(args: &[&str], stdin: impl AsRef<[u8]>) -> Run {
    mutate(&[&["--policy", SMALL, "--quiet"], args].concat(), stdin)
}

/// Runs `mutate` with the policy `aws-efa` and no report.
fn aws(args: &[&str], stdin: impl AsRef<[u8]>) -> Run {
    mutate(&[&["--policy", "aws-efa", "--quiet"], args].concat(), stdin)
}

/// Runs a command to its end. One that hangs is killed after two minutes.
fn finish(command: &mut Command, stdin: &[u8]) -> Run {
    let started = Instant::now();
    let folder = command.get_current_dir().unwrap().to_str().unwrap().to_owned();
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    thread::scope(|scope| {
        // A program that has seen enough closes the pipe; that is its own affair.
        scope.spawn(move || drop(pipe.write_all(stdin)));
        let stdout = scope.spawn(move || read(&mut out));
        let stderr = scope.spawn(move || read(&mut err));
        let status = wait(&mut child, started);
        Run {
            status,
            stdout: stdout.join().unwrap(),
            stderr: String::from_utf8(stderr.join().unwrap()).expect("standard error is UTF-8"),
            folder,
        }
    })
}

fn read(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

fn wait(child: &mut Child, started: Instant) -> Option<i32> {
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if started.elapsed() > Duration::from_mins(2) {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The documents of a YAML stream, blank ones left out.
#[track_caller]
fn documents(text: &str) -> Vec<Value> {
    let mut pieces = vec![String::new()];
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" || line.starts_with("--- ") {
            pieces.push(String::new());
        }
        pieces.last_mut().unwrap().push_str(line);
    }
    let values = pieces.iter().filter_map(|piece| {
        let manifest = fabric_yaml::read_value(piece);
        manifest.unwrap_or_else(|error| panic!("{error} in\n{piece}")).root
    });
    values.filter(|value| !value.is_null()).collect()
}

/// The limits of the first container of a pod.
fn limits(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]["resources"]["limits"]
}

/// How many SMALL interfaces the pod asks for that came out.
#[track_caller]
fn efa(run: &Run) -> String {
    let documents = run.documents();
    let count = &limits(&documents[0])["vpc.amazonaws.com/efa"];
    count.as_str().unwrap_or_else(|| panic!("no count but {count} in {documents:?}")).to_owned()
}

/// Line, column and the whole line of the first place where the text has this mark.
#[track_caller]
fn place(text: &str, mark: &str) -> (usize, usize, String) {
    let (at, line) = text
        .lines()
        .enumerate()
        .find(|(_, line)| line.contains(mark))
        .unwrap_or_else(|| panic!("no `{mark}` in\n{text}"));
    let column = line[..line.find(mark).unwrap()].chars().count();
    (at + 1, column + 1, line.trim().to_owned())
}
