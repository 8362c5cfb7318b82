//! The JSON Schema of policies accepts every policy that loads.

use super::adapter;
use super::generator::extends::files;
use super::generator::policies::written;
use super::generator::{Dice, policies};
use super::pairs::number_of_pairs;
use crate::helpers::policy_schema;
use crate::schema::{errors, validator};

#[test]
fn the_schema_accepts_every_generated_policy_that_loads() {
    let validator = validator(&policy_schema());
    let (mut loaded, tried) = (0, number_of_pairs());
    for seed in 0..tried {
        let policy = policies::policy(&mut Dice::new(seed));
        if adapter::read(&policy.files()).is_err() {
            continue;
        }
        for (_, document) in files(&policy.document) {
            assert_eq!(errors(&validator, &written(&document)), "", "{}", policy.text());
        }
        loaded += 1;
    }
    assert!(loaded > tried / 2, "{loaded} policies load");
}
