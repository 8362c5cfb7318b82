//! Checks every property for generated pairs. `FABRIC_SEED` is where to begin.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::adapter::{self, Context, Result as Outcome};
use super::all::ALL;
use super::generator::extends::FILES;
use super::generator::policies::{Policy, policy};
use super::generator::{Dice, clusters, pods, records, yaml};
use super::pair::{Failure, Group, Pair, Property};
use super::shrink::shrink;
use super::validity::refusals;

/// As many pods are paired with one policy.
const PODS: usize = 8;
/// As many kinds of counterexamples are made small and shown.
const SHOWN: usize = 60;

/// A counterexample, and how many of its kind there are.
struct Found {
    times: usize,
    seed: u64,
    policy: Policy,
    pod: Value,
    context: Context,
    detail: String,
}

/// What became of the pairs.
#[derive(Default)]
struct Tally {
    policies: usize,
    loaded: usize,
    /// How many of them load with their rules in another order, and with a condition that reads everything.
    permuted: usize,
    curious: usize,
    pairs: usize,
    /// Why policies are refused.
    refused: BTreeMap<String, usize>,
    outcomes: BTreeMap<String, usize>,
    /// Refusals of a policy that changes a pod each time, which name none of its author's files.
    misplaced: Vec<String>,
    /// Pods of the generator that are not valid.
    invalid: Vec<String>,
    /// By property and kind.
    found: BTreeMap<(&'static str, String), Found>,
}

pub(crate) fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect(variable))
}

/// The number of pairs. Without optimization, a pair takes ten times as long.
pub(crate) fn number_of_pairs() -> u64 {
    number("FABRIC_PAIRS", if cfg!(debug_assertions) { 800 } else { 24_000 })
}

/// A failure shows each kind of counterexample once, as small as can be found.
#[test]
fn every_property_holds_for_every_pair_of_policy_and_pod() {
    let pairs = usize::try_from(number_of_pairs()).unwrap();
    let first = number("FABRIC_SEED", 1);
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let tally = std::thread::scope(|scope| {
        let work = |worker: usize| {
            let seeds = (first..).skip(worker).step_by(workers);
            move || run(seeds, pairs.div_ceil(workers))
        };
        let running: Vec<_> = (0..workers).map(|worker| scope.spawn(work(worker))).collect();
        running.into_iter().map(|worker| worker.join().unwrap()).fold(Tally::default(), Tally::with)
    });
    println!("{} of {} policies load, {} pairs", tally.loaded, tally.policies, tally.pairs);
    println!("{} load in another order, {} with another condition", tally.permuted, tally.curious);
    println!("{:#?}\nrefused when they are loaded: {:#?}", tally.outcomes, tally.refused);
    assert_eq!(tally.invalid, Vec::<String>::new(), "the generator makes valid pods");
    assert!(tally.loaded * 2 > tally.policies, "most policies load");
    assert!(tally.permuted * 3 > tally.loaded, "many policies have rules that may change places");
    assert!(tally.curious * 2 > tally.loaded, "most policies load with another condition");
    let mutated = tally.outcomes.get("mutated").copied().unwrap_or_default();
    assert!(mutated * 3 > tally.pairs, "many pods are injected");
    let misplaced = tally.misplaced.join("\n");
    assert!(tally.found.is_empty() && misplaced.is_empty(), "{}\n{misplaced}", tally.report());
}

/// Checks as many pairs, with policies and pods from these seeds.
fn run(seeds: impl Iterator<Item = u64>, pairs: usize) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        if tally.pairs >= pairs {
            break;
        }
        let mut dice = Dice::new(seed);
        tally.policies += 1;
        let policy = policy(&mut dice);
        let group = match Group::load(&policy) {
            Ok(group) => group,
            Err(why) => {
                if why.contains("not idempotent")
                    && !FILES.iter().any(|file| why.contains(&format!("{file}.yaml:")))
                {
                    tally.misplaced.push(format!("seed {seed}: {why}\n{}", policy.text()));
                }
                *tally.refused.entry(kind(&why)).or_default() += 1;
                continue;
            }
        };
        tally.loaded += 1;
        tally.permuted += usize::from(group.permuted.is_some());
        tally.curious += usize::from(group.curious.is_some());
        let mut injected = None;
        for _ in 0..PODS {
            let copy: Option<Value> = injected.take().filter(|_| dice.chance(15));
            let mut pod = match &copy {
                Some(injected) => records::copied(&mut dice, injected),
                None => pods::pod(&mut dice),
            };
            let has_files = policy.document["spec"]["files"].is_object();
            let whole = copy.is_none() && dice.chance(if has_files { 75 } else { 96 });
            match dice.below(if has_files { 8 } else { 2 }) {
                _ if whole => {}
                0 => pods::request_without_limit(&mut pod),
                _ => records::mount_of_settings(&mut dice, &mut pod),
            }
            let context = context(&mut dice, &pod);
            let pair = Pair::new(&group, pod, context);
            injected = pair.mutated().cloned();
            if whole {
                tally.invalid.extend(pair.refusals.iter().cloned());
            }
            tally.check(seed, &pair);
        }
    }
    tally
}

fn context(dice: &mut Dice, pod: &Value) -> Context {
    let own = pod["metadata"]["namespace"].as_str().map(str::to_owned);
    let namespace = if dice.chance(50) { own.or(Some("default".to_owned())) } else { own };
    let nodes = dice.chance(12).then(|| clusters::nodes(dice));
    Context { namespace, nodes, ..Context::default() }
}

/// The first line of a message without the names in it.
fn kind(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let words: Vec<&str> = line.split('`').step_by(2).collect();
    let text = words.join("_");
    let outside = text.split(['(', ')']).step_by(2).collect::<String>();
    outside.split('{').next().unwrap_or_default().to_owned()
}

impl Tally {
    fn check(&mut self, seed: u64, pair: &Pair<'_>) {
        self.pairs += 1;
        *self.outcomes.entry(pair.first.outcome.name()).or_default() += 1;
        for (name, property) in ALL {
            let Err(Failure { class, detail }) = property(pair) else { continue };
            let found = self.found.entry((name, class)).or_insert_with(|| Found {
                times: 0,
                seed,
                policy: pair.group.policy.clone(),
                pod: pair.pod.clone(),
                context: pair.context.clone(),
                detail,
            });
            found.times += 1;
        }
    }

    /// Both together.
    fn with(mut self, other: Self) -> Self {
        self.policies += other.policies;
        self.loaded += other.loaded;
        self.permuted += other.permuted;
        self.curious += other.curious;
        self.pairs += other.pairs;
        self.misplaced.extend(other.misplaced);
        self.invalid.extend(other.invalid);
        for (key, times) in other.refused {
            *self.refused.entry(key).or_default() += times;
        }
        for (key, times) in other.outcomes {
            *self.outcomes.entry(key).or_default() += times;
        }
        for (key, found) in other.found {
            let times = self.found.get(&key).map_or(0, |found| found.times) + found.times;
            self.found.entry(key).or_insert(found).times = times;
        }
        self
    }

    fn report(&self) -> String {
        let mut report = String::new();
        for ((name, class), found) in &self.found {
            let _ = writeln!(report, "{:6} {name} [{class}]", found.times);
        }
        for ((name, class), found) in self.found.iter().take(SHOWN) {
            let property = ALL.iter().find(|(known, _)| known == name).unwrap().1;
            let (policy, pod) = found.smallest(property, class);
            let again = check(property, &found.policy, &policy, &pod, &found.context);
            let detail = again.map_or_else(|| found.detail.clone(), |failure| failure.detail);
            let Found { times, seed, context, .. } = found;
            let set = &found.policy.overrides;
            let (policy, pod) =
                (Policy { document: policy, ..found.policy.clone() }.text(), yaml::text(&pod));
            let _ = write!(
                report,
                "\n=== {name} [{class}], {times} times, first with seed {seed}\n{detail}\n\
                 --- policy, with {set:?}\n{policy}--- pod, {context:?}\n{pod}"
            );
        }
        report
    }
}

impl Found {
    fn smallest(&self, property: Property, class: &str) -> (Value, Value) {
        shrink(&self.policy.document, &self.pod, &|policy, pod| {
            let valid = refusals(pod).len() <= refusals(&self.pod).len();
            let failure = valid.then(|| check(property, &self.policy, policy, pod, &self.context)).flatten();
            failure.is_some_and(|failure| failure.class == class)
        })
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

/// Whatever arrives as JSON is answered, and comes back as it came if it is not injected.
#[test]
fn what_is_no_pod_is_answered() {
    let mut dice = Dice::new(number("FABRIC_SEED", 1));
    let mut left = number_of_pairs();
    let (mut policies, mut loaded) = (0, 0);
    while left > 0 {
        policies += 1;
        let Ok(group) = Group::load(&policy(&mut dice)) else { continue };
        loaded += 1;
        for _ in 0..PODS {
            let pod = pods::pod(&mut dice);
            let pod = pods::broken(&mut dice, pod);
            left = left.saturating_sub(1);
            let pair = Pair::new(&group, pod.clone(), Context::default());
            let case = || format!("{}\n{}", group.policy.text(), yaml::text(&pod));
            match &pair.first.outcome {
                Outcome::Unchanged { pod: after, .. } => assert_eq!(after.to_string(), pod.to_string()),
                Outcome::Mutated { pod: after, patch, .. } | Outcome::Skipped { pod: after, patch, .. } => {
                    let mut patched = pod.clone();
                    let applied = json_patch::patch(&mut patched, patch);
                    assert!(applied.is_ok() && patched == *after, "{patch}\n{}", case());
                }
                Outcome::Refused { .. } => {}
            }
            let response = adapter::review(&group.loaded, &pod, &Context::default());
            assert_eq!(response["uid"], json!("u"));
        }
    }
    assert!(loaded * 5 > policies * 2, "{loaded} of {policies} policies load");
}
