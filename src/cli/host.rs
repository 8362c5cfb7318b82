//! The commands that need a cluster, random numbers or a shell. A program in WebAssembly has none of them.

mod certs;
mod check;
mod cluster;
pub(super) mod completions;
mod man;
mod manifests;
mod nccl_test;
mod nodes;
pub(super) mod serve;

use clap::Subcommand;

use super::ExitStatus;
use super::output::Output;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Certs(certs::Arguments),
    Check(check::Arguments),
    Nodes(nodes::Arguments),
    NcclTest(nccl_test::Arguments),
    Manifests(manifests::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

impl Command {
    pub(super) fn run(&self, output: &mut Output) -> anyhow::Result<ExitStatus> {
        match self {
            Self::Certs(arguments) => certs::run(arguments, output),
            Self::Check(arguments) => check::run(arguments, output),
            Self::Nodes(arguments) => nodes::run(arguments, output),
            Self::NcclTest(arguments) => nccl_test::run(arguments, output),
            Self::Manifests(arguments) => manifests::run(arguments, output),
            Self::Completions(arguments) => completions::run(arguments, output),
            Self::Man(arguments) => man::run(arguments, output),
        }
    }
}
