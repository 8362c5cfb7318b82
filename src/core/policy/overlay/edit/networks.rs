//! Attachments of networks in a Multus annotation: one network several times, or each of a list once.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::core::counted;
use crate::core::policy::expression::Bindings;
use crate::core::policy::interpolation::{EvaluationError, Interpolation};
use crate::core::policy::source::{Checked, Diagnostic, all};
use crate::core::schema::{Format, Shape};

use super::keys::COUNT;
use crate::core::policy::overlay::places::Wanted;
use crate::core::policy::overlay::source::{Source, SourceContent};
use crate::core::policy::overlay::template::Template;
use crate::core::policy::overlay::values::{text, value};

const WHOLE: Shape = Shape::Integer(0, i64::MAX);

/// Networks to attach, and how many of them.
#[derive(Debug, Clone)]
pub(crate) struct NetworksEdit {
    networks: Names,
    /// The number of attachments.
    count: Option<Template>,
}

#[derive(Debug, Clone)]
enum Names {
    /// One name, or an expression that yields one name or a list of them.
    One(Interpolation),
    List(Vec<Interpolation>),
}

impl NetworksEdit {
    /// Reads the names that `$append` has, and `$count` of the edit.
    pub(in crate::core::policy::overlay) fn read(edit: &Source, named: &Source) -> Checked<Self> {
        let networks = match &named.content {
            SourceContent::List(items) => Names::List(all(items.iter().map(|item| name(item, true)))?),
            _ => Names::One(name(named, false)?),
        };
        let count = edit.get(COUNT).map(|count| value(count, &WHOLE)).transpose()?;
        if let (Names::List(names), Some(Template::Constant(count)), Some(node)) =
            (&networks, &count, edit.get(COUNT))
            && let Some(message) = too_many(count, names.len())
        {
            return Err(Diagnostic::new(node.span, message).hint(FEWER).into());
        }
        Ok(Self { networks, count })
    }

    /// Calls `visit` with the names of the networks.
    pub(crate) fn name_texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        match &self.networks {
            Names::One(text) => visit(text),
            Names::List(names) => names.iter().for_each(visit),
        }
    }

    /// The number of attachments, if the edit has one.
    pub(crate) fn count(&self) -> Option<&Template> {
        self.count.as_ref()
    }

    pub(in crate::core::policy::overlay) fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.places(&mut |text, _| visit(text));
    }

    /// Calls `visit` with every interpolation, and the value that is needed in its place.
    pub(in crate::core::policy::overlay) fn places(&self, visit: &mut dyn FnMut(&Interpolation, Wanted)) {
        match &self.networks {
            Names::One(text) => visit(text, Wanted::Networks),
            Names::List(names) => names.iter().for_each(|name| visit(name, Wanted::Text)),
        }
        self.count.iter().for_each(|count| count.places(visit));
    }

    /// Returns whether the edit has `$count`.
    pub(crate) fn has_count(&self) -> bool {
        self.count.is_some()
    }

    /// The edit with each text and the count replaced.
    pub(in crate::core::policy::overlay) fn map(
        &self,
        text: impl Fn(&Interpolation) -> Result<Interpolation, EvaluationError>,
        count: impl Fn(&Template) -> Result<Option<Template>, EvaluationError>,
    ) -> Result<Self, EvaluationError> {
        let networks = match &self.networks {
            Names::One(name) => Names::One(text(name)?),
            Names::List(names) => Names::List(names.iter().map(text).collect::<Result<_, _>>()?),
        };
        let count = match &self.count {
            Some(template) => count(template)?,
            None => None,
        };
        Ok(Self { networks, count })
    }

    /// The networks to attach, each with the number of its attachments.
    pub(crate) fn evaluate(
        &self,
        bindings: &Bindings<'_, '_>,
    ) -> Result<Vec<(String, usize)>, EvaluationError> {
        let count = self.count.as_ref().map(|count| count.build(bindings)).transpose()?.flatten();
        let number = count.as_ref().map(|count| count.as_u64().and_then(|count| usize::try_from(count).ok()));
        let number = number.map(|number| number.unwrap_or(usize::MAX));
        let mut names = match self.names(bindings)? {
            Some(Named::One(name)) => return Ok(vec![(name, number.unwrap_or(1))]),
            Some(Named::List(names)) => names,
            None => return Ok(Vec::new()),
        };
        if let Some(message) = count.as_ref().and_then(|count| too_many(count, names.len())) {
            let mut error = self.failed(message);
            error.fault.hint = Some(FEWER.to_owned());
            return Err(error);
        }
        names.truncate(number.unwrap_or(usize::MAX));
        Ok(names.into_iter().map(|name| (name, 1)).collect())
    }

    /// Every network that the edit may attach.
    pub(crate) fn all(&self, bindings: &Bindings<'_, '_>) -> Result<Vec<String>, EvaluationError> {
        Ok(match self.names(bindings)? {
            Some(Named::One(name)) => vec![name],
            Some(Named::List(names)) => names,
            None => Vec::new(),
        })
    }

    fn names(&self, bindings: &Bindings<'_, '_>) -> Result<Option<Named>, EvaluationError> {
        let checked = |text: &Interpolation, value: &Value, listed: bool| {
            let Value::String(name) = value else {
                let message = format!("the result is `{value}` where the name of a network is needed");
                return Err(text.failed(message));
            };
            check(name, listed)
                .map(|()| name.clone())
                .map_err(|problem| text.failed(format!("`{name}`: {problem}")))
        };
        match &self.networks {
            Names::One(text) => match text.evaluate(bindings)? {
                Value::Null => Ok(None),
                Value::Array(names) => {
                    let names =
                        names.iter().filter(|name| !name.is_null()).map(|name| checked(text, name, true));
                    self.list(names.collect::<Result<_, _>>()?)
                }
                name => Ok(Some(Named::One(checked(text, &name, false)?))),
            },
            Names::List(texts) => {
                let mut names = Vec::with_capacity(texts.len());
                for text in texts {
                    match text.evaluate(bindings)? {
                        Value::Null => {}
                        name => names.push(checked(text, &name, true)?),
                    }
                }
                self.list(names)
            }
        }
    }

    /// Fails for a list with one interface for two networks.
    fn list(&self, names: Vec<String>) -> Result<Option<Named>, EvaluationError> {
        let mut interfaces = BTreeSet::new();
        for (_, interface) in names.iter().filter_map(|name| name.split_once('@')) {
            if !interfaces.insert(interface) {
                let message = format!("two networks of the list have the interface `{interface}`");
                return Err(self.failed(message));
            }
        }
        Ok(Some(Named::List(names)))
    }

    /// An error about the number of attachments, or else about the networks.
    fn failed(&self, message: String) -> EvaluationError {
        let texts = |visit: &mut dyn FnMut(&Interpolation)| {
            self.count.iter().for_each(|count| count.texts(visit));
            self.name_texts(visit);
        };
        EvaluationError::about(texts, message)
    }
}

enum Named {
    One(String),
    List(Vec<String>),
}

/// The name of a network, or an expression. An entry of a list can name an interface.
fn name(source: &Source, listed: bool) -> Checked<Interpolation> {
    let text = text(source)?;
    if let Interpolation::Literal(name) = &text {
        check(name, listed).map_err(|problem| {
            let hint = if name.starts_with('$') {
                "an expression is written as `${…}`"
            } else {
                "name a network as `name` or `namespace/name`, in a list also as `name@interface`"
            };
            let says_name = problem.starts_with(&format!("`{name}`"));
            let message = if says_name { problem } else { format!("`{name}`: {problem}") };
            Diagnostic::new(source.span, message).hint(hint)
        })?;
    }
    Ok(text)
}

/// Fails for text that is not `[namespace/]name`, or `[namespace/]name@interface` in a list.
fn check(network: &str, listed: bool) -> Result<(), String> {
    let (network, interface) = match network.split_once('@') {
        Some((network, interface)) => (network, Some(interface)),
        None => (network, None),
    };
    if let Some(interface) = interface {
        if !listed {
            return Err("only an entry of a list can name an interface".to_owned());
        }
        let known = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
        if interface.is_empty() || interface.len() > 15 || !interface.chars().all(known) {
            return Err(format!(
                "`{interface}` is not the name of an interface: 1 to 15 letters, digits, `-`, `_` and `.`"
            ));
        }
    }
    let (namespace, name) = match network.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, network),
    };
    namespace.map_or(Ok(()), |namespace| Format::DnsLabel.check(namespace))?;
    Format::DnsSubdomain.check(name)
}

/// The remedy for a number of attachments for which there are too few networks.
const FEWER: &str = "add networks, or lower `$count`";

fn too_many(count: &Value, listed: usize) -> Option<String> {
    let fits = count.as_u64().is_some_and(|count| usize::try_from(count).is_ok_and(|count| count <= listed));
    (!fits).then(|| format!("the list has {}, and `$count` is {count}", counted(listed, "network")))
}
