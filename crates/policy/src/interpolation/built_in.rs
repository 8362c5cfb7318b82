//! The names that the engine defines for expressions. `crates/engine/src/evaluate/scope.rs` gives them their values, and
//! `docs/policy.md` describes them.

use crate::schema::{self, Format, Shape};

use super::phase::Phase;

/// The label that identifies the launcher among the pods of a Kubeflow job.
pub const JOB_ROLE: &str = "training.kubeflow.org/job-role";

/// The name of a variable's value in a check of it.
pub const VALUE: &str = "value";

/// A name that the engine defines.
#[derive(Debug)]
pub struct BuiltIn {
    pub name: &'static str,
    pub phase: Phase,
    /// The values that it may have.
    pub(crate) shape: fn() -> Shape,
}

const fn new(name: &'static str, phase: Phase, shape: fn() -> Shape) -> BuiltIn {
    BuiltIn { name, phase, shape }
}

const TEXT: Shape = Shape::Text(Format::Any);
const NUMBER: Shape = Shape::Integer(0, i64::MAX);
const TEXTS: Shape = Shape::List { items: &TEXT, keys: None };
const NUMBERS: Shape = Shape::Map { keys: Format::Any, values: &NUMBER };
const TEXTS_BY_NAME: Shape = Shape::Map { keys: Format::Any, values: &TEXT };

/// The names of objects of the cluster, whose keys and values differ from pod to pod.
pub const OBJECTS: [&str; 4] = ["pod", "container", "containerEnv", "node"];

pub const BUILT_IN: &[BuiltIn] = &[
    new("node", Phase::Fixed, || TEXTS_BY_NAME),
    new("pod", Phase::Pod, || Shape::Object(schema::pod())),
    // Not `namespace`, which is a reserved word of CEL (cel-spec, `doc/langdef.md`).
    new("podNamespace", Phase::Pod, || Shape::Text(Format::DnsLabel)),
    new("hostNetwork", Phase::Pod, || Shape::Boolean),
    new("totalGpus", Phase::Pod, || NUMBER),
    new("claimNames", Phase::Pod, || TEXTS),
    new("claimClasses", Phase::Pod, || TEXTS),
    new("ownDevices", Phase::Pod, || Shape::Boolean),
    new("launcher", Phase::Pod, || Shape::Boolean),
    new("gpus", Phase::Container, || NUMBER),
    new("gpuCounts", Phase::Container, || NUMBERS),
    new("ranks", Phase::Container, || Shape::Boolean),
    new("hasDevice", Phase::Container, || Shape::Boolean),
    new("container", Phase::Container, || Shape::Object(schema::container())),
    new("containerEnv", Phase::Container, || TEXTS_BY_NAME),
    new("podRequests", Phase::Injected, || NUMBERS),
];

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
                    "`pod`, but not its containers, volumes and resourceClaims; checks without `env` and `containers`"
                }
            };
            assert!(row.starts_with(&format!("| `{}` | {place} | ", known.name)), "{row}");
        }
        assert_eq!(rows.len() - 2, BUILT_IN.len());
    }
}
