//! `check` and `serve --manage-webhook` where there is no cluster; with one, they are tried end to end.

use std::time::Duration;

use super::{Run, run};

const CHECK: [&str; 4] = ["check", "--annotation=a=b", "--gpu-resource=nvidia.com/gpu", "--namespace=gpu"];

fn managed(args: &[&str]) -> Run {
    run(&[&["serve", "--policy=aws-efa", "--manage-webhook=fabric-injector"], args].concat(), "").exits(2)
}

#[test]
fn without_a_way_to_a_cluster_nobody_is_asked() {
    for run in [run(&CHECK, "").exits(2), managed(&[])] {
        run.writes_nothing().says(&["there is no way to an API server", "KUBECONFIG"]);
        assert!(run.elapsed < Duration::from_secs(20), "{:?}", run.elapsed);
    }
}

#[test]
fn a_policy_that_cannot_be_loaded_is_told_before_a_cluster_is_asked() {
    let run = run(&["serve", "--policy=nothing", "--manage-webhook=fabric-injector"], "").exits(2);
    run.writes_nothing().says(&["there is no built-in policy `nothing`"]);
}

#[test]
fn lives_that_leave_no_time_to_rotate_are_refused() {
    managed(&["--ca-overlap=92d"])
        .says(&["`--ca-overlap 92d` is too long for `--ca-duration 365d`; a quarter of that is the most"]);
    managed(&["--ca-duration=36h", "--certificate-duration=2d"])
        .says(&["`--certificate-duration 2d` is longer than `--ca-duration 36h`"]);
    managed(&["--ca-duration=3650000d"]).says(&["`--ca-duration 3650000d` is not between 10s and 36500d"]);
    managed(&["--ca-overlap=1s"]).says(&["`--ca-overlap 1s` is not between 3s and 36500d"]);
    managed(&["--ca-duration=0s"]).says(&["has to be more than nothing"]);
}

#[test]
fn a_certificate_comes_from_one_place() {
    managed(&["--tls-dir=tls"]).says(&["--manage-webhook", "cannot be used with"]);
    let alone = run(&["serve", "--policy=aws-efa", "--manage-guard=guard"], "").exits(2);
    alone.says(&["--manage-webhook <NAME>"]);
    run(&["serve", "--policy=aws-efa", "--manage-webhook=A_B"], "").exits(2).says(&["lower case letters"]);
}

#[test]
fn what_check_cannot_ask_for_is_told() {
    run(&["check"], "").exits(2).says(&["there is no way to an API server"]);
    run(&["check", "--annotation=a", "--gpu-resource=g"], "").exits(2).says(&["write `KEY=VALUE`"]);
    run(&["check", "--annotation=a=b", "--gpu-resource="], "").exits(2).says(&["--gpu-resource"]);
    run(&["check", "--annotation=a=b", "--gpu-resource=g", "--namespace=A"], "")
        .exits(2)
        .says(&["lower case"]);
}
