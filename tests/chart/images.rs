//! The container image, as far as it can be told without building it.

use fabric_injector::core::yaml;

use crate::{chart, read, root};

/// The instructions of the last stage, continued lines joined.
fn last_stage() -> Vec<String> {
    let text = read(&root().join("deploy/Containerfile"));
    let instructions: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let text = instructions.join("\n").replace("\\\n", " ");
    let stages: Vec<&str> = text.split("\nFROM ").collect();
    stages.last().unwrap().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

pub(crate) fn the_image_has_the_program_and_nothing_else() {
    let stage = last_stage();
    assert_eq!(stage[0], "scratch");
    let copies: Vec<&String> =
        stage.iter().filter(|line| line.starts_with("COPY") || line.starts_with("ADD")).collect();
    assert_eq!(copies.len(), 1, "{copies:?}");
    assert!(copies[0].ends_with("/fabric-injector"), "{copies:?}");
    assert!(!stage.iter().any(|line| line.starts_with("RUN")), "there is no shell");
    assert!(stage.contains(&"ENTRYPOINT [\"/fabric-injector\"]".to_owned()), "{stage:?}");
}

pub(crate) fn the_user_of_the_image_is_that_of_the_chart() {
    let values = read(&chart().join("values.yaml"));
    assert!(values.contains("runAsUser: 65532\n"));
    // By number: there is no file of users, and `runAsNonRoot` cannot tell what a name stands for.
    assert!(last_stage().contains(&"USER 65532:65532".to_owned()));
}

pub(crate) fn the_image_is_built_by_the_toolchain_that_the_program_needs_or_a_newer_one() {
    let text = read(&root().join("deploy/Containerfile"));
    let version = text.split_once("ARG RUST_VERSION=").unwrap().1.lines().next().unwrap();
    let manifest = read(&root().join("Cargo.toml"));
    let needed = manifest.split_once("rust-version = \"").unwrap().1.split_once('"').unwrap().0;
    let parts =
        |version: &str| version.split('.').map(|part| part.parse::<u32>().unwrap()).collect::<Vec<_>>();
    assert!(parts(version) >= parts(needed), "{version} {needed}");
}

pub(crate) fn the_chart_takes_the_image_of_its_version() {
    let values = yaml::read_value(&read(&chart().join("values.yaml"))).unwrap().root.unwrap();
    assert_eq!(values["image"]["tag"], "");
    assert_eq!(values["image"]["digest"], "");
}
