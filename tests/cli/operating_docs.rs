//! `docs/pods-without-the-fabric.md` has each code that keeps a pod from the fabric, and `check` the options of its page.

use std::collections::BTreeSet;

use fabric_engine::Reason;
use fabric_engine::admission::{Record, ReviewOutcome};
use fabric_injector::builtin::POLICIES;
use fabric_policy::Effect;
use insta::assert_snapshot;

use super::{file, run};

/// The first cells of the table, and the codes that the paragraph below it leaves out.
fn section() -> (BTreeSet<String>, String) {
    let page = file("docs/pods-without-the-fabric.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let ways = rows.map(|row| row.split('`').nth(1).unwrap().to_owned()).collect();
    let (_, rest) = page.split_once("These pods miss nothing").unwrap();
    (ways, rest.to_owned())
}

/// A code that the program gets later needs a row, and with it a scenario on a control plane.
#[test]
fn each_code_has_a_row_or_is_left_out_with_a_reason() {
    let (ways, rest) = section();
    let of_engine = [Reason::SKIPPED, Reason::LEFT_ALONE, Reason::REFUSED, Reason::FAULTS].concat();
    let of_pods = Record::REASONS.iter().filter(|(code, outcome)| {
        !code.is_empty() && !matches!(outcome, ReviewOutcome::Advised | ReviewOutcome::Unadvised)
    });
    let of_tcp = ["capability_without_root", "device_denied", "host_network_denied"].map(str::to_owned);
    let of_policies = POLICIES.iter().map(|built_in| built_in.definition().unwrap());
    let of_policies: Vec<String> = of_policies
        .flat_map(|one| one.check_codes(&[Effect::WarnOfTcp]).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!(of_policies.contains(&"socket_network".to_owned()));
    let all = of_engine.into_iter().chain(of_pods.map(|(code, _)| *code)).map(str::to_owned);
    for code in all.chain(of_tcp).chain(of_policies) {
        let code = code.as_str();
        assert!(
            ways.contains(code) || rest.contains(&format!("`{code}`")),
            "docs/pods-without-the-fabric.md has no `{code}`"
        );
    }
}

#[test]
fn check_fails_on_warnings_of_checks_that_there_are() {
    assert_snapshot!(run(&["check", "--fail-on", "warning=node"], "").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: --fail-on: no warning has the code `node`
    hint: did you mean `nodes`?
    ");
    let page = file("docs/check-installation.md");
    for check in fabric_tools::inspection::checks() {
        assert!(page.contains(&format!("\n| `{check}` |")), "docs/check-installation.md has no `{check}`");
    }
}
