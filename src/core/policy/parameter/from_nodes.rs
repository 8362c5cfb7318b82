//! `fromNodes` of a parameter: its value follows from what the nodes offer that a pod can be scheduled to.

use serde_json::{Number, Value};

use crate::core::nodes::NodeKind;
use crate::core::yaml::Node;

use crate::core::policy::matcher::Pattern;
use crate::core::policy::parameter::ParameterType;
use crate::core::policy::source::reader::{self, Fields};
use crate::core::policy::source::{Checked, Diagnostic};

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
    /// The names of all resources, with numbers in their order.
    Names,
    /// The number of these names divided by the GPUs of a node.
    NamesPerGpu,
}

const FACTS: [(&str, Fact); 4] = [
    ("ratio", Fact::Ratio),
    ("name", Fact::Name),
    ("names", Fact::Names),
    ("namesPerGPU", Fact::NamesPerGpu),
];

impl FromNodes {
    pub(crate) fn read(node: &Node) -> Checked<Self> {
        let mut fields = Fields::of(node, "`fromNodes`")?;
        let facts = FACTS.map(|(key, fact)| (fact, fields.optional(key, read_resources)));
        fields.finish()?;
        let mut read = Vec::new();
        for (fact, resources) in facts {
            read.extend(resources?.map(|resources| Self { fact, resources }));
        }
        match (read.pop(), read.is_empty()) {
            (Some(one), true) => Ok(one),
            _ => Err(Diagnostic::new(
                node.span,
                "`fromNodes` has to have one of `ratio`, `name`, `names` and `namesPerGPU`",
            )
            .hint("write `ratio: RESOURCE` for devices by GPU, or `name: [RESOURCE, …]` for its name")
            .into()),
        }
    }

    /// The facts that a parameter of a type can have.
    pub(in crate::core) fn facts_of(kind: ParameterType) -> impl Iterator<Item = &'static str> {
        let fits = move |fact: Fact| match kind {
            ParameterType::Any => true,
            ParameterType::Number | ParameterType::Integer => {
                matches!(fact, Fact::Ratio | Fact::NamesPerGpu)
            }
            ParameterType::String => fact == Fact::Name,
            ParameterType::StringList => fact == Fact::Names,
            _ => false,
        };
        FACTS.into_iter().filter(move |(_, fact)| fits(*fact)).map(|(key, _)| key)
    }

    /// The key of the fact.
    pub(crate) fn key(&self) -> &'static str {
        FACTS.iter().find(|(_, fact)| *fact == self.fact).map_or("", |(key, _)| key)
    }

    /// Returns whether the parameter looks for a resource of this name.
    pub(crate) fn looks_for(&self, resource: &str) -> bool {
        self.resources.iter().any(|pattern| pattern.matches(resource))
    }

    /// The value for one kind of node; `None` if it offers no such resource.
    pub(crate) fn of_kind(&self, kind: &NodeKind) -> Option<Value> {
        let names = |pattern: &Pattern| kind.resources.keys().filter(|name| pattern.matches(name)).count();
        let pattern = self.resources.iter().find(|pattern| names(pattern) > 0)?;
        let mut offered = kind.resources.iter().filter(|(name, _)| pattern.matches(name));
        match self.fact {
            Fact::Name => {
                let (name, _) = offered.next()?;
                // Of several, none is the one to request.
                offered.next().is_none().then(|| Value::from(name.as_str()))
            }
            Fact::Names => {
                let mut names: Vec<&str> = offered.map(|(name, _)| name.as_str()).collect();
                names.sort_by_cached_key(|name| numbered(name));
                Some(names.into())
            }
            Fact::Ratio => by_gpu(offered.map(|(_, count)| count).sum(), kind.gpus),
            Fact::NamesPerGpu => by_gpu(i64::try_from(offered.count()).ok()?, kind.gpus),
        }
    }
}

/// A number of a node divided by its GPUs; `None` without GPUs.
fn by_gpu(number: i64, gpus: i64) -> Option<Value> {
    if number.checked_rem(gpus)? == 0 {
        return Some(Value::from(number / gpus));
    }
    #[expect(clippy::cast_precision_loss, reason = "a node has fewer than 2^52 devices")]
    Number::from_f64(number as f64 / gpus as f64).map(Value::Number)
}

/// The texts of a name, each with the number after it, so that `rail_2` precedes `rail_10`.
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
