//! Warnings have to be short, and few: the API server cuts what is not.

use fabric_engine::Outcome;
use fabric_injector::builtin;
use fabric_policy::PodContext as About;
use serde_json::{Value, json};

use crate::answers::warnings;
use crate::reviews::{container, pod, pod_with, pod_with_env, review_of};
use crate::server::{LAB, Server, engine, policies};

/// How many messages the engine has for a pod.
fn messages(pod: &Value) -> usize {
    let about = About { namespace: Some("team".to_owned()), ..About::default() };
    let mutation = engine(&policies(&[LAB]), pod.clone(), &about);
    let Outcome::Mutated(mutated) = &mutation.outcome else { panic!("{:?}", mutation.outcome) };
    mutation.warnings.len() + mutated.summary().len()
}

/// A pod with so many containers, each with a variable that is kept.
fn crowd(containers: usize, name: impl Fn(usize) -> String) -> Value {
    let one = |at: usize| {
        let mut one = container(&name(at));
        one["env"] = json!([{"name": "NCCL_SOCKET_IFNAME", "value": "ens5"}]);
        one
    };
    pod_with("/spec/containers", (0..containers).map(one).collect())
}

#[tokio::test]
async fn a_warning_that_is_too_long_is_cut_between_letters() {
    let server = Server::lab();
    // The cut falls on every byte of a letter in turn.
    for letter in ["é", "€", "\u{1f600}"] {
        for shift in 0..4 {
            let value = format!("{}{}", "x".repeat(shift), letter.repeat(220));
            let mut pod = pod_with_env("NCCL_SOCKET_IFNAME", &value);
            pod["spec"]["containers"][0]["name"] = json!("c".repeat(63));
            let response = server.review(&review_of(&pod)).await;
            let warnings = warnings(&response);
            // That it is not too long is looked at in every answer.
            assert!(warnings[0].contains(&format!("stays `{}{letter}", "x".repeat(shift))), "{warnings:?}");
            assert!(warnings[0].ends_with('…') && warnings[0].len() > 246, "{warnings:?}");
            assert_eq!(warnings.len(), messages(&pod));
        }
    }
}

#[tokio::test]
async fn a_warning_that_fits_is_not_cut() {
    let response = Server::lab().review(&review_of(&pod_with_env("NCCL_SOCKET_IFNAME", "ens5"))).await;
    let wanted = "fabric-injector: `spec.containers[main].env[NCCL_SOCKET_IFNAME]` stays `ens5`; rule `nics` would set `eth0`";
    assert_eq!(warnings(&response)[0], wanted);
    let response = Server::lab().review(&review_of(&pod())).await;
    assert!(warnings(&response).iter().all(|warning| !warning.contains("and 1 more")), "{response}");
}

#[tokio::test]
async fn more_warnings_than_have_place_are_counted_in_the_last_one() {
    let server = Server::lab();
    let mut cut = 0;
    for letter in ["c", "ü", "\u{1f600}"] {
        for containers in [1, 10, 17, 18, 19, 20, 40, 300] {
            let pod = crowd(containers, |at| format!("{}-{at}", letter.repeat(56 / letter.len())));
            let response = server.review(&review_of(&pod)).await;
            let shown = warnings(&response);
            let all = messages(&pod);
            let last = shown[shown.len() - 1];
            if !last.ends_with(" more") {
                assert_eq!(shown.len(), all, "{shown:#?}");
                continue;
            }
            cut += 1;
            assert_eq!(last, format!("fabric-injector: and {} more", all - shown.len() + 1));
            // The place that there is is used.
            let length: usize = shown.iter().map(|warning| warning.len()).sum();
            assert!(length > 4_096 - 256 - 60, "{length}");
        }
    }
    assert!((6..24).contains(&cut), "{cut}");
}

#[tokio::test]
async fn what_there_is_to_do_has_place_before_what_was_done() {
    let pod = crowd(300, |at| format!("worker-{at}"));
    let response = Server::lab().review(&review_of(&pod)).await;
    let shown = warnings(&response);
    assert!(shown.len() > 30, "{shown:?}");
    assert!(shown[..shown.len() - 1].iter().all(|warning| warning.contains("stays `ens5`")), "{shown:#?}");
}

#[tokio::test]
async fn a_warning_is_one_line_whatever_the_pod_says() {
    let server = Server::lab();
    for value in ["a\nb", "\u{0}\u{1b}[31mred", "\r\n\t", "\u{85}\u{7f}", "\u{2028}"] {
        let mut pod = pod_with_env("NCCL_SOCKET_IFNAME", value);
        pod["spec"]["containers"][0]["name"] = json!(format!("main{value}"));
        let response = server.review(&review_of(&pod)).await;
        // That there is no control character is looked at in every answer.
        assert!(warnings(&response)[0].contains("stays `"), "{response}");
    }
}

/// The API server may cut a warning after 256 characters.
#[test]
fn warnings_of_the_built_in_policies_fit() {
    // A variable of a container, and what an expression in a message has at most.
    let path = "fabric-injector: `spec.containers[trainer].env[NCCL_SOCKET_IFNAME]`: ";
    let mut seen = 0;
    for policy in builtin::POLICIES.iter().chain(builtin::PARTS) {
        let file = fabric_yaml::read_value(policy.text).unwrap().root.unwrap();
        for check in file["spec"]["checks"].as_array().into_iter().flatten() {
            let message = check["message"].as_str().unwrap();
            let (mut length, mut rest) = (0, message);
            while let Some((before, after)) = rest.split_once("${") {
                length += before.len() + 24;
                rest = after.split_once('}').unwrap().1;
            }
            length +=
                rest.len() + if check["env"].is_null() { "fabric-injector: ".len() } else { path.len() };
            assert!(length <= 256, "{}: {length} for {message}", policy.name);
            seen += 1;
        }
    }
    assert!(seen > 25, "{seen}");
}
