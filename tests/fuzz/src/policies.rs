//! Policies in use.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::LazyLock;

use fabric_engine::policy_set::PolicySet;
use fabric_injector::builtin;
use fabric_policy::work::Work;
use fabric_policy::{Overrides, PolicyFile, definitions};
use serde_json::{Map, Value};

/// Each built-in policy alone.
static BUILT_IN: LazyLock<Vec<PolicySet>> = LazyLock::new(|| {
    let load = |policy: &builtin::BuiltIn| set(vec![(policy.definition().unwrap(), Overrides::new())]);
    builtin::POLICIES.iter().map(load).collect()
});

static EVERY_PROVIDER: LazyLock<PolicySet> = LazyLock::new(|| {
    let all = builtin::POLICIES.iter().map(|policy| (policy.definition().unwrap(), Overrides::new()));
    PolicySet::load(all.collect(), true, |_| true, &Work::of_loading()).unwrap()
});

fn set(policies: Vec<(fabric_policy::Definition, Overrides)>) -> PolicySet {
    PolicySet::load(policies, false, |_| true, &Work::of_loading()).unwrap()
}

/// One of the built-in policies, which a number chooses.
pub fn built_in(number: usize) -> &'static PolicySet {
    &BUILT_IN[number % BUILT_IN.len()]
}

/// The built-in policy of this name.
pub fn named(name: &str) -> Option<&'static PolicySet> {
    let at = builtin::POLICIES.iter().position(|policy| policy.name == name)?;
    Some(&BUILT_IN[at])
}

/// All built-in policies, among which the nodes choose.
pub fn every_provider() -> &'static PolicySet {
    &EVERY_PROVIDER
}

/// As many policies are kept.
const MOST: usize = 256;

type Kept = HashMap<(String, String), Option<Rc<PolicySet>>>;

/// A policy by its text, or by the name of a built-in one, with settings for its parameters. None if it does not load.
pub fn load(policy: &str, settings: &Map<String, Value>) -> Option<Rc<PolicySet>> {
    thread_local! {
        static KEPT: RefCell<Kept> = RefCell::default();
    }
    let key = (policy.to_owned(), Value::Object(settings.clone()).to_string());
    if let Some(known) = KEPT.with_borrow(|kept| kept.get(&key).cloned()) {
        return known;
    }
    let loaded = read(policy, settings).map(Rc::new);
    KEPT.with_borrow_mut(|kept| {
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(key, loaded.clone());
    });
    loaded
}

fn read(policy: &str, settings: &Map<String, Value>) -> Option<PolicySet> {
    let definition = match builtin::find(policy) {
        Some(policy) => policy.definition().ok()?,
        None => definitions(&[PolicyFile::read("a.yaml", policy).ok()?], builtin::files())
            .ok()?
            .into_iter()
            .next()?,
    };
    let setting = |(name, value): (&String, &Value)| {
        let parameter = definition.parameters.iter().find(|parameter| parameter.name == *name)?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some((name.clone(), parameter.parse(&text).ok()?.into()))
    };
    let settings: Option<Overrides> = settings.iter().map(setting).collect();
    PolicySet::new(vec![(definition, settings?)]).ok()
}
