//! What is logged, and what is not: one line for each pod that matters, and never the pod.

use std::fs;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::certificates::Site;
use super::client::Client;
use super::reviews::{plain_pod, pod, response, review};
use super::server::{Server, serve};
use super::{PATIENCE, eventually};

/// Stands in a variable of every pod, and nowhere in a log.
const MARKER: &str = "hunter2-of-the-pod";

/// The pod with the marker in it.
fn marked(mut pod: Value) -> Value {
    pod["spec"]["containers"][0]["env"] = json!([{"name": "PASSWORD", "value": MARKER}]);
    pod
}

/// A pod that gets its name from the API server.
fn generated(mut pod: Value) -> Value {
    pod["metadata"].as_object_mut().unwrap().remove("name");
    pod["metadata"]["generateName"] = "trainer-".into();
    pod
}

/// A pod that contradicts the policy of [`serve_strictly`].
fn contradicting(mut pod: Value) -> Value {
    pod["spec"]["containers"][0]["env"] =
        json!([{"name": "NCCL_SOCKET_IFNAME", "value": "eth0"}, {"name": "PASSWORD", "value": MARKER}]);
    pod
}

/// A server whose policy refuses pods that contradict it.
async fn serve_strictly(site: &Site, options: &[&str]) -> Server {
    let policy = include_str!("../../policies/aws-efa.yaml");
    let check = "\n  checks:\n    - {name: other_interface, env: NCCL_SOCKET_IFNAME, when: value == 'eth0', action: refuse, message: remove NCCL_SOCKET_IFNAME}\n";
    let strict = policy.replace("\n  checks:\n", check);
    assert_ne!(strict, policy);
    let file = site.path("strict.yaml");
    fs::write(&file, strict).unwrap();
    site.serve(&[&["--policy", &file], options].concat()).await
}

/// Posts one pod of each kind, and waits for the last line that there is at any level.
async fn post_all(client: &Client, server: &Server) {
    for (uid, pod, allowed) in [
        ("plain", marked(plain_pod()), true),
        ("refused", contradicting(pod()), false),
        ("mutated", marked(pod()), true),
        ("generated", marked(generated(pod())), true),
    ] {
        let reply = client.post(review(uid, &pod)).await.unwrap();
        assert_eq!(response(&reply, uid)["allowed"], allowed, "{uid}");
    }
    client.post(br#"{"kind": "AdmissionReview""#.to_vec()).await.unwrap();
    server.logged("pod mutated", 2).await;
}

#[tokio::test]
async fn at_info_there_is_one_line_for_each_pod_that_was_changed_or_refused() {
    let site = Site::new();
    let server = serve_strictly(&site, &[]).await;
    post_all(&site.client(&server), &server).await;
    let mutated = server.logged("pod mutated", 2).await;
    for (line, uid, name) in [(&mutated[0], "mutated", "trainer"), (&mutated[1], "generated", "trainer-*")] {
        assert_eq!(line["level"], "INFO");
        assert_eq!((&line["uid"], &line["namespace"]), (&uid.into(), &"team-a".into()), "{line}");
        assert_eq!((&line["name"], &line["policy"]), (&name.into(), &"aws-efa".into()), "{line}");
        assert!(line["operations"].as_u64().is_some_and(|count| count > 0), "{line}");
        assert!(line["microseconds"].as_u64().is_some_and(|time| time > 0), "{line}");
        assert_eq!(line["mode"], "inject", "{line}");
    }
    let refused = server.logged("pod refused", 1).await.remove(0);
    assert_eq!((&refused["level"], &refused["uid"]), (&"INFO".into(), &"refused".into()), "{refused}");
    assert_eq!((&refused["namespace"], &refused["name"]), (&"team-a".into(), &"trainer".into()));
    assert_eq!((&refused["policy"], &refused["reason"]), (&"aws-efa".into(), &"other_interface".into()));
    assert!(refused["detail"].as_str().unwrap().contains("NCCL_SOCKET_IFNAME"), "{refused}");
    assert!(refused["microseconds"].is_u64(), "{refused}");
    // Lines are written in the order of the requests, so that of the plain pod would be there.
    let text = server.log_text();
    assert!(!text.contains("plain"), "{text}");
    for line in text.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("this is not JSON: {line}"));
    }
}

#[tokio::test]
async fn in_audit_mode_the_lines_are_the_same_and_say_so() {
    let site = Site::new();
    let server = site.serve(&["--policy", "aws-efa", "--mode", "audit"]).await;
    let reply = site.client(&server).post(review("audited", &pod())).await.unwrap();
    let response = response(&reply, "audited");
    assert!(response["allowed"] == true && response.get("patch").is_none(), "{response}");
    let line = server.logged("pod mutated", 1).await.remove(0);
    assert_eq!((&line["uid"], &line["mode"]), (&"audited".into(), &"audit".into()), "{line}");
    assert!(line["operations"].as_u64().is_some_and(|count| count > 0), "{line}");
    assert_eq!(server.logged("listening", 1).await[0]["mode"], "audit");
}

#[tokio::test]
async fn at_debug_there_is_a_line_for_the_others_as_well_and_never_a_pod() {
    let site = Site::new();
    let server = serve_strictly(&site, &["--log", "debug"]).await;
    post_all(&site.client(&server), &server).await;
    let plain = server.logged("pod unchanged", 1).await.remove(0);
    assert_eq!((&plain["level"], &plain["uid"]), (&"DEBUG".into(), &"plain".into()), "{plain}");
    assert_eq!(plain["reason"], "no_policy_matches");
    server.logged("request rejected", 1).await;
    let text = server.log_text();
    assert!(!text.contains(MARKER), "{text}");
    assert!(!server.get("/metrics").await.text().contains(MARKER));
}

#[tokio::test]
async fn at_trace_the_pod_is_logged_whole() {
    let site = Site::new();
    let server = site.serve_aws(&["--log", "fabric_injector=trace"]).await;
    site.client(&server).post(review("whole", &marked(pod()))).await.unwrap();
    let line = server.logged("review", 1).await.remove(0);
    assert_eq!(line["level"], "TRACE");
    assert!(line["body"].as_str().unwrap().contains(MARKER), "{line}");
}

#[tokio::test]
async fn the_usual_variable_sets_the_level_unless_the_option_does() {
    let site = Site::new();
    for (options, shown) in [(&[][..], true), (&["--log", "info"], false)] {
        let mut command = serve(&["--policy", "aws-efa", "--tls-dir", &site.path("")]);
        command.args(options).env("RUST_LOG", "fabric_injector=debug,info");
        let server = Server::spawn(&mut command).await;
        let client = site.client(&server);
        client.post(review("plain", &plain_pod())).await.unwrap();
        client.post(review("mutated", &pod())).await.unwrap();
        eventually("the later pod is logged", async || server.log_text().contains("\"mutated\"")).await;
        assert_eq!(server.log_text().contains("\"plain\""), shown, "{options:?}");
    }
}

#[test]
fn a_log_that_nobody_reads_does_not_hold_up_the_end() {
    let site = Site::new();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut filler = writer.try_clone().unwrap();
    let mut command = serve(&["--policy", "aws-efa", "--tls-dir", &site.path(""), "--shutdown-delay", "0s"]);
    let mut child = command.stderr(writer).spawn().unwrap();
    let mut log = std::io::BufReader::new(reader);
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    assert!(line.contains("listening"), "{line}");
    // Fills the pipe, and then waits for a reader like the log.
    let bytes = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&bytes);
    std::thread::spawn(move || {
        while filler.write_all(b"x").is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut before = 0;
    while before == 0 || bytes.load(Ordering::Relaxed) != before {
        before = bytes.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(300));
    }
    let told = Instant::now();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if told.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(0));
    assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
}
