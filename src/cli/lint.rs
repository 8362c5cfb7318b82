//! `fabric-injector lint`: the outcome for the pods of workloads, and the changes to make.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use crate::files::files_of;
use crate::policy_sources::PolicySources;
use crate::stream::{RawDocuments, has_content};
use fabric_allocator::held;
use fabric_engine::policy_set::PolicySet;
use fabric_policy::{Effect, Policy};
use fabric_tools::lint::{Across, Finding, Level, Lines, codes, lint};
use fabric_workloads::manifest::{Document, DocumentError, RawDocument, Wanted};
use fabric_yaml::counted;
use fabric_yaml::escape;

use super::ExitStatus;
use super::fail_on::{FindingArguments, FindingFormat};
use super::mutate::{object_name, remedy};
use super::node_options::NodeArguments;
use super::object_files::ObjectsOfInput;
use super::output::Output;
use super::parse::namespace;
use super::policy::formats::{sarif_log, sarif_result, workflow_command};

/// Report what happens to the pods of workloads, and what to change. The exit status is 2 for errors, 1 for warnings
/// with `--fail-on-warning` or `--fail-on`, else 0
#[derive(Debug, Args)]
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
    #[command(flatten)]
    nodes: NodeArguments,
    /// The namespace of objects that do not name one [default: `default`]
    #[arg(short, long, value_name = "NAME", value_parser = namespace)]
    namespace: Option<String>,
    #[command(flatten)]
    findings: FindingArguments,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let by_nodes = arguments.nodes.are_given() || arguments.policies.are_empty();
    let sources = PolicySources { by_nodes, ..arguments.policies.clone() }.read_once()?;
    let policies = sources.compile_once()?;
    let fail_on = arguments.findings.fail_on.given();
    let of_policies = policies
        .policies()
        .iter()
        .map(Policy::definition)
        .flat_map(|definition| definition.check_codes(&[Effect::Warn, Effect::WarnOfTcp, Effect::Skip]));
    fail_on.map_or(Ok(()), |fail_on| fail_on.validate(of_policies.chain(codes())))?;
    let files = &arguments.files;
    let objects = arguments.nodes.read(files.iter().any(|file| file == "-"))?;
    let namespace = arguments.namespace.as_deref();
    let nodes = objects.as_ref().map(|objects| &objects.nodes);
    for reason in objects.iter().flat_map(|objects| &objects.unread) {
        output.message(&format!("warning: names decide about claims: {reason}"));
    }
    let mut linted = Linted {
        policies: &policies,
        wanted: Wanted { namespace, nodes, held: Some(held), ..Wanted::default() },
        objects: ObjectsOfInput::new(objects.as_ref(), files, namespace),
        is_open: arguments.policies.are_empty() && !arguments.nodes.are_given(),
        found: Vec::new(),
        across: Across::default(),
        empty: Vec::new(),
    };
    for name in files {
        linted.source(name);
    }
    linted.across_documents();
    let Linted { found, empty, .. } = linted;
    let text: String = match arguments.findings.output {
        FindingFormat::Text => found.iter().map(Located::text).collect(),
        FindingFormat::Json => format!("{:#}\n", found.iter().map(Located::object).collect::<Value>()),
        FindingFormat::Sarif => sarif_log(found.iter().map(Located::result)),
        FindingFormat::Github => found.iter().map(Located::command).collect(),
    };
    output.text(&text)?;
    for file in empty {
        output.message(&format!("{file} has no document"));
    }
    let count = |level| found.iter().filter(|located| located.finding.level == level).count();
    let (errors, warnings) = (count(Level::Error), count(Level::Warning));
    output.message(&format!("{} and {}", counted(errors, "error"), counted(warnings, "warning")));
    let counts = |located: &Located| {
        let Finding { level, code, .. } = &located.finding;
        *level == Level::Warning && fail_on.is_some_and(|on| on.counts(code))
    };
    Ok(match errors {
        0 if found.iter().any(counts) => ExitStatus::Warned,
        0 => ExitStatus::Done,
        _ => ExitStatus::Bad,
    })
}

/// The findings so far.
struct Linted<'a> {
    policies: &'a PolicySet,
    wanted: Wanted<'a>,
    objects: ObjectsOfInput<'a>,
    /// True if nothing determines the policy of a pod.
    is_open: bool,
    found: Vec<Located>,
    across: Across<Location>,
    /// The files without a document.
    empty: Vec<String>,
}

/// A field of the input.
#[derive(Clone, Default)]
struct Location {
    file: String,
    line: usize,
    /// The kind and name of the document, such as `Job/train`.
    object: String,
}

impl Linted<'_> {
    fn source(&mut self, name: &str) {
        if name == "-" {
            return self.pipe("stdin", io::stdin().lock());
        }
        let files = match files_of(Path::new(name)) {
            Ok(files) => files,
            Err(error) => return self.bad(name, 1, "unreadable_file", format!("{error:#}")),
        };
        for file in files {
            let shown = file.display().to_string();
            match File::open(&file) {
                Ok(opened) if file.is_file() => self.stream(&shown, BufReader::new(opened)),
                Ok(opened) => self.pipe(&shown, BufReader::new(opened)),
                Err(error) => self.bad(&shown, 1, "unreadable_file", format!("cannot be read: {error}")),
            }
        }
    }

    fn stream(&mut self, file: &str, reader: impl BufRead) {
        let mut is_empty = true;
        for raw in RawDocuments::new(reader) {
            is_empty = is_empty && raw.as_ref().is_ok_and(|raw| !has_content(raw));
            match raw {
                Ok(raw) => self.document(file, &raw),
                Err(error) => self.bad(file, 1, "bad_document", error.to_string()),
            }
        }
        if is_empty {
            self.empty.push(file.to_owned());
        }
    }

    /// Lints what can be read only once, with the claims of all of it.
    fn pipe(&mut self, file: &str, mut reader: impl BufRead) {
        let mut bytes = Vec::new();
        if let Err(error) = reader.read_to_end(&mut bytes) {
            return self.bad(file, 1, "unreadable_file", format!("cannot be read: {error}"));
        }
        self.objects.add(RawDocuments::new(&*bytes).map_while(Result::ok));
        self.stream(file, &*bytes);
    }

    fn document(&mut self, file: &str, raw: &RawDocument) {
        let read = Document::read(raw).map_err(|error| match remedy(&error, raw) {
            None => error,
            Some(hint) => DocumentError { message: format!("{}; {hint}", error.message), ..error },
        });
        let is_open = self.is_open;
        let linted = read.and_then(|mut document| {
            let lines = Lines::new(raw, &document);
            let object = document.value.as_ref().map(object_name).unwrap_or_default();
            let place = |pointer: &str| Location {
                file: file.to_owned(),
                line: lines.line(pointer),
                object: object.clone(),
            };
            let (across, mut has_pods) = (&mut self.across, false);
            let gather = |root: &Value, templates: &[_]| {
                has_pods = !templates.is_empty();
                across.add(root, templates, &place);
            };
            let wanted = Wanted { objects: self.objects.known.as_ref(), ..self.wanted };
            let found = lint(self.policies, &mut document, raw, wanted, gather)?.into_iter();
            let located = found.map(|finding| Located {
                place: place(&finding.pointer),
                finding: if is_open { without_policy(finding) } else { finding },
            });
            let mut located: Vec<Located> = located.collect();
            if let Some((line, message)) = lines.repeated_key().filter(|_| has_pods) {
                let finding = Finding::new(Level::Note, "repeated_key", "", message);
                located.push(Located { place: Location { line, ..place("") }, finding });
            }
            located.sort_by_key(|located| located.place.line);
            Ok(located)
        });
        match linted {
            Ok(found) => self.found.extend(found),
            Err(error) => self.bad(file, error.line, "bad_document", error.message),
        }
    }

    /// Adds the findings about several documents, and drops those that another document answers.
    fn across_documents(&mut self) {
        let wanted = Wanted { objects: self.objects.known.as_ref(), ..self.wanted };
        let found = self.across.findings(self.policies, wanted).into_iter();
        self.found.extend(found.map(|(place, finding)| Located { place, finding }));
        self.found.retain(|located| !self.across.is_answered_by_runtime(&located.finding));
    }

    fn bad(&mut self, file: &str, line: usize, code: &str, message: String) {
        let finding = Finding::new(Level::Error, code, "", message);
        self.found.push(Located {
            place: Location { file: file.to_owned(), line, ..Location::default() },
            finding,
        });
    }
}

/// The finding about pods that request the fabric when no policy is named.
fn without_policy(finding: Finding) -> Finding {
    if finding.code != "nodes_unknown" {
        return finding;
    }
    let place = finding.message.split(": not injected: ").next().unwrap_or_default();
    let message = format!(
        "{place}: requests the fabric; name the policy (`--policy`) or the nodes (`--nodes`) to see what it gets"
    );
    Finding { level: Level::Note, message, ..finding }
}

/// A finding with its place.
struct Located {
    place: Location,
    finding: Finding,
}

impl Located {
    fn level(&self) -> &'static str {
        match self.finding.level {
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }

    fn sentence(&self) -> String {
        let Self { place: Location { object, .. }, finding } = self;
        let separator = if object.is_empty() { "" } else { ": " };
        format!("{object}{separator}{}", finding.message)
    }

    fn text(&self) -> String {
        let Self { place: Location { file, line, .. }, finding } = self;
        let text = format!("{file}:{line}: {}: {} ({})", self.level(), self.sentence(), finding.code);
        escape::line(&text).into_owned() + "\n"
    }

    fn object(&self) -> Value {
        let Self { place: Location { file, line, object }, finding } = self;
        let Finding { code, pointer, message, .. } = finding;
        json!({
            "file": file,
            "line": line,
            "object": object,
            "severity": self.level(),
            "code": code,
            "path": pointer,
            "message": message,
        })
    }

    fn result(&self) -> Value {
        let region = json!({"startLine": self.place.line});
        sarif_result(self.level(), &self.place.file, &region, &self.finding.code, &self.sentence())
    }

    fn command(&self) -> String {
        let command = if self.finding.level == Level::Note { "notice" } else { self.level() };
        let place = format!("line={}", self.place.line);
        workflow_command(command, &self.place.file, &place, &self.finding.code, &self.sentence())
    }
}
