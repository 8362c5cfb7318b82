//! The program, its chart and its registration on a real Kubernetes control plane: etcd, kube-apiserver,
//! kube-controller-manager and kube-scheduler of one release, with nodes that exist as API objects only.
//!
//! `tests/control-plane` has the binaries, and says how to get them. Without them every scenario is ignored.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]
#![allow(clippy::print_stderr, reason = "what is left out is said")]

mod api;
mod binaries;
mod cluster;
mod control_plane;
mod discovery;
#[allow(dead_code, reason = "the tests of properties use all of it")]
#[path = "../injection/properties/generator/mod.rs"]
mod generator;
#[path = "../injection/golden/cases.rs"]
mod golden_cases;
mod helm;
mod isolation;
mod kubelet;
mod neighbour;
mod nodes;
mod processes;
#[path = "../control-plane/programs.rs"]
mod programs;
mod scenarios;
mod tls;
mod workloads;

use std::env;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, OnceCell};
use tokio::time::{Instant, sleep, timeout};

use binaries::Binaries;
use cluster::Cluster;

/// How long anything that is awaited may take at most, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long one step of a scenario may take. How many it has, and so how long it takes, is no fault.
const STEP: Duration = Duration::from_mins(3);

static STEP_ENDED: Notify = Notify::const_new();

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // They share one cluster, and some take its servers away.
    arguments.test_threads = Some(1);
    if arguments.list {
        return libtest_mimic::run(&arguments, scenarios::all(&|name, _| Trial::test(name, || Ok(()))))
            .exit_code();
    }
    let ready = Binaries::find().and_then(|binaries| isolation::enter().map(|()| binaries));
    match ready {
        Ok(binaries) => run(&arguments, binaries),
        Err(why) => skip(&arguments, &why),
    }
}

/// Ends the run on Ctrl-C: as the first process of its namespace, this one has no handlers of the system's.
#[allow(clippy::exit, reason = "with this process, all that it has started goes")]
async fn end_when_interrupted() {
    tokio::signal::ctrl_c().await.unwrap();
    std::process::exit(130);
}

/// The scenarios of this process: all of them, or with `E2E_PART=2/3` the second third. They wait most of the time, so
/// that several processes, each with a cluster of its own, take less time than one.
fn part(mut scenarios: Vec<Trial>) -> Vec<Trial> {
    let Ok(part) = env::var("E2E_PART") else { return scenarios };
    let numbers = part.split_once('/').and_then(|(at, of)| Some((at.parse().ok()?, of.parse().ok()?)));
    let (at, of): (usize, usize) =
        numbers.filter(|(at, of)| (1..=*of).contains(at)).expect("`1/2` or the like");
    let count = scenarios.len();
    scenarios.drain(count * (at - 1) / of..count * at / of).collect()
}

/// Runs the scenarios, on a cluster that starts with the first of them.
fn run(arguments: &Arguments, binaries: Binaries) -> ExitCode {
    let runtime = Arc::new(Runtime::new().unwrap());
    runtime.spawn(end_when_interrupted());
    let folder = tempfile::Builder::new().prefix("fabric-injector-e2e-").tempdir().unwrap();
    let cluster: Arc<OnceCell<Cluster>> = Arc::default();
    let context = Arc::new((binaries, folder.path().to_owned()));
    let trials = scenarios::all(&|name, scenario| {
        let (runtime, cluster, context) = (runtime.clone(), cluster.clone(), context.clone());
        Trial::test(name, move || {
            runtime.block_on(async {
                let (binaries, folder) = &*context;
                let cluster = cluster.get_or_init(|| Cluster::start(binaries, folder)).await;
                tokio::select! {
                    () = scenario(cluster) => Ok(()),
                    () = hangs() => Err(Failed::from("it does not go on")),
                }
            })
        })
    });
    let conclusion = libtest_mimic::run(arguments, part(trials));
    // Nothing may write to the folder when it goes.
    if let Some(runtime) = Arc::into_inner(runtime) {
        runtime.shutdown_timeout(Duration::from_secs(5));
    }
    if conclusion.has_failed() {
        eprintln!("the logs of all processes are in {}", folder.keep().join("logs").display());
    }
    conclusion.exit_code()
}

/// Reports every scenario as ignored, or ends with an error if they are required.
fn skip(arguments: &Arguments, why: &str) -> ExitCode {
    if programs::required() {
        eprintln!("error: the tests on a control plane cannot run: {why}");
        return ExitCode::FAILURE;
    }
    let ignored = |name, _| {
        let why = why.to_owned();
        Trial::ignorable_test(name, move || Ok(Completion::ignored_with(why)))
    };
    libtest_mimic::run(arguments, scenarios::all(&ignored)).exit_code()
}

/// Waits until something holds, and fails if that does not come to be.
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < end, "this did not come to be: {what}");
        sleep(Duration::from_millis(50)).await;
    }
    step();
}

/// A step of the scenario has ended.
fn step() {
    STEP_ENDED.notify_one();
}

/// Waits until a step takes too long.
async fn hangs() {
    while timeout(STEP, STEP_ENDED.notified()).await.is_ok() {}
}
