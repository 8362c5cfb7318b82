//! `fabric-injector completions`, and the candidates that the program has for a shell.

use std::path::{Path, PathBuf};

use insta::assert_snapshot;

use super::{ROOT, command, finish, run};

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

/// The candidates of bash for the last of these words.
fn candidates(words: &[&str]) -> Vec<String> {
    let mut command = command(Path::new(ROOT));
    command.env("FABRIC_INJECTOR_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    command.env("_CLAP_IFS", "\n").args(["--", "fabric-injector"]).args(words);
    let run = finish(&mut command, b"").exits(0);
    assert_eq!(run.stderr, "");
    run.text().lines().map(str::to_owned).collect()
}

#[test]
fn every_shell_has_a_script_that_asks_the_program() {
    for shell in SHELLS {
        let run = run(&["completions", shell], "").exits(0);
        assert_eq!(run.stderr, "");
        assert!(run.text().contains("FABRIC_INJECTOR_COMPLETE"), "{shell}: {}", run.text());
        assert!(
            !run.text().contains(env!("CARGO_BIN_EXE_fabric-injector")),
            "{shell} has a path of this machine"
        );
    }
    assert_snapshot!(run(&["completions", "tcsh"], "").recorded(), @"
    exit status: 2
    ----- stderr -----
    error: invalid value 'tcsh' for '<SHELL>'
      [possible values: bash, elvish, fish, powershell, zsh]

      tip: a similar value exists: 'zsh'

    For more information, try '--help'.
    ");
    run(&["completions"], "").exits(2).writes_nothing();
}

#[test]
fn commands_options_and_values_are_completed() {
    assert_eq!(candidates(&["mut"]), ["mutate"]);
    assert!(candidates(&["policy", ""]).iter().any(|candidate| candidate == "schema"));
    assert_eq!(candidates(&["mutate", "--repo"]), ["--report"]);
    assert_eq!(candidates(&["mutate", "-o", "di"]), ["diff"]);
}

#[test]
fn policies_are_completed_by_name_and_by_path() {
    assert_eq!(candidates(&["mutate", "--policy", "gcp-tcpx"]), ["gcp-tcpx", "gcp-tcpxo"]);
    assert_eq!(candidates(&["mutate", "--policy", "aws-efa,oci"]), ["aws-efa,oci-sriov"]);
    assert_eq!(candidates(&["policy", "show", "aws"]), ["aws-efa"]);
    assert_eq!(candidates(&["policy", "show", "policies/aws"]), ["policies/aws-efa.yaml"]);
}

#[test]
fn files_are_completed() {
    assert_eq!(candidates(&["mutate", "-f", "tests/workloads/jobs"]), ["tests/workloads/jobset.yaml"]);
    assert_eq!(
        candidates(&["mutate", "--values", "deploy/helm/fabric-injector/values.y"]),
        ["deploy/helm/fabric-injector/values.yaml"]
    );
    assert_eq!(candidates(&["mutate", "--set", "tests/w"]), Vec::<String>::new());
}

/// bash itself has the script and the program complete a line.
#[test]
fn bash_completes_with_the_script() {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_fabric-injector"));
    let script = "eval \"$(fabric-injector completions bash)\"\n\
                  COMP_WORDS=(fabric-injector policy show gcp-t) COMP_CWORD=3 COMP_TYPE=9\n\
                  _clap_complete_fabric_injector fabric-injector gcp-t show\n\
                  printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = std::process::Command::new("bash");
    bash.args(["--norc", "-c", script]).env_clear().current_dir(ROOT);
    bash.env("PATH", format!("{}:/usr/bin:/bin", binary.parent().unwrap().display()));
    let run = finish(&mut bash, b"").exits(0);
    assert_eq!(run.text(), "gcp-tcpx\ngcp-tcpxo\n");
}
