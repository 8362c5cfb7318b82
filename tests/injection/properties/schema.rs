//! The JSON Schema of policies accepts every policy that loads.

use fabric_policy::Definition;

use super::generator::policies::written;
use super::generator::{Dice, policies};
use crate::helpers::policy_schema;
use crate::schema::{errors, validator};

const POLICIES: u64 = 1_000;

#[test]
fn the_schema_accepts_every_generated_policy_that_loads() {
    let validator = validator(&policy_schema());
    let mut loaded = 0;
    for seed in 0..POLICIES {
        let policy = policies::policy(&mut Dice::new(seed));
        if Definition::read("policy.yaml", &policy.text()).is_err() {
            continue;
        }
        assert_eq!(errors(&validator, &written(&policy.document)), "", "{}", policy.text());
        loaded += 1;
    }
    assert!(loaded > POLICIES / 2, "{loaded} policies load");
}
