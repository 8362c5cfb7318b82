//! The program as a plugin of kubectl: `kubectl-fabric`, and `kubectl_complete-fabric` for its completion.

use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::Command;

use insta::assert_snapshot;

use super::{POD, ROOT, Run, finish, run};

/// Runs the program by another name, as a link of that name.
fn run_as(name: &str, args: &[&str], stdin: &str) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join(name);
    symlink(env!("CARGO_BIN_EXE_fabric-injector"), &link).unwrap();
    let mut command = Command::new(&link);
    command.arg0(&link).args(args).env_clear().current_dir(ROOT);
    finish(&mut command, stdin.as_bytes())
}

#[test]
fn usage_and_help_name_the_plugin_as_its_user_does() {
    let help = run_as("kubectl-fabric", &["--help"], "").exits(0);
    assert!(help.text().contains("Usage: kubectl fabric <COMMAND>"), "{}", help.text());
    let help = run_as("kubectl-fabric", &["policy", "show", "--help"], "").exits(0);
    assert!(
        help.text().contains("Usage: kubectl fabric policy show [OPTIONS] <NAME|FILE> [BASE]..."),
        "{}",
        help.text()
    );
    assert_snapshot!(run_as("kubectl-fabric", &["mutate", "--polici", "x"], "").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: unexpected argument '--polici' found

      tip: a similar argument exists: '--policy'

    Usage: kubectl fabric mutate --policy <NAME|PATH|DIR>

    For more information, try '--help'.
    ");
    let own = run(&["--help"], "").exits(0);
    assert!(own.text().contains("Usage: fabric-injector <COMMAND>"), "{}", own.text());
}

#[test]
fn the_plugin_does_what_the_program_does() {
    let args = ["mutate", "--policy", "aws-efa"];
    let (plugin, own) = (run_as("kubectl-fabric", &args, POD).exits(0), run(&args, POD).exits(0));
    assert_eq!(plugin.text(), own.text());
    assert_eq!(plugin.stderr, own.stderr);
}

/// kubectl reads one candidate a line, with its help after a tab, and last a number.
#[test]
fn kubectl_completes_the_arguments_of_the_plugin() {
    let completed = |words: &[&str]| {
        let run = run_as("kubectl_complete-fabric", words, "").exits(0);
        assert_eq!(run.stderr, "");
        run.text().to_owned()
    };
    assert_eq!(completed(&["mutate", "--policy", "gcp-tcpx"]), "gcp-tcpx\ngcp-tcpxo\n:4\n");
    assert_eq!(completed(&["mutate", "-f", "tests/workl"]), "tests/workloads/\n:6\n");
    assert_eq!(completed(&["policy", "li"]), "list\tList the built-in policies\n:4\n");
    assert_eq!(completed(&["mutate", "--set", "x"]), ":4\n");
    assert!(completed(&[""]).starts_with("mutate\t"));
    assert_eq!(completed(&[]), ":4\n");
}
