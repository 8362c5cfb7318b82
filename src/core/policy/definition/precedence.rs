//! Values of rules that rules of an extension set, too. Where such a rule applies, the value of the base is left out, so
//! that the extension replaces it, and never the value of the pod.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::core::policy::definition::Rule;
use crate::core::policy::interpolation::Interpolation;
use crate::core::policy::overlay::{
    Instruction, Key, NamedContainer, Place, Write, Written, without, writes,
};
use crate::core::policy::parameter::Files;

/// The part of the pod to which an overlay belongs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The containers that the rule selects.
    Container,
    /// The container of this name, in one of the two lists.
    Named(&'static str, String),
    Pod,
}

/// A value of a rule that is left out where others apply.
#[derive(Debug, Clone)]
pub(crate) struct GivesWay {
    part: Part,
    place: Place,
    /// The names of the rules that set it, too.
    to: Vec<String>,
}

/// Notes for the rules of each file which of their values rules of its extensions set.
pub(crate) fn find(rules: &mut [Rule], files: &Files) {
    let mut writers: BTreeMap<(Part, Place), Vec<usize>> = BTreeMap::new();
    for (at, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.device.is_none()) {
        for value in values(rule) {
            writers.entry(value).or_default().push(at);
        }
    }
    for ((part, place), writers) in writers.into_iter().filter(|(_, writers)| writers.len() > 1) {
        let ranks: Vec<usize> = writers.iter().map(|at| files.rank(rules[*at].span)).collect();
        for (at, rank) in writers.iter().zip(&ranks) {
            let outer = writers.iter().zip(&ranks).filter(|(_, other)| *other > rank);
            let to: Vec<String> = outer.map(|(other, _)| rules[*other].name.clone()).collect();
            if !to.is_empty() {
                rules[*at].gives_way.push(GivesWay { part: part.clone(), place: place.clone(), to });
            }
        }
    }
}

impl Rule {
    /// Returns whether values of it are left out where another rule applies.
    pub(crate) fn gives_way_to(&self, other: &Self) -> bool {
        self.gives_way.iter().any(|one| one.to.contains(&other.name))
    }

    /// The instructions for a part of the pod without the values that a rule sets which `applies`, too.
    pub(crate) fn left<'i>(
        &self,
        part: &Part,
        instructions: &'i [Instruction],
        applies: &dyn Fn(&str) -> bool,
    ) -> Cow<'i, [Instruction]> {
        let places: Vec<&Place> = self.given_way(part, applies).map(|(place, _)| place).collect();
        if places.is_empty() { Cow::Borrowed(instructions) } else { without(instructions, &places).into() }
    }

    /// The places of the values that are left out, each with the name of a rule that sets it.
    pub(crate) fn given_way<'r>(
        &'r self,
        part: &'r Part,
        applies: &'r dyn Fn(&str) -> bool,
    ) -> impl Iterator<Item = (&'r Place, &'r str)> {
        let of_part = self.gives_way.iter().filter(move |one| one.part == *part);
        of_part.filter_map(move |one| {
            let setter = one.to.iter().find(|name| applies(name))?;
            Some((&one.place, setter.as_str()))
        })
    }
}

impl Part {
    /// The part of a container that a rule names; `None` if its name is computed.
    pub(crate) fn named(container: &NamedContainer) -> Option<Self> {
        Some(Self::Named(container.list, container.name.as_text()?.to_owned()))
    }
}

/// The values that a rule sets, without those that it adds to lists in texts, and without those of which an expression
/// yields the name.
fn values(rule: &Rule) -> Vec<(Part, Place)> {
    let of = |part: Part, instructions: &[Instruction]| {
        let places = writes(instructions).into_iter().filter_map(|write| place(&write));
        places.map(|place| (part.clone(), place)).collect::<Vec<_>>()
    };
    let named = rule.pod.containers.iter().filter_map(|one| Some(of(Part::named(one)?, &one.instructions)));
    let volumes = rule
        .pod
        .volumes
        .iter()
        .filter_map(|volume| volume.0.literal("name"))
        .map(|name| (Part::Pod, Place { path: vec!["spec", "volumes"], name: Some(name.to_owned()) }));
    let mut found = of(Part::Container, &rule.container);
    found.extend(of(Part::Pod, &rule.pod.instructions));
    found.extend(named.flatten().chain(volumes));
    found
}

fn place(write: &Write<'_>) -> Option<Place> {
    let is_value = matches!(
        (write.key, write.value),
        (Key::Whole | Key::Of(Interpolation::Literal(_)), Written::Value(_) | Written::Replacement(_))
            | (Key::Of(Interpolation::Literal(_)), Written::Amount(_))
            | (Key::Fields([_]), Written::Entry(_))
    );
    // Before all rules, the engine looks for one that brings the pod into the network of the host.
    if write.path == ["spec", "hostNetwork"] {
        return None;
    }
    let name = write.name().map(str::to_owned);
    let is_named = name.is_some() || matches!(write.key, Key::Whole);
    (is_value && is_named).then(|| Place { path: write.path.clone(), name })
}
