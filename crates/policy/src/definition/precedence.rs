//! Values of rules that rules of an extension set, too. Where such a rule applies, the value of the base is left out.
//! The extension replaces it, and never the value of the pod.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::definition::Rule;
use crate::overlay::{NamedContainer, Place, Target, Tree, Write, without, writes};
use crate::parameter::Files;
use crate::schema;
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

    /// The tree for a part of the pod without the values that another rule that applies sets, too.
    pub fn left<'i>(&self, part: &Part, tree: &'i Tree, applied: &Applied<'_>) -> Cow<'i, Tree> {
        let places: BTreeSet<&Place> = self.given_way(part, applied).map(|(place, _)| place).collect();
        if places.is_empty() {
            return Cow::Borrowed(tree);
        }
        let object = if *part == Part::Pod { schema::pod() } else { schema::container() };
        Cow::Owned(without(tree, object, &places))
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
        Some(Self::Named(container.list, container.name.as_str()?.to_owned()))
    }
}

/// The values that a rule sets, except those whose name an expression yields, each with whether the rule only adds to
/// it.
fn values(rule: &Rule) -> Vec<(Part, Place, bool)> {
    let mut found = Vec::new();
    let mut add = |part: &Part, tree: &Tree, object| {
        for write in writes(tree, object) {
            let Some(place) = place(&write) else { continue };
            // Without its request, a limit is one, too.
            if write.is_amount() && write.field.name == "limits" {
                let path = place.path[..place.path.len() - 1].iter().copied().chain(["requests"]);
                found.push((part.clone(), Place { path: path.collect(), name: place.name.clone() }, false));
            }
            found.push((part.clone(), place, write.is_edit()));
        }
    };
    add(&Part::Container, &rule.container, schema::container());
    add(&Part::Pod, &rule.pod.claims, schema::pod());
    add(&Part::Pod, &rule.pod.fields, schema::pod());
    for named in &rule.pod.containers {
        Part::named(named).iter().for_each(|part| add(part, &named.fields, schema::container()));
    }
    let names = rule.pod.volumes.iter().filter_map(|volume| volume.literal("name"));
    found.extend(names.map(|name| {
        (Part::Pod, Place { path: vec!["spec", "volumes"], name: Some(name.to_owned()) }, false)
    }));
    found
}

/// The place of a write; `None` if an expression yields its name, or a whole object or list.
fn place(write: &Write<'_>) -> Option<Place> {
    // Before all rules, the engine looks for one that moves the pod to the host network.
    if write.path == ["spec", "hostNetwork"] || write.is_computed() || write.value.is_empty() {
        return None;
    }
    let name = match write.target {
        Target::Whole => None,
        Target::Item(keys) if keys.len() != 1 => return None,
        Target::Entry(_) | Target::Item(_) => Some(write.name()?.to_owned()),
    };
    Some(Place { path: write.path.clone(), name })
}
