//! The fields of a container that have rules of their own: environment variables, mounts, resources and capabilities.
//! Each module merges one kind of value into a container, by the rules of the API server and the kubelet. Fields
//! without rules of their own are in `fields`, and the volumes behind the mounts in `volumes`.

mod env;
mod mounts;
mod resources;
mod security;

pub(super) use env::{merge as env, name_of};
pub(super) use mounts::merge as mounts;
pub(super) use resources::merge as amounts;
pub(super) use security::{merge as capabilities, warn_without_root};
