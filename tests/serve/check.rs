//! `check` in a cluster that lets it read nothing, and the cluster that commands read.

use std::process::Command;

use serde_json::{Value, json};

use super::api_server::{ApiServer, Listing};

#[tokio::test(flavor = "multi_thread")]
async fn without_rights_no_object_is_asked_for_by_an_empty_name() {
    let api = ApiServer::start(Listing::Forbidden).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
    command.env_clear().env("KUBECONFIG", api.kubeconfig()).arg("check");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let (paths, lines) = (api.paths(), said.lines().filter(|line| !line.starts_with(' ')).count());
    assert!(
        paths.iter().all(|path| !path.contains("//") && !path.ends_with('/') && !path.contains("/-")),
        "{paths:?}"
    );
    let is_known = |line: &str| ["warn ", "fail  rights ", " "].iter().any(|start| line.starts_with(start));
    assert!(said.lines().all(is_known), "{said}");
    assert_eq!(lines, 21, "{said}");
    for line in [
        "warn  endpoints       not checked: the Service is not known: see the line `webhook`\n",
        "warn  certificate     not checked: the webhook is not known: see the line `webhook`\n",
        "warn  guard           not checked: the installation is not known: see the line `webhook`\n",
        "warn  policies        not checked: the Deployment is not known: see the line `release`\n",
        "warn  servers         not checked: the Service is not known: see the line `webhook`\n",
        "warn  workloads       not checked: the Deployment is not known: see the line `release`\n",
    ] {
        assert!(said.contains(line), "no `{line}` in {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_the_api_server_show_control_characters_and_forge_no_line() {
    let api = ApiServer::start(Listing::ForbiddenBy("no\u{1b}[31m\r\nok    forged\u{9b}\u{2028}")).await;
    for format in ["text", "json"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
        command.env_clear().env("KUBECONFIG", api.kubeconfig()).args(["check", "-o", format]);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("no\\u001b[31m\\r") && said.contains("forged\\u009b\\u2028"), "{said}");
        assert!(!said.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{2028}'), "{said:?}");
        assert!(!said.lines().any(|line| line.starts_with("ok ")), "{said}");
        assert!(output.stderr.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_context_chooses_the_cluster() {
    let api = ApiServer::start(Listing::Nodes(vec!["alpha"])).await;
    let mut kubeconfig: Value = serde_json::from_slice(&std::fs::read(api.kubeconfig()).unwrap()).unwrap();
    let push = |list: &mut Value, entry: Value| list.as_array_mut().unwrap().push(entry);
    push(&mut kubeconfig["clusters"], json!({"name": "gone", "cluster": {"server": "http://127.0.0.1:1"}}));
    push(
        &mut kubeconfig["contexts"],
        json!({"name": "gone", "context": {"cluster": "gone", "user": "test"}}),
    );
    kubeconfig["current-context"] = json!("gone");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), kubeconfig.to_string()).unwrap();
    let pod = ["-f", "tests/workloads/pod.yaml", "--cluster"];
    let run = |command: &[&str], options: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
        program.env_clear().env("KUBECONFIG", file.path()).args(command).args(options);
        let output = program.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for command in [
        &["nodes"][..],
        &[&["mutate", "--policy=aws-efa"][..], &pod].concat(),
        &[&["lint", "--policy=aws-efa"][..], &pod].concat(),
        &[&["policy", "explain", "aws-efa"][..], &pod].concat(),
    ] {
        let (status, said) = run(command, &[]);
        assert!(status == Some(2) && said.contains("the nodes cannot be listed"), "{command:?} {said}");
        let (status, said) = run(command, &["--context", "test"]);
        assert!(status != Some(2), "{command:?} {said}");
        let (status, said) = run(command, &["--context", "none"]);
        assert!(
            status == Some(2) && said.contains("the context `none` of the kubeconfig"),
            "{command:?} {said}"
        );
    }
}
