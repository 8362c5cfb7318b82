//! `check` and `serve --manage-webhook` without a cluster; the end-to-end tests run them with one.

use super::{Run, run};

const CHECK: [&str; 4] = ["check", "--annotation=a=b", "--gpu-resource=nvidia.com/gpu", "--namespace=gpu"];

fn managed(args: &[&str]) -> Run {
    run(&[&["serve", "--policy=aws-efa", "--manage-webhook=fabric-injector"], args].concat(), "").exits(2)
}

#[test]
fn without_a_configured_api_server_there_is_an_error() {
    for run in [run(&CHECK, "").exits(2), managed(&[])] {
        run.writes_nothing().says(&["no API server is configured", "KUBECONFIG"]);
    }
}

#[test]
fn errors_of_policies_are_reported_before_the_api_server_is_reached() {
    let run = run(&["serve", "--policy=nothing", "--manage-webhook=fabric-injector"], "").exits(2);
    run.writes_nothing().says(&["there is no built-in policy `nothing`"]);
}

#[test]
fn durations_that_leave_no_time_to_rotate_are_refused() {
    managed(&["--ca-duration=36h", "--certificate-duration=2d"])
        .says(&["`--certificate-duration 2d` is longer than `--ca-duration 36h`"]);
    managed(&["--ca-duration=3650000d"]).says(&["`--ca-duration 3650000d` is not between 20s and 36500d"]);
    managed(&["--certificate-duration=1s"])
        .says(&["`--certificate-duration 1s` is not between 20s and 36500d"]);
    managed(&["--ca-duration=0s"]).says(&["must be longer than zero"]);
}

#[test]
fn a_certificate_comes_from_one_place() {
    managed(&["--tls-dir=tls"]).says(&["--manage-webhook", "cannot be used with"]);
    let alone = run(&["serve", "--policy=aws-efa", "--manage-secret=tls"], "").exits(2);
    alone.says(&["--manage-webhook <NAME>"]);
    run(&["serve", "--policy=aws-efa", "--manage-webhook=A_B"], "").exits(2).says(&["lower case letters"]);
}

#[test]
fn invalid_options_of_check_are_reported() {
    run(&["check"], "").exits(2).says(&["no API server is configured"]);
    run(&["check", "--annotation=a", "--gpu-resource=g"], "").exits(2).says(&["write `KEY=VALUE`"]);
    run(&["check", "--node-selector=p5"], "").exits(2).says(&["write `KEY=VALUE`"]);
    run(&["check", "--annotation=a=b", "--gpu-resource="], "").exits(2).says(&["--gpu-resource"]);
    run(&["check", "--annotation=a=b", "--gpu-resource=g", "--namespace=A"], "")
        .exits(2)
        .says(&["lower case"]);
}
