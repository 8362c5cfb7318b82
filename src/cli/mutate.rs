//! `fabric-injector mutate`: the engine over manifests, as a dry run.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::manifest::stream::{Piece, Pieces};
use crate::manifest::{self, Document, Served, Wanted};
use crate::policy_set::PolicySet;

use super::Status;
use super::output::Output;
use super::render::{self, Before, Format};
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
    let mut run = Run { arguments, policies: &policies, output, status: Status::Done, before: FIRST };
    let default = ["-".to_owned()];
    let files = if arguments.files.is_empty() { &default[..] } else { &arguments.files };
    for file in files {
        run.source(file)?;
    }
    Ok(run.status)
}

/// How much of a stream is worked on at a time: enough to keep all processors busy, little enough to hold.
const MAX_BATCH: usize = 256;
const MAX_BATCH_BYTES: usize = 1024 * 1024;

/// One run of the command.
struct Run<'a> {
    arguments: &'a Arguments,
    policies: &'a PolicySet,
    output: &'a mut Output,
    status: Status,
    /// What was put out so far.
    before: Before,
}

const FIRST: Before = Before { nothing: true, json: false, line_ended: true };

/// A document on its way through, before anything of it is written.
enum Processed {
    Served(Box<ServedDocument>),
    Bad(String),
}

/// A document that was served.
struct ServedDocument {
    object: String,
    document: Document,
    /// The document as it was, for the forms that show it.
    before: Option<Value>,
    served: Served,
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

    /// Serves the documents of a stream, some at a time on all processors, and puts them out in their order.
    fn stream(&mut self, name: &str, reader: impl BufRead) -> anyhow::Result<()> {
        let mut pieces = Pieces::new(reader).peekable();
        let mut number = 0;
        while pieces.peek().is_some() {
            let mut batch = Vec::new();
            let mut failure = None;
            let mut bytes = 0;
            while batch.len() < MAX_BATCH && bytes < MAX_BATCH_BYTES {
                match pieces.next() {
                    Some(Ok(piece)) => {
                        bytes += piece.bytes.len();
                        batch.push(piece);
                    }
                    Some(Err(error)) => failure = Some(error),
                    None => {}
                }
                if failure.is_some() || pieces.peek().is_none() {
                    break;
                }
            }
            for (piece, processed) in batch.iter().zip(self.process_all(&batch)) {
                number += 1;
                self.finish(name, number, piece, processed)?;
            }
            if let Some(error) = failure {
                number += 1;
                self.bad(&format!("{name}: document {number}: {error}"));
            }
        }
        Ok(())
    }

    fn process_all(&self, batch: &[Piece]) -> Vec<Processed> {
        let (arguments, policies) = (self.arguments, self.policies);
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        // A thread costs about as much as a few documents.
        let share = batch.len().div_ceil(threads).max(16);
        if batch.len() <= share {
            return batch.iter().map(|piece| process(arguments, policies, piece)).collect();
        }
        thread::scope(|scope| {
            let work = |pieces| {
                scope.spawn(move || -> Vec<Processed> {
                    <[Piece]>::iter(pieces).map(|piece| process(arguments, policies, piece)).collect()
                })
            };
            let workers: Vec<_> = batch.chunks(share).map(work).collect();
            workers
                .into_iter()
                .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    }

    fn finish(
        &mut self,
        file: &str,
        number: usize,
        piece: &Piece,
        processed: Processed,
    ) -> anyhow::Result<()> {
        match processed {
            Processed::Bad(message) => self.bad(&format!("{file}: document {number}: {message}")),
            Processed::Served(processed) => {
                let ServedDocument { object, document, before, served } = *processed;
                self.put_out(
                    &format!("{file}, document {number}"),
                    piece,
                    &document,
                    before.as_ref(),
                    &served,
                )?;
                self.report(Place { file, document: number, object: &object }, &served);
            }
        }
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
            (format, _) => {
                let (json, bytes) = render::document(format, piece, document, served, self.before);
                if let Some(last) = bytes.last() {
                    self.before = Before { nothing: false, json, line_ended: *last == b'\n' };
                }
                bytes
            }
        };
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
                    for line in report::human(place, template) {
                        self.output.message(&line);
                    }
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

/// Reads and serves one document. Knows nothing of the other ones.
fn process(arguments: &Arguments, policies: &PolicySet, piece: &Piece) -> Processed {
    let mut document = match Document::read(piece) {
        Ok(document) => document,
        Err(error) => return Processed::Bad(error.to_string()),
    };
    let object = document.value.as_ref().map(object_name).unwrap_or_default();
    let before = match arguments.output {
        Some(Format::Diff | Format::Review) => document.value.clone(),
        _ => None,
    };
    let wanted = Wanted {
        patches: matches!(arguments.output, Some(Format::Patch | Format::Review)),
        summary: !arguments.quiet,
    };
    match manifest::serve(policies, &mut document, piece, wanted) {
        Ok(served) => Processed::Served(Box::new(ServedDocument { object, document, before, served })),
        Err(error) => Processed::Bad(error.to_string()),
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
    .replace(char::is_control, " ")
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
        let is_manifest =
            file.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known));
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
