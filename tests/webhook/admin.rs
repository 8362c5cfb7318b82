//! The plain port: health, metrics and what is in use.

use std::sync::Arc;

use fabric_engine::STAMP;
use fabric_engine::admission::OnError;
use fabric_injector::server::{AppState, Limits, app};
use hyper::Method;
use serde_json::{Value, json};

use crate::answers::patched;
use crate::reviews::{pod, pod_with, review_of};
use crate::scrape::{ANSWERED, Scrape};
use crate::server::{Reply, Server, load, policies, post, request};

const TEXT: &str = "text/plain; charset=utf-8";

/// What is at a path of the admin port.
async fn get(state: &Arc<AppState>, path: &str) -> Reply {
    Reply::from(app::admin(Arc::clone(state)), request(Method::GET, path, None, "")).await
}

#[tokio::test]
async fn the_process_is_alive_before_it_is_ready() {
    let state = Server::lab().state;
    let reply = get(&state, "/livez").await;
    assert_eq!((reply.status, reply.header("content-type"), reply.text()), (200, TEXT, "ok\n"));
}

#[tokio::test]
async fn a_server_that_nobody_started_is_not_ready_and_says_why() {
    let state = Server::lab().state;
    for path in ["/readyz", "/readyz?verbose", "/readyz?x=1&verbose=true"] {
        let reply = get(&state, path).await;
        assert_eq!((reply.status, reply.header("content-type")), (503, TEXT));
        let wanted =
            "[-]certificate: none\n[+]policies: 1 in use\n[-]listener: not accepting yet\nnot ready\n";
        assert_eq!(reply.text(), wanted);
    }
}

#[tokio::test]
async fn a_server_without_a_policy_is_not_ready() {
    let state = Server::serving(&[]).state;
    let reply = get(&state, "/readyz").await;
    assert_eq!(reply.status, 503);
    assert!(reply.text().contains("[-]policies: 0 in use\n"), "{}", reply.text());
}

#[tokio::test]
async fn the_metrics_are_those_of_the_webhook() {
    let server = Server::lab();
    server.review(&review_of(&pod())).await;
    let accept = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    let reply = metrics(&server.state, Some(accept)).await;
    assert_eq!(reply.status, 200);
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(reply.header("content-type"), media_type);
    let line =
        "fabric_injector_reviews_total{policy=\"lab\",outcome=\"mutated\",reason=\"\",mode=\"inject\"} 1\n";
    assert!(reply.text().contains(line), "{}", reply.text());
    assert!(reply.text().ends_with("# EOF\n"));
}

#[tokio::test]
async fn the_format_of_the_metrics_is_the_one_that_a_client_accepts_best() {
    let server = Server::lab();
    for (accept, is_open) in [
        ("application/openmetrics-text", true),
        ("text/plain;q=0.5, application/openmetrics-text; version=1.0.0", true),
        ("application/openmetrics-text;q=0,text/plain", false),
        ("text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.1", false),
        ("*/*", false),
    ] {
        let reply = metrics(&server.state, Some(accept)).await;
        let is_open_metrics = reply.header("content-type").starts_with("application/openmetrics-text");
        assert_eq!(is_open_metrics, is_open, "{accept}");
    }
}

/// The metrics for a client that accepts these media types.
async fn metrics(state: &Arc<AppState>, accept: Option<&'static str>) -> Reply {
    let mut asked = request(Method::GET, "/metrics", None, "");
    if let Some(accept) = accept {
        asked.headers_mut().insert("accept", accept.parse().unwrap());
    }
    Reply::from(app::admin(Arc::clone(state)), asked).await
}

/// As a parser of 0.0.4 requires it: a family has a type of that format, and its samples have its name.
#[tokio::test]
async fn a_client_that_knows_no_open_metrics_gets_the_format_of_prometheus() {
    let server = Server::lab();
    server.review(&review_of(&pod())).await;
    for accept in [None, Some("*/*"), Some("text/plain;version=0.0.4")] {
        let reply = metrics(&server.state, accept).await;
        assert_eq!(reply.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
        let (mut family, mut samples) = (("", ""), 0);
        for line in reply.text().lines() {
            if let Some(rest) = line.strip_prefix("# ") {
                let (keyword, rest) = rest.split_once(' ').unwrap();
                let (name, rest) = rest.split_once(' ').unwrap();
                match keyword {
                    "HELP" => family = (name, ""),
                    "TYPE" => {
                        assert!(["counter", "gauge", "histogram"].contains(&rest), "{line}");
                        assert_eq!(name, family.0, "{line}");
                        family.1 = rest;
                    }
                    _ => panic!("{line}"),
                }
                continue;
            }
            let name = line.split(['{', ' ']).next().unwrap();
            let ending = name.strip_prefix(family.0).expect(line);
            let endings: &[&str] =
                if family.1 == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(endings.contains(&ending), "{line} of {family:?}");
            samples += 1;
        }
        assert_eq!(samples, server.scrape().names().len());
        let line = "fabric_injector_reviews_total{policy=\"lab\",outcome=\"mutated\",reason=\"\",mode=\"inject\"} 1\n";
        assert!(
            reply.text().contains(line) && reply.text().contains("# TYPE fabric_injector_build_info gauge\n")
        );
    }
}

#[tokio::test]
async fn the_policies_are_there_with_every_parameter_and_who_set_it() {
    let sets = ["efaDevicesPerGPU=4".to_owned(), "socketInterface=ens5".to_owned()];
    let set = load("aws-efa", &sets);
    let digest = set.policies()[0].digest().to_owned();
    let definition = fabric_injector::builtin::find("aws-efa").unwrap().definition().unwrap();
    let state = Arc::new(AppState::new(set, OnError::Deny, Limits::default()));
    let reply = get(&state, "/policies").await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/json"));
    let shown: Value = serde_json::from_slice(&reply.body).unwrap();
    let shown = shown["policies"].as_array().unwrap();
    assert_eq!(shown.len(), 1);
    let shown = &shown[0];
    assert_eq!((&shown["name"], &shown["provider"]), (&json!("aws-efa"), &json!("aws")));
    assert_eq!(shown["description"], definition.description);
    assert_eq!(shown["digest"], digest);
    assert!(digest.len() >= 12 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
    let parameters = &shown["parameters"];
    assert_eq!(parameters["efaDevicesPerGPU"], json!({"value": 4.0, "from": "operator"}));
    assert_eq!(parameters["socketInterface"], json!({"value": "ens5", "from": "operator"}));
    assert_eq!(parameters["ipcLock"], json!({"value": true, "from": "default"}));
    assert_eq!(parameters["sharedMemorySize"], json!({"value": null, "from": "default"}));
    let names: Vec<&str> = parameters.as_object().unwrap().keys().map(String::as_str).collect();
    let all: Vec<&str> = definition.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    assert_eq!(names, all);
}

#[tokio::test]
async fn a_parameter_that_depends_on_the_node_says_so_unless_it_was_set() {
    let state = Server::lab().state;
    let shown: Value = serde_json::from_slice(&get(&state, "/policies").await.body).unwrap();
    let shown = &shown["policies"][0];
    assert_eq!(shown["parameters"]["nicsPerGPU"], json!({"value": 2.0, "from": "table, else default"}));
    assert_eq!(shown["parameters"]["socketInterface"], json!({"value": "eth0", "from": "default"}));
    assert_eq!((&shown["name"], &shown["file"]), (&json!("lab"), &json!("lab.yaml")));
}

#[tokio::test]
async fn a_digest_changes_with_the_policy_and_with_what_was_set() {
    let digest = async |state: AppState| {
        let reply = get(&Arc::new(state), "/policies").await;
        let shown: Value = serde_json::from_slice(&reply.body).unwrap();
        shown["policies"][0]["digest"].as_str().unwrap().to_owned()
    };
    let state = |text: &str| AppState::new(policies(&[text]), OnError::Deny, Limits::default());
    let lab = crate::server::LAB;
    let other = lab.replace("eth0", "eth1");
    assert_ne!(digest(state(lab)).await, digest(state(&other)).await);
    assert_eq!(digest(state(lab)).await, digest(state(lab)).await);
}

#[tokio::test]
async fn the_digest_of_a_policy_is_that_on_its_pods_whatever_nodes_they_select() {
    let server = Server::lab();
    let shown: Value = serde_json::from_slice(&get(&server.state, "/policies").await.body).unwrap();
    let digest = shown["policies"][0]["digest"].as_str().unwrap().to_owned();
    let series = format!("policy_info{{policy=\"lab\",provider=\"lab\",digest=\"{digest}\"}}");
    assert_eq!(server.scrape().value(&series), 1);
    for nodes in [json!({}), json!({"node.kubernetes.io/instance-type": "lab-half"}), json!({"pool": "x"})] {
        let asked = pod_with("/spec/nodeSelector", nodes);
        let injected = patched(&asked, &server.review(&review_of(&asked)).await);
        assert_eq!(injected["metadata"]["annotations"][STAMP], format!("lab@{digest}"));
    }
}

#[tokio::test]
async fn nothing_else_is_on_the_admin_port() {
    let server = Server::lab();
    let before = Scrape::of(&server.state);
    for path in ["/", "/mutate", "/metrics/", "/healthz", "/debug/pprof", "/policies/lab"] {
        let reply = get(&server.state, path).await;
        assert_eq!((reply.status, reply.header("content-type")), (404, TEXT), "{path}");
        assert!(reply.text().contains("/livez, /readyz, /metrics and /policies"), "{}", reply.text());
    }
    let request = post("/mutate", review_of(&pod()).to_string());
    let reply = Reply::from(app::admin(Arc::clone(&server.state)), request).await;
    assert_eq!(reply.status, 404);
    assert_eq!(Scrape::of(&server.state).value(ANSWERED), before.value(ANSWERED));
}

#[tokio::test]
async fn the_admin_port_takes_no_orders() {
    let state = Server::lab().state;
    for path in ["/livez", "/readyz", "/metrics", "/policies"] {
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            let admin = app::admin(Arc::clone(&state));
            let reply = Reply::from(admin, request(method, path, None, "x")).await;
            assert_eq!(reply.status, 405, "{path}");
        }
    }
}
