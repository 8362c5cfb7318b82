//! Pairs the items of a list with those that it had before.

use serde_json::Value;

/// The number of comparisons up to which the best pairs are searched.
const MAX_COMPARISONS: usize = 250_000;

/// For each item of `before`, its index in `after`, in rising order. `None` if `after` has fewer items.
pub(super) fn align(before: &[Value], after: &[Value]) -> Option<Vec<usize>> {
    let added = after.len().checked_sub(before.len())?;
    let same_start =
        before.iter().zip(after).take_while(|(before, after)| likeness(before, after) > LOOSE).count();
    if added == 0 || same_start == before.len() {
        return Some((0..before.len()).collect());
    }
    let (before, after) = (&before[same_start..], &after[same_start..]);
    let pairs = if before.len() * after.len() > MAX_COMPARISONS {
        (0..before.len()).collect()
    } else {
        best_pairs(before, after)
    };
    Some((0..same_start).chain(pairs.into_iter().map(|at| at + same_start)).collect())
}

const EQUAL: u32 = 100;
const NAMED: u32 = 50;
const LOOSE: u32 = 1;

/// A measure of how probable it is that an item became another one.
fn likeness(before: &Value, after: &Value) -> u32 {
    if before == after {
        return EQUAL;
    }
    let Value::Object(map) = before else { return 0 };
    let name = |value: &Value| ["name", "mountPath", "path"].iter().find_map(|key| value.get(key).cloned());
    match (name(before), name(after)) {
        (Some(before), Some(after)) if before == after => NAMED,
        (None, None) if map.iter().all(|(key, value)| after.get(key) == Some(value)) => NAMED,
        (None, None) if after.is_object() => LOOSE,
        _ => 0,
    }
}

/// The pairs with the greatest total likeness.
fn best_pairs(before: &[Value], after: &[Value]) -> Vec<usize> {
    let spare = after.len() - before.len();
    // best[i][s]: the likeness of the items from i on, if s of the added ones come before item i.
    let mut best = vec![vec![0; spare + 1]; before.len() + 1];
    for i in (0..before.len()).rev() {
        for s in (0..=spare).rev() {
            let pair = likeness(&before[i], &after[i + s]) + best[i + 1][s];
            best[i][s] = if s < spare { pair.max(best[i][s + 1]) } else { pair };
        }
    }
    let mut spare_before = 0;
    let index = |i: usize| {
        let pair = |s: usize| likeness(&before[i], &after[i + s]) + best[i + 1][s];
        while spare_before < spare && pair(spare_before) < best[i][spare_before] {
            spare_before += 1;
        }
        i + spare_before
    };
    (0..before.len()).map(index).collect()
}
