//! `fabric-injector diagnose`: which network a job used, by the logs of its pods.

use std::fs::File;
use std::io::{self, Read};

use anyhow::Context;
use clap::Args;

use crate::core::diagnosis::{Diagnosis, Knowledge, Log, Verdict, text};

use super::ExitStatus;
use super::output::{Format, Output};

/// The bytes that are read at once.
const BLOCK: usize = 256 << 10;

/// Say which network a job uses, from the logs of its pods, and what to change. The exit status is 0 on the fabric, 1
/// elsewhere, 3 if the logs do not say it
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A log, or `-` for standard input (the default): of any pods of a job, in any order, with or without the prefixes
    /// of `kubectl logs --prefix`, `stern` and container runtimes
    #[arg(value_name = "FILE|-")]
    files: Vec<String>,
    /// The form of the report
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let knowledge = Knowledge::built_in()?;
    let mut log = Log::new(knowledge);
    let default = ["-".to_owned()];
    let files = if arguments.files.is_empty() { &default[..] } else { &arguments.files };
    for name in files {
        if name == "-" {
            read(&mut log, "stdin", io::stdin().lock())?;
            continue;
        }
        let opened = File::open(name).with_context(|| format!("{name} cannot be read"))?;
        read(&mut log, name, opened)?;
    }
    let diagnosis = Diagnosis::of(&mut log, knowledge);
    match arguments.output {
        Format::Text => output.text(&text(&diagnosis))?,
        Format::Json => output.text(&format!("{:#}\n", diagnosis.object()))?,
    }
    Ok(match diagnosis.verdict {
        Verdict::Fabric => ExitStatus::Done,
        Verdict::Unknown => ExitStatus::Unknown,
        Verdict::SingleNode | Verdict::Tcp | Verdict::Mixed | Verdict::Crash => ExitStatus::Refused,
    })
}

fn read(log: &mut Log<'_>, source: &str, mut from: impl Read) -> anyhow::Result<()> {
    log.begin(source);
    let mut block = vec![0; BLOCK];
    loop {
        match from.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(length) => log.read(&block[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).with_context(|| format!("{source} cannot be read")),
        }
    }
}
