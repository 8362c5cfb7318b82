//! Runs all properties over generated pairs. `FABRIC_PAIRS` is how many, `FABRIC_SEED` where to begin.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::adapter::{self, Context, Result as Outcome};
use crate::generator::policies::{Policy, policy};
use crate::generator::{Dice, pods, yaml};
use crate::properties::{ALL, Failure, Group, Pair, Property};
use crate::rules;
use crate::shrink::shrink;

/// As many pods are paired with one policy.
const PODS: usize = 20;
/// Different counterexamples that are made small and shown.
const SHOWN: usize = 60;

/// What became of the pairs.
#[derive(Debug, Default)]
struct Tally {
    policies: usize,
    loaded: usize,
    refusals: BTreeMap<String, usize>,
    pairs: usize,
    outcomes: BTreeMap<String, usize>,
    invalid: BTreeMap<String, usize>,
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Every property for every pair; a failure shows each kind of counterexample once, as small as can be found.
#[test]
fn every_property_holds_for_every_pair_of_policy_and_pod() {
    let pairs = usize::try_from(number("FABRIC_PAIRS", 3_000)).unwrap();
    let mut seed = number("FABRIC_SEED", 1);
    let mut tally = Tally::default();
    let mut found: BTreeMap<(&str, String), (usize, u64, Group, Value, Context, String)> = BTreeMap::new();
    while tally.pairs < pairs {
        seed += 1;
        let mut dice = Dice::new(seed);
        tally.policies += 1;
        let Some(group) = load(policy(&mut dice), &mut tally) else { continue };
        tally.loaded += 1;
        for _ in 0..PODS.min(pairs - tally.pairs) {
            tally.pairs += 1;
            let mut pod = pods::pod(&mut dice);
            for refusal in crate::validity::refusals(&pod) {
                *tally.invalid.entry(refusal).or_default() += 1;
            }
            if dice.chance(4) {
                pods::request_without_limit(&mut pod);
            }
            let context = context(&mut dice, &pod);
            let pair = Pair::new(&group, pod, context);
            *tally.outcomes.entry(pair.first.outcome.name()).or_default() += 1;
            for (name, property) in ALL {
                let Err(Failure { class, detail }) = property(&pair) else { continue };
                let entry = found.entry((name, class)).or_insert_with(|| {
                    let again = Group::load(&group.policy).unwrap();
                    (0, seed, again, pair.pod.clone(), pair.context.clone(), detail)
                });
                entry.0 += 1;
            }
        }
    }
    println!("{tally:#?}");
    assert!(tally.loaded * 2 > tally.policies, "most policies load: {tally:#?}");
    assert!(tally.invalid.is_empty(), "the generator makes valid pods: {tally:#?}");
    let mut report = String::new();
    for ((name, class), (times, seed, group, pod, context, detail)) in found.iter().take(SHOWN) {
        let property = ALL.iter().find(|(known, _)| known == name).unwrap().1;
        let (policy, pod) = smallest(property, class, &group.policy, pod, context);
        let again = check(property, &group.policy, &policy, &pod, context);
        let detail = again.map_or_else(|| detail.clone(), |failure| failure.detail);
        let _ = write!(
            report,
            "\n=== {name} [{class}], {times} times, first with seed {seed}\n{detail}\n--- policy\n{}--- pod, {context:?}\n{}",
            yaml::text(&policy),
            yaml::text(&pod)
        );
    }
    let kinds: Vec<String> =
        found.iter().map(|((name, class), (times, ..))| format!("{times:6} {name} [{class}]")).collect();
    assert!(found.is_empty(), "{}\n{report}", kinds.join("\n"));
}

fn load(policy: Policy, tally: &mut Tally) -> Option<Group> {
    match Group::load(&policy) {
        Ok(group) => Some(group),
        Err(why) => {
            let line = why.lines().next().unwrap_or_default();
            let words: Vec<&str> = line.split('`').step_by(2).collect();
            let words = words.join("_");
            let sample = words.split_once('(').map_or("", |(before, _)| before);
            let kind = words.split_once(')').map_or(words.as_str(), |(_, after)| after);
            *tally
                .refusals
                .entry(format!("{sample}{}", kind.split('{').next().unwrap_or_default()))
                .or_default() += 1;
            None
        }
    }
}

impl Group {
    pub(crate) fn load(policy: &Policy) -> Result<Self, String> {
        let loaded = adapter::load(&policy.text())?;
        let variant = |document: Option<Value>| {
            document.and_then(|document| adapter::load(&yaml::text(&document)).ok())
        };
        let permuted = variant(rules::permuted(&policy.document));
        let curious = variant(Some(rules::curious(&policy.document)));
        Ok(Self { policy: policy.clone(), loaded, permuted, curious })
    }
}

fn context(dice: &mut Dice, pod: &Value) -> Context {
    let own = pod["metadata"]["namespace"].as_str().map(str::to_owned);
    Context {
        namespace: if dice.chance(50) { own.or(Some("default".to_owned())) } else { own },
        ..Context::default()
    }
}

/// The failure of a property for a policy that was made smaller.
fn check(
    property: Property,
    whole: &Policy,
    policy: &Value,
    pod: &Value,
    context: &Context,
) -> Option<Failure> {
    let policy = Policy { document: policy.clone(), ..whole.clone() };
    let group = Group::load(&policy).ok()?;
    property(&Pair::new(&group, pod.clone(), context.clone())).err()
}

fn smallest(
    property: Property,
    class: &str,
    whole: &Policy,
    pod: &Value,
    context: &Context,
) -> (Value, Value) {
    shrink(&whole.document, pod, &|policy, pod| {
        let has_containers = pod["spec"]["containers"].as_array().is_some_and(|list| !list.is_empty());
        has_containers
            && crate::validity::refusals(pod).is_empty()
            && check(property, whole, policy, pod, context).is_some_and(|failure| failure.class == class)
    })
}

/// Whatever arrives as JSON is answered, and comes back as it came if it is not injected.
#[test]
fn pods_that_are_none_are_answered() {
    let pairs = number("FABRIC_PAIRS", 3_000);
    let mut dice = Dice::new(number("FABRIC_SEED", 1));
    let mut answered = 0;
    while answered < pairs {
        let Ok(group) = Group::load(&policy(&mut dice)) else { continue };
        for _ in 0..PODS {
            let pod = pods::pod(&mut dice);
            let pod = pods::broken(&mut dice, pod);
            answered += 1;
            let pair = Pair::new(&group, pod.clone(), Context::default());
            assert!(pair.took.as_secs() < 1, "{pod}");
            match &pair.first.outcome {
                Outcome::Unchanged { pod: after, .. } => assert_eq!(after.to_string(), pod.to_string()),
                Outcome::Mutated { pod: after, patch, .. } => {
                    let mut patched = pod.clone();
                    let applied = json_patch::patch(&mut patched, patch);
                    assert!(
                        applied.is_ok() && patched == *after,
                        "{patch}\n{}\n{}",
                        group.policy.text(),
                        yaml::text(&pod)
                    );
                }
                Outcome::Refused { .. } => {}
            }
            let response = adapter::review(&group.loaded, &pod, &Context::default());
            assert_eq!(response["uid"], json!("u"));
        }
    }
}
