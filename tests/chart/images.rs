//! The container image, as far as it can be told without building it.

use fabric_yaml as yaml;
use serde_json::json;

use crate::cases::{enabled, render, with};
use crate::helm::{Helm, IMAGE};
use crate::objects::is_test;
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
    // Dependabot reads the version of an image only where it stands in `FROM`.
    let version = text.split_once("/library/rust:").unwrap().1.split_once('-').unwrap().0;
    let manifest = read(&root().join("Cargo.toml"));
    let needed = manifest.split_once("rust-version = \"").unwrap().1.split_once('"').unwrap().0;
    let parts =
        |version: &str| version.split('.').map(|part| part.parse::<u32>().unwrap()).collect::<Vec<_>>();
    assert!(parts(version) >= parts(needed), "{version} {needed}");
}

/// A name that the repository brought along would be one that somebody else can push to.
pub(crate) fn the_chart_of_a_checkout_has_no_image(helm: &Helm) {
    let values = yaml::read_value(&read(&chart().join("values.yaml"))).unwrap().root.unwrap();
    for key in ["repository", "tag", "digest"] {
        assert_eq!(values["image"][key], "", "{key}");
    }
    let none = with(enabled("aws"), &json!({"image": {"repository": ""}}));
    let error = helm.template(&none).unwrap_err();
    for text in
        ["image: `repository` is empty", "hint: build an image", "docs/image.md", "--set image.repository="]
    {
        assert!(error.contains(text), "`{text}` is not in\n{error}");
    }
}

pub(crate) fn an_image_has_the_version_of_the_chart_or_what_is_set(helm: &Helm) {
    let digest = format!("sha256:{}", "0".repeat(64));
    let version = env!("CARGO_PKG_VERSION");
    for (image, wanted) in [
        (json!({}), format!("{IMAGE}:{version}")),
        (json!({"repository": "localhost:5000/a/b", "tag": "x"}), "localhost:5000/a/b:x".to_owned()),
        (json!({"digest": digest}), format!("{IMAGE}:{version}@{digest}")),
    ] {
        let objects = render(helm, &with(enabled("aws"), &json!({"image": image})));
        assert_eq!(objects.server()["image"], wanted);
        let mut test = objects.of_kind("Pod").filter(|pod| is_test(pod));
        assert_eq!(test.next().unwrap()["spec"]["containers"][0]["image"], wanted);
    }
}

/// Optimized and stripped, as `cargo install` builds it.
pub(crate) fn the_program_of_the_image_is_that_of_the_profile_release() {
    let text = read(&root().join("deploy/Containerfile"));
    let built = "\"$TARGETARCH\" \"/$TARGETARCH/fabric-injector\"\n";
    assert!(text.contains(&format!("deploy/release/build-program {built}")), "{text}");
    // Traces are in no image that does not ask for them.
    assert!(text.contains("\nARG FEATURES=\n") && text.contains("\nARG FEATURES\n"), "{text}");
    let script = read(&root().join("deploy/release/build-program"));
    assert!(script.contains("cargo auditable build --release --locked "), "{script}");
    assert!(script.contains(" --features \"${FEATURES:-}\"\n"), "{script}");
    assert!(script.contains("\ncp \"target/$target/release/fabric-injector\" \"$file\"\n"), "{script}");
    let manifest = read(&root().join("Cargo.toml"));
    let profiles: Vec<&str> = manifest.split("\n[profile.").skip(1).collect();
    let release = profiles.iter().find_map(|profile| profile.strip_prefix("release]\n"));
    let settings: Vec<&str> = release.unwrap().split("\n\n").next().unwrap().lines().collect();
    assert!(settings.contains(&"strip = true"), "{settings:?}");
    // Cargo ignores `strip` for a package that has settings of its own.
    assert!(!profiles.iter().any(|profile| profile.starts_with("release.")), "{manifest}");
}
