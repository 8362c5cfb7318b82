//! `fabric-injector man`: the manual pages.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use clap_mangen::{Man, generate_to};

use crate::cli::ExitStatus;
use crate::cli::output::Output;
use crate::cli::program::Program;

/// Print the manual page, or write that of each command
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder to write a page for each command to, such as `fabric-injector-mutate.1`
    #[arg(long = "dir", value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let command = Program::Own.command();
    if let Some(folder) = &arguments.folder {
        let failed = || format!("the pages cannot be written to {}", folder.display());
        fs::create_dir_all(folder).with_context(failed)?;
        generate_to(command, folder).with_context(failed)?;
    } else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        output.data(&page)?;
    }
    Ok(ExitStatus::Done)
}
