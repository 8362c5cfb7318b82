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
}

#[derive(Debug, Clone, PartialEq)]
struct Offered {
    /// The name of an extended resource, or a pattern of names.
    names: Pattern,
    /// True if each name is one device with many slots: `rdma/fabric*=1`.
    is_one_device: bool,
}

impl FromNodes {
    /// Reads the resources of `fromNodes`.
    pub(crate) fn read(fact: Fact, node: &Node) -> Checked<Self> {
        let names = match node.text() {
            Some(text) => vec![text.text.to_owned()],
            None => reader::texts(node, "`fromNodes`").map_err(|problems| match &node.content {
                // The facts used to be keys.
                Content::Map(_) => reader::expected(node, "`fromNodes` to be a resource, or a list of them")
                    .hint(NAMES_HINT)
                    .into(),
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

    /// The value for one kind of node; `None` if it offers no such resource.
    pub(crate) fn of_kind(&self, kind: &NodeKind) -> Option<Value> {
        let matching = |one: &Offered| {
            kind.resources.iter().filter(|(name, _)| one.names.matches(name)).collect::<Vec<_>>()
        };
        let (one, offered) =
            self.resources.iter().map(|one| (one, matching(one))).find(|(_, offered)| !offered.is_empty())?;
        match self.fact {
            Fact::Name => match offered.as_slice() {
                [(name, _)] => Some(Value::from(name.as_str())),
                // If there are several, the choice is ambiguous.
                _ => None,
            },
            Fact::Names => {
                let mut names: Vec<&str> = offered.iter().map(|(name, _)| name.as_str()).collect();
                names.sort_by_cached_key(|name| numbered(name));
                Some(names.into())
            }
            Fact::Ratio if one.is_one_device => by_gpu(i64::try_from(offered.len()).ok()?, kind.gpus),
            Fact::Ratio => by_gpu(offered.iter().map(|(_, count)| **count).sum(), kind.gpus),
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
