//! The work and the processor time for policy files grow in proportion to them, or end with an error that names a limit:
//! for each list, map and text that the language has.

mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;

use fabric_engine::policy_set::PolicySet;
use fabric_injector::builtin;
use fabric_policy::keys::{Kind, Map, PARAMETER, POLICY, SPEC};
use fabric_policy::work::Work;
use fabric_tools::explain::{Sources, policy, policy_text};
use fabric_tools::policy_check::{check, load};
use fabric_tools::policy_list::listed;

use rows::{ROWS, Row};

/// Ten and a hundred times as much as usual, and more than most things may have.
const SIZES: [usize; 4] = [20, 200, 2_000, 20_000];
/// The most times as many steps for ten times as much: an exponent of 1.1.
const MOST_STEPS: u64 = 12;
/// The most times as much processor time for ten times as much. It is less exact than steps.
const MOST_TIME: u64 = 30;
/// Less time is not compared, in milliseconds: on a machine that does other work, the time of one list that is searched for
/// each of 2,000 entries of another, which is the most that a policy has.
const SHORT: u64 = 60;
/// The most time of loading that ends at the limit on its steps, in milliseconds.
const LONGEST: u64 = 10_000;
/// The most bytes of lines in the output of `policy check`.
const MOST_LINES: usize = 64 << 20;
/// What the message of a limit says.
const LIMITS: [&str; 4] = ["more than", "at most", "too many levels", "no pod can have"];
/// Fewer steps are not compared: a twentieth of the limit on loading, which counts the comparisons of rules with each
/// other.
const FEW_STEPS: u64 = 50_000_000;

/// The processor time of this thread, in milliseconds; 0 where no file has it.
fn processor_time() -> u64 {
    let stat = read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10
}

/// The result of a command for policy files.
struct Taken {
    milliseconds: u64,
    /// The steps of a command that counts them and ends without an error.
    steps: Option<u64>,
    errors: Vec<String>,
}

type Files = Vec<(String, String)>;

/// Reads policy files; the steps, if they are counted, and what is wrong.
type Reader = fn(&Files) -> (Option<u64>, Vec<String>);

/// What reads policy files: the server, and then each command that does more.
const READERS: [(&str, Reader); 3] =
    [("loading", loading), ("policy check", checking), ("policy explain", explaining)];

fn loading(files: &Files) -> (Option<u64>, Vec<String>) {
    let work = Work::of_loading();
    match loaded(files, &work) {
        Ok(_) => (Some(work.done()), Vec::new()),
        Err(error) => (None, vec![error]),
    }
}

fn loaded(files: &Files, work: &Work) -> Result<PolicySet, String> {
    let definitions = load(files, builtin::files()).map_err(|errors| errors.to_string())?;
    let with_defaults = definitions.into_iter().map(|definition| (definition, BTreeMap::new())).collect();
    PolicySet::load(with_defaults, true, |_| false, work).map_err(|error| error.to_string())
}

fn checking(files: &Files) -> (Option<u64>, Vec<String>) {
    let found = check(files, builtin::files(), &fabric_policy::work::Work::of_loading());
    // The output in JSON has the line of each.
    let lines: usize = found.iter().map(|error| error.line().len()).sum();
    if lines > MOST_LINES {
        return (None, vec![format!("{lines} bytes of lines in JSON")]);
    }
    (None, found.iter().map(ToString::to_string).filter(|text| text.starts_with("error")).collect())
}

fn explaining(files: &Files) -> (Option<u64>, Vec<String>) {
    let policies = match loaded(files, &Work::of_loading()) {
        Ok(policies) => policies,
        Err(error) => return (None, vec![error]),
    };
    for one in policies.policies() {
        let facts = policy(one, &Sources { values: None, sets: &BTreeMap::new() });
        assert!(!policy_text(&facts).is_empty());
        assert!(listed(one.definition()).is_object());
    }
    (None, Vec::new())
}

fn take(read: fn(&Files) -> (Option<u64>, Vec<String>), files: &Files) -> Taken {
    let begun = processor_time();
    let (steps, errors) = read(files);
    Taken { milliseconds: processor_time() - begun, steps, errors }
}

/// The faults in how a command grows with a part of a policy.
fn faults(row: &Row, command: &str, read: fn(&Files) -> (Option<u64>, Vec<String>)) -> Vec<String> {
    let mut faults = Vec::new();
    let mut before: Option<Taken> = None;
    for size in SIZES {
        let files = (row.write)(size);
        let bytes: usize = files.iter().map(|(_, text)| text.len()).sum();
        let taken = take(read, &files);
        if std::env::var_os("FABRIC_COST").is_some() {
            #[allow(clippy::print_stderr, reason = "what the caller asked for")]
            {
                let first = taken.errors.first().and_then(|error| error.lines().next()).unwrap_or_default();
                eprintln!(
                    "{command:<14} {:<32} {size:>6} {bytes:>8} bytes {:>6} ms {:>10} {first:.90}",
                    row.name,
                    taken.milliseconds,
                    taken.steps.unwrap_or_default()
                );
            }
        }
        let what = format!("{command}: {size} of {}", row.name);
        let is_mistake = ["mistake", "unknown"].iter().any(|word| row.name.contains(word));
        if before.is_none() && !is_mistake {
            assert!(taken.errors.is_empty(), "{what}: {:?}", taken.errors);
        }
        if let Some(before) = before {
            let ends_at_limit = taken.errors.iter().any(|error| error.contains("steps of work"));
            let most = if ends_at_limit { LONGEST } else { MOST_TIME * before.milliseconds.max(SHORT) };
            if taken.milliseconds > most {
                faults.push(format!(
                    "{what} take {} ms, a tenth {} ms",
                    taken.milliseconds, before.milliseconds
                ));
                // What is more would take hours.
                break;
            }
            let (steps, fewer) = (taken.steps.unwrap_or_default(), before.steps.unwrap_or(u64::MAX));
            if steps > FEW_STEPS && steps / MOST_STEPS > fewer {
                faults.push(format!("{what} take {steps} steps, a tenth {fewer}"));
            }
            let names_limit = |error: &String| LIMITS.iter().any(|limit| error.contains(limit));
            if before.errors.is_empty() && !taken.errors.is_empty() && !taken.errors.iter().any(names_limit) {
                faults.push(format!(
                    "{what} are refused without the name of a limit: {:?}",
                    taken.errors.first()
                ));
            }
        }
        before = Some(taken);
    }
    faults
}

#[test]
#[cfg_attr(debug_assertions, ignore = "`.ci/run` runs it optimized, in a tenth of the time")]
fn policies_take_time_in_proportion() {
    let found: Vec<String> = ROWS
        .iter()
        .flat_map(|row| READERS.iter().flat_map(|(command, read)| faults(row, command, *read)))
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// Adds the paths of the keys whose values can grow.
fn keys_of(map: &'static Map, path: &str, found: &mut BTreeSet<String>) {
    for key in map.keys {
        let path = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        add(&key.kind, &path, found);
    }
}

fn add(kind: &'static Kind, path: &str, found: &mut BTreeSet<String>) {
    match kind {
        Kind::Fields(map) => keys_of(map, path, found),
        Kind::Spec => keys_of(&SPEC, path, found),
        Kind::Constant(_) | Kind::Word(_) | Kind::Count(_) | Kind::Amount => {}
        Kind::Either(kinds) => kinds.iter().for_each(|kind| add(kind, path, found)),
        Kind::List(kind, _) | Kind::Map(_, kind, _) => {
            found.insert(path.to_owned());
            let of_items = match kind {
                Kind::Parameter => &PARAMETER,
                Kind::Fields(map) => map,
                _ => return,
            };
            keys_of(of_items, path, found);
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

#[test]
fn each_key_of_a_policy_has_a_row() {
    let mut keys = BTreeSet::new();
    keys_of(&POLICY, "", &mut keys);
    let rows: BTreeSet<&str> =
        ROWS.iter().map(|row| row.name.split(',').next().unwrap_or_default()).collect();
    let missing: Vec<&String> = keys.iter().filter(|key| !rows.contains(key.as_str())).collect();
    assert!(missing.is_empty(), "write a row for each key: {missing:#?}");
}
