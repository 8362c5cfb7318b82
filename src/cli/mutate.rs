//! `fabric-injector mutate`: injects the pods of manifests.

mod document;
mod exit_policy;
mod list;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::ensure;
use clap::Args;

use crate::cluster::ClusterObjects;
use crate::files::{self, files_of};
use crate::policy_sources::PolicySources;
use crate::stream::{RawDocuments, has_content};
use fabric_engine::policy_set::PolicySet;
use fabric_workloads::manifest::{RawDocument, Wanted};

use super::ExitStatus;
use super::diff::{self, FileDiff};
use super::node_options::NodeArguments;
use super::object_files::ObjectsOfInput;
use super::output::{self, Output};
use super::parallel;
use super::parse::namespace;
use super::render::{Before, Format};
use super::report::Failure;
use document::{Content, Processed, Source};
pub(super) use document::{object_name, remedy};
use exit_policy::{ExitPolicyArguments, Verdict};

/// Inject the pods of manifests as the webhook would, and print the result
#[derive(Debug, Args)]
#[command(after_long_help = "Exit status: 0 done, whether or not anything changed; 1 a pod was refused, \
    or `--fail-on` or `--require-mutated` applies; 2 bad usage, input or policy.\n\nA document with a refused pod is left out of the output. With --in-place, a file \
    with one stays as it is.")]
pub(super) struct Arguments {
    /// A manifest in YAML or JSON, a folder of them without its subfolders, or `-` for standard input (the default);
    /// may be given several times
    #[arg(
        short = 'f',
        long = "filename",
        value_name = "FILE|DIR|-",
        default_value = "-",
        hide_default_value = true
    )]
    files: Vec<String>,
    #[command(flatten)]
    policies: PolicySources,
    /// The form of the output; without it, each document keeps its format
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    /// Edit the files that change, and print nothing. Only the lines of changed values are written again; comments
    /// and layout stay
    #[arg(short, long, conflicts_with = "output", requires = "files")]
    in_place: bool,
    /// Also inject pod templates without the annotation, as if they had it
    #[arg(long)]
    assume_annotated: bool,
    /// The namespace of objects that do not name one [default: `default`]
    #[arg(short, long, value_name = "NAME", value_parser = namespace)]
    namespace: Option<String>,
    #[command(flatten)]
    nodes: NodeArguments,
    #[command(flatten)]
    exit_policy: ExitPolicyArguments,
    /// The form of the report and the errors on standard error; as JSON, each line is an object
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    report: output::Format,
    /// No report
    #[arg(short, long)]
    quiet: bool,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let (policies, remarks, objects) = match load(arguments) {
        Ok(loaded) => loaded,
        Err(error) if arguments.report == output::Format::Json => {
            output.message(&Failure::new("bad_usage", format!("{error:#}")).json("error"));
            return Ok(ExitStatus::Bad);
        }
        Err(error) => return Err(error),
    };
    let files = &arguments.files;
    let mut run = Documents {
        arguments,
        policies: &policies,
        wanted: document::wanted(arguments, objects.as_ref().map(|objects| &objects.nodes)),
        objects: ObjectsOfInput::new(objects.as_ref(), files, arguments.namespace.as_deref()),
        output,
        status: ExitStatus::Done,
        verdict: Verdict::default(),
        target: Target::Output(Before::NOTHING),
        names: None,
    };
    for remark in &remarks {
        run.warn("not_a_policy", None, remark);
    }
    for reason in objects.iter().flat_map(|objects| &objects.unread) {
        run.warn("claims_unread", None, &format!("names decide about claims: {reason}"));
    }
    if arguments.output == Some(Format::Diff) {
        let files: Vec<PathBuf> =
            files.iter().filter_map(|file| files_of(Path::new(file)).ok()).flatten().collect();
        run.names = Some(diff::Names::new(&files));
    }
    for file in files {
        run.source(file)?;
    }
    if let Some(message) = run.names.as_ref().and_then(diff::Names::elsewhere) {
        run.warn("diff_root", None, &message);
    }
    for (code, message) in run.verdict.failures(&arguments.exit_policy) {
        run.fail(ExitStatus::Refused, &Failure::new(code, message));
    }
    Ok(run.status)
}

/// Loads the policies, with remarks about other files, and the nodes and claims, and fails for options that do not fit them or
/// each other.
fn load(arguments: &Arguments) -> anyhow::Result<(Arc<PolicySet>, Vec<String>, Option<ClusterObjects>)> {
    ensure!(
        !arguments.in_place || arguments.files.iter().all(|file| file != "-"),
        "`--in-place` edits files, and `-` is standard input"
    );
    let by_nodes = arguments.nodes.are_given();
    let sources = PolicySources { by_nodes, ..arguments.policies.clone() }.read_once()?;
    let policies = sources.compile_once()?;
    arguments.exit_policy.validate(&policies)?;
    ensure!(
        !arguments.assume_annotated || !policies.triggers().is_empty(),
        "--assume-annotated: no policy in use has `match.anyAnnotation`, so there is no annotation to assume"
    );
    let objects = arguments.nodes.read(arguments.files.iter().any(|file| file == "-"))?;
    Ok((policies, sources.notes, objects))
}

/// The documents of a stream that are injected at the same time: enough for all processors, few enough for memory.
const MAX_BATCH: usize = 256;
const MAX_BATCH_BYTES: usize = 1024 * 1024;

struct Documents<'a> {
    arguments: &'a Arguments,
    policies: &'a PolicySet,
    wanted: Wanted<'a>,
    objects: ObjectsOfInput<'a>,
    output: &'a mut Output,
    status: ExitStatus,
    verdict: Verdict,
    target: Target,
    /// The names in a diff.
    names: Option<diff::Names>,
}

/// The destination of the documents.
enum Target {
    /// Printed. The end of the output so far decides how the next one follows.
    Output(Before),
    Diff(FileDiff),
    File {
        before: Vec<u8>,
        content: Vec<u8>,
        /// True if a document differs from the one in the file.
        changed: bool,
        /// True if each document so far was read, and no pod in it was refused.
        complete: bool,
    },
}

impl Documents<'_> {
    fn source(&mut self, name: &str) -> anyhow::Result<()> {
        if name == "-" {
            self.start_diff(b"stdin".to_vec());
            return self.stream("stdin", io::stdin().lock());
        }
        match files_of(Path::new(name)) {
            Ok(files) => {
                let folder = Some(Path::new(name)).filter(|folder| folder.is_dir());
                for file in files {
                    self.file(&file, folder)?;
                }
            }
            Err(error) => self.bad(&Failure::new("unreadable_file", format!("{error:#}"))),
        }
        Ok(())
    }

    /// Injects a file, which was named itself or found in a folder.
    fn file(&mut self, path: &Path, folder: Option<&Path>) -> anyhow::Result<()> {
        let name = path.display().to_string();
        let failure = |code, message| Failure { file: Some(&name), ..Failure::new(code, message) };
        if self.arguments.in_place {
            if !path.is_file() {
                self.bad(&failure("unreadable_file", "is not a regular file".to_owned()));
                return Ok(());
            }
            self.target =
                Target::File { before: Vec::new(), content: Vec::new(), changed: false, complete: true };
        }
        if let Some(names) = &mut self.names {
            let Some(name_in_diff) = names.name(path) else {
                self.warn("repeated_file", Some(&name), "is a file that the diff has already");
                return Ok(());
            };
            self.start_diff(name_in_diff);
        }
        match File::open(path) {
            Ok(opened) => self.stream(&name, BufReader::with_capacity(64 * 1024, opened))?,
            Err(error) => self.bad(&failure("unreadable_file", format!("cannot be read: {error}"))),
        }
        match &self.target {
            Target::File { before, content, changed: true, complete: true } => {
                if let Err(error) = files::replace(path, folder, before, content) {
                    self.bad(&failure("unwritable_file", format!("cannot be written: {error}")));
                }
            }
            Target::File { complete: false, changed, .. } if !self.arguments.quiet => {
                let what = if *changed { "stays as it is, without these changes" } else { "stays as it is" };
                let failure = failure("file_not_edited", what.to_owned());
                self.output.message(&match self.arguments.report {
                    output::Format::Text => failure.to_string(),
                    output::Format::Json => failure.json("error"),
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn start_diff(&mut self, name: Vec<u8>) {
        if self.names.is_some() {
            self.target = Target::Diff(FileDiff::new(name, Output::data_has_colour()));
        }
    }

    fn warn(&mut self, code: &'static str, file: Option<&str>, message: &str) {
        let failure = Failure { file, ..Failure::new(code, message.to_owned()) };
        self.output.message(&failure.warning(self.arguments.report));
    }

    /// Injects the documents of a stream in batches, on all processors, and prints them in their order.
    fn stream(&mut self, name: &str, reader: impl BufRead) -> anyhow::Result<()> {
        let (mut is_empty, mut number, mut batch, mut bytes) = (true, 0, Vec::new(), 0);
        for document in RawDocuments::new(reader) {
            match document {
                Ok(raw) => {
                    is_empty = is_empty && !has_content(&raw);
                    bytes += raw.bytes.len();
                    batch.push(raw);
                    if batch.len() == MAX_BATCH || bytes >= MAX_BATCH_BYTES {
                        self.inject(name, &mut number, &mut batch)?;
                        bytes = 0;
                    }
                }
                Err(error) => {
                    is_empty = false;
                    self.inject(name, &mut number, &mut batch)?;
                    number += 1;
                    self.bad(&Failure::new("bad_document", error.to_string()).at(name, number));
                }
            }
        }
        self.inject(name, &mut number, &mut batch)?;
        if let Target::Diff(diff) = &mut self.target {
            let rest = diff.finish();
            self.output.data(&rest)?;
        }
        if is_empty {
            self.warn("no_document", Some(name), "has no document");
        }
        Ok(())
    }

    /// Injects and prints the documents after those so far.
    fn inject(&mut self, name: &str, number: &mut usize, batch: &mut Vec<RawDocument>) -> anyhow::Result<()> {
        self.objects.add(&*batch);
        for (processed, raw) in self.process_all(name, *number, batch).into_iter().zip(&*batch) {
            self.print(processed, raw)?;
        }
        *number += batch.len();
        batch.clear();
        Ok(())
    }

    fn process_all<'f>(&self, file: &'f str, before: usize, batch: &[RawDocument]) -> Vec<Processed<'f>> {
        let Self { arguments, policies, .. } = *self;
        let wanted = Wanted { objects: self.objects.known.as_ref(), ..self.wanted };
        let source = Source { arguments, policies, wanted, file };
        let numbered: Vec<(usize, &RawDocument)> = batch.iter().enumerate().collect();
        // A thread costs about as much as a few documents.
        parallel::map(&numbered, 16, |(at, raw)| {
            let number = before + at + 1;
            list::process(source, number, raw).unwrap_or_else(|| document::process(source, number, raw))
        })
    }

    fn print(&mut self, processed: Processed<'_>, raw: &RawDocument) -> anyhow::Result<()> {
        let Processed { content, lines, error, status, verdict } = processed;
        match (&mut self.target, content) {
            (Target::Output(before), Content::Rendered(rendered)) => {
                let content = if before.nothing { &rendered.content } else { rendered.later(raw) };
                self.output.data(rendered.separator(self.arguments.output, *before))?;
                self.output.data(content)?;
                *before = rendered.before(*before);
            }
            (Target::Diff(diff), content) => {
                diff.skip_to(raw.line);
                let part = diff.document(&raw.bytes, content.edited().unwrap_or(&raw.bytes));
                self.output.data(&part)?;
            }
            (Target::File { before, content: file, changed, complete }, content) => {
                before.extend_from_slice(&raw.bytes);
                *complete &= status == ExitStatus::Done;
                *changed |= content.edited().is_some();
                file.extend_from_slice(content.edited().unwrap_or(&raw.bytes));
            }
            (Target::Output(_), Content::Edited(_)) => {}
        }
        for line in lines {
            self.output.message(&line);
        }
        if let Some(failure) = error {
            self.bad(&failure);
        }
        self.verdict.add(verdict);
        self.status = self.status.max(status);
        Ok(())
    }

    /// Reports invalid input; the command continues with the next document.
    fn bad(&mut self, failure: &Failure<'_>) {
        if let Target::File { complete, .. } = &mut self.target {
            *complete = false;
        }
        self.fail(ExitStatus::Bad, failure);
    }

    fn fail(&mut self, status: ExitStatus, failure: &Failure<'_>) {
        self.status = self.status.max(status);
        match self.arguments.report {
            output::Format::Text => self.output.failure(&failure.to_string(), failure.hint),
            output::Format::Json => self.output.message(&failure.json("error")),
        }
    }
}
