//! The commands that `serve` prints for a first try work when they are pasted into a shell. They need `curl`: without
//! it, the tests are reported as ignored.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Completion, Trial};
use serde_json::Value;
use tempfile::TempDir;

/// A running server, killed when dropped.
struct Server {
    child: Child,
    /// The working directory of the server and of the shell.
    folder: TempDir,
}

impl Server {
    fn start(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
        command.env_clear().current_dir(folder.path()).arg("serve").args(options);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { child, folder }
    }

    /// Runs the printed commands; the response of the server.
    fn paste(&mut self) -> Value {
        let mut printed = BufReader::new(self.child.stdout.take().unwrap());
        let mut text = String::new();
        while !text.contains("/mutate --data '") {
            if printed.read_line(&mut text).unwrap() == 0 {
                let mut stderr = String::new();
                self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
                panic!("the server ended:\n{stderr}");
            }
        }
        fs::write(self.folder.path().join("paste"), text).unwrap();
        let run = Command::new("sh").args(["-e", "paste"]).current_dir(self.folder.path()).output().unwrap();
        let stdout = String::from_utf8(run.stdout).unwrap();
        assert!(run.status.success(), "{stdout}{}", String::from_utf8_lossy(&run.stderr));
        let mut review: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}"));
        review["response"].take()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sample is a pod to which the policy adds something.
fn policy(name: &str) {
    let ports = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let response = Server::start(&[&["--policy", name], &ports[..]].concat()).paste();
    assert_eq!(response["allowed"], true, "{response}");
    assert!(response["patch"].as_str().is_some_and(|patch| !patch.is_empty()), "{response}");
    let outcome = response["auditAnnotations"]["outcome"].as_str().unwrap();
    assert!(outcome.starts_with(&format!("mutated by {name}")), "{outcome}");
}

/// The URL is that of the address on which the server listens.
fn address(listen: &str) {
    let response = Server::start(&["--listen", listen, "--admin-listen", "127.0.0.1:0"]).paste();
    assert_eq!(response["allowed"], true, "{response}");
}

/// A test that is ignored for the reason that `missing` returns, if any.
fn trial(
    name: String,
    missing: impl FnOnce() -> Option<String> + Send + 'static,
    test: impl FnOnce() + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name, move || {
        if let Some(reason) = missing() {
            return Ok(Completion::ignored_with(reason));
        }
        test();
        Ok(Completion::Completed)
    })
}

fn no_curl() -> Option<String> {
    let found = Command::new("curl").arg("--version").output().is_ok_and(|output| output.status.success());
    (!found).then(|| "there is no `curl`".to_owned())
}

fn main() -> ExitCode {
    let listed =
        Command::new(env!("CARGO_BIN_EXE_fabric-injector")).args(["policy", "list", "-o", "json"]).output();
    let listed: Value = serde_json::from_slice(&listed.unwrap().stdout).unwrap();
    let policies = listed.as_array().unwrap().iter().map(|listed| {
        let name = listed["name"].as_str().unwrap().to_owned();
        trial(format!("policy {name}"), no_curl, move || policy(&name))
    });
    let addresses = ["0.0.0.0:0", "[::1]:0", "127.0.0.2:0"].into_iter().map(|listen| {
        let no_address = move || {
            TcpListener::bind(listen)
                .err()
                .map(|error| format!("no program can listen on `{listen}`: {error}"))
        };
        trial(format!("address {listen}"), move || no_curl().or_else(no_address), move || address(listen))
    });
    libtest_mimic::run(&Arguments::from_args(), policies.chain(addresses).collect()).exit_code()
}
