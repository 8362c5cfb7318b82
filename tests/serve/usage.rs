//! What keeps a server from starting is said in one line, and ends it with status 2.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::SystemTime;

use serde_json::Value;

use super::certificates::{DAY, Site, pair};
use super::server::{folder, run, serve, serve_in};

/// Fails unless `serve` with these options does not start, and says why in its first line, with all of these
/// words.
#[track_caller]
fn assert_refused(options: &[&str], words: &[&str]) -> String {
    let run = run(&mut serve(options));
    assert_eq!(run.status, Some(2), "{options:?}: {}", run.stderr);
    assert_eq!(run.stdout, "");
    let first = run.stderr.lines().next().unwrap_or_default();
    assert!(first.starts_with("error: "), "{}", run.stderr);
    for word in words {
        assert!(first.contains(word), "no `{word}` in the first line of\n{}", run.stderr);
    }
    run.stderr
}

#[test]
fn a_value_that_means_nothing_is_named_with_its_option() {
    for (option, value, word) in [
        ("--listen", "nonsense", "write an address and a port"),
        ("--admin-listen", "localhost", "write an address and a port"),
        ("--shutdown-delay", "5", "write a duration with its unit"),
        ("--drain-timeout", "soon", "write a duration with its unit"),
        ("--max-connection-age", "0s", "longer than zero"),
        ("--max-in-flight", "0", "a number from 1 to 1000000"),
        ("--max-connections", "many", "a number from 1 to 1000000"),
        ("--on-error", "ignore", "--on-error"),
    ] {
        let mut command = serve_in(Path::new("."));
        let run = run(command.args([option, value]));
        assert_eq!(run.status, Some(2), "{option} {value}");
        let first = run.stderr.lines().next().unwrap_or_default();
        for part in [option, value, word] {
            assert!(first.contains(part), "no `{part}` in the first line of\n{}", run.stderr);
        }
    }
}

/// A reader of the log splits it into lines, and parses each.
#[test]
fn an_error_at_the_start_is_one_line_of_the_log() {
    let site = Site::new();
    for (options, says) in [
        (
            vec!["--policy", "aws-efx"],
            "there is no built-in policy `aws-efx`, nor a file or folder of that name\nhint: ",
        ),
        (vec!["--tls-dir", &site.path("none"), "--policy", "aws-efa"], "none/tls.crt cannot be read"),
        (vec!["--log", "loud"], "`--log loud`: there is no level `loud`\nhint: "),
    ] {
        let output = serve(&options).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{options:?}");
        let log = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        let last = lines.last().expect("a line");
        assert_eq!(
            (&last["level"], &last["message"]),
            (&"ERROR".into(), &"the server ends with an error".into())
        );
        assert!(last["error"].as_str().unwrap().contains(says), "{last}");
    }
    // Without a log, the error is still written.
    let output = serve(&["--log", "off", "--policy", "aws-efx"]).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("error: there is no built-in policy"));
}

#[test]
fn options_that_belong_together_are_asked_for() {
    for (options, word) in [
        (&["--tls-cert", "a.crt"][..], "--tls-key"),
        (&["--tls-key", "a.key"], "--tls-cert"),
        (&["--tls-dir", "a", "--tls-cert", "a.crt", "--tls-key", "a.key"], "--tls-dir"),
    ] {
        let run = run(&mut serve(options));
        assert_eq!(run.status, Some(2), "{options:?}");
        assert!(run.stderr.contains(word), "no `{word}` in\n{}", run.stderr);
    }
    assert_refused(&["--client-ca", "a.crt"], &["`--client-ca` needs a certificate for the server"]);
}

#[test]
fn a_certificate_without_a_policy_is_not_enough_and_the_built_in_ones_are_listed() {
    let site = Site::new();
    let said = assert_refused(&["--tls-dir", &site.path("")], &["no policy is named", "--policy"]);
    for policy in ["aws-efa", "azure-infiniband", "gcp-tcpxo", "oci-sriov"] {
        assert!(said.contains(&format!("`{policy}`")), "no {policy} in\n{said}");
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (option, other, address, word) in [
        ("--listen", "--admin-listen", address.as_str(), "another program listens there"),
        ("--admin-listen", "--listen", address.as_str(), "another program listens there"),
        ("--listen", "--admin-listen", "192.0.2.1:8443", "no such address"),
    ] {
        let mut command = serve_in(Path::new("."));
        let run = run(command.args([option, address, other, "127.0.0.1:0"]));
        assert_eq!(run.status, Some(2), "{}", run.stderr);
        let first = run.stderr.lines().next().unwrap_or_default();
        for word in [option, address, word] {
            assert!(first.contains(word), "no `{word}` in the first line of\n{}", run.stderr);
        }
    }
}

#[test]
fn a_bad_certificate_is_named_with_what_is_wrong_with_it() {
    let site = Site::new();
    let (folder, cert, key) = (site.path(""), site.path("tls.crt"), site.path("tls.key"));
    let options = ["--policy", "aws-efa", "--tls-dir", &folder];
    let refused = |words: &[&str]| assert_refused(&options, words);
    site.put(&pair(&site.ca, SystemTime::now() - 2 * DAY, DAY));
    refused(&[&cert, "expired at"]);
    site.put(&pair(&site.ca, SystemTime::now() + DAY, DAY));
    refused(&[&cert, "is not valid before"]);
    site.put(&site.another());
    fs::write(&key, &site.another().key).unwrap();
    refused(&[&format!("{key} is not the key of {cert}")]);
    fs::write(&key, "garbage").unwrap();
    refused(&[&key, "no private key in it"]);
    fs::write(&cert, "garbage").unwrap();
    refused(&[&cert, "no certificate in it"]);
    fs::write(&cert, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    refused(&[&cert]);
    fs::remove_file(&key).unwrap();
    refused(&[&key, "cannot be read", "No such file"]);
}

#[test]
fn a_bad_ca_of_the_clients_is_named() {
    let site = Site::new();
    let file = site.path("clients.crt");
    let folder = site.path("");
    let options = ["--policy", "aws-efa", "--tls-dir", &folder, "--client-ca", &file];
    assert_refused(&options, &[&file, "cannot be read"]);
    fs::write(&file, &site.ca.key).unwrap();
    assert_refused(&options, &[&file, "no certificate in it"]);
}

#[test]
fn a_bad_policy_or_values_file_is_shown_with_its_place() {
    let policies = folder(&[
        ("efa.yaml", &include_str!("../../policies/aws-efa.yaml").replace("\n  rules:\n", "\n  rulse:\n")),
        ("values.yaml", "multinodeNetworking:\n  aws:\n    enabled: true\n    speed: 9\n"),
        ("empty", ""),
    ]);
    let path = |name: &str| policies.path().join(name).to_str().unwrap().to_owned();
    let said = assert_refused(&["--policy", &path("efa.yaml")], &["rulse"]);
    assert!(said.contains(&format!("{}:", path("efa.yaml"))), "{said}");
    let said = assert_refused(&["--values", &path("values.yaml")], &["speed"]);
    assert!(said.contains(&format!("{}:4:", path("values.yaml"))), "{said}");
    assert_refused(&["--policy", "aws-eva"], &["there is no built-in policy `aws-eva`"]);
    assert_refused(&["--policy", "./missing.yaml"], &["./missing.yaml cannot be read"]);
    assert_refused(&["--values", &path("missing.yaml")], &[&path("missing.yaml"), "cannot be read"]);
    assert_refused(&["--policy", "aws-efa", "--set", "speed=9"], &["no parameter `speed`"]);
}

#[test]
fn a_filter_of_the_log_that_means_nothing_is_named() {
    assert_refused(&["--log", "fabric_injector=loud"], &["--log fabric_injector=loud"]);
    assert_refused(&["--log", "verbose"], &["there is no level `verbose`"]);
}

#[test]
fn one_address_for_both_ports_is_told() {
    let mut command = serve_in(Path::new("."));
    let run = run(command.args(["--listen", "127.0.0.1:8080"]));
    assert_eq!(run.status, Some(2));
    let said = "`--listen` and `--admin-listen` are both 127.0.0.1:8080; choose another port for one";
    assert!(run.stderr.contains(said), "{}", run.stderr);
}
