//! `fromNodes` of a parameter: its value follows from what the nodes offer that a pod can be scheduled to.

use serde_json::{Number, Value};

use crate::core::nodes::NodeKind;
use crate::core::yaml::Node;

use super::diagnostic::Diagnostic;
use super::pattern::Pattern;
use super::problems::Checked;
use super::reader::{self, Fields};

/// The fact that a parameter takes from nodes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FromNodes {
    fact: Fact,
    /// Names and patterns of extended resources. The first that a node offers counts.
    resources: Vec<Pattern>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fact {
    /// The devices of a node divided by its GPUs.
    Ratio,
    /// The name of the resource.
    Name,
}

/// The value that nodes give to a parameter.
#[derive(Debug, PartialEq)]
pub(crate) enum Offered {
    /// All of them give this one.
    Value(Value),
    /// They give none: there are none, or none of them offers such a resource, which lowers nothing.
    Nothing,
    /// They give different ones.
    Disagree,
}

impl FromNodes {
    pub(super) fn read(node: &Node) -> Checked<Self> {
        let mut fields = Fields::of(node, "`fromNodes`")?;
        let ratio = fields.optional("ratio", read_resources);
        let name = fields.optional("name", read_resources);
        fields.finish()?;
        match (ratio?, name?) {
            (Some(resources), None) => Ok(Self { fact: Fact::Ratio, resources }),
            (None, Some(resources)) => Ok(Self { fact: Fact::Name, resources }),
            _ => Err(Diagnostic::new(node.span, "`fromNodes` has to have one of `ratio` and `name`")
                .hint("write `ratio: RESOURCE` for devices by GPU, or `name: [RESOURCE, …]` for its name")
                .into()),
        }
    }

    /// Returns whether the value is a number; else, it is a string.
    pub(super) fn is_number(&self) -> bool {
        self.fact == Fact::Ratio
    }

    /// Returns whether the parameter looks for a resource of this name.
    pub(crate) fn looks_for(&self, resource: &str) -> bool {
        self.resources.iter().any(|pattern| pattern.matches(resource))
    }

    /// The value that these nodes give.
    pub(super) fn value(&self, kinds: &[NodeKind]) -> Offered {
        let mut found: Option<Option<Value>> = None;
        for kind in kinds {
            let value = self.of_kind(kind);
            match &found {
                Some(known) if *known != value => return Offered::Disagree,
                _ => found = Some(value),
            }
        }
        found.flatten().map_or(Offered::Nothing, Offered::Value)
    }

    /// The value for one kind of node; `None` if it offers no such resource.
    fn of_kind(&self, kind: &NodeKind) -> Option<Value> {
        let names = |pattern: &Pattern| kind.resources.keys().filter(|name| pattern.matches(name)).count();
        let pattern = self.resources.iter().find(|pattern| names(pattern) > 0)?;
        let mut offered = kind.resources.iter().filter(|(name, _)| pattern.matches(name));
        match self.fact {
            Fact::Name => {
                let (name, _) = offered.next()?;
                // Of several, none is the one to request.
                offered.next().is_none().then(|| Value::from(name.as_str()))
            }
            Fact::Ratio if kind.gpus == 0 => None,
            Fact::Ratio => {
                let devices: i64 = offered.map(|(_, count)| count).sum();
                if devices % kind.gpus == 0 {
                    return Some(Value::from(devices / kind.gpus));
                }
                #[expect(clippy::cast_precision_loss, reason = "a node has fewer than 2^52 devices")]
                Number::from_f64(devices as f64 / kind.gpus as f64).map(Value::Number)
            }
        }
    }
}

fn read_resources(node: &Node) -> Checked<Vec<Pattern>> {
    let names = match node.text() {
        Some(text) => vec![text.text.to_owned()],
        None => reader::texts(node, "the resources")?,
    };
    if names.is_empty() || names.iter().any(|name| !name.contains('/')) {
        return Err(Diagnostic::new(node.span, "`fromNodes` has to name extended resources")
            .hint("write a resource, or a list in which a `*` matches any text, such as `[rdma/ib, nvidia.com/rail_*]`")
            .into());
    }
    Ok(names.iter().map(|name| Pattern::new(name)).collect())
}
