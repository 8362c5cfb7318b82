//! A release: its scripts, and the workflow that runs them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use fabric_yaml as yaml;
use serde_json::{Value, json};

use crate::cases::enabled;
use crate::helm::Helm;
use crate::objects::read_objects;
use crate::{read, root};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// Runs a script of `deploy/release`.
fn script(name: &str, arguments: &[&str], helm: Option<&Helm>) -> Output {
    let mut command = Command::new(root().join("deploy/release").join(name));
    command.args(arguments);
    if let Some(helm) = helm {
        command.env("HELM", helm.binary());
    }
    command.output().unwrap()
}

fn refused(name: &str, arguments: &[&str], says: &str) {
    let output = script(name, arguments, None);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{name} {arguments:?}");
    assert!(error.contains(says), "`{says}` is not in\n{error}");
}

pub(crate) fn the_tag_of_a_release_is_the_version_of_program_and_chart() {
    let tag = format!("v{VERSION}");
    let output = script("version", &[&tag, REPOSITORY], None);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{VERSION}\n"));
    for tag in [VERSION, "v999.0.0", "latest", ""] {
        refused("version", &[tag, REPOSITORY], "the tag is");
    }
    // The program would be downloaded from elsewhere.
    refused("version", &[&tag, "https://example.com/a/fork"], "and this one is `https://example.com/a/fork`");
}

pub(crate) fn the_chart_of_a_release_has_its_image_by_digest(helm: &Helm) {
    let folder = tempfile::tempdir().unwrap();
    let digest = format!("sha256:{}", "1".repeat(64));
    let arguments = ["registry.example:5000/a/fabric-injector", &digest, folder.path().to_str().unwrap()];
    let output = script("package-chart", &arguments, Some(helm));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let package = String::from_utf8(output.stdout).unwrap();
    let package = Path::new(package.trim());
    assert_eq!(package, folder.path().join(format!("fabric-injector-{VERSION}.tgz")).canonicalize().unwrap());
    let objects = read_objects(&helm.template_of_package(package, &enabled("aws")));
    assert_eq!(
        objects.server()["image"],
        format!("registry.example:5000/a/fabric-injector:{VERSION}@{digest}")
    );
    let shown = Command::new(helm.binary()).args(["show", "chart"]).arg(package).output().unwrap();
    let chart = yaml::read_value(&String::from_utf8(shown.stdout).unwrap()).unwrap().root.unwrap();
    assert_eq!((&chart["home"], &chart["sources"]), (&json!(REPOSITORY), &json!([REPOSITORY])));
    let checkout = read(&root().join("deploy/helm/fabric-injector/Chart.yaml"));
    let mut checkout = yaml::read_value(&checkout).unwrap().root.unwrap();
    checkout["annotations"]["artifacthub.io/images"] = chart["annotations"]["artifacthub.io/images"].clone();
    assert_eq!(chart, checkout);
    let list = |key: &str| {
        let text = chart["annotations"][key].as_str().unwrap_or_else(|| panic!("no `{key}` in {chart}"));
        yaml::read_value(text).unwrap().root.unwrap()
    };
    let image = format!("registry.example:5000/a/fabric-injector:{VERSION}@{digest}");
    assert_eq!(list("artifacthub.io/images"), json!([{"name": "fabric-injector", "image": image}]));
    for link in list("artifacthub.io/links").as_array().unwrap() {
        let path =
            link["url"].as_str().unwrap().strip_prefix(&format!("{REPOSITORY}/blob/v{VERSION}/")).unwrap();
        assert!(root().join(path).is_file(), "{path}");
    }
    assert!(list("artifacthub.io/changes")[0]["description"].is_string());
    // Neither is taken from a tag or a name that could change.
    for (repository, digest, says) in [
        ("registry.example/fabric-injector:1", digest.as_str(), "is not a repository"),
        ("fabric-injector", &digest, "is not a repository"),
        ("registry.example/fabric-injector\nx: y", &digest, "is not a repository"),
        ("registry.example/fabric-injector", "latest", "is not a digest"),
        ("registry.example/fabric-injector", "", "the digest is missing"),
    ] {
        refused("package-chart", &[repository, digest, folder.path().to_str().unwrap()], says);
    }
}

pub(crate) fn a_release_has_the_programs_their_sboms_and_the_chart_with_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for machine in ["amd64", "arm64"] {
        let built = folder.path().join(format!("built/linux_{machine}"));
        fs::create_dir_all(&built).unwrap();
        for file in ["fabric-injector", "sbom.spdx.json", "provenance.json"] {
            fs::write(built.join(file), format!("{file} of {machine}")).unwrap();
        }
    }
    fs::create_dir(folder.path().join("chart")).unwrap();
    fs::write(folder.path().join("chart/fabric-injector-1.tgz"), "chart").unwrap();
    let arguments = [path("built"), path("chart"), path("release")];
    let output = script("gather", &arguments.each_ref().map(String::as_str), None);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let sums = read(&folder.path().join("release/SHA256SUMS"));
    let names: Vec<&str> = sums.lines().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    let wanted = [
        "fabric-injector-1.tgz",
        "fabric-injector-linux-amd64",
        "fabric-injector-linux-amd64.spdx.json",
        "fabric-injector-linux-arm64",
        "fabric-injector-linux-arm64.spdx.json",
    ];
    assert_eq!(names, wanted);
    // By these names, cargo-binstall downloads the programs.
    let manifest = read(&root().join("Cargo.toml"));
    let downloaded: Vec<&str> = manifest
        .lines()
        .filter_map(|line| {
            line.strip_prefix("pkg-url = \"{ repo }/releases/download/v{ version }/")?.strip_suffix('"')
        })
        .collect();
    assert_eq!(downloaded, [names[1], names[3]]);
    let mut check = Command::new("sha256sum");
    let check = check.args(["--check", "--quiet", "SHA256SUMS"]).current_dir(folder.path().join("release"));
    assert!(check.status().unwrap().success());
    // A build without one of them is no release.
    fs::remove_file(folder.path().join("built/linux_arm64/sbom.spdx.json")).unwrap();
    assert!(!script("gather", &arguments.each_ref().map(String::as_str), None).status.success());
}

fn workflow(name: &str) -> Value {
    yaml::read_value(&read(&root().join(".github/workflows").join(name))).unwrap().root.unwrap()
}

/// The steps of all jobs.
fn steps(workflow: &Value) -> impl Iterator<Item = &Value> {
    workflow["jobs"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|job| job["steps"].as_array().into_iter().flatten())
}

fn commands(workflow: &Value) -> String {
    steps(workflow).filter_map(|step| step["run"].as_str()).collect::<Vec<_>>().join("\n")
}

pub(crate) fn the_workflows_run_the_checks_and_the_scripts() {
    let (checks, release) = (workflow("ci.yml"), workflow("release.yml"));
    for script in [".ci/run", ".ci/crates"] {
        assert!(commands(&checks).lines().any(|line| line == script), "{script}");
    }
    // In YAML 1.1, `on` is no string.
    assert!(
        read(&root().join(".github/workflows/release.yml"))
            .contains("\non:\n  push:\n    tags: [\"v*\"]\n\n")
    );
    assert_eq!(release["jobs"]["checks"]["uses"], "./.github/workflows/ci.yml");
    assert_eq!(release["jobs"]["publish"]["needs"], "checks");
    assert_eq!(release["jobs"]["verify"]["needs"], json!(["publish", "rebuild"]));
    assert_eq!(release["jobs"]["release"]["needs"], json!(["publish", "verify"]));
    let commands = commands(&release) + &read(&root().join("deploy/Containerfile"));
    let dry_run = read(&root().join("deploy/release/dry-run"));
    let mut scripts = String::new();
    for entry in fs::read_dir(root().join("deploy/release")).unwrap() {
        let path = entry.unwrap().path();
        let script = format!("deploy/release/{}", path.file_name().unwrap().to_str().unwrap());
        if script != "deploy/release/dry-run" {
            assert!(commands.contains(&script), "no release runs {script}");
            assert!(dry_run.contains(&script), "the dry run does not run {script}");
            scripts += &read(&path);
        }
    }
    assert!(commands.contains("--sbom true"), "{commands}");
    for part in
        ["--platform linux/amd64,linux/arm64", "--provenance mode=max", "cosign sign", "cosign sign-blob"]
    {
        assert!(scripts.contains(part), "`{part}` is not in\n{scripts}");
    }
}

/// A tag of an action can be moved to other code. Rights are those of a job, and a checkout keeps no token.
pub(crate) fn the_workflows_have_pinned_actions_and_few_rights() {
    for name in ["advisories.yml", "ci.yml", "fuzz.yml", "pages.yml", "release.yml", "scan.yml"] {
        let workflow = workflow(name);
        assert_eq!(workflow["permissions"], serde_json::json!({}), "{name}");
        for (job, fields) in workflow["jobs"].as_object().unwrap() {
            let permissions = fields["permissions"].as_object().unwrap_or_else(|| panic!("{name}: {job}"));
            for (right, level) in permissions {
                let writes = [
                    ("publish", "packages"),
                    ("publish", "id-token"),
                    ("publish", "attestations"),
                    ("publish", "pages"),
                    ("release", "contents"),
                ];
                let wanted = if writes.contains(&(job, right)) { "write" } else { "read" };
                assert_eq!(level, wanted, "{name}: {job}: {right}");
            }
        }
        for step in steps(&workflow) {
            let Some(action) = step["uses"].as_str() else { continue };
            let (_, commit) = action.split_once('@').unwrap();
            assert!(commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{action}");
            if action.starts_with("actions/checkout@") {
                assert_eq!(step["with"]["persist-credentials"], false, "{name}");
            }
        }
    }
}
