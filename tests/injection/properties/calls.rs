//! What a second and a third call, and a call with a trace, have in common with the first one.

use std::collections::BTreeSet;

use serde_json::Value;

use super::adapter::{self, Injection, Result as Outcome};
use super::generator::defaults;
use super::pair::{Pair, Verdict, fail};

/// A later call has no reason and no warning that the first one does not have.
pub(crate) fn later_calls_say_nothing_new(pair: &Pair<'_>) -> Verdict {
    let (Outcome::Mutated { pod, .. } | Outcome::Skipped { pod, .. }) = &pair.first.outcome else {
        return Ok(());
    };
    let second = adapter::inject(&pair.group.loaded, pod, &pair.context);
    says_nothing_new(&pair.first, &second)?;
    let (Outcome::Mutated { pod, .. } | Outcome::Skipped { pod, .. } | Outcome::Unchanged { pod, .. }) =
        &second.outcome
    else {
        return Ok(());
    };
    says_nothing_new(&pair.first, &adapter::inject(&pair.group.loaded, pod, &pair.context))
}

fn says_nothing_new(first: &Injection, later: &Injection) -> Verdict {
    match (&first.outcome, &later.outcome) {
        (_, Outcome::Refused { reason, text }) => return fail(format!("refused: {reason}"), text.clone()),
        (Outcome::Mutated { .. }, Outcome::Unchanged { .. }) => {}
        (Outcome::Mutated { .. }, other) => return fail(other.name(), String::new()),
        // Two checks of a policy may have one message, which is the content of the annotation.
        (Outcome::Skipped { pod, .. }, Outcome::Skipped { pod: later, .. }) if pod == later => {}
        (Outcome::Skipped { .. }, other) => {
            return fail(format!("after a skip, {}", other.name()), String::new());
        }
        _ => {}
    }
    let codes: BTreeSet<&str> = first.warnings.iter().map(|warning| warning.code.as_str()).collect();
    match later.warnings.iter().find(|warning| !codes.contains(warning.code.as_str())) {
        Some(warning) => {
            fail(format!("warning {}", warning.code), format!("{warning:?}, first {:?}", first.warnings))
        }
        None => Ok(()),
    }
}

/// A trace records, and decides nothing.
pub(crate) fn a_trace_changes_nothing(pair: &Pair<'_>) -> Verdict {
    let (traced, present) = adapter::inject_traced(&pair.group.loaded, &pair.pod, &pair.context);
    if traced != pair.first {
        let (one, other) = (traced.outcome.name(), pair.first.outcome.name());
        return fail(format!("{one}, and {other}"), format!("{traced:?}\n{:?}", pair.first));
    }
    let mut before = pair.pod.clone();
    defaults::complete(&mut before);
    // A zero that nobody writes is what the API server takes nothing for.
    let is_added =
        |pointer: &&String| !has(&before, pointer) && pair.after().is_some_and(|after| has(after, pointer));
    match present.iter().find(is_added) {
        Some(pointer) => fail("what is added is present", pointer.clone()),
        None => Ok(()),
    }
}

/// Whether a pod has a value. Entries of lists are named by index, by what they are, or by their key.
fn has(pod: &Value, pointer: &str) -> bool {
    let mut tokens = pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~"));
    let found = tokens.try_fold(pod, |value, token| match value {
        Value::Array(list) => {
            let names = |entry: &&Value| {
                **entry == *token || ["name", "mountPath"].iter().any(|key| entry[*key] == *token)
            };
            list.iter().find(names).or_else(|| list.get(token.parse::<usize>().ok()?))
        }
        value => value.get(&token),
    });
    found.is_some_and(|value| !value.is_null())
}
