use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fabric_engine::admission::{Mode, Record, ReviewOutcome};
use fabric_engine::policy_set::PolicySet;

use super::{KEPT, MOST_NAMESPACES, Metrics};
use crate::builtin;

#[test]
fn a_review_that_ends_after_its_policy_is_gone_gives_it_no_series() {
    let definition = builtin::find("aws-efa").unwrap().definition().unwrap();
    let metrics = Metrics::new(Mode::Inject);
    let record = Record {
        uid: "u".to_owned(),
        namespace: None,
        name: None,
        policy: Some("aws-efa".to_owned()),
        outcome: ReviewOutcome::Mutated,
        reason: None,
        message: None,
        allowed: true,
        dry_run: false,
        operations: 7,
        warnings: vec!["of_its_check".to_owned()],
        without_fabric: None,
        absent: Vec::new(),
        for_owner: None,
        mode: Mode::Inject,
    };
    let of_policy = || metrics.encode().lines().filter(|line| line.contains("policy=\"aws-efa\"")).count();
    metrics.policies_in_use(&PolicySet::new(vec![(definition, BTreeMap::new())]).unwrap());
    metrics.reviewed(&record, Duration::ZERO);
    assert!(
        metrics.encode().contains("policy=\"aws-efa\",outcome=\"mutated\",reason=\"\",mode=\"inject\"} 1\n")
    );
    metrics.policies_in_use(&PolicySet::default());
    metrics.reviewed(&record, Duration::ZERO);
    assert_eq!(of_policy(), 0);
    assert!(metrics.encode().contains("patch_operations_total 14\n"));
}

/// The empty label takes one of the places.
#[test]
fn new_namespaces_take_no_label_from_one_with_pods_and_have_one_when_others_have_none() {
    let metrics = Metrics::new(Mode::Inject);
    let begun = Instant::now();
    let miss = |namespace: &str, at: Duration| {
        drop(metrics.missed(namespace, ReviewOutcome::Failed, "cost".into(), begun + at));
        let label = format!("pod_namespace=\"{namespace}\"");
        metrics.encode().contains(&label)
    };
    let flood = |at| (0..2 * MOST_NAMESPACES).filter(|number| miss(&format!("evil-{number}"), at)).count();
    assert!(miss("team", Duration::ZERO));
    assert_eq!(flood(Duration::ZERO), MOST_NAMESPACES - 2);
    assert!(miss("team", KEPT / 2));
    assert!(!miss("late", KEPT / 2), "it has the empty label");
    assert!(miss("late", KEPT), "the flood is over");
    assert_eq!(flood(KEPT), MOST_NAMESPACES - 3);
    assert!(["team", "late"].iter().all(|namespace| miss(namespace, KEPT)));
    let series = metrics.encode().lines().filter(|line| line.contains("pod_namespace=")).count();
    assert!(series <= MOST_NAMESPACES + 1, "{series}");
}
