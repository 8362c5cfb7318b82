//! `check` and `serve --manage-webhook` without a cluster; the end-to-end tests run them with one.

use insta::assert_snapshot;
use serde_json::Value;

use super::{Run, assert_file_snapshot, run, sections};

const CHECK: [&str; 4] = ["check", "--annotation=a=b", "--gpu-resource=nvidia.com/gpu", "--namespace=gpu"];

fn managed(args: &[&str]) -> Run {
    run(&[&["serve", "--policy=aws-efa", "--manage-webhook=fabric-injector"], args].concat(), "")
}

#[test]
fn without_a_configured_api_server_there_is_an_error() {
    // It names a file of whoever runs the tests.
    for run in [run(&CHECK, ""), run(&["check"], ""), managed(&[])] {
        run.exits(2).writes_nothing().says(&["no API server is configured", "KUBECONFIG"]);
    }
}

#[test]
fn errors_of_policies_are_reported_before_the_api_server_is_reached() {
    let run = run(&["serve", "--policy=nothing", "--manage-webhook=fabric-injector"], "").exits(2);
    run.writes_nothing().says(&["there is no built-in policy `nothing`"]);
}

#[test]
fn durations_that_leave_no_time_to_rotate_are_refused() {
    let error = |args: &[&str]| {
        let run = managed(args).exits(2);
        let line: Value = serde_json::from_str(&run.stderr).unwrap();
        line["error"].as_str().unwrap().to_owned()
    };
    assert_snapshot!(error(&["--ca-duration=36h", "--certificate-duration=2d"]), @"`--certificate-duration 2d` is longer than `--ca-duration 36h`");
    assert_snapshot!(error(&["--ca-duration=3650000d"]), @"`--ca-duration 3650000d` is not between 20s and 36500d");
    assert_snapshot!(error(&["--certificate-duration=1s"]), @"`--certificate-duration 1s` is not between 20s and 36500d");
    assert_snapshot!(managed(&["--ca-duration=0s"]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: invalid value '0s' for '--ca-duration <DURATION>': must be longer than zero

    For more information, try '--help'.
    ");
}

#[test]
fn a_certificate_comes_from_one_place() {
    let alone = run(&["serve", "--policy=aws-efa", "--manage-secret=tls"], "");
    let misnamed = run(&["serve", "--policy=aws-efa", "--manage-webhook=A_B"], "");
    let answers = [managed(&["--tls-dir=tls"]), alone, misnamed].map(|run| run.recorded());
    assert_file_snapshot!(answers.join("\n"));
}

#[test]
fn invalid_options_of_check_are_reported() {
    let answers = [
        &["check", "--annotation=a", "--gpu-resource=g"][..],
        &["check", "--node-selector=p5"],
        &["check", "--annotation=a=b", "--gpu-resource="],
        &["check", "--annotation=a=b", "--gpu-resource=g", "--namespace=A"],
    ]
    .map(|args| (args.join(" "), run(args, "").recorded()));
    assert_file_snapshot!(sections(answers));
}
