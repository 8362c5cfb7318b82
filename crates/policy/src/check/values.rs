//! Mistakes in the values that rules add, and in those of tables: names, amounts, volumes, networks and variables that
//! the API server, a kubelet or NCCL does not accept. Expressions are checked in `expressions`.

pub(super) mod amounts;
pub(super) mod environment;
pub(super) mod literals;
pub(super) mod overlays;
pub(super) mod resource_names;
pub(super) mod tables;
pub(super) mod volumes;
