//! Values of rules that rules of an extension set, too. Where such a rule applies, the value of the base is left out.
//! The extension replaces it, and never the value of the pod.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::definition::Rule;
use crate::interpolation::Interpolation;
use crate::overlay::{Instruction, Key, NamedContainer, Place, Write, Written, without, writes};
use crate::parameter::Files;
use crate::source::{CONFLICTING_RULES, Diagnostic};

/// The part of the pod to which an overlay belongs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The containers that the rule selects.
    Container,
    /// The container of this name, in one of the two lists.
    Named(&'static str, String),
    Pod,
}

/// A value of a rule that is left out where others apply.
#[derive(Debug, Clone)]
pub struct GivesWay {
    part: Part,
    place: Place,
    /// The names of the rules that set it, the outermost ones first.
    setters: Arc<[String]>,
    /// The number of those that are of an extension.
    outer: usize,
}

impl GivesWay {
    fn to(&self) -> &[String] {
        &self.setters[..self.outer]
    }
}

/// The names of the rules that apply to the pod or to one of its containers; empty if they replace no value.
pub type Applied<'r> = BTreeSet<&'r str>;

/// The names of the rules that replace values of other rules.
pub fn applied<'r, I: Iterator<Item = &'r Rule>>(rules: impl Fn() -> I) -> Applied<'r> {
    if rules().all(|rule| rule.gives_way.is_empty()) {
        return Applied::new();
    }
    rules().map(|rule| rule.name.as_str()).collect()
}

/// The pairs of a rule and one of an extension that sets the same value. The engine looks at each for every container.
const MAX_PAIRS: usize = 10_000;

/// Notes for the rules of each file which of their values rules of its extensions set.
pub(crate) fn find(rules: &mut [Rule], files: &Files) -> Result<(), Diagnostic> {
    let mut writers: BTreeMap<(Part, Place), Vec<(usize, bool)>> = BTreeMap::new();
    for (at, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.device.is_none()) {
        for (part, place, adds) in values(rule) {
            writers.entry((part, place)).or_default().push((at, adds));
        }
    }
    let mut pairs = 0;
    for ((part, place), writers) in writers.into_iter().filter(|(_, writers)| writers.len() > 1) {
        let mut setters: Vec<(usize, usize)> = writers
            .iter()
            .filter(|(_, adds)| !adds)
            .map(|(at, _)| (files.rank(rules[*at].span), *at))
            .collect();
        setters.sort_by_key(|(rank, at)| (std::cmp::Reverse(*rank), *at));
        let names: Arc<[String]> = setters.iter().map(|(_, at)| rules[*at].name.clone()).collect();
        for (at, _) in writers {
            let rank = files.rank(rules[at].span);
            let outer = setters.partition_point(|(other, _)| *other > rank);
            pairs += outer;
            if pairs > MAX_PAIRS {
                let message = format!(
                    "rules of a policy and of its extension set the same values in more than {MAX_PAIRS} pairs"
                );
                return Err(Diagnostic::new(rules[at].span, message)
                    .code(CONFLICTING_RULES)
                    .hint("set a value that differs by a case in one rule, from a table or an expression"));
            }
            if outer > 0 {
                let (part, place, setters) = (part.clone(), place.clone(), Arc::clone(&names));
                rules[at].gives_way.push(GivesWay { part, place, setters, outer });
            }
        }
    }
    Ok(())
}

impl Rule {
    /// Returns whether values of it are left out where another rule applies.
    pub(crate) fn gives_way_to(&self, other: &str) -> bool {
        self.gives_way.iter().any(|one| one.to().iter().any(|name| name == other))
    }

    /// The instructions for a part of the pod without the values that another rule that applies sets, too.
    pub fn left<'i>(
        &self,
        part: &Part,
        instructions: &'i [Instruction],
        applied: &Applied<'_>,
    ) -> Cow<'i, [Instruction]> {
        let places: BTreeSet<&Place> = self.given_way(part, applied).map(|(place, _)| place).collect();
        if places.is_empty() { Cow::Borrowed(instructions) } else { without(instructions, &places).into() }
    }

    /// The places of the values that are left out, each with the name of a rule that sets it.
    pub fn given_way<'r>(
        &'r self,
        part: &'r Part,
        applied: &'r Applied<'_>,
    ) -> impl Iterator<Item = (&'r Place, &'r str)> {
        let of_part = self.gives_way.iter().filter(move |one| one.part == *part);
        of_part.filter_map(move |one| {
            let setter = one.to().iter().find(|name| applied.contains(name.as_str()))?;
            Some((&one.place, setter.as_str()))
        })
    }
}

impl Part {
    /// The part of a container that a rule names; `None` if its name is computed.
    pub fn named(container: &NamedContainer) -> Option<Self> {
        Some(Self::Named(container.list, container.name.as_text()?.to_owned()))
    }
}

/// The values that a rule sets, except those whose name an expression yields, each with whether the rule only adds to
/// it.
fn values(rule: &Rule) -> Vec<(Part, Place, bool)> {
    let of = |part: Part, instructions: &[Instruction]| {
        let written = writes(instructions);
        let places = written.iter().flat_map(|write| {
            let whole = place(write);
            let of_requests = whole.clone().and_then(|whole| requests(write, whole));
            let adds = match write.value {
                // Without its limit, an amount is that of the requests.
                Written::Amount(amount) => amount.limit.is_none(),
                _ => write.is_edit(),
            };
            whole
                .map(|whole| (part.clone(), whole, adds))
                .into_iter()
                .chain(of_requests.map(|(place, adds)| (part.clone(), place, adds)))
        });
        places.collect::<Vec<_>>()
    };
    let named = rule.pod.containers.iter().filter_map(|one| Some(of(Part::named(one)?, &one.instructions)));
    let volumes =
        rule.pod.volumes.iter().filter_map(|volume| volume.0.literal("name")).map(|name| {
            (Part::Pod, Place { path: vec!["spec", "volumes"], name: Some(name.to_owned()) }, false)
        });
    let mut found = of(Part::Container, &rule.container);
    found.extend(of(Part::Pod, &rule.pod.claims));
    found.extend(of(Part::Pod, &rule.pod.instructions));
    found.extend(named.flatten().chain(volumes));
    found
}

fn place(write: &Write<'_>) -> Option<Place> {
    let is_value = matches!(
        (write.key, write.value),
        (Key::Whole | Key::Of(Interpolation::Literal(_)), Written::Value(_))
            | (Key::Of(Interpolation::Literal(_)), Written::Amount(_))
            | (Key::Fields([_]), Written::Entry(_))
    ) || write.is_edit();
    // Before all rules, the engine looks for one that moves the pod to the host network.
    if write.path == ["spec", "hostNetwork"] {
        return None;
    }
    let name = write.name().map(str::to_owned);
    let is_named = name.is_some() || matches!(write.key, Key::Whole);
    (is_value && is_named).then(|| Place { path: write.path.clone(), name })
}

/// The request of a resource, and whether the rule leaves it out.
fn requests(write: &Write<'_>, of_resource: Place) -> Option<(Place, bool)> {
    let Written::Amount(amount) = write.value else { return None };
    let path = of_resource.path.into_iter().chain(["requests"]).collect();
    Some((Place { path, name: of_resource.name }, amount.request.is_none()))
}
