//! The text of a policy, of its cases or of values: `policy check` finds an error if and only if it does not load, and what
//! loads injects its sample pod once.
#![no_main]

use std::collections::BTreeMap;

use fabric_engine::admission::sample_review;
use fabric_engine::policy_set::PolicySet;
use fabric_fuzz::{Input, inject_thrice};
use fabric_injector::builtin;
use fabric_policy::work::Work;
use fabric_policy::{Overrides, PolicyFile};
use fabric_tools::explain;
use fabric_tools::helm_values::Values;
use fabric_tools::policy_check::{self, has_errors};
use fabric_tools::policy_test::CaseFile;
use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::json;

/// As much work as takes a second here.
const STEPS: u64 = 50_000_000;

fuzz_target!(|text: &str| -> Corpus {
    let loading = || Work::of_loading().with_most_steps(STEPS).measured_by(fabric_allocator::held);
    if let Err(errors) = CaseFile::read("a.yaml", text) {
        let _ = errors.to_string();
    }
    if let Err(error) = Values::read("a.yaml", text) {
        let _ = error.to_string();
    }
    let files = [("a.yaml".to_owned(), text.to_owned())];
    let checking = loading();
    let found = policy_check::check(&files, builtin::files(), &checking);
    found.iter().for_each(|error| drop(error.to_string()));
    let work = loading();
    let definitions = match policy_check::load(&files, builtin::files()) {
        Ok(definitions) => definitions,
        Err(errors) => {
            let is_part = PolicyFile::read("a.yaml", text).is_ok_and(|file| file.is_part("a.yaml"));
            assert!(is_part || has_errors(&found), "does not load: {errors}");
            return Corpus::Keep;
        }
    };
    let with_defaults = definitions.into_iter().map(|one| (one, Overrides::new())).collect();
    let set = PolicySet::load(with_defaults, false, |_| false, &work);
    if checking.ended().is_some() || work.ended().is_some() {
        return Corpus::Reject;
    }
    assert_eq!(has_errors(&found), set.is_err(), "{found:?}, {:?}", set.err().map(|error| error.to_string()));
    let Some(policy) = set.as_ref().ok().and_then(|set| set.policies().first()) else { return Corpus::Keep };
    let _ = explain::policy_text(&explain::policy(
        policy,
        &explain::Sources { values: None, sets: &BTreeMap::new() },
    ));
    let review = sample_review(policy);
    let input = json!({"pod": review["request"]["object"], "namespace": review["request"]["namespace"]});
    inject_thrice(set.as_ref().unwrap(), &Input::read(input.to_string().as_bytes()).unwrap());
    Corpus::Keep
});
