//! Traces as a collector gets them from the real binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod collector;
#[path = "../cli/samples.rs"]
#[allow(dead_code, reason = "the tests of the command line need more of them")]
mod samples;
#[path = "../cli/server.rs"]
#[allow(dead_code, reason = "the tests of the command line ask it for more")]
mod server;

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::crypto::ring;
use rustls::{ServerConfig, ServerConnection};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tempfile::TempDir;

use collector::{Collector, Span};
use samples::{file, refusing};
use server::Server;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// The program with no environment but its own, in a folder.
fn command(folder: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
    command.env_clear().current_dir(folder.path());
    command
}

/// A folder with a certificate in `tls`, and a policy that refuses a pod with another `FABRIC`, and fails on one with
/// five GPUs.
fn folder() -> TempDir {
    let policy = refusing();
    // The rule has another value for each number of GPUs.
    let policy = policy.replace("value != 'lab'", "value == 'secret'");
    let policy = policy.replace("FABRIC: lab", "FABRIC: ${string(7 / (gpus - 5))}");
    let folder = samples::folder(&[("lab.yaml", &policy)]);
    let made = command(&folder).args(["certs", "tls", "--ip", "127.0.0.1"]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    folder
}

/// `serve` with that certificate and these variables.
fn serve(folder: &TempDir, variables: &[(&str, &str)]) -> Command {
    let mut command = command(folder);
    command
        .args(["serve", "--policy", "lab.yaml", "--tls-dir", "tls", "--shutdown-delay", "0s"])
        .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .envs(variables.iter().copied());
    command
}

fn review() -> Value {
    serde_json::from_str(&file("tests/workloads/admission-review.json")).unwrap()
}

/// Posts a review, with a `traceparent` if there is one, and gives the answer.
fn post(server: &Server, folder: &TempDir, review: &Value, traceparent: Option<&str>) -> Value {
    let head = traceparent.map(|parent| format!("traceparent: {parent}\r\n")).unwrap_or_default();
    server.post_with(&folder.path().join("tls/ca.crt"), "127.0.0.1", review, &head)
}

/// Tells a server to stop, and gives how long that took. It has to end with status 0.
#[track_caller]
fn terminate(server: &mut Server) -> Duration {
    let told = Instant::now();
    let id = server.child.id().to_string();
    assert!(Command::new("sh").args(["-c", &format!("kill -TERM {id}")]).status().unwrap().success());
    while told.elapsed() < Duration::from_secs(30) {
        if let Some(status) = server.child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(0));
            return told.elapsed();
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("the server does not end")
}

/// The first cells of the rows below this head in `docs/serve.md`.
fn table(head: &str) -> Vec<String> {
    let text = file("docs/serve.md");
    let (_, rest) = text.split_once(&format!("\n{head}\n")).unwrap();
    let rows = rest.lines().skip(1).take_while(|line| line.starts_with('|'));
    rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2).map(str::to_owned))
        .collect()
}

fn attribute<'a>(span: &'a Span, key: &str) -> Option<&'a str> {
    span.attributes.get(key).map(String::as_str)
}

#[test]
fn a_review_is_a_span_in_the_trace_of_its_request() {
    let folder = folder();
    let collector = Collector::start(None);
    let endpoint = format!("http://127.0.0.1:{}", collector.port);
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=lab"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=lab"),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ];
    let server = Server::start(&mut serve(&folder, &variables));
    let answer = post(&server, &folder, &review(), Some(&format!("00-{TRACE}-{PARENT}-01")));
    assert_eq!(answer["response"]["patchType"], "JSONPatch", "{answer}");

    let (head, spans) = collector.batch();
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nhost: 127.0.0.1:{}\r\n", collector.port)), "{head}");
    assert!(head.contains("\r\nx-tenant: lab\r\n"), "{head}");
    assert!(head.contains("\r\ncontent-type: application/x-protobuf\r\n"), "{head}");
    let [span] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!((span.trace.as_str(), span.parent.as_str()), (TRACE, PARENT));
    // A kind of 2 is a server, a status of 0 none.
    assert_eq!((span.name.as_str(), span.kind, span.status), ("POST /mutate", 2, 0));
    assert!(span.nanoseconds > 0 && span.nanoseconds < 5_000_000_000, "{span:?}");
    assert_eq!(span.resource["service.name"], "fabric-injector");
    assert_eq!(span.resource["service.version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(span.resource["deployment.environment.name"], "lab");
    let operations: usize = span.attributes["operations"].parse().unwrap();
    assert!(operations > 0, "{span:?}");
    let mut told = span.attributes.clone();
    told.remove("operations");
    let expected = [
        ("http.request.method", "POST"),
        ("http.response.status_code", "200"),
        ("http.route", "/mutate"),
        ("mode", "inject"),
        ("name", "coder-*"),
        ("namespace", "chat"),
        ("outcome", "mutated"),
        ("policy", "lab"),
        ("uid", "6f1c0e3a-92d4-4b7e-a5c8-1d47be20f963"),
    ];
    assert_eq!(told, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    // This collector closes each connection after its batch.
    for _ in 0..5 {
        post(&server, &folder, &review(), None);
        assert_eq!(collector.batch().1.len(), 1);
    }
}

#[test]
fn spans_depend_on_no_filter_of_log_lines_and_hold_nothing_of_the_pod() {
    let folder = folder();
    let documented: BTreeSet<_> = table("| attribute | meaning |").into_iter().collect();
    // No batch leaves before the server ends.
    for filter in ["fabric_injector::server::run=info", "trace"] {
        let collector = Collector::start(None);
        let endpoint = format!("http://127.0.0.1:{}/v1/traces", collector.port);
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &endpoint),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=another"),
            ("OTEL_SERVICE_NAME", "webhook"),
            ("OTEL_BSP_SCHEDULE_DELAY", "60000"),
            ("FABRIC_INJECTOR_LOG", filter),
        ];
        let mut server = Server::start(&mut serve(&folder, &variables));
        let mut refused = review();
        refused["request"]["uid"] = json!("u".repeat(256));
        refused["request"]["object"]["spec"]["containers"][0]["env"] =
            json!([{"name": "FABRIC", "value": "secret"}]);
        let answer = post(&server, &folder, &refused, None);
        let sentence = answer["response"]["status"]["message"].as_str().unwrap();
        assert!(sentence.contains("`secret`"), "{answer}");
        let mut failed = review();
        failed["request"]["object"]["spec"]["containers"][0]["resources"] =
            json!({"limits": {"nvidia.com/gpu": "5"}});
        post(&server, &folder, &failed, None);
        // Whoever asked does not want this one.
        post(&server, &folder, &review(), Some(&format!("00-{TRACE}-{PARENT}-00")));
        // No parent is better than a wrong one.
        post(&server, &folder, &review(), Some("00-nonsense"));
        post(&server, &folder, &json!({}), Some(&format!("00-{TRACE}-{PARENT}-01")));
        terminate(&mut server);
        let logged = server.log().concat();
        assert_eq!(logged.contains("pod mutated"), filter == "trace", "{logged}");
        assert!(!logged.contains("\"span\":") && !logged.contains("\"spans\":"), "{logged}");

        let spans = collector.spans();
        let [refused, failed, mutated, rejected] = spans.as_slice() else { panic!("{spans:?}") };
        assert_eq!(attribute(refused, "outcome"), Some("refused"));
        assert_eq!(attribute(refused, "reason"), Some("other_fabric"));
        assert_eq!(attribute(refused, "operations"), Some("0"));
        assert_eq!(attribute(refused, "uid").map(str::len), Some(256));
        assert_eq!(attribute(failed, "outcome"), Some("failed"));
        assert_eq!(attribute(failed, "http.response.status_code"), Some("200"));
        assert_eq!(attribute(failed, "reason"), Some(failed.message.as_str()));
        assert_eq!(attribute(mutated, "outcome"), Some("mutated"));
        // A status of 2 is an error.
        assert_eq!([refused, failed, mutated, rejected].map(|span| span.status), [0, 2, 0, 0]);
        let roots: BTreeSet<_> = [refused, failed, mutated].map(|root| root.trace.as_str()).into();
        assert!(roots.len() == 3 && !roots.contains(TRACE), "{roots:?}");
        assert!([refused, failed, mutated].iter().all(|root| root.parent.is_empty()));
        assert_eq!(rejected.trace, TRACE);
        assert_eq!(attribute(rejected, "http.response.status_code"), Some("400"));
        assert_eq!(attribute(rejected, "outcome"), None);
        assert!(attribute(rejected, "reason").is_some());
        let told: BTreeSet<_> = spans.iter().flat_map(|span| span.attributes.keys().cloned()).collect();
        assert_eq!(told, documented);
        for span in &spans {
            assert_eq!((span.events, span.resource["service.name"].as_str()), (0, "webhook"));
            let shown = format!("{span:?}");
            for part in ["secret", "FABRIC", "lmsysorg", "sglang", "coder-ranks", "H100"] {
                assert!(!shown.contains(part), "`{part}` in {shown}");
            }
        }
    }
}

/// Posts some reviews, each of which has to be answered soon, and ends the server.
#[track_caller]
fn answers_without_a_collector(folder: &TempDir, mut server: Server) -> (Duration, Vec<String>) {
    for _ in 0..20 {
        let asked = Instant::now();
        let answer = post(&server, folder, &review(), None);
        assert_eq!(answer["response"]["allowed"], true, "{answer}");
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
        thread::sleep(Duration::from_millis(20));
    }
    let took = terminate(&mut server);
    (took, server.log())
}

#[test]
fn reviews_do_not_wait_for_a_collector_that_is_gone_or_silent() {
    let folder = folder();
    // Nobody listens at the one; the other takes connections and never says anything.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    for port in [1, silent_port] {
        let endpoint = format!("http://127.0.0.1:{port}");
        let variables =
            [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "50")];
        let server = Server::start(&mut serve(&folder, &variables));
        let (took, log) = answers_without_a_collector(&folder, server);
        assert!(took < Duration::from_secs(4), "{took:?}");
        let warned: Vec<_> = log.iter().filter(|line| line.contains("spans cannot be exported")).collect();
        assert_eq!(warned.len(), usize::from(port == 1), "{log:?}");
        assert!(warned.iter().all(|line| line.contains("the collector cannot be reached: ")), "{log:?}");
    }
}

/// The settings of a collector with the certificate of this folder.
fn tls(folder: &TempDir) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(folder.path().join("tls/tls.crt")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.path().join("tls/tls.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.map(Result::unwrap).collect(), key)
        .unwrap();
    Arc::new(config)
}

#[test]
fn a_collector_may_have_a_certificate() {
    let folder = folder();
    let collector = Collector::start(Some(tls(&folder)));
    let endpoint = format!("https://127.0.0.1:{}", collector.port);
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "tls/ca.crt"),
    ];
    let mut server = Server::start(&mut serve(&folder, &variables));
    post(&server, &folder, &review(), None);
    terminate(&mut server);
    let (_, spans) = collector.batch();
    assert_eq!(spans.len(), 1, "{spans:?}");
}

#[test]
fn a_collector_with_the_certificate_of_another_ca_gets_nothing_and_its_password_is_not_logged() {
    let (folder, other) = (folder(), folder());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("https://lab:secret@127.0.0.1:{}", listener.local_addr().unwrap().port());
    let config = tls(&other);
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            while connection.is_handshaking() && connection.complete_io(&mut stream).is_ok() {}
        }
    });
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "tls/ca.crt"),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ];
    let server = Server::start(&mut serve(&folder, &variables));
    let (_, log) = answers_without_a_collector(&folder, server);
    let log = log.concat();
    assert!(log.contains("invalid peer certificate"), "{log}");
    assert!(!log.contains("secret"), "{log}");
}

#[test]
fn what_is_wrong_with_a_variable_is_told_before_a_port_is_opened() {
    let folder = folder();
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
    let secure = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://localhost:4318");
    let cases: &[(&[(&str, &str)], &str)] = &[
        (
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4317")],
            "`OTEL_EXPORTER_OTLP_ENDPOINT` is not the URL of a collector",
        ),
        (&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "the protocol is `http/protobuf`"),
        (&[secure], "needs `OTEL_EXPORTER_OTLP_CERTIFICATE`"),
        (&[secure, ("OTEL_EXPORTER_OTLP_CERTIFICATE", "gone.crt")], "gone.crt cannot be read"),
        (&[secure, ("OTEL_EXPORTER_OTLP_CERTIFICATE", "tls/tls.key")], "has no certificate in it"),
    ];
    for (variables, told) in cases {
        let Output { status, stderr, .. } = serve(&folder, variables).stdin(Stdio::null()).output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(told), "{stderr}");
    }
}
