//! The precedence of rules: a value belongs to the first rule that names it. Among the rules that apply, those of the
//! outermost extension come first, then those of its base, then those of parts. The value of another rule is left out,
//! whatever becomes of the first one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::definition::Rule;
use crate::overlay::{Addition, Place, Section, Target, Tree, Write, without};

/// What a value is a value of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The containers that the rule selects.
    Container,
    /// The container of this name, in one of the two lists.
    Named(&'static str, String),
    Pod,
}

/// A value that a rule writes, and that a rule of another file writes, too.
#[derive(Debug, Clone)]
pub struct SharedValue {
    subject: Subject,
    place: Place,
    /// False for an edit, which adds to the value.
    is_set: bool,
}

/// Finds for each rule the values that rules of other files write, too.
pub(crate) fn find_shared(rules: &mut [Rule]) {
    let mut ranks: BTreeMap<(Subject, Place), BTreeSet<usize>> = BTreeMap::new();
    let all: Vec<Vec<SharedValue>> =
        rules.iter().map(|rule| if rule.device.is_none() { values(rule) } else { Vec::new() }).collect();
    for (rule, values) in rules.iter().zip(&all) {
        for SharedValue { subject, place, .. } in values {
            ranks.entry((subject.clone(), place.clone())).or_default().insert(rule.rank);
        }
    }
    for (rule, mut values) in rules.iter_mut().zip(all) {
        let is_shared = |value: &SharedValue| {
            ranks.get(&(value.subject.clone(), value.place.clone())).is_some_and(|ranks| ranks.len() > 1)
        };
        values.retain(is_shared);
        rule.shared = values;
    }
}

/// The rule to which each value belongs: the first of those that apply and set it in the file that is furthest out.
#[derive(Debug, Default)]
pub struct Precedence<'r>(HashMap<(&'r Subject, &'r Place), &'r Rule>);

impl<'r> Precedence<'r> {
    /// The precedence among the rules that apply to the pod, or to one of its containers.
    pub fn among(rules: impl Iterator<Item = &'r Rule>) -> Self {
        let mut first: HashMap<(&Subject, &Place), &Rule> = HashMap::new();
        for rule in rules {
            for SharedValue { subject, place, .. } in rule.shared.iter().filter(|value| value.is_set) {
                let known = first.entry((subject, place)).or_insert(rule);
                if known.rank < rule.rank {
                    *known = rule;
                }
            }
        }
        Self(first)
    }

    /// The places of the values of a rule that belong to a rule of a file further out, each with that rule.
    pub fn taken(&self, rule: &'r Rule, subject: &Subject) -> impl Iterator<Item = (&'r Place, &'r Rule)> {
        let of_subject = rule.shared.iter().filter(move |value| value.subject == *subject);
        of_subject.filter_map(|value| {
            let first = *self.0.get(&(&value.subject, &value.place))?;
            (first.rank > rule.rank).then_some((&value.place, first))
        })
    }

    /// The tree of an addition of a rule, without the values that belong to others.
    pub fn left<'t>(&self, rule: &'r Rule, addition: &'t Addition) -> Cow<'t, Tree> {
        let subject = Subject::new(&addition.section);
        let taken = subject.iter().flat_map(|subject| self.taken(rule, subject));
        let places: BTreeSet<&Place> = taken.map(|(place, _)| place).collect();
        if places.is_empty() {
            return Cow::Borrowed(&addition.tree);
        }
        let writes = addition.writes();
        let taken = writes.iter().filter(|write| place(write).is_some_and(|place| places.contains(&place)));
        let removed: Vec<&Tree> = taken.map(|write| write.value).collect();
        Cow::Owned(without(&addition.tree, &removed).unwrap_or_default())
    }
}

impl Subject {
    /// The subject to which a section belongs; `None` for a container with a computed name.
    pub fn new(section: &Section) -> Option<Self> {
        Some(match section {
            Section::Selected => Self::Container,
            Section::Named(container) => Self::Named(container.list, container.name.as_str()?.to_owned()),
            Section::Claims | Section::Volumes | Section::Pod => Self::Pod,
        })
    }
}

/// The values that a rule writes, except those whose name an expression yields.
fn values(rule: &Rule) -> Vec<SharedValue> {
    let mut found = Vec::new();
    for addition in &rule.additions {
        let Some(subject) = Subject::new(&addition.section) else { continue };
        for write in addition.writes() {
            let Some(place) = place(&write) else { continue };
            // Without its request, a limit is one, too.
            if write.is_amount() && write.field.name == "limits" {
                let path = place.path[..place.path.len() - 1].iter().copied().chain(["requests"]).collect();
                let place = Place { path, name: place.name.clone() };
                found.push(SharedValue { subject: subject.clone(), place, is_set: true });
            }
            // A limit is that of its request, too.
            let is_known = |known: &SharedValue| known.subject == subject && known.place == place;
            if !write.is_amount() || !found.iter().any(is_known) {
                found.push(SharedValue { subject: subject.clone(), place, is_set: !write.is_edit() });
            }
        }
    }
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
