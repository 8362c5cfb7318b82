//! The precedence of rules: a value belongs to the first rule that names it. Among the rules that apply, those of the
//! outermost extension come first, then those of its base, then those of parts. Within a file, the last rule that replaces
//! values comes first, then the others in their order. The value of another rule is left out, whatever becomes of the
//! first one. Parameters, variables, machines and `match` of several files are joined in `file/extension.rs`.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use crate::definition::{OnConflict, Rule};
use crate::overlay::{
    Addition, Kind, LeftOut, Section, SharedValue, Target, Tree, ValuePath, Write, without, writes,
};
use crate::schema::can_overcommit;

/// A place of the pod or of its containers: whether it is of the pod, the path, and a name.
type Key<'v> = (bool, &'v [&'static str], Option<&'v str>);

/// The addition that writes at a key; `None` for several.
type ByKey<'v> = HashMap<Key<'v>, Option<usize>>;

/// Finds for each addition the values that others may write, too.
pub(crate) fn find_shared(rules: &mut [Rule]) {
    let own = rules.iter().filter(|rule| rule.device.is_none());
    let of = |addition: &Addition| (addition.is_of_pod(), values(addition));
    let all: Vec<_> = own.flat_map(|rule| &rule.additions).map(of).collect();
    let (mut at, mut below, mut computed) = (ByKey::new(), ByKey::new(), ByKey::new());
    for (number, (is_of_pod, values)) in all.iter().enumerate() {
        for SharedValue { place: ValuePath { path, name }, kind } in values {
            if *kind != Kind::Item {
                add(&mut at, (*is_of_pod, path, name.as_deref()), number);
            }
            (1..=path.len()).for_each(|length| add(&mut below, (*is_of_pod, &path[..length], None), number));
            if kind.is_computed() {
                add(&mut computed, (*is_of_pod, path, None), number);
            }
        }
    }
    let shared = all.iter().enumerate().map(|(number, (is_of_pod, values))| {
        let has_others =
            |map: &ByKey<'_>, length: usize, ValuePath { path, name }: &ValuePath, with_name: bool| {
                let known = map.get(&(*is_of_pod, &path[..length], name.as_deref().filter(|_| with_name)));
                known.is_some_and(|known| *known != Some(number))
            };
        let is_shared = |SharedValue { place, kind }: &&SharedValue| {
            let length = place.path.len();
            has_others(&at, length, place, true)
                || (1..=length).any(|length| has_others(&computed, length, place, false))
                || kind.is_computed() && has_others(&below, length, place, false)
        };
        values.iter().filter(is_shared).cloned().collect::<Vec<_>>()
    });
    let shared: Vec<Vec<SharedValue>> = shared.collect();
    let own = rules.iter_mut().filter(|rule| rule.device.is_none());
    own.flat_map(|rule| &mut rule.additions)
        .zip(shared)
        .for_each(|(addition, shared)| addition.shared = shared);
}

fn add<'v>(map: &mut ByKey<'v>, key: Key<'v>, number: usize) {
    map.entry(key)
        .and_modify(|known| *known = known.filter(|known| *known == number))
        .or_insert(Some(number));
}

/// The values that an addition writes.
fn values(addition: &Addition) -> Vec<SharedValue> {
    let mut found: Vec<SharedValue> = Vec::new();
    for write in addition.writes() {
        let whole = || ValuePath { path: write.path.clone(), name: None };
        let kind = match place(&write) {
            Some(place) => {
                let kind = if write.is_edit() { Kind::Edit } else { Kind::Set };
                let with_request = amounts(&write, &place);
                let added = with_request.into_iter().map(|place| SharedValue { place, kind });
                // A limit is that of its request, too.
                let added: Vec<_> =
                    added.filter(|added| !found.iter().any(|known| known.place == added.place)).collect();
                found.extend(added);
                continue;
            }
            None if write.is_computed() && has_place(&write) => Kind::Whole,
            None if is_entry(&write) && write.name().is_none() => Kind::Named,
            None if has_place(&write) => Kind::Item,
            None => continue,
        };
        found.push(SharedValue { place: whole(), kind });
    }
    found
}

/// The places that a value has: its own, and for a limit also that of the request, since the API server takes the limit
/// for a request that is missing (`SetDefaults_Pod` of Kubernetes). The two of a device are equal, so that its request also
/// has the place of the limit.
fn amounts(write: &Write<'_>, place: &ValuePath) -> Vec<ValuePath> {
    let is_both = |name: &String| write.field.name == "limits" || !can_overcommit(name);
    if !write.is_amount() || !place.name.as_ref().is_some_and(is_both) {
        return vec![place.clone()];
    }
    let within = |list| place.path[..place.path.len() - 1].iter().copied().chain([list]).collect();
    ["requests", "limits"].map(|list| ValuePath { path: within(list), name: place.name.clone() }).into()
}

/// The place of a write; `None` if an expression yields its name, or a whole object or list.
fn place(write: &Write<'_>) -> Option<ValuePath> {
    if !has_place(write) || write.is_computed() || write.value.is_empty() {
        return None;
    }
    let name = match write.target {
        Target::Whole => None,
        Target::Item(_) if !is_entry(write) => return None,
        Target::Entry(_) | Target::Item(_) => Some(write.name()?.to_owned()),
    };
    Some(ValuePath { path: write.path.clone(), name })
}

/// Returns whether the value is an entry with one name.
fn is_entry(write: &Write<'_>) -> bool {
    has_place(write)
        && match write.target {
            Target::Whole => false,
            Target::Entry(_) => true,
            Target::Item(keys) => keys.len() == 1,
        }
}

/// Before all rules, the engine looks for one that moves the pod to the host network.
fn has_place(write: &Write<'_>) -> bool {
    write.path != ["spec", "hostNetwork"]
}

/// An addition of a rule, by its order among those of all rules.
#[derive(Debug, Clone, Copy)]
pub struct Ordered<'r> {
    pub rule: &'r Rule,
    pub addition: &'r Addition,
    /// The positions of the rule, and of the addition in it.
    pub at: (usize, usize),
}

impl Ordered<'_> {
    /// The order in which additions claim their values.
    pub fn precedence(&self) -> impl Ord + use<> {
        let (rule, addition) = self.at;
        let replaces = self.rule.on_conflict == OnConflict::Replace;
        let at = if replaces { usize::MAX - rule } else { rule };
        (Reverse(self.rule.rank), !replaces, at, addition)
    }
}

/// The addition to which a value belongs.
#[derive(Debug, Clone, Copy)]
struct Claim<'r> {
    by: Ordered<'r>,
    /// False for `null`: it keeps the values of other files out, and no value of its own file.
    is_set: bool,
}

/// The values of a container, or of a section of the pod, that rules have claimed. The rules come in the order of
/// [`Ordered::precedence`].
#[derive(Debug, Default)]
pub struct Owners<'r> {
    by_place: HashMap<Cow<'r, ValuePath>, Claim<'r>>,
    /// True if all that is below a place is claimed by `null`.
    has_null: bool,
}

impl<'r> Owners<'r> {
    /// A tree of an addition without the values that belong to other rules, and these values.
    pub fn without_owned<'t>(
        &self,
        by: Ordered<'_>,
        tree: &'t Tree,
    ) -> (Cow<'t, Tree>, Vec<(ValuePath, &'r Rule)>) {
        let (mut owned, mut removed) = (Vec::new(), Vec::new());
        if by.addition.shared.is_empty() || self.by_place.is_empty() {
            return (Cow::Borrowed(tree), owned);
        }
        for write in writes(tree, by.addition.section.object()) {
            let place = place(&write);
            let whole = || ValuePath { path: write.path.clone(), name: None };
            if let Some(first) = self.first(&write, place.as_ref(), by) {
                owned.push((place.unwrap_or_else(whole), first));
                removed.push(write.value);
            }
        }
        if removed.is_empty() {
            return (Cow::Borrowed(tree), owned);
        }
        (Cow::Owned(without(tree, &removed).unwrap_or_default()), owned)
    }

    /// The rule to which a value belongs, if it takes precedence. Within a file, an edit adds to what another rule sets, and
    /// `null` leaves nothing out.
    fn first(&self, write: &Write<'_>, place: Option<&ValuePath>, of: Ordered<'_>) -> Option<&'r Rule> {
        let by = |place: &ValuePath| {
            let Claim { by: first, is_set } =
                self.by_place.get(place).filter(|first| first.by.at != of.at)?;
            (first.rule.rank > of.rule.rank || *is_set && !write.is_edit()).then_some(first.rule)
        };
        let above = |length: usize| by(&ValuePath { path: write.path[..length].to_vec(), name: None });
        place.and_then(by).or_else(|| (1..=write.path.len()).filter(|_| self.has_null).find_map(above))
    }

    /// Claims the values of an addition: those that it writes out, whatever their values are, and those that its
    /// expressions yield. Returns whether there are any of these.
    pub fn claim(&mut self, by: Ordered<'r>, evaluated: &Tree, left_out: &[LeftOut]) -> bool {
        let shared = &by.addition.shared;
        if shared.is_empty() {
            return false;
        }
        let writes = writes(evaluated, by.addition.section.object());
        let is_set_twice =
            |place: &ValuePath| place.name.as_deref().is_some_and(|name| !can_overcommit(name));
        let of_write = |write: &Write<'_>| match place(write) {
            Some(place) if is_set_twice(&place) => amounts(write, &place),
            place => place.into_iter().collect(),
        };
        let set: Vec<ValuePath> = writes.iter().flat_map(of_write).collect();
        for SharedValue { place: known, kind } in shared {
            let found = || writes.iter().filter(|write| write.path.starts_with(&known.path));
            match kind {
                Kind::Edit | Kind::Item => {}
                Kind::Set => self.add(Cow::Borrowed(known), by, set.contains(known)),
                Kind::Whole if found().next().is_none() => {
                    self.has_null = true;
                    self.add(Cow::Borrowed(known), by, false);
                }
                Kind::Whole | Kind::Named => {
                    for write in found().filter(|write| !write.is_edit()) {
                        for place in place(write).iter().flat_map(|place| amounts(write, place)) {
                            let is_set = set.contains(&place);
                            self.add(Cow::Owned(place), by, is_set);
                        }
                    }
                }
            }
        }
        for SharedValue { place, .. } in by.addition.left_out(left_out) {
            self.add(Cow::Owned(place), by, false);
        }
        shared.iter().any(|value| value.kind.is_computed())
    }

    fn add(&mut self, place: Cow<'r, ValuePath>, by: Ordered<'r>, is_set: bool) {
        let claim = Claim { by, is_set };
        let known = self.by_place.entry(place).or_insert(claim);
        if !known.is_set && known.by.rule.rank == by.rule.rank {
            *known = claim;
        }
    }
}

impl Addition {
    /// The values that an evaluation leaves out, and whose names expressions yield.
    pub(crate) fn left_out(&self, left_out: &[LeftOut]) -> impl Iterator<Item = SharedValue> {
        left_out.iter().filter_map(|LeftOut { path, .. }| {
            let (name, path) = path.split_last()?;
            let named =
                self.shared.iter().find(|value| value.kind == Kind::Named && value.place.path == *path)?;
            let place = ValuePath { path: named.place.path.clone(), name: Some(name.clone()) };
            Some(SharedValue { place, kind: Kind::Set })
        })
    }

    /// Returns whether it is to the pod outside of its containers.
    fn is_of_pod(&self) -> bool {
        matches!(self.section, Section::Claims | Section::Volumes | Section::Pod)
    }
}
