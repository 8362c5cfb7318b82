//! `fabric-injector mutate`: injects the pods of manifests.

mod exit_policy;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::core::manifest::RawDocument;
use crate::core::manifest::{self, Document, DocumentError, InjectedDocument, Wanted};
use crate::core::policy_set::PolicySet;
use crate::shell::policy_sources::PolicySources;
use crate::shell::stream::RawDocuments;

use super::ExitStatus;
use super::output::Output;
use super::policy_sources::PolicyArguments;
use super::render::{self, Before, Format, Rendered};
use super::report::{self, Failure, Location};
use exit_policy::{ExitPolicyArguments, Verdict};

/// Inject the pods of manifests as the webhook would, and print the result
#[derive(Debug, Args)]
#[command(after_long_help = "Exit status: 0 done, whether or not anything changed; 1 a pod was refused, \
    or `--fail-on` or `--require-mutated` applies; 2 bad usage, input or policy.\n\nA document with a refused pod is left out of the output.")]
pub(super) struct Arguments {
    /// A manifest in YAML or JSON, a folder of them, or `-` for standard input (the default); may be given
    /// several times
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-")]
    files: Vec<String>,
    #[command(flatten)]
    policies: PolicyArguments,
    /// The form of the output; without it, each document in the form that it came in
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    /// Inject also pod templates without the annotation, as if they had it
    #[arg(long)]
    assume_annotated: bool,
    #[command(flatten)]
    exit_policy: ExitPolicyArguments,
    /// The form of the report and the errors on standard error
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

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let policies = match load(arguments) {
        Ok(policies) => policies,
        Err(error) if arguments.report == ReportFormat::Json => {
            output.message(&report::json_error(&Failure::new("bad_usage", format!("{error:#}"))));
            return Ok(ExitStatus::Bad);
        }
        Err(error) => return Err(error),
    };
    let mut run = Run {
        arguments,
        policies: &policies,
        output,
        status: ExitStatus::Done,
        verdict: Verdict::default(),
        before: FIRST,
    };
    let default = ["-".to_owned()];
    let files = if arguments.files.is_empty() { &default[..] } else { &arguments.files };
    for file in files {
        run.source(file)?;
    }
    for (code, message) in run.verdict.failures(&arguments.exit_policy) {
        run.fail(ExitStatus::Refused, &Failure::new(code, message));
    }
    Ok(run.status)
}

fn load(arguments: &Arguments) -> anyhow::Result<PolicySet> {
    let policies = PolicySources::from(arguments.policies.clone()).load()?;
    arguments.exit_policy.validate(&policies)?;
    if arguments.assume_annotated
        && policies.policies().iter().all(|policy| policy.definition().triggers().is_empty())
    {
        anyhow::bail!(
            "--assume-annotated: no policy in use has `match.anyAnnotation`, so that there is no annotation to assume"
        );
    }
    Ok(policies)
}

/// The documents of a stream that are injected at the same time: enough for all processors, few enough for memory.
const MAX_BATCH: usize = 256;
const MAX_BATCH_BYTES: usize = 1024 * 1024;

struct Run<'a> {
    arguments: &'a Arguments,
    policies: &'a PolicySet,
    output: &'a mut Output,
    status: ExitStatus,
    verdict: Verdict,
    /// The end of the output so far.
    before: Before,
}

const FIRST: Before = Before { nothing: true, json: false, line_ended: true };

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
                        Err(error) => self.bad(&Failure {
                            file: Some(&name),
                            ..Failure::new("unreadable_file", format!("cannot be read: {error}"))
                        }),
                    }
                }
            }
            Err(error) => self.bad(&Failure::new("unreadable_file", format!("{error:#}"))),
        }
        Ok(())
    }

    /// Injects the documents of a stream in batches, on all processors, and prints them in their order.
    fn stream(&mut self, name: &str, reader: impl BufRead) -> anyhow::Result<()> {
        let mut documents = RawDocuments::new(reader).peekable();
        let mut number = 0;
        while documents.peek().is_some() {
            let mut batch = Vec::new();
            let mut failure = None;
            let mut bytes = 0;
            while batch.len() < MAX_BATCH && bytes < MAX_BATCH_BYTES {
                match documents.next() {
                    Some(Ok(raw)) => {
                        bytes += raw.bytes.len();
                        batch.push(raw);
                    }
                    Some(Err(error)) => failure = Some(error),
                    None => {}
                }
                if failure.is_some() || documents.peek().is_none() {
                    break;
                }
            }
            for processed in self.process_all(name, number, &batch) {
                self.print(processed)?;
            }
            number += batch.len();
            if let Some(error) = failure {
                number += 1;
                self.bad(&Failure {
                    file: Some(name),
                    document: Some(number),
                    ..Failure::new("bad_document", error.to_string())
                });
            }
        }
        Ok(())
    }

    fn process_all<'f>(&self, file: &'f str, before: usize, batch: &[RawDocument]) -> Vec<Processed<'f>> {
        let work = |(at, raw): (usize, &RawDocument)| {
            process(self.arguments, self.policies, file, before + at + 1, raw)
        };
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        // A thread costs about as much as a few documents.
        let share = batch.len().div_ceil(threads).max(16);
        if batch.len() <= share {
            return batch.iter().enumerate().map(work).collect();
        }
        let numbered: Vec<(usize, &RawDocument)> = batch.iter().enumerate().collect();
        let work = &work;
        thread::scope(|scope| {
            let workers: Vec<_> = numbered
                .chunks(share)
                .map(|share| scope.spawn(move || share.iter().copied().map(work).collect::<Vec<_>>()))
                .collect();
            workers
                .into_iter()
                .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    }

    fn print(&mut self, processed: Processed<'_>) -> anyhow::Result<()> {
        let Processed { rendered, lines, error, status, verdict } = processed;
        let separator = rendered.separator(self.arguments.output, self.before);
        self.output.data(separator)?;
        self.output.data(&rendered.content)?;
        if let Some(last) = rendered.content.last() {
            self.before = Before { nothing: false, json: rendered.json, line_ended: *last == b'\n' };
        }
        for line in lines {
            self.output.message(&line);
        }
        if let Some((file, document, error)) = error {
            let failure = Failure::new("bad_document", error.to_string());
            self.bad(&Failure { file: Some(file), document: Some(document), ..failure });
        }
        self.verdict.add(verdict);
        self.status = self.status.max(status);
        Ok(())
    }

    /// Reports invalid input; the command continues with the next document.
    fn bad(&mut self, failure: &Failure<'_>) {
        self.fail(ExitStatus::Bad, failure);
    }

    fn fail(&mut self, status: ExitStatus, failure: &Failure<'_>) {
        self.status = self.status.max(status);
        match self.arguments.report {
            ReportFormat::Text => self.output.error(&anyhow::anyhow!("{failure}")),
            ReportFormat::Json => self.output.message(&report::json_error(failure)),
        }
    }
}

/// The output for one document.
struct Processed<'a> {
    rendered: Rendered,
    /// The lines of the report.
    lines: Vec<String>,
    /// The reason for which the document could not be processed.
    error: Option<(&'a str, usize, DocumentError)>,
    status: ExitStatus,
    verdict: Verdict,
}

/// Reads, injects and renders one document, independent of the others.
fn process<'a>(
    arguments: &Arguments,
    policies: &PolicySet,
    file: &'a str,
    number: usize,
    raw: &RawDocument,
) -> Processed<'a> {
    let bad = |error: DocumentError| Processed {
        rendered: Rendered::default(),
        lines: Vec::new(),
        error: Some((file, number, error)),
        status: ExitStatus::Bad,
        verdict: Verdict::default(),
    };
    let mut document = match Document::read(raw) {
        Ok(document) => document,
        Err(error) => return bad(error),
    };
    let object = document.value.as_ref().map(object_name).unwrap_or_default();
    let before = match arguments.output {
        Some(Format::Diff | Format::Review) => document.value.clone(),
        _ => None,
    };
    let wanted = Wanted {
        patches: matches!(arguments.output, Some(Format::Patch | Format::Review)),
        summary: !arguments.quiet,
        findings: !arguments.quiet || arguments.exit_policy.reads_findings(),
        assume_annotated: arguments.assume_annotated,
    };
    let injected = match manifest::inject(policies, &mut document, raw, wanted) {
        Ok(injected) => injected,
        Err(error) => return bad(error),
    };
    let location = Location { file, document: number, object: &object };
    let rendered = render(arguments.output, location, raw, &document, before.as_ref(), &injected);
    let mut lines = Vec::new();
    let mut status = if injected.refused() { ExitStatus::Refused } else { ExitStatus::Done };
    for template in &injected.templates {
        if manifest::is_bad_input(&template.mutation) {
            status = ExitStatus::Bad;
        }
        match (arguments.quiet, arguments.report) {
            (true, _) => {}
            (false, ReportFormat::Text) => lines.extend(report::text(location, template)),
            (false, ReportFormat::Json) => lines.push(report::json(location, template)),
        }
    }
    if let Some(message) = injected.podless.as_ref().filter(|_| !arguments.quiet) {
        lines.push(match arguments.report {
            ReportFormat::Text => report::podless_text(location, message),
            ReportFormat::Json => report::podless_json(location, message),
        });
    }
    let verdict = Verdict::of(location, &injected);
    Processed { rendered, lines, error: None, status, verdict }
}

fn render(
    format: Option<Format>,
    location: Location<'_>,
    raw: &RawDocument,
    document: &Document,
    before: Option<&Value>,
    injected: &InjectedDocument,
) -> Rendered {
    let before = before.unwrap_or(&Value::Null);
    let plain = |content| Rendered { content, json: false, marked: true };
    match (format, &injected.value) {
        (Some(Format::Review), _) => plain(render::review(before, injected)),
        _ if injected.refused() => Rendered::default(),
        (Some(Format::Patch), Some(_)) => plain(render::patch(location, injected)),
        (Some(Format::Diff), Some(after)) => {
            let name = format!("{}, document {}", location.file, location.document);
            plain(render::diff(&name, before, after, Output::data_has_colour()))
        }
        (Some(Format::Patch | Format::Diff), None) => Rendered::default(),
        (format, _) => render::document(format, raw, document, injected),
    }
}

/// The kind and name of a document, such as `Job/train`.
fn object_name(document: &Value) -> String {
    let kind = document["kind"].as_str().unwrap_or("object");
    let metadata = &document["metadata"];
    match metadata["name"].as_str().or_else(|| metadata["generateName"].as_str()) {
        Some(name) => format!("{kind}/{name}"),
        None => kind.to_owned(),
    }
    .replace(char::is_control, " ")
}

/// The path itself, or the manifests in a directory, sorted by name and without those of its subdirectories.
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
