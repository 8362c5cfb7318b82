//! Which conditions can hold together, as far as comparisons of a value with literals tell.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::core::policy::expression::types::{Kind, Texts, Type};
use crate::core::policy::expression::{Claim, Constant, Formula, Test};

/// A condition with more alternatives is taken for one that can hold.
const MAX_ALTERNATIVES: usize = 128;

/// The reason for which conditions cannot hold together.
#[derive(Debug)]
pub(super) enum Contradiction {
    /// A test holds for no value.
    One(Box<Test>),
    /// Two tests exclude each other.
    Pair(Box<Test>, Box<Test>),
    /// Several alternatives are excluded, each for its own reason.
    Other,
}

/// Returns why no pod meets all of the conditions; `None` if one may.
pub(super) fn contradiction(conditions: &[&Formula]) -> Option<Contradiction> {
    let alternatives = alternatives(conditions)?;
    if alternatives.iter().any(|tests| is_possible(tests)) {
        return None;
    }
    let [tests] = alternatives.as_slice() else { return Some(Contradiction::Other) };
    if let Some(test) = tests.iter().find(|test| !is_possible(&[**test])) {
        return Some(Contradiction::One(Box::new((*test).clone())));
    }
    let excluded = |(at, second): (usize, &&Test)| {
        let first = tests[..at].iter().find(|first| !is_possible(&[**first, *second]))?;
        Some(Contradiction::Pair(Box::new((**first).clone()), Box::new((**second).clone())))
    };
    Some(tests.iter().enumerate().find_map(excluded).unwrap_or(Contradiction::Other))
}

/// Returns whether two conditions are sure to hold for some pod together: what one tests does not depend on what the
/// other one does, or is the same value.
pub(super) fn surely_meet(one: &Formula, other: &Formula, depends: &impl Fn(&Test, &Test) -> bool) -> bool {
    let (Some(ones), Some(others)) = (alternatives(&[one]), alternatives(&[other])) else { return false };
    ones.iter().any(|one| {
        others.iter().any(|other| {
            // A test of both conditions says nothing about the rest of either.
            let only = |tests: &[&'_ Test], rest: &[&'_ Test]| -> Vec<usize> {
                (0..tests.len()).filter(|at| !rest.iter().any(|test| is_same(test, tests[*at]))).collect()
            };
            let others = only(other, one);
            let apart = |at: usize| {
                others.iter().all(|other_at| {
                    let (one, other) = (one[at], other[*other_at]);
                    if one.term == other.term { is_understood(one, other) } else { !depends(one, other) }
                })
            };
            let together: Vec<&Test> = one.iter().chain(other).copied().collect();
            only(one, other).into_iter().all(apart) && is_possible(&together)
        })
    })
}

fn is_same(one: &Test, other: &Test) -> bool {
    one.term == other.term && one.claim == other.claim && one.negated == other.negated
}

/// Returns whether two tests of one value tell what there is to know.
fn is_understood(one: &Test, other: &Test) -> bool {
    one.claim == other.claim || one.claim != Claim::Holds && other.claim != Claim::Holds
}

/// The alternatives in which the conditions hold, each a list of tests; `None` if there are too many.
fn alternatives<'f>(conditions: &[&'f Formula]) -> Option<Vec<Vec<&'f Test>>> {
    let mut all: Vec<Vec<&Test>> = vec![Vec::new()];
    for condition in conditions {
        let own: Vec<Vec<&Test>> = match condition {
            Formula::Constant(true) => continue,
            Formula::Constant(false) => return Some(Vec::new()),
            Formula::Test(test) => vec![vec![test]],
            Formula::All(parts) => alternatives(&parts.iter().collect::<Vec<_>>())?,
            Formula::Any(parts) => {
                let mut any = Vec::new();
                for part in parts {
                    any.extend(alternatives(&[part])?);
                }
                any
            }
        };
        if own.len().saturating_mul(all.len()) > MAX_ALTERNATIVES {
            return None;
        }
        all = all
            .iter()
            .flat_map(|known| own.iter().map(move |more| known.iter().chain(more).copied().collect()))
            .collect();
    }
    Some(all)
}

/// Returns whether a value of each term may pass all of its tests.
fn is_possible(tests: &[&Test]) -> bool {
    let mut by_term: BTreeMap<&str, Vec<&Test>> = BTreeMap::new();
    for test in tests {
        by_term.entry(&test.term).or_default().push(test);
    }
    by_term.values().all(|tests| Values::of(tests).may_exist())
}

/// The values that pass the tests of one term.
#[derive(Debug)]
struct Values<'t> {
    inferred: &'t Type,
    /// The only values, if they can be listed.
    listed: Option<Vec<Constant>>,
    excluded: Vec<&'t Constant>,
    /// The bounds, each with whether the value can be at it.
    low: (f64, bool),
    high: (f64, bool),
    compares: bool,
    prefixes: Vec<&'t str>,
    other_prefixes: Vec<&'t str>,
    holds: Vec<bool>,
}

impl<'t> Values<'t> {
    fn of(tests: &[&'t Test]) -> Self {
        let inferred = &tests[0].inferred;
        let mut values = Self {
            inferred,
            listed: listed(inferred),
            excluded: Vec::new(),
            low: (f64::NEG_INFINITY, false),
            high: (f64::INFINITY, false),
            compares: false,
            prefixes: Vec::new(),
            other_prefixes: Vec::new(),
            holds: Vec::new(),
        };
        for test in tests {
            values.add(test);
        }
        values
    }

    fn add(&mut self, test: &'t Test) {
        match (&test.claim, test.negated) {
            (Claim::Holds, negated) => self.holds.push(!negated),
            (Claim::OneOf(constants), true) => self.excluded.extend(constants),
            (Claim::OneOf(constants), false) => {
                let known = self.listed.take();
                let is_known =
                    |constant: &&Constant| known.as_ref().is_none_or(|known| known.contains(constant));
                self.listed = Some(constants.iter().filter(is_known).cloned().collect());
            }
            (Claim::StartsWith(prefix), false) => self.prefixes.push(prefix),
            (Claim::StartsWith(prefix), true) => self.other_prefixes.push(prefix),
            (Claim::Below(number), false) => self.at_most(*number, false),
            (Claim::AtMost(number), false) => self.at_most(*number, true),
            (Claim::Below(number), true) => self.at_least(*number, true),
            (Claim::AtMost(number), true) => self.at_least(*number, false),
        }
    }

    fn at_most(&mut self, number: f64, itself: bool) {
        self.compares = true;
        if number < self.high.0 || same(number, self.high.0) && !itself {
            self.high = (number, itself);
        }
    }

    fn at_least(&mut self, number: f64, itself: bool) {
        self.compares = true;
        if number > self.low.0 || same(number, self.low.0) && !itself {
            self.low = (number, itself);
        }
    }

    fn may_exist(&self) -> bool {
        if self.holds.contains(&true) && self.holds.contains(&false) {
            return false;
        }
        if let Some(listed) = &self.listed {
            return listed.iter().any(|constant| self.passes(constant));
        }
        if self.compares {
            return self.a_number_may_pass();
        }
        let starts = |text: &str, beginning: &str| text.starts_with(beginning);
        let meet = |one: &&str, other: &&str| starts(one, other) || starts(other, one);
        self.prefixes.iter().all(|one| self.prefixes.iter().all(|other| meet(one, other)))
            && !self.prefixes.iter().any(|one| self.other_prefixes.iter().any(|other| starts(one, other)))
    }

    /// Returns whether a literal passes the tests.
    fn passes(&self, constant: &Constant) -> bool {
        let by_text = match constant {
            Constant::Text(text) => {
                self.prefixes.iter().all(|prefix| text.starts_with(prefix))
                    && !self.other_prefixes.iter().any(|prefix| text.starts_with(prefix))
            }
            _ => self.prefixes.is_empty(),
        };
        let by_number = match constant {
            Constant::Number(number) => self.is_within(*number),
            _ => !self.compares,
        };
        by_text && by_number && !self.excluded.contains(&constant)
    }

    fn is_within(&self, number: f64) -> bool {
        let above = number > self.low.0 || same(number, self.low.0) && self.low.1;
        let below = number < self.high.0 || same(number, self.high.0) && self.high.1;
        above && below
    }

    fn a_number_may_pass(&self) -> bool {
        let kinds = self.inferred.kinds().unwrap_or_default();
        let whole = |kind: &Kind| matches!(kind, Kind::Int(..) | Kind::Null);
        let (mut low, mut high) = (self.low, self.high);
        let is_whole = !kinds.is_empty() && kinds.iter().all(whole);
        if let Some((least, most)) = bounds(kinds) {
            low = if least > low.0 { (least, true) } else { low };
            high = if most < high.0 { (most, true) } else { high };
        }
        if is_whole {
            low = if low.1 { (low.0.ceil(), true) } else { (low.0.floor() + 1.0, true) };
            high = if high.1 { (high.0.floor(), true) } else { (high.0.ceil() - 1.0, true) };
            // All that is left may be excluded one by one.
            if high.0 - low.0 < 64.0 {
                let is_excluded = |number: f64| self.excluded.contains(&&Constant::Number(number));
                let mut number = low.0;
                while number <= high.0 && is_excluded(number) {
                    number += 1.0;
                }
                return number <= high.0;
            }
        }
        let one = same(low.0, high.0) && low.1 && high.1;
        low.0 < high.0 || one && !self.excluded.contains(&&Constant::Number(low.0))
    }
}

fn same(one: f64, other: f64) -> bool {
    one.partial_cmp(&other) == Some(Ordering::Equal)
}

/// The bounds of whole numbers; `None` if the type has other values, or all numbers.
#[expect(clippy::cast_precision_loss, reason = "bounds of the type itself are no bounds")]
fn bounds(kinds: &[Kind]) -> Option<(f64, f64)> {
    let mut found = None;
    for kind in kinds {
        match kind {
            Kind::Int(low, high) if found.is_none() => {
                let least = if *low == i64::MIN { f64::NEG_INFINITY } else { *low as f64 };
                let most = if *high == i64::MAX { f64::INFINITY } else { *high as f64 };
                found = Some((least, most));
            }
            Kind::Null => {}
            _ => return None,
        }
    }
    found
}

/// All values of a type, if they can be listed.
fn listed(inferred: &Type) -> Option<Vec<Constant>> {
    let mut values = Vec::new();
    for kind in inferred.kinds()? {
        match kind {
            Kind::Null => values.push(Constant::Null),
            Kind::Bool(Some(value)) => values.push(Constant::Bool(*value)),
            Kind::Bool(None) => values.extend([Constant::Bool(true), Constant::Bool(false)]),
            Kind::String(Texts::These(texts)) => values.extend(texts.iter().cloned().map(Constant::Text)),
            _ => return None,
        }
    }
    (!values.is_empty()).then_some(values)
}

#[cfg(test)]
mod tests;
