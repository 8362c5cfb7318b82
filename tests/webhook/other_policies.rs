//! Pods with GPUs that the API server sends, although no policy in use matches them: a trigger has changed, and the server
//! does not have the new policy yet.

use std::time::Duration;

use fabric_engine::admission::{Mode, OnError};
use fabric_injector::server::{AppState, Limits};
use tokio::time::advance;

use crate::answers::{assert_unchanged, denied};
use crate::reviews::{UID, other_pod, pod, review_of, unmatched_pod};
use crate::scrape::reviews;
use crate::server::{LAB, Server, policies};

const CODE: &str = "other_policies_registered";
const NEW: &str = "NOT injected, the pod has no fast network: no policy in use matches this pod with GPUs";

#[tokio::test(start_paused = true)]
async fn they_are_denied_for_a_minute_and_admitted_with_a_warning_after_that() {
    let server = Server::limited(OnError::Deny, Limits::default());
    let (failed, admitted) = (reviews("", "failed", CODE), reviews("", "unchanged", CODE));
    for _ in 0..2 {
        let before = server.scrape();
        let response = server.review(&review_of(&unmatched_pod())).await;
        assert!(denied(&response, 500).contains("try again in a minute"), "{response}");
        server.scrape().rose(&before, &[(&failed, 1), (crate::scrape::ANSWERED, 1)]);
        advance(Duration::from_secs(29)).await;
    }
    advance(Duration::from_secs(2)).await;
    let before = server.scrape();
    assert_unchanged(&server.review(&review_of(&unmatched_pod())).await, &[NEW]);
    server.scrape().rose(&before, &[(&admitted, 1), (crate::scrape::ANSWERED, 1)]);
    assert_eq!(server.review(&review_of(&pod())).await["patchType"], "JSONPatch");
    assert_unchanged(&server.review(&review_of(&other_pod())).await, &[]);
}

#[tokio::test]
async fn they_are_admitted_with_a_warning_if_the_operator_says_so_and_in_audit_mode() {
    for (on_error, mode) in [(OnError::Allow, Mode::Inject), (OnError::Deny, Mode::Audit)] {
        let state = AppState::new(policies(&[LAB]), on_error, Limits::default()).in_mode(mode);
        let response = Server::new(state).review(&review_of(&unmatched_pod())).await;
        assert_eq!((&response["uid"], &response["allowed"]), (&UID.into(), &true.into()));
        assert!(response["warnings"][0].as_str().unwrap().contains("no policy in use matches"), "{response}");
    }
}
