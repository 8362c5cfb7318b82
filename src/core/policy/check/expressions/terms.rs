//! The values that expressions read, directly or through variables, and the samples of each.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::core::policy::definition::VALUE;
use crate::core::policy::expression::types::{Kind, Texts, Type};
use crate::core::policy::expression::{Expression, How, Path, Step, Use};
use crate::core::policy::interpolation::{Interpolation, type_of};
use crate::core::policy::parameter::{Parameter, ParameterType, VariableValue};

use super::samples::Samples;

/// The entries of a list in samples.
const MAX_ENTRIES: usize = 16;
/// A text with which nothing is compared.
const OTHER: &str = "sample";

/// The value at a path of a name, and what it is compared with.
#[derive(Debug, Default)]
struct Term {
    values: Vec<Value>,
    /// True if an expression asks whether it is there.
    may_be_absent: bool,
    /// For a list, what the fields of its entries are compared with; an empty path is the entry itself.
    entries: BTreeMap<Path, Vec<Value>>,
}

/// The samples of a value at a path of a name. `None` is one that is absent.
pub(in crate::core::policy::check) struct Candidates {
    pub(in crate::core::policy::check) root: String,
    pub(in crate::core::policy::check) path: Path,
    pub(in crate::core::policy::check) values: Vec<Option<Value>>,
}

/// What expressions read.
pub(in crate::core::policy::check) struct Terms<'s, 'd> {
    samples: &'s Samples<'d>,
    all: BTreeMap<(String, Path), Term>,
    /// The variables that are read, by position, and what they are compared with.
    pub(in crate::core::policy::check) variables: BTreeMap<usize, Vec<Value>>,
    /// The variables of which the expressions are still to be read, and what they are compared with in addition.
    queue: Vec<(usize, Vec<Value>)>,
    /// True if a value decides in another way than by comparison with literals.
    pub(in crate::core::policy::check) is_partial: bool,
}

impl<'s, 'd> Terms<'s, 'd> {
    /// What texts read; `None` if that is too much work.
    pub(in crate::core::policy::check) fn of(
        samples: &'s Samples<'d>,
        texts: &[&Interpolation],
    ) -> Option<Self> {
        let (variables, queue) = (BTreeMap::new(), Vec::new());
        let mut terms = Self { samples, all: BTreeMap::new(), variables, queue, is_partial: false };
        for text in texts {
            terms.text(text, &[true.into(), false.into()])?;
        }
        while let Some((at, wanted)) = terms.queue.pop() {
            let mut done = Some(());
            samples.definition.variables[at].value.texts(&mut |text| {
                done = done.and_then(|()| terms.text(text, &wanted));
            });
            done?;
        }
        Some(terms)
    }

    fn text(&mut self, text: &Interpolation, wanted: &[Value]) -> Option<()> {
        let is_whole = matches!(text, Interpolation::Expression(_));
        text.expressions()
            .try_for_each(|expression| self.expression(expression, if is_whole { wanted } else { &[] }))
    }

    fn expression(&mut self, expression: &Expression, wanted: &[Value]) -> Option<()> {
        self.samples.charge(expression.source().len())?;
        let samples = self.samples;
        let uses = expression.uses(wanted, &|name| samples.keys(name));
        self.is_partial |= uses.is_partial;
        uses.list.into_iter().for_each(|used| self.add(used));
        Some(())
    }

    fn add(&mut self, used: Use) {
        let Use { root, path, how, values } = used;
        if how == How::Counted {
            return;
        }
        if let Some(at) = self.samples.variables.get(root.as_str()) {
            return self.read_variable(*at, &path, how, values);
        }
        let every = path.iter().position(|step| *step == Step::Every);
        match (how, every) {
            (How::Compared, None) => extend(&mut self.term(&root, path).values, values),
            (How::Compared, Some(at)) if !path[at + 1..].contains(&Step::Every) => {
                let rest = path[at + 1..].to_vec();
                extend(self.term(&root, path[..at].to_vec()).entries.entry(rest).or_default(), values);
            }
            (How::Present, None) => self.term(&root, path).may_be_absent = true,
            (How::Contains, None) if self.has_keys(&root, &path) => {
                for key in values.iter().filter_map(Value::as_str) {
                    let path = path.iter().cloned().chain([Step::Field(key.to_owned())]).collect();
                    self.term(&root, path).may_be_absent = true;
                }
            }
            (How::Contains, None) => {
                extend(self.term(&root, path).entries.entry(Path::new()).or_default(), values);
            }
            _ => self.is_partial = true,
        }
    }

    /// Returns whether a place has keys in place of entries.
    fn has_keys(&self, root: &str, path: &[Step]) -> bool {
        const MAPS: &[&str] = &["labels", "annotations", "nodeSelector", "limits", "requests"];
        match path.last() {
            Some(Step::Field(last)) => MAPS.contains(&last.as_str()),
            None => type_of(root, &self.samples.definition.gpus.resources)
                .is_some_and(|known| known.may_be(|kind| matches!(kind, Kind::Map(_) | Kind::Record(_)))),
            _ => false,
        }
    }

    fn term(&mut self, root: &str, path: Path) -> &mut Term {
        self.all.entry((root.to_owned(), path)).or_default()
    }

    fn read_variable(&mut self, at: usize, path: &Path, how: How, values: Vec<Value>) {
        let value = &self.samples.definition.variables[at].value;
        let is_table = matches!(value, VariableValue::Map(_) | VariableValue::List(_));
        self.is_partial |= !is_table && (!path.is_empty() || how != How::Compared);
        let is_new = !self.variables.contains_key(&at);
        let known = self.variables.entry(at).or_default();
        let new: Vec<Value> = values.into_iter().filter(|value| !known.contains(value)).collect();
        if is_new || !new.is_empty() {
            known.extend(new.iter().cloned());
            self.queue.push((at, new));
        }
    }

    /// The samples of each value, apart from those of parameters if they have their defaults.
    pub(in crate::core::policy::check) fn candidates(&mut self, with_parameters: bool) -> Vec<Candidates> {
        let mut found = Vec::new();
        for ((root, path), term) in std::mem::take(&mut self.all) {
            let parameter = self.samples.parameters.get(root.as_str());
            let values = match parameter {
                Some(parameter) if !with_parameters && parameter.kind != ParameterType::Any => continue,
                Some(parameter) if path.is_empty() => self.of_parameter(parameter, &term),
                Some(parameter) if parameter.kind == ParameterType::Any => {
                    self.of_parameter(parameter, &term)
                }
                Some(_) => Vec::new(),
                None => self.of_built_in(&root, &path, &term),
            };
            self.is_partial |= values.is_empty();
            if !values.is_empty() {
                found.push(Candidates { root, path, values });
            }
        }
        found
    }

    fn of_built_in(&mut self, root: &str, path: &[Step], term: &Term) -> Vec<Option<Value>> {
        let some = |values: Vec<Value>| values.into_iter().map(Some).collect::<Vec<_>>();
        let or_absent = |values: Vec<Value>| [None].into_iter().chain(some(values)).collect();
        let known = if root == VALUE {
            Some(Type::string())
        } else {
            type_of(root, &self.samples.definition.gpus.resources)
        };
        let namespaces = &self.samples.definition.matcher.namespaces;
        match (known.as_ref().and_then(Type::kinds), path) {
            (_, []) if root == "podNamespace" && !namespaces.is_empty() => {
                some(namespaces.iter().map(|name| name.as_str().into()).collect())
            }
            (Some([Kind::Record(members)]), [_]) => {
                some(members.first().map(|member| self.of_type(&member.value, term)).unwrap_or_default())
            }
            (Some([Kind::Map(values)]), [_]) => or_absent(self.of_type(values, term)),
            (Some([Kind::Object(_)]), [.., Step::Field(last)]) => {
                let mut values = scalars(&term.values);
                if values.is_empty() && term.entries.is_empty() {
                    values.push(Value::Object(Map::new()));
                }
                let is_there = last == "containers";
                if !term.entries.is_empty() {
                    let lists = self.lists(term);
                    values.extend(lists.into_iter().filter(|list| !is_there || *list != json!([])));
                }
                if is_there { some(values) } else { or_absent(values) }
            }
            (Some(_), []) => known.map(|known| some(self.of_type(&known, term))).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// Values of a type with one kind.
    fn of_type(&mut self, known: &Type, term: &Term) -> Vec<Value> {
        match known.kinds() {
            Some([Kind::Bool]) => vec![true.into(), false.into()],
            Some([Kind::Int(..)]) => counts(term),
            Some([Kind::String(Texts::LowerCase)]) => {
                let lower = |value: Value| value.as_str().map(str::to_lowercase).map(Value::from);
                texts(term).into_iter().filter_map(lower).collect()
            }
            Some([Kind::String(Texts::Of(format))]) => {
                let fits = |value: &Value| value.as_str().is_some_and(|text| format.check(text).is_ok());
                texts(term).into_iter().filter(fits).collect()
            }
            Some([Kind::String(_)]) => texts(term),
            Some([Kind::List(_)]) => self.lists(term),
            _ => Vec::new(),
        }
    }

    fn of_parameter(&mut self, parameter: &Parameter, term: &Term) -> Vec<Option<Value>> {
        let mut values = match parameter.kind {
            ParameterType::Boolean => vec![true.into(), false.into()],
            ParameterType::Integer | ParameterType::Number => numbers(parameter, term),
            ParameterType::String => match &parameter.one_of {
                Some(values) => values.iter().map(|value| value.as_str().into()).collect(),
                None => texts(term),
            },
            ParameterType::Quantity | ParameterType::Template => texts(term),
            ParameterType::StringList => self.lists(term),
            ParameterType::Any => {
                // The fallback, or the nodes, give values that no row has.
                self.is_partial = true;
                parameter.table.values().cloned().collect()
            }
        };
        if !values.contains(&parameter.default) {
            values.push(parameter.default.clone());
        }
        values.into_iter().map(Some).collect()
    }

    /// Lists without entries, with each of the entries, and with all of them.
    fn lists(&mut self, term: &Term) -> Vec<Value> {
        let mut entries = vec![if term.entries.contains_key(&Path::new()) { Value::Null } else { json!({}) }];
        for (path, values) in &term.entries {
            let mut values: Vec<Option<Value>> = scalars(values).into_iter().map(Some).collect();
            // An entry itself is there, and so is its name.
            if !path.is_empty() && path.last() != Some(&Step::Field("name".to_owned())) {
                values.push(None);
            }
            let with = |entry: &Value, value: &Option<Value>| {
                let mut entry = entry.clone();
                put(&mut entry, path, value.clone());
                entry
            };
            let all = entries.iter().flat_map(|entry| values.iter().map(move |value| with(entry, value)));
            entries = all.collect();
            self.is_partial |= entries.len() > MAX_ENTRIES;
            entries.truncate(MAX_ENTRIES);
        }
        let mut lists: Vec<Value> = vec![json!([])];
        lists.extend(entries.iter().map(|entry| json!([entry])));
        lists.push(entries.into());
        extend(&mut lists, term.values.iter().filter(|value| value.is_array()).cloned().collect());
        lists
    }
}

fn extend(known: &mut Vec<Value>, more: Vec<Value>) {
    for value in more {
        if !known.contains(&value) {
            known.push(value);
        }
    }
}

/// The texts with which a value is compared, and another one.
fn texts(term: &Term) -> Vec<Value> {
    term.values.iter().filter(|value| value.is_string()).cloned().chain([OTHER.into()]).collect()
}

/// The values with which a value of any type is compared, and others of their types.
fn scalars(values: &[Value]) -> Vec<Value> {
    let mut found: Vec<Value> = values.iter().filter(|value| !value.is_null()).cloned().collect();
    if values.iter().any(Value::is_boolean) {
        extend(&mut found, vec![true.into(), false.into()]);
    }
    if values.iter().any(Value::is_string) {
        found.push(OTHER.into());
    }
    found
}

/// The numbers with which a count is compared, and some more.
fn counts(term: &Term) -> Vec<Value> {
    let mut found: Vec<Value> = vec![0.into(), 1.into(), 8.into()];
    let whole = term.values.iter().filter_map(near).flatten().filter(|count| *count >= 0);
    extend(&mut found, whole.map(Value::from).collect());
    found
}

/// The whole numbers next to a number.
#[expect(clippy::cast_possible_truncation, reason = "a number without such neighbours has the largest one")]
fn near(value: &Value) -> Option<[i64; 2]> {
    value.as_i64().map(|whole| [whole, whole]).or_else(|| {
        let number = value.as_f64()?;
        Some([number.floor() as i64, number.ceil() as i64])
    })
}

/// Values of a number: those with which it is compared, what is between them, and its bounds, as far as these allow.
fn numbers(parameter: &Parameter, term: &Term) -> Vec<Value> {
    let (least, most) = (parameter.minimum.as_ref(), parameter.maximum.as_ref());
    let known = term.values.iter().chain([&parameter.default]).chain(least).chain(most);
    let bound = |bound: Option<&Value>, otherwise: f64| bound.and_then(Value::as_f64).unwrap_or(otherwise);
    let (least, most) = (bound(least, f64::NEG_INFINITY), bound(most, f64::INFINITY));
    let is_within = |number: f64| least <= number && number <= most;
    if parameter.kind == ParameterType::Integer {
        let whole: BTreeSet<i64> = known.filter_map(near).flatten().collect();
        #[expect(clippy::cast_precision_loss, reason = "bounds of policies are far below 2^53")]
        return whole.into_iter().filter(|number| is_within(*number as f64)).map(Value::from).collect();
    }
    let mut all: Vec<f64> = known.filter_map(Value::as_f64).filter(|number| is_within(*number)).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    let between: Vec<f64> = all.windows(2).map(|pair| f64::midpoint(pair[0], pair[1])).collect();
    all.into_iter().chain(between).map(Value::from).collect()
}

/// Sets the value at a path, or nothing but the objects on the way to it.
pub(in crate::core::policy::check) fn put(object: &mut Value, path: &[Step], value: Option<Value>) {
    let Some((first, rest)) = path.split_first() else {
        if let Some(value) = value {
            *object = value;
        }
        return;
    };
    let Step::Field(name) = first else { return };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    if rest.is_empty() && value.is_none() {
        return;
    }
    put(&mut object[name.as_str()], rest, value);
}
