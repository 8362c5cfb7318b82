//! `fabric-injector mutate`: the engine over manifests, as a dry run.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::manifest::stream::{Piece, Pieces};
use crate::manifest::{self, Document, DocumentError, Keep, Served};
use crate::policy_set::PolicySet;

use super::Status;
use super::output::Output;
use super::render::{self, Format};
use super::report::{self, Place};
use super::selection::Selection;

/// Serve the pods of manifests as the webhook would, and print the result
#[derive(Debug, Args)]
#[command(after_long_help = "Exit status: 0 done, whether or not anything changed; 1 a pod was refused; \
    2 bad usage, input or policy.\n\nA document with a refused pod is left out of the output.")]
pub(super) struct Arguments {
    /// A manifest in YAML or JSON, a folder of them, or `-` for standard input (the default); may be given
    /// several times
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-")]
    files: Vec<String>,
    #[command(flatten)]
    selection: Selection,
    /// The form of the output; without it, each document in the form that it came in
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    /// The form of the report on standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    report: ReportFormat,
    /// No report
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Status> {
    let policies = arguments.selection.load()?;
    let mut run = Run { arguments, policies: &policies, output, status: Status::Done, first: true };
    let default = ["-".to_owned()];
    let files = if arguments.files.is_empty() { &default[..] } else { &arguments.files };
    for file in files {
        run.source(file)?;
    }
    Ok(run.status)
}

/// One run of the command.
struct Run<'a> {
    arguments: &'a Arguments,
    policies: &'a PolicySet,
    output: &'a mut Output,
    status: Status,
    /// Whether nothing was put out yet.
    first: bool,
}

impl Run<'_> {
    fn source(&mut self, name: &str) -> anyhow::Result<()> {
        if name == "-" {
            return self.stream("stdin", io::stdin().lock());
        }
        match files_of(Path::new(name)) {
            Ok(files) => {
                for file in files {
                    let name = file.display().to_string();
                    match File::open(&file) {
                        Ok(opened) => self.stream(&name, BufReader::with_capacity(64 * 1024, opened))?,
                        Err(error) => self.bad(&format!("{name}: cannot be read: {error}")),
                    }
                }
            }
            Err(error) => self.bad(&format!("{error:#}")),
        }
        Ok(())
    }

    fn stream(&mut self, name: &str, reader: impl BufRead) -> anyhow::Result<()> {
        for (at, piece) in Pieces::new(reader).enumerate() {
            let number = at + 1;
            match piece {
                Ok(piece) => self.piece(name, number, &piece)?,
                Err(error) => self.bad(&format!("{name}: document {number}: {error}")),
            }
        }
        Ok(())
    }

    fn piece(&mut self, file: &str, number: usize, piece: &Piece) -> anyhow::Result<()> {
        let fail = |error: DocumentError| format!("{file}: document {number}: {error}");
        let mut document = match Document::read(piece) {
            Ok(document) => document,
            Err(error) => {
                self.bad(&fail(error));
                return Ok(());
            }
        };
        let object = document.value.as_ref().map(object_name).unwrap_or_default();
        // Only these two need the document as it was.
        let as_it_was = matches!(self.arguments.output, Some(Format::Diff | Format::Review));
        let before = if as_it_was { document.value.clone() } else { None };
        let patches = matches!(self.arguments.output, Some(Format::Patch | Format::Review));
        let keep = if patches { Keep::Pods } else { Keep::Document };
        let served = match manifest::serve(self.policies, &mut document, piece, keep) {
            Ok(served) => served,
            Err(error) => {
                self.bad(&fail(error));
                return Ok(());
            }
        };
        self.put_out(&format!("{file}, document {number}"), piece, &document, before.as_ref(), &served)?;
        self.report(Place { file, document: number, object: &object }, &served);
        Ok(())
    }

    fn put_out(
        &mut self,
        name: &str,
        piece: &Piece,
        document: &Document,
        before: Option<&Value>,
        served: &Served,
    ) -> anyhow::Result<()> {
        let null = Value::Null;
        let bytes = match (self.arguments.output, &served.value) {
            (Some(Format::Review), _) => render::review(before.unwrap_or(&null), served),
            _ if served.refused() => Vec::new(),
            (Some(Format::Patch), Some(_)) => render::patch(served),
            (Some(Format::Diff), Some(after)) => {
                render::diff(name, before.unwrap_or(&null), after, Output::data_has_colour())
            }
            (Some(Format::Patch | Format::Diff), None) => Vec::new(),
            (format, _) => render::document(format, piece, document, served, self.first),
        };
        self.first &= bytes.is_empty();
        self.output.data(&bytes)
    }

    fn report(&mut self, place: Place<'_>, served: &Served) {
        for template in &served.templates {
            if served.refused() {
                self.status = self.status.max(Status::Refused);
            }
            if manifest::is_bad_input(&template.mutation) {
                self.status = Status::Bad;
            }
            if self.arguments.quiet {
                continue;
            }
            match self.arguments.report {
                ReportFormat::Text => {
                    report::human(place, template).iter().for_each(|line| self.output.message(line));
                }
                ReportFormat::Json => self.output.message(&report::machine(place, template)),
            }
        }
    }

    /// Tells of bad input and goes on with the next document.
    fn bad(&mut self, message: &str) {
        self.status = Status::Bad;
        self.output.error(&anyhow::anyhow!("{message}"));
    }
}

/// `Job/train`, from whatever the document says of itself.
fn object_name(document: &Value) -> String {
    let kind = document["kind"].as_str().unwrap_or("object");
    let metadata = &document["metadata"];
    match metadata["name"].as_str().or_else(|| metadata["generateName"].as_str()) {
        Some(name) => format!("{kind}/{name}"),
        None => kind.to_owned(),
    }
}

/// A file, or the manifests directly in a folder, by name.
fn files_of(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let shown = path.display();
    let kind = fs::metadata(path).with_context(|| format!("{shown} cannot be read"))?;
    if !kind.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).with_context(|| format!("{shown} cannot be read"))? {
        let file = entry.with_context(|| format!("{shown} cannot be read"))?.path();
        let is_manifest = file.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known));
        if is_manifest && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        anyhow::bail!("{shown} has no file that ends in .yaml, .yml or .json");
    }
    Ok(files)
}
