use std::collections::BTreeMap;
use std::time::Duration;

use fabric_engine::admission::{Mode, Record, ReviewOutcome};
use fabric_engine::policy_set::PolicySet;

use super::Metrics;
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
        operations: 7,
        warnings: vec!["of_its_check".to_owned()],
        without_fabric: None,
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
