//! Standard output and standard error as streams: what goes where, and readers that leave.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use super::{POD, SETTINGS, SMALL, command, folder, mutate, wait};

#[test]
fn standard_output_carries_data_only() {
    let stream = format!("---\n{SETTINGS}---\na: [\n---\n{POD}");
    for report in ["text", "json"] {
        let run = mutate(&["--policy", SMALL, "--report", report, "-o", "json"], &stream).exits(2);
        assert_eq!(run.values().len(), 2);
        assert!(!run.stderr.is_empty());
    }
}

/// Documents that do not change, more of them than pipes and buffers hold.
fn many() -> String {
    format!("---\n{SETTINGS}").repeat(10_000)
}

#[test]
fn a_broken_pipe_is_no_error() {
    let folder = folder(&[("many.yaml", &many())]);
    let mut command = command(folder.path());
    command.args(["mutate", "--policy", SMALL, "-f", "many.yaml"]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::with_capacity(1, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "---\n");
    let mut messages = String::new();
    child.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
    assert_eq!(messages, "");
    assert_eq!(wait(&mut child, Instant::now()), Some(0));
}

#[test]
fn a_reader_that_leaves_the_report_does_not_stop_the_data() {
    let pods = format!("---\n{}", POD.replace("\"true\"", "\"false\"")).repeat(2_000);
    let folder = folder(&[("many.yaml", &pods)]);
    let mut command = command(folder.path());
    command.args(["mutate", "--policy", SMALL, "-f", "many.yaml"]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    let mut data = String::new();
    child.stdout.take().unwrap().read_to_string(&mut data).unwrap();
    assert!(data == pods, "{} of {} bytes came out", data.len(), pods.len());
    assert_eq!(wait(&mut child, Instant::now()), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_is_closed_or_full_is_an_error_of_each_command() {
    let program = command(std::path::Path::new(super::ROOT)).get_program().to_owned();
    let run = |redirection: &str, args: &[&str]| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec \"$0\" \"$@\" {redirection}")]).arg(&program).args(args);
        shell.current_dir(super::ROOT).output().unwrap()
    };
    let mutate = &["mutate", "--policy", SMALL, "-q", "-f", "tests/workloads/pod.yaml"][..];
    for args in [
        mutate,
        &["lint", "--policy", SMALL, "-f", "tests/workloads/pod.yaml"],
        &["--help"],
        &["help", "mutate"],
        &["--version"],
        &["policy", "show", "aws-efa"],
        &["policy", "schema"],
        &["completions", "bash"],
        &["man"],
    ] {
        for redirection in [">&-", "<&- >&-", ">/dev/full"] {
            let output = run(redirection, args);
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{args:?} {redirection}: {text}");
            assert!(text.contains("error: standard output cannot be written"), "{text}");
        }
        // Other programs open it for reading, too.
        for redirection in [">/dev/null", "1<>/dev/null"] {
            let code = run(redirection, args).status.code();
            assert!(matches!(code, Some(0 | 1)), "{args:?} {redirection}: {code:?}");
        }
    }
    // Nothing is lost where nothing is written.
    assert_eq!(run(">&-", &["policy", "check", SMALL]).status.code(), Some(0));
}

/// All that a command writes for this input. The output buffer is some 64 KiB; more than that has to come out while
/// standard input is still open.
fn output_before_the_end(args: &[&str], text: String) -> Vec<u8> {
    let mut command = command(std::path::Path::new(super::ROOT));
    command.args(args);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = child.stdout.take().unwrap();
    let writer = thread::spawn(move || {
        input.write_all(text.as_bytes()).unwrap();
        input
    });
    let mut bytes = vec![0; 256 * 1024];
    output.read_exact(&mut bytes).unwrap();
    let reader = thread::spawn(move || {
        output.read_to_end(&mut bytes).unwrap();
        bytes
    });
    drop(writer.join().unwrap());
    let bytes = reader.join().unwrap();
    assert_eq!(wait(&mut child, Instant::now()), Some(0));
    bytes
}

#[test]
fn documents_are_served_before_the_input_ends() {
    let written = output_before_the_end(&["mutate", "--policy", SMALL, "-q"], many());
    assert_eq!(written.len(), many().len());
}

#[test]
fn pods_are_explained_before_the_input_ends() {
    let pods = format!("---\n{}", POD.replace("\"true\"", "\"false\"")).repeat(2_000);
    let text = output_before_the_end(&["policy", "explain", "aws-efa", "-f", "-"], pods.clone());
    let heads = String::from_utf8(text).unwrap().matches("stdin: document ").count();
    let json = output_before_the_end(&["policy", "explain", "aws-efa", "-f", "-", "-o", "json"], pods);
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!((heads, json["pods"].as_array().map(Vec::len)), (2_000, Some(2_000)));
}
