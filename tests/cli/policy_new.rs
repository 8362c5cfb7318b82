//! `fabric-injector policy new`.

use std::fs;

use fabric_injector::builtin::POLICIES;
use insta::assert_snapshot;

use super::{file, run_in};

#[test]
fn a_new_policy_loads_and_its_cases_pass_and_cover_it() {
    let folder = tempfile::tempdir().unwrap();
    let new = |args: &[&str]| run_in(folder.path(), &[&["policy", "new"], args].concat(), "");
    assert_eq!(
        new(&["--provider", "acme"]).exits(0).text(),
        "acme-rdma.yaml\ntests/acme-rdma.yaml\nschemas/policy.json\nschemas/cases.json\n"
    );
    for file in ["acme-2", "acme-3"] {
        let run = new(&["--provider", "acme", "--name", file, "sub"]).exits(0);
        assert_eq!(run.text(), format!("sub/{file}.yaml\nsub/tests/{file}.yaml\n"));
    }
    for (file, schema) in [
        ("acme-rdma.yaml", "schemas/policy.json"),
        ("tests/acme-rdma.yaml", "../schemas/cases.json"),
        ("sub/acme-2.yaml", "../schemas/policy.json"),
        ("sub/tests/acme-2.yaml", "../../schemas/cases.json"),
    ] {
        let path = folder.path().join(file);
        let line = format!("# yaml-language-server: $schema={schema}\n");
        assert!(fs::read_to_string(&path).unwrap().starts_with(&line), "{file}");
        let schema = fs::read_to_string(path.parent().unwrap().join(schema)).unwrap();
        assert!(schema.starts_with("{\n"), "{file}");
    }
    for path in [".", "sub"] {
        run_in(folder.path(), &["policy", "test", path, "--require-coverage"], "").exits(0);
    }
    let policy = fs::read_to_string(folder.path().join("acme-rdma.yaml")).unwrap();
    assert_snapshot!(new(&["--provider", "acme"]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: acme-rdma.yaml exists already; give the policy another name with `--name`
    ");
    assert_eq!(fs::read_to_string(folder.path().join("acme-rdma.yaml")).unwrap(), policy);
    for provider in ["ACME", "true", "1e3", "null"] {
        new(&["--provider", provider]).exits(2).writes_nothing().says(&["lower-case"]);
    }
    assert!(file("policies/template/policy.yaml").contains("{provider}"));
}

/// The extension of each built-in policy has no mistake, and its case passes.
#[test]
fn an_extension_of_a_built_in_policy_is_written() {
    let folder = super::folder(&[]);
    for policy in POLICIES {
        let new = run_in(folder.path(), &["policy", "new", "--extends", policy.name, "all"], "").exits(0);
        assert!(new.text().contains(&format!("all/our-{}.yaml", policy.name)), "{}", new.text());
    }
    let check = run_in(folder.path(), &["policy", "check", "all"], "").exits(0);
    check.says(&[&format!("0 errors and 0 warnings in {} files", POLICIES.len())]);
    let cases = run_in(folder.path(), &["policy", "test", "all"], "").exits(0);
    assert!(cases.text().ends_with(&format!("{} passed, 0 failed\n", POLICIES.len())), "{}", cases.text());
    // A parameter is there to take.
    let path = folder.path().join("all/our-onprem-rdma.yaml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("    # socketInterface: eth0\n"), "{text}");
    let text = text.replace("  # parameters:", "  parameters:");
    fs::write(&path, text.replace("    # socketInterface: eth0", "    socketInterface: ens1")).unwrap();
    run_in(folder.path(), &["policy", "check", "all/our-onprem-rdma.yaml"], "").exits(0);
    let unknown = run_in(folder.path(), &["policy", "new", "--extends", "aws-ef"], "");
    unknown.exits(2).says(&["there is no built-in policy `aws-ef`; did you mean `aws-efa`?"]);
}
