//! The names that the engine defines for expressions. `crates/engine/src/evaluate/scope.rs` gives them their values, and
//! `docs/policy.md` describes them.

use crate::schema::{self, Format};

use super::phase::{Names, Phase};
use crate::expression::types::{Kind, Member, Texts, Type};

/// The label that identifies the launcher among the pods of a Kubeflow job.
pub const JOB_ROLE: &str = "training.kubeflow.org/job-role";

/// A name that the engine defines.
#[derive(Debug)]
pub struct BuiltIn {
    pub name: &'static str,
    pub phase: Phase,
    /// The type of its value, for a policy with these resources of GPUs.
    pub(crate) of: fn(&[String]) -> Type,
}

const fn new(name: &'static str, phase: Phase, of: fn(&[String]) -> Type) -> BuiltIn {
    BuiltIn { name, phase, of }
}

pub const BUILT_IN: &[BuiltIn] = &[
    new("node", Phase::Fixed, |_| Type::map(Type::from_kind(Kind::String(Texts::LowerCase)))),
    new("pod", Phase::Pod, |_| Type::object(schema::pod())),
    // Not `namespace`, which is a reserved word of CEL.
    new("podNamespace", Phase::Pod, |_| Type::formatted(Format::DnsLabel)),
    new("hostNetwork", Phase::Pod, |_| Type::bool()),
    new("totalGpus", Phase::Pod, |_| Type::int()),
    new("claimNames", Phase::Pod, |_| Type::list(Type::string())),
    new("claimClasses", Phase::Pod, |_| Type::list(Type::string())),
    new("ownDevices", Phase::Pod, |_| Type::bool()),
    new("launcher", Phase::Pod, |_| Type::bool()),
    new("gpus", Phase::Container, |_| Type::int()),
    new("gpuCounts", Phase::Container, gpu_counts),
    new("ranks", Phase::Container, |_| Type::bool()),
    new("hasDevice", Phase::Container, |_| Type::bool()),
    new("container", Phase::Container, |_| Type::object(schema::container())),
    new("podRequests", Phase::Injected, |_| Type::map(Type::int())),
];

fn gpu_counts(gpu_resources: &[String]) -> Type {
    let counts = gpu_resources.iter().map(String::as_str).chain(["claims"]);
    let counts = counts.map(|key| Member { key: key.to_owned(), value: Type::int() });
    Type::from_kind(Kind::Record(counts.collect()))
}

impl Names {
    pub(crate) fn built_in() -> Self {
        Self::new(BUILT_IN.iter().map(|known| (known.name.to_owned(), known.phase)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_a_row_for_each_name() {
        let page = include_str!("../../../../docs/policy.md");
        let (_, table) = page.split_once("| name | in | value |\n|---|---|---|\n").unwrap();
        let rows: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
        // The first row is that of parameters and variables, the last one that of a function.
        for (row, known) in rows[1..rows.len() - 1].iter().zip(BUILT_IN) {
            let place = match known.phase {
                Phase::Fixed | Phase::Pod => "everywhere",
                Phase::Container => "`containers`, `env`, `container`",
                Phase::Injected => {
                    "`pod` except for its containers, volumes and resourceClaims; `checks` of the pod"
                }
            };
            assert!(row.starts_with(&format!("| `{}` | {place} | ", known.name)), "{row}");
        }
        assert_eq!(rows.len() - 2, BUILT_IN.len());
    }
}
