//! Values that come from the resources of the nodes that a pod can be scheduled to: `fromNodes` of a parameter, and
//! `offeredName` and `offeredNames` in expressions.

use serde_json::{Number, Value};

use crate::nodes::NodeKind;
use fabric_yaml::{Content, Node};

use crate::matcher::pattern::Pattern;
use crate::source::{Checked, Diagnostic, reader};

/// The fact about nodes that gives a value.
#[derive(Debug, Clone, PartialEq)]
pub struct FromNodes {
    pub(crate) fact: Fact,
    /// The first of these names and patterns that a node offers counts.
    resources: Vec<Offered>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// The devices of a node divided by its GPUs.
    Ratio,
    /// The name of the resource.
    Name,
    /// The names of all resources, with numbers in their order.
    Names,
    /// The name of the network of the resource.
    Network,
    /// The names of the networks of all resources, in the order of these.
    Networks,
}

#[derive(Debug, Clone, PartialEq)]
struct Offered {
    /// The name of an extended resource, or a pattern of names.
    names: Pattern,
    /// True if each name is one device with many slots: `rdma/fabric*=1`.
    is_one_device: bool,
}

impl FromNodes {
    /// Reads the resources of `fromNodes` or `fromNetworks`.
    pub(crate) fn read(fact: Fact, key: &str, node: &Node) -> Checked<Self> {
        let names = match node.text() {
            Some(text) => vec![text.text.to_owned()],
            None => reader::texts(node, &format!("`{key}`")).map_err(|problems| match &node.content {
                // The facts used to be keys.
                Content::Map(_) => {
                    let wanted = format!("`{key}` to be a resource, or a list of them");
                    reader::expected(node, &wanted).hint(NAMES_HINT).into()
                }
                _ => problems,
            })?,
        };
        Self::new(fact, names.iter().map(String::as_str))
            .map_err(|message| Diagnostic::new(node.span, message).hint(NAMES_HINT).into())
    }

    /// A fact of resources; the error is a sentence.
    pub(crate) fn new<'n>(fact: Fact, names: impl Iterator<Item = &'n str>) -> Result<Self, String> {
        let offered = |name: &'n str| {
            let one_device = name.strip_suffix("=1").filter(|_| fact == Fact::Ratio);
            let (names, is_one_device) = (one_device.unwrap_or(name), one_device.is_some());
            let is_resource = names.contains('/') && !names.contains('=');
            is_resource
                .then(|| Offered { names: Pattern::new(names), is_one_device })
                .ok_or_else(|| format!("`{name}` is not an extended resource"))
        };
        let resources = names.map(offered).collect::<Result<Vec<_>, _>>()?;
        if resources.is_empty() {
            return Err("no resource is named".to_owned());
        }
        Ok(Self { fact, resources })
    }

    /// Returns whether the value depends on a resource of this name.
    pub fn looks_for(&self, resource: &str) -> bool {
        self.resources.iter().any(|offered| offered.names.matches(resource))
    }

    /// Returns whether the value is names of resources.
    pub(crate) fn gives_resources(&self) -> bool {
        matches!(self.fact, Fact::Name | Fact::Names)
    }

    /// Returns whether the value is names of networks.
    pub fn gives_networks(&self) -> bool {
        matches!(self.fact, Fact::Network | Fact::Networks)
    }

    /// The names that a node offers for the first pattern that matches any, with numbers in their order.
    pub fn names<'k>(&self, kind: &'k NodeKind) -> Vec<&'k str> {
        let offered = self.offered(kind).map(|(_, offered)| offered).unwrap_or_default();
        let mut names: Vec<&str> = offered.into_iter().map(|(name, _)| name).collect();
        names.sort_by_cached_key(|name| numbered(name));
        names
    }

    /// The first name or pattern of which a node offers resources, and these.
    fn offered<'k>(&self, kind: &'k NodeKind) -> Option<(&Offered, Vec<(&'k str, i64)>)> {
        let matching = |one: &Offered| -> Vec<(&'k str, i64)> {
            let matching = kind.resources.iter().filter(|(name, _)| one.names.matches(name));
            matching.map(|(name, count)| (name.as_str(), *count)).collect()
        };
        self.resources.iter().map(|one| (one, matching(one))).find(|(_, offered)| !offered.is_empty())
    }

    /// The value for one kind of node; `None` if it offers no such resource.
    pub(crate) fn of_kind(&self, kind: &NodeKind) -> Option<Value> {
        let (one, offered) = self.offered(kind)?;
        if self.fact == Fact::Ratio {
            let names = || i64::try_from(offered.len()).ok();
            let devices = || Some(offered.iter().map(|(_, count)| *count).sum());
            return by_gpu(if one.is_one_device { names() } else { devices() }?, kind.gpus);
        }
        let network = |name: &str| kind.networks.get(name).map(String::as_str);
        let value = |name| if self.gives_networks() { network(name) } else { Some(name) };
        let values = self.names(kind).into_iter().map(value).collect::<Option<Vec<&str>>>()?;
        match (self.fact, values.as_slice()) {
            (Fact::Names | Fact::Networks, _) => Some(values.into()),
            (_, [one]) => Some(Value::from(*one)),
            // If there are several, the choice is ambiguous.
            _ => None,
        }
    }
}

const NAMES_HINT: &str = "write a resource, or a list in which a `*` matches any text, such as `[rdma/ib, nvidia.com/rail_*]`; \
                          `rdma/rail*=1` counts each name once";

/// A number of a node divided by its GPUs; `None` without GPUs.
fn by_gpu(number: i64, gpus: i64) -> Option<Value> {
    if number.checked_rem(gpus)? == 0 {
        return Some(Value::from(number / gpus));
    }
    #[expect(clippy::cast_precision_loss, reason = "a node has fewer than 2^52 devices")]
    Number::from_f64(number as f64 / gpus as f64).map(Value::Number)
}

/// The texts of a name, each with the number after it: `rail_2` precedes `rail_10`.
fn numbered(name: &str) -> Vec<(&str, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let (text, number) = rest.split_at(rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len()));
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        parts.push((text, number[..end].parse().unwrap_or_default()));
        rest = &number[end..];
    }
    parts
}
