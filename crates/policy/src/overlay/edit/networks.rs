//! Attachments of networks in a Multus annotation: one network, or each of a list; or as many as a pod requests
//! devices.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::expression::Bindings;
use crate::interpolation::{EvaluationError, Interpolation};
use crate::schema::Format;
use crate::source::{Checked, Diagnostic, all};

use crate::overlay::Amount;
use crate::overlay::places::Wanted;
use crate::overlay::source::{Source, SourceContent};
use crate::overlay::values::text;

/// Networks to attach.
#[derive(Debug, Clone)]
pub struct NetworksEdit {
    networks: Names,
    /// The devices that are attached to them; without it, each network is attached once.
    devices: Option<Attached>,
}

/// The devices of a pod that are attached to networks.
#[derive(Debug, Clone)]
struct Attached {
    /// The requests of the pod by resource.
    requests: Interpolation,
    resources: Vec<Amount>,
}

#[derive(Debug, Clone)]
enum Names {
    /// One name, or an expression that yields one name or a list of them.
    One(Interpolation),
    List(Vec<Interpolation>),
}

impl NetworksEdit {
    /// Reads the names that `$append` has.
    pub(crate) fn read(named: &Source) -> Checked<Self> {
        let networks = match &named.content {
            SourceContent::List(items) => {
                let texts: Vec<Interpolation> = all(items.iter().map(|item| name(item, true)))?;
                let written = texts.iter().filter_map(|name| match name {
                    Interpolation::Literal(name) => Some(name.as_str()),
                    Interpolation::Expression(_) | Interpolation::Mixed(..) => None,
                });
                if let Some(message) = interface_of_two(written) {
                    return Err(Diagnostic::new(named.span, message).hint("give each its own").into());
                }
                Names::List(texts)
            }
            _ => Names::One(name(named, false)?),
        };
        Ok(Self { networks, devices: None })
    }

    /// Attaches the devices of a pod: one network once for each of them, or of a list those at the positions of the
    /// resources that the pod requests. `requests` yields the requests of the pod.
    pub(crate) fn attach(&mut self, resources: Vec<Amount>, requests: Interpolation) {
        self.devices = Some(Attached { requests, resources });
    }

    /// Calls `visit` with the names of the networks.
    pub fn name_texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        match &self.networks {
            Names::One(text) => visit(text),
            Names::List(names) => names.iter().for_each(visit),
        }
    }

    pub(crate) fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.places(&mut |text, _| visit(text));
    }

    /// Calls `visit` with every interpolation, and the value that is needed in its place.
    pub(crate) fn places(&self, visit: &mut dyn FnMut(&Interpolation, Wanted)) {
        match &self.networks {
            Names::One(text) => visit(text, Wanted::NameOrNames),
            Names::List(names) => names.iter().for_each(|name| visit(name, Wanted::Text)),
        }
        if let Some(Attached { requests, resources }) = &self.devices {
            visit(requests, Wanted::Entry);
            for amount in resources {
                visit(&amount.resource, Wanted::NameOrNames);
            }
        }
    }

    /// The edit with each text replaced.
    pub(crate) fn map(
        &self,
        text: impl Fn(&Interpolation) -> Result<Interpolation, EvaluationError>,
    ) -> Result<Self, EvaluationError> {
        let networks = match &self.networks {
            Names::One(name) => Names::One(text(name)?),
            Names::List(names) => Names::List(names.iter().map(text).collect::<Result<_, _>>()?),
        };
        Ok(Self { networks, devices: self.devices.clone() })
    }

    /// The networks to attach, each with the number of its attachments.
    pub fn evaluate(&self, bindings: &Bindings<'_, '_>) -> Result<Vec<(String, usize)>, EvaluationError> {
        let devices = self.devices.as_ref().map(|devices| devices.requested(bindings)).transpose()?;
        Ok(match (self.names(bindings)?, devices) {
            (None, _) => Vec::new(),
            (Some(Named::One(name)), devices) => vec![(name, devices.map_or(1, |devices| devices.all))],
            (Some(Named::List(names)), devices) => {
                let is_wanted = |at: usize| devices.as_ref().is_none_or(|devices| devices.has(at));
                let names = names.into_iter().enumerate().filter(|(at, _)| is_wanted(*at));
                names.filter_map(|(_, name)| Some((name?, 1))).collect()
            }
        })
    }

    /// Every network that the edit may attach.
    pub(crate) fn all(&self, bindings: &Bindings<'_, '_>) -> Result<Vec<String>, EvaluationError> {
        Ok(match self.names(bindings)? {
            Some(Named::One(name)) => vec![name],
            Some(Named::List(names)) => names.into_iter().flatten().collect(),
            None => Vec::new(),
        })
    }

    fn names(&self, bindings: &Bindings<'_, '_>) -> Result<Option<Named>, EvaluationError> {
        let checked = |text: &Interpolation, value: &Value, listed: bool| {
            let Value::String(name) = value else {
                let message = format!("the result is `{value}`, but the name of a network is needed");
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
                    let name =
                        |name: &Value| (!name.is_null()).then(|| checked(text, name, true)).transpose();
                    self.list(names.iter().map(name).collect::<Result<_, _>>()?)
                }
                name => Ok(Some(Named::One(checked(text, &name, false)?))),
            },
            Names::List(texts) => {
                let mut names = Vec::with_capacity(texts.len());
                for text in texts {
                    let name = text.evaluate(bindings)?;
                    names.push((!name.is_null()).then(|| checked(text, &name, true)).transpose()?);
                }
                self.list(names)
            }
        }
    }

    /// Fails for a list with one interface for two networks.
    fn list(&self, names: Vec<Option<String>>) -> Result<Option<Named>, EvaluationError> {
        match interface_of_two(names.iter().flatten().map(String::as_str)) {
            Some(message) => Err(self.failed(message)),
            None => Ok(Some(Named::List(names))),
        }
    }

    fn failed(&self, message: String) -> EvaluationError {
        EvaluationError::about(|visit| self.name_texts(visit), message)
    }
}

impl Attached {
    fn requested(&self, bindings: &Bindings<'_, '_>) -> Result<Requested, EvaluationError> {
        let requests = self.requests.evaluate(bindings)?;
        let mut requested = Requested { all: 0, positions: BTreeSet::new(), is_one: false };
        let mut next = 0;
        for amount in &self.resources {
            let (names, length) = amount.named(bindings)?;
            for (name, nth) in names {
                let count = requests[&name].as_u64().and_then(|count| usize::try_from(count).ok());
                let count = count.unwrap_or_default();
                requested.all = requested.all.saturating_add(count);
                if count > 0 {
                    let nth = nth.and_then(|nth| usize::try_from(nth).ok()).unwrap_or_default();
                    requested.positions.insert(next + nth);
                }
            }
            requested.is_one = length.is_none() && self.resources.len() == 1;
            next += length.unwrap_or(1);
        }
        Ok(requested)
    }
}

/// The devices that a pod requests of an entry's resources.
struct Requested {
    all: usize,
    /// The positions of the resources whose amount is not zero. Those of a list are counted individually.
    positions: BTreeSet<usize>,
    /// True if there is one resource, whose n-th device has the n-th network of a list.
    is_one: bool,
}

impl Requested {
    /// Returns whether the network at a position of a list has a device.
    fn has(&self, at: usize) -> bool {
        if self.is_one { at < self.all } else { self.positions.contains(&at) }
    }
}

enum Named {
    One(String),
    /// `None` is a network that is left out.
    List(Vec<Option<String>>),
}

/// The error about an interface that two networks of a list have.
fn interface_of_two<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    let mut known = BTreeSet::new();
    let mut interfaces = names.filter_map(|name| name.split_once('@'));
    let (_, twice) = interfaces.find(|(_, interface)| !known.insert(*interface))?;
    Some(format!("two networks of the list have the interface `{twice}`"))
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
