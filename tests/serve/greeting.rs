//! What a server says that had to make its own certificate: how to try it.

use std::fs;
use std::process::Command;

use serde_json::Value;

use fabric_injector::shell::builtin;

use super::certificates::Site;
use super::eventually;
use super::server::{ANY_PORTS, Server, run, serve_in};

/// The text on standard output: a CA, and how to post a sample.
async fn greeting(server: &Server) -> String {
    eventually("the greeting is whole", async || server.stdout().contains("/mutate --data '")).await;
    server.stdout()
}

/// Whether there is `curl`; says so if not.
fn has_curl() -> bool {
    let found = Command::new("curl").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("left out: there is no curl");
    }
    found
}

/// Runs the text with a shell, in a folder of its own; the response that came.
fn paste(text: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("paste"), text).unwrap();
    let run = run(Command::new("sh").arg("-e").arg("paste").current_dir(folder.path()));
    assert_eq!(run.status, Some(0), "{}{}", run.stdout, run.stderr);
    let mut review: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{}", run.stdout));
    review["response"].take()
}

/// Starts `serve` with these options and nothing else, in an empty folder.
async fn start(options: &[&str]) -> Result<Server, String> {
    let folder = tempfile::tempdir().unwrap();
    Server::try_spawn(serve_in(folder.path()).args(options)).await
}

#[tokio::test]
async fn without_options_it_listens_on_loopback_by_the_first_policy_and_says_how_to_try_it() {
    match start(&[]).await {
        Ok(server) => {
            assert_eq!(server.address.to_string(), "127.0.0.1:8443");
            assert_eq!(server.admin.to_string(), "127.0.0.1:8080");
            let listening = server.logged("listening", 1).await.remove(0);
            assert!(listening["policies"].as_str().unwrap().starts_with("aws-efa@"), "{listening}");
            let text = greeting(&server).await;
            assert!(text.contains("-----BEGIN CERTIFICATE-----"), "{text}");
            assert!(text.contains(" https://127.0.0.1:8443/mutate "), "{text}");
            assert!(!text.contains("PRIVATE KEY"), "{text}");
            if has_curl() {
                assert_eq!(paste(&text)["allowed"], true);
            }
        }
        // The ports are what they are; another program may have them.
        Err(stderr) => assert!(stderr.contains("another program listens there"), "{stderr}"),
    }
}

#[tokio::test]
async fn what_it_says_posts_a_sample_that_every_built_in_policy_serves() {
    if !has_curl() {
        return;
    }
    for policy in builtin::POLICIES {
        let server = start(&[&["--policy", policy.name], &ANY_PORTS[..]].concat()).await.unwrap();
        let response = paste(&greeting(&server).await);
        assert_eq!(response["allowed"], true, "{response}");
        assert!(response["patch"].as_str().is_some_and(|patch| !patch.is_empty()), "{response}");
        let outcome = response["auditAnnotations"]["outcome"].as_str().unwrap();
        assert!(outcome.starts_with(&format!("mutated by {}", policy.name)), "{outcome}");
    }
}

#[tokio::test]
async fn what_it_says_fits_wherever_it_listens() {
    if !has_curl() {
        return;
    }
    for listen in ["0.0.0.0:0", "[::1]:0", "127.0.0.2:0"] {
        let server = match start(&["--listen", listen, "--admin-listen", "127.0.0.1:0"]).await {
            Ok(server) => server,
            Err(stderr) => {
                assert!(stderr.contains("this machine has no such address"), "{stderr}");
                eprintln!("left out: no {listen}");
                continue;
            }
        };
        let response = paste(&greeting(&server).await);
        assert_eq!(response["allowed"], true, "{listen}: {response}");
    }
}

#[tokio::test]
async fn with_a_certificate_of_the_operator_it_says_nothing() {
    let site = Site::new();
    let server = site.serve_aws(&[]).await;
    assert_eq!(server.stdout(), "");
}
