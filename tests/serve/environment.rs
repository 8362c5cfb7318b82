//! Every option can also be set by the environment.

use std::path::Path;

use super::certificates::Site;
use super::client::Client;
use super::reviews::{sample, variable};
use super::server::{Server, run, serve_in};

#[test]
fn the_help_names_a_variable_for_every_option() {
    let help = run(serve_in(Path::new(".")).arg("--help"));
    assert_eq!(help.status, Some(0));
    // The first line of each option begins with it, after `-h, ` if it has a short form.
    let begins = |line: &str| {
        let line = line.trim_start();
        let line = line.split_once(", ").filter(|(short, _)| short.len() == 2).map_or(line, |(_, rest)| rest);
        let name = line.strip_prefix("--")?.split([' ', '=']).next()?;
        Some(name.to_owned())
    };
    let (_, options) = help.stdout.split_once("Options:").expect("the help lists options");
    let mut names = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    for line in options.lines() {
        if let Some(name) = begins(line) {
            names.push(name);
            texts.push(String::new());
        } else if let Some(text) = texts.last_mut() {
            text.push_str(line);
        }
    }
    assert!(names.len() >= 16, "{names:?}");
    for (name, text) in names.iter().zip(&texts).filter(|(name, _)| *name != "help") {
        let variable = format!("[env: FABRIC_INJECTOR_{}]", name.replace('-', "_").to_uppercase());
        assert!(text.contains(&variable), "no `{variable}` in the help of `--{name}`: {text}");
    }
}

#[tokio::test]
async fn a_server_can_be_set_by_its_environment_alone() {
    let site = Site::new();
    let mut command = serve_in(site.folder.path());
    command
        .env("FABRIC_INJECTOR_LISTEN", "127.0.0.1:0")
        .env("FABRIC_INJECTOR_ADMIN_LISTEN", "127.0.0.1:0")
        .env("FABRIC_INJECTOR_TLS_CERT", site.path("tls.crt"))
        .env("FABRIC_INJECTOR_TLS_KEY", site.path("tls.key"))
        .env("FABRIC_INJECTOR_POLICY", "aws-efa")
        .env("FABRIC_INJECTOR_SET", "socketInterface=eth7")
        .env("FABRIC_INJECTOR_SHUTDOWN_DELAY", "0s")
        .env("FABRIC_INJECTOR_LOG", "warn,fabric_injector=debug");
    // Listening is said at info.
    let server = Server::spawn(&mut command).await;
    let client = Client::new(server.address, &site.ca.cert);
    let reply = client.post(sample("set")).await.unwrap();
    assert_eq!(variable(&reply, "set", "NCCL_SOCKET_IFNAME"), "eth7");
    client.post(b"{}".to_vec()).await.unwrap();
    let line = server.logged("request rejected", 1).await.remove(0);
    assert_eq!(line["level"], "DEBUG");
}

#[tokio::test]
async fn the_command_line_wins_over_the_environment() {
    let site = Site::new();
    let mut command = serve_in(site.folder.path());
    command
        .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--set", "socketInterface=eth1"])
        .env("FABRIC_INJECTOR_LISTEN", "192.0.2.1:1")
        .env("FABRIC_INJECTOR_TLS_DIR", site.path(""))
        .env("FABRIC_INJECTOR_POLICY", "aws-efa")
        .env("FABRIC_INJECTOR_SET", "socketInterface=eth7");
    let server = Server::spawn(&mut command).await;
    let reply = site.client(&server).post(sample("set")).await.unwrap();
    assert_eq!(variable(&reply, "set", "NCCL_SOCKET_IFNAME"), "eth1");
}

#[test]
fn a_bad_value_of_the_environment_is_refused_as_on_the_command_line() {
    let run = run(serve_in(Path::new(".")).env("FABRIC_INJECTOR_DRAIN_TIMEOUT", "20"));
    assert_eq!(run.status, Some(2));
    assert!(run.stderr.contains("'20'") && run.stderr.contains("--drain-timeout"), "{}", run.stderr);
}
