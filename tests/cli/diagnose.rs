//! `diagnose` as its users meet it.

use serde_json::Value;

use super::{assert_file_snapshot, run, sections};

fn case(name: &str) -> String {
    std::fs::read_to_string(format!("signatures/cases/{name}")).unwrap()
}

#[test]
fn the_exit_status_is_the_verdict() {
    for (log, status, verdict) in [
        ("73.log", 0, "fabric"),
        ("efa-missing.log", 1, "tcp"),
        ("17.log", 1, "crash"),
        ("60.log", 1, "single-node"),
        ("09.log", 3, "unknown"),
    ] {
        let by_stdin = run(&["diagnose"], case(log)).exits(status);
        let text = String::from_utf8(by_stdin.stdout).unwrap();
        assert!(text.starts_with(&format!("{verdict}: ")), "{text}");
        let path = format!("signatures/cases/{log}");
        let by_file = run(&["diagnose", "-o", "json", &path], "").exits(status);
        let report: Value = serde_json::from_slice(&by_file.stdout).unwrap();
        assert_eq!(report["verdict"], verdict);
    }
    // Nothing at all.
    let nothing = run(&["diagnose"], "").exits(3);
    assert!(String::from_utf8(nothing.stdout).unwrap().contains("(no_lines)"));
}

#[test]
fn the_worst_of_several_logs_counts_in_any_order() {
    let files = ["signatures/cases/73.log", "signatures/cases/efa-missing.log"];
    for files in [files, [files[1], files[0]]] {
        let report = run(&["diagnose", "-o", "json", files[0], files[1]], "").exits(1);
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        assert_eq!((&report["verdict"], &report["cause"]["code"]), (&"tcp".into(), &"no_efa".into()));
        assert_eq!(report["jobs"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn wrong_options_and_files_are_refused() {
    let answers = [
        &["no-such.log"][..],
        &["src"],
        &["--follow"],
        &["--follow", "a.log"],
        &["--pod", "a", "b.log"],
        &["--namespace", "a"],
    ]
    .map(|arguments| (arguments.join(" "), run(&[&["diagnose"], arguments].concat(), "").recorded()));
    assert_file_snapshot!(sections(answers));
}

/// A name in a log that would be a command of the terminal is shown, not obeyed.
#[test]
fn control_characters_stay_in_the_log() {
    let log = case("efa-missing.log").replace("Using network Socket", "Using network So\x07\u{9b}31mcket");
    let run = run(&["diagnose"], log);
    assert!(
        !run.stdout.contains(&7) && !run.stdout.contains(&0x1b),
        "{:?}",
        String::from_utf8_lossy(&run.stdout)
    );
}
