//! Every workload of `tests/workloads` through policies: once through the library and once through the binary.
//!
//! A workload goes through four built-in policies, unless comments at its head say which and with which parameters:
//! `# case: aws-efa efaDevicesPerGPU=4`. The report and the output of some cases are snapshots in `tests/golden`:
//! `aws-efa` shows each kind of workload, `pod.yaml` shows each of the four policies, and `# golden: …` shows what the
//! comment names. All else comes out as its pod template alone would, and `policies/tests` has the cases of the
//! policies. The snapshots have `<digest>` in place of the digest of a policy, so that only what a policy does changes
//! them. A file that no case uses fails the test. CONTRIBUTING.md says how to accept what has changed.

mod cases;
mod explain;
pub(crate) mod masked;

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use fabric_engine::policy_set::{mutate, mutate_traced};
use fabric_injector::stream::RawDocuments;
use fabric_workloads::manifest::{Document, TriggerAnnotation, Wanted, find, inject};
use fabric_yaml as yaml;
use insta::{Settings, assert_snapshot};
use serde_json::Value;

use cases::{Case, cases, root};
use masked::without_digests;

/// The patches of served pods are wanted.
const PATCHES: Wanted<'_> = Wanted {
    patches: true,
    summary: false,
    findings: false,
    annotation: TriggerAnnotation::Required,
    namespace: None,
    nodes: None,
    objects: None,
    held: None,
    work: None,
    checks: None,
};

/// What the binary puts out: standard output, and the report on standard error.
fn through_binary(case: &Case) -> (String, String) {
    let workload = case.workload.strip_prefix(root()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabric-injector"));
    command.current_dir(root()).env_clear().args(["mutate", "--policy", &case.policy, "-f"]).arg(workload);
    case.sets.iter().for_each(|set| {
        command.args(["--set", set]);
    });
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}: {:?}", case.name(), output);
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// The output of the case is a snapshot.
fn is_recorded(case: &Case) -> bool {
    let text = fs::read_to_string(&case.workload).unwrap();
    let mut shown = text.lines().filter_map(|line| line.strip_prefix("# golden: ")?.split(' ').next());
    let shows_the_policy = shown.any(|policy| policy == case.policy);
    shows_the_policy || case.policy == "aws-efa" || case.workload.ends_with("pod.yaml")
}

/// What the library makes of the documents: of each template what it makes of a pod. Doing it again changes nothing.
fn through_library(case: &Case) -> Vec<Value> {
    let policies = case.policies();
    let bytes = fs::read(&case.workload).unwrap();
    let mut values = Vec::new();
    for piece in RawDocuments::new(bytes.as_slice()) {
        let piece = piece.unwrap();
        let mut document = Document::read(&piece).unwrap();
        let before = document.value.clone();
        let served = inject(&policies, &mut document, &piece, PATCHES).unwrap();
        let Some(after) = served.value.clone() else {
            values.extend(document.value);
            continue;
        };
        let mut patched = before.clone().unwrap();
        json_patch::patch(&mut patched, &served.patch()).unwrap();
        assert_eq!(patched, after, "{}: the patch gives what the engine gives", case.name());
        let before = before.unwrap();
        for found in find(&before, None) {
            let template = before.pointer(&found.pointer).unwrap();
            let mutation = mutate(&policies, template.clone(), &found.request);
            let (traced, _) = mutate_traced(&policies, template.clone(), &found.request);
            assert_eq!(mutation, traced, "{}: a trace decides nothing", case.name());
            let alone = mutation.outcome.changed().map_or(template, |changed| &changed.pod);
            assert_eq!(after.pointer(&found.pointer), Some(alone), "{}: {}", case.name(), found.pointer);
        }
        let mut again = Document::read(&piece).unwrap();
        again.value = Some(after.clone());
        let second = inject(&policies, &mut again, &piece, PATCHES).unwrap();
        assert!(second.value.is_none(), "{}: {:?}", case.name(), second.patch());
        assert!(served.templates.iter().any(|template| template.mutation.outcome.changed().is_some()));
        values.push(after);
    }
    values
}

fn values(text: &str) -> Vec<Value> {
    let pieces = RawDocuments::new(text.as_bytes()).map(Result::unwrap);
    pieces.filter_map(|piece| Document::read(&piece).unwrap().value).collect()
}

#[test]
fn every_workload_comes_out_of_every_policy_as_expected() {
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let _bound = settings.bind_to_scope();
    let (mut used, mut other) = (BTreeSet::new(), Vec::new());
    for case in cases() {
        let (output, report) = through_binary(&case);
        assert_eq!(values(&output), through_library(&case), "{}: library and binary agree", case.name());
        if is_recorded(&case) {
            let recorded = without_digests(&format!("{report}\n{output}"));
            let compared = || assert_snapshot!(case.name(), recorded);
            other.extend(catch_unwind(AssertUnwindSafe(compared)).is_err().then(|| case.name()));
            used.insert(format!("{}.snap", case.name()));
        }
    }
    assert!(other.is_empty(), "not as in tests/golden: {other:?}");
    let files = fs::read_dir(root().join("tests/golden")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let stale: Vec<_> = names.filter(|name| !used.contains(name.trim_end_matches(".new"))).collect();
    assert!(stale.is_empty(), "no case uses {stale:?}");
}

#[test]
fn every_built_in_policy_has_a_case() {
    let cases = cases();
    for policy in fabric_injector::builtin::POLICIES {
        let recorded = cases.iter().any(|case| case.policy == policy.name && is_recorded(case));
        assert!(recorded, "no workload has `# golden: {}`", policy.name);
    }
}

/// What is put out as YAML is read back as the same value: the writer quotes what YAML 1.1 reads otherwise.
#[test]
fn expected_output_reads_back_as_what_the_engine_made() {
    let case = cases().into_iter().find(|case| case.name() == "deepseek-r1-lws.aws-efa").unwrap();
    for value in through_library(&case) {
        assert_eq!(yaml::read_value(&yaml::write(&value)).unwrap().root.unwrap(), value);
    }
}
