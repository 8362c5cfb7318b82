//! Attachments of networks in a Multus annotation: one network, or each of a list; or as many as a pod requests devices.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::core::policy::expression::Bindings;
use crate::core::policy::interpolation::{EvaluationError, Interpolation};
use crate::core::policy::source::{Checked, Diagnostic, all};
use crate::core::schema::Format;

use crate::core::policy::overlay::Amount;
use crate::core::policy::overlay::places::Wanted;
use crate::core::policy::overlay::source::{Source, SourceContent};
use crate::core::policy::overlay::values::text;

/// Networks to attach.
#[derive(Debug, Clone)]
pub(crate) struct NetworksEdit {
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
    pub(in crate::core::policy::overlay) fn read(named: &Source) -> Checked<Self> {
        let networks = match &named.content {
            SourceContent::List(items) => Names::List(all(items.iter().map(|item| name(item, true)))?),
            _ => Names::One(name(named, false)?),
        };
        Ok(Self { networks, devices: None })
    }

    /// Attaches the devices of a pod: one network once for each of them, or of a list the first ones, one for each name
    /// of a list of resources that the pod requests. `requests` yields the requests of the pod.
    pub(crate) fn attach(&mut self, resources: Vec<Amount>, requests: Interpolation) {
        self.devices = Some(Attached { requests, resources });
    }

    /// Calls `visit` with the names of the networks.
    pub(crate) fn name_texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        match &self.networks {
            Names::One(text) => visit(text),
            Names::List(names) => names.iter().for_each(visit),
        }
    }

    pub(in crate::core::policy::overlay) fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.places(&mut |text, _| visit(text));
    }

    /// Calls `visit` with every interpolation, and the value that is needed in its place.
    pub(in crate::core::policy::overlay) fn places(&self, visit: &mut dyn FnMut(&Interpolation, Wanted)) {
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
    pub(in crate::core::policy::overlay) fn map(
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
    pub(crate) fn evaluate(
        &self,
        bindings: &Bindings<'_, '_>,
    ) -> Result<Vec<(String, usize)>, EvaluationError> {
        let devices = self.devices.as_ref().map(|devices| devices.requested(bindings)).transpose()?;
        Ok(match (self.names(bindings)?, devices) {
            (None, _) => Vec::new(),
            (Some(Named::One(name)), devices) => vec![(name, devices.map_or(1, |(all, _)| all))],
            (Some(Named::List(mut names)), devices) => {
                if let Some((_, Some(of_list))) = devices {
                    names.truncate(of_list);
                }
                names.into_iter().map(|name| (name, 1)).collect()
            }
        })
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

    fn failed(&self, message: String) -> EvaluationError {
        EvaluationError::about(|visit| self.name_texts(visit), message)
    }
}

impl Attached {
    /// The number of devices that the pod requests; and of the names of a list, the number of those that it requests.
    fn requested(&self, bindings: &Bindings<'_, '_>) -> Result<(usize, Option<usize>), EvaluationError> {
        let requests = self.requests.evaluate(bindings)?;
        let (mut all, mut of_list) = (0_usize, None);
        for amount in &self.resources {
            for (name, nth) in amount.names(bindings)? {
                let count = requests[&name]
                    .as_u64()
                    .and_then(|count| usize::try_from(count).ok())
                    .unwrap_or_default();
                all = all.saturating_add(count);
                if nth.is_some() {
                    *of_list.get_or_insert(0) += usize::from(count > 0);
                }
            }
        }
        Ok((all, of_list))
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
