//! Policy files with mistakes, each with the messages of `policy check` that it has to get.
//!
//! A file of `broken` or `nvidia` begins with its messages: severity, line, perhaps column, code, and a part of the
//! message and its hint. It gets these and no others, unless a line says that more can follow from its mistake. A code
//! can be missing. Files of `with` that `# with:` names are checked along with it.
//!
//! ```yaml
//! # expect: error 14 unknown_key: did you mean `containers`
//! # expect: error 20:9 unknown_name: `gpu` is neither a parameter nor a variable; did you mean `gpus`?
//! # expect: more
//! # expect: nothing
//! # with: lab-efa.yaml
//! # expect: warning lab-efa.yaml:9 policies_overlap: `team-efa`
//! ```

mod expectation;

use fabric_policy::work::Work;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use fabric_injector::builtin;
use fabric_tools::policy_check;

use crate::helpers::root;
use expectation::{Expectations, Expected, Finding};

/// The YAML files of a folder, in order.
fn files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(root().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension() == Some(OsStr::new("yaml")))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{folder} has no files");
    files
}

/// The errors and warnings of `policy check`.
fn check(files: &[&Path]) -> Vec<Finding> {
    let text = |file: &&Path| (file.to_string_lossy().into_owned(), fs::read_to_string(file).unwrap());
    check_texts(&files.iter().map(text).collect::<Vec<_>>())
}

fn check_texts(files: &[(String, String)]) -> Vec<Finding> {
    policy_check::check(files, builtin::files(), &Work::of_loading()).iter().map(Finding::of).collect()
}

/// The differences of what the files of a folder expect and get.
fn differences(folder: &str) -> Vec<String> {
    let mut differences = Vec::new();
    for file in files(folder) {
        let text = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
        let expectations =
            Expectations::of(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let with = expectations.with.iter().map(|name| root().join("tests/corpus/with").join(name));
        let with: Vec<PathBuf> = with.collect();
        let found =
            check(&[&[file.as_path()], &*with.iter().map(PathBuf::as_path).collect::<Vec<_>>()].concat());
        let difference = expectations.difference(&file.file_name().unwrap().to_string_lossy(), &found);
        if !difference.is_empty() {
            differences.push(difference);
        }
    }
    differences
}

#[track_caller]
fn all_as_expected(folder: &str) {
    let differences = differences(folder);
    assert!(differences.is_empty(), "{} files of {folder}:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn each_mistake_gets_its_message_at_its_line() {
    all_as_expected("tests/corpus/broken");
}

#[test]
fn the_faults_of_other_policies_are_found_when_they_are_transcribed() {
    all_as_expected("tests/corpus/nvidia");
}

#[test]
fn policies_in_use_get_no_message() {
    for folder in ["policies", "tests/policies/written", "tests/policies/ported"] {
        for file in files(folder) {
            let found = check(&[&file]);
            assert!(found.is_empty(), "{}: {found:#?}", file.display());
        }
    }
}

#[test]
fn policies_of_the_documents_get_no_message() {
    let mut checked = 0;
    for page in fs::read_dir(root().join("docs")).unwrap() {
        let page = page.unwrap().path();
        let Ok(text) = fs::read_to_string(&page) else { continue };
        let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
        let is_whole = |block: &&str| block.contains("\n  rules:") || block.contains("\n  extends:");
        for policy in blocks.filter(|block| block.contains("kind: FabricPolicy")).filter(is_whole) {
            let found = check_texts(&[(page.display().to_string(), format!("{policy}\n"))]);
            assert!(found.is_empty(), "{}: {found:#?}\n{policy}", page.display());
            checked += 1;
        }
    }
    assert!(checked >= 2, "{checked} policies");
}

/// The trial's 25 kinds of mistakes have a name that says so.
#[test]
fn the_corpus_has_the_mistakes_of_the_trial_and_each_warning() {
    let files = files("tests/corpus/broken");
    let of_trial =
        files.iter().filter(|file| file.file_name().unwrap().to_string_lossy().starts_with("trial-"));
    assert!(of_trial.count() >= 25);
    let mut codes: Vec<String> = Vec::new();
    for file in &files {
        let text = String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
        let expected = Expectations::of(&text).unwrap().messages;
        codes.extend(
            expected
                .into_iter()
                .filter(|message| message.severity == "warning")
                .map(|Expected { code, .. }| code),
        );
    }
    for code in [
        "always_false",
        "decimal_mode",
        "device_without_ipc_lock",
        "mode_in_mount_path",
        "mount_without_volume",
        "policies_overlap",
        "quantity_as_text",
        "request_without_limit",
        "sidecar_keeps_job",
        "tiny_amount",
        "unknown_enum_value",
        "unknown_label",
        "unknown_resource",
        "unknown_setting_variable",
        "unknown_variable",
        "unlike_types",
        "unresolved_reference",
        "unused_parameter",
        "unused_variable",
        "unused_part",
        "volume_without_mount",
    ] {
        assert!(codes.iter().any(|known| known == code), "no file expects `{code}`");
    }
}

/// Each is under a condition that no sample meets.
#[test]
fn a_value_of_a_wrong_type_is_found_behind_any_condition() {
    for (rule, says) in [
        ("env: {A: '${claimNames}'}", "needs a string; join the list"),
        ("env: {A: '${gpuCounts}'}", "needs a string; read one field"),
        ("container: {workingDir: '${[1]}'}", "needs a string; join the list"),
        ("container: {stdin: '${string(gpus)}'}", "needs `true` or `false`"),
        ("container: {resources: {limits: {example.com/nic: '${gpus > 3}'}}}", "write a number, or a string"),
        ("container: {securityContext: {runAsUser: '${gpus > 3}'}}", "write a whole number"),
        (
            "pod: {spec: {terminationGracePeriodSeconds: '${double(totalGpus) / 3.0}'}}",
            "use `devices(gpus, ratio)`",
        ),
        ("pod: {spec: {hostNetwork: '${totalGpus}'}}", "needs `true` or `false`"),
        ("pod: {spec: {tolerations: '${totalGpus}'}}", "expected a list"),
        ("pod: {spec: {nodeSelector: '${claimNames}'}}", "expected a map"),
        ("pod: {spec: {volumes: [{name: '${claimNames}', emptyDir: {}}]}}", "needs a string; join the list"),
        ("env: {A: '${size(claimNames) + claimNames}'}", "`+` does not take `int` and `list`"),
        ("env: {A: '${totalGpus.map(g, g)}'}", "a list or a map is needed, not `int`"),
        ("env: {A: \"${!totalGpus ? 'a' : 'b'}\"}", "`!` does not take `int`; compare it"),
        ("env: {A: \"${totalGpus ? 'a' : 'b'}\"}", "a boolean is needed, not `int`; compare it"),
        ("containers: gpus", "compare it, as in `gpus > 0`"),
        ("containers: size(claimNames) + 1", "compare it, as in `totalGpus > 0`"),
    ] {
        let rest = if rule.starts_with("containers") { ", env: {A: b}" } else { "" };
        let policy = format!(
            "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: lab}}\nspec:\n  provider: lab\n  \
             description: d\n  gpus: {{resources: [nvidia.com/gpu]}}\n  match: {{labels: {{fabric: fast}}}}\n  rules:\n    \
             - {{name: r, when: launcher, {rule}{rest}}}\n"
        );
        let found = check_texts(&[("lab.yaml".to_owned(), policy)]);
        let errors: Vec<_> = found.iter().filter(|finding| finding.severity == "error").collect();
        assert!(errors.len() == 1 && errors[0].text.contains(says), "{rule}: {found:#?}");
    }
}
