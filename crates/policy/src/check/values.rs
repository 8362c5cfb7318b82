//! Mistakes in the values that rules add, and in those of tables: names, amounts, volumes, networks and variables that are
//! not what the API server, a kubelet or NCCL reads. No expression is tried here; that is done in `expressions`.

pub(super) mod amounts;
pub(super) mod environment;
pub(super) mod literals;
pub(super) mod overlays;
pub(super) mod resource_names;
pub(super) mod tables;
pub(super) mod volumes;
