//! `fabric-injector policy explain`: what a policy adds, and the reasons for the result of a pod.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::builtin;
use crate::cli::ExitStatus;
use crate::cli::mutate::object_name;
use crate::cli::node_options::NodeArguments;
use crate::cli::object_files::ObjectsOfInput;
use crate::cli::output::{Format, Output};
use crate::cli::parse::namespace;
use crate::cli::report::{Location, near_miss};
use crate::files::{files_of, open};
use crate::policy_sources::{PolicySources, available};
use crate::stream::RawDocuments;
use fabric_engine::policy_set::PolicySet;
use fabric_policy::OtherKind;
use fabric_policy::nodes::Nodes;
use fabric_tools::explain::{self, Explainer, PodFact, Sources, VERSION};
use fabric_tools::policy_test;
use fabric_workloads::advice::{self, CheckedPod};
use fabric_workloads::manifest::{Document, Found, List, RawDocument, find, find_in_item};
use fabric_yaml::escape;

/// Explain what a policy adds, or what happens to the pods of a manifest and why
///
/// The policies are arguments, as for `policy show` and `policy check`; `--values` and `--set` are those of `mutate`.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Exit status: 0 done, also for a pod that a policy refuses; 2 bad usage, input or policy."
)]
pub(crate) struct Arguments {
    /// A built-in policy, a policy file, or a folder of them [default: the policies of the provider that the values
    /// file enables]
    #[arg(value_name = "POLICY", value_delimiter = ',')]
    names: Vec<String>,
    #[command(flatten)]
    sources: PolicySources,
    /// Explain the pods of a manifest, a folder of them, or `-` for standard input; may be given several times
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-")]
    files: Vec<String>,
    /// Explain the pod of a recorded AdmissionReview, in JSON or YAML, or `-` for standard input
    #[arg(long, value_name = "FILE")]
    review: Option<String>,
    /// The namespace of objects that do not name one [default: `default`]
    #[arg(short, long, value_name = "NAME", value_parser = namespace)]
    namespace: Option<String>,
    #[command(flatten)]
    nodes: NodeArguments,
    /// The form of the output; `docs/explain.md` describes the JSON object
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

impl Arguments {
    /// The policies of the arguments and of the option, which replace those of the environment.
    fn policies(&self) -> Vec<String> {
        let named = &self.sources.policies;
        let of_environment =
            std::env::var("FABRIC_INJECTOR_POLICY").is_ok_and(|names| names == named.join(","));
        let named = if of_environment && !self.names.is_empty() { &[] } else { named.as_slice() };
        self.names.iter().chain(named).cloned().collect()
    }
}

/// Fails for a manifest that is named as a policy.
fn no_manifest(name: &str, policies: &[String]) -> anyhow::Result<()> {
    let path = Path::new(name);
    let text =
        if builtin::find(name).is_none() && path.is_file() { fs::read_to_string(path).ok() } else { None };
    let Some(foreign) = text.and_then(|text| OtherKind::detect(&text)) else { return Ok(()) };
    let kind = foreign.kind.as_deref().unwrap_or("file without a kind");
    if kind == policy_test::KIND {
        bail!("{name} has cases of policies\nhint: `fabric-injector policy test {name}` runs them");
    }
    let others: Vec<&str> = policies.iter().map(String::as_str).filter(|other| *other != name).collect();
    let others = if others.is_empty() { "POLICY".to_owned() } else { others.join(" ") };
    bail!(
        "{name} is a {kind}, not a policy\nhint: `fabric-injector policy explain {others} -f {name}` explains its \
         pods"
    )
}

/// A pod of a document, with its place.
#[derive(Debug, Serialize)]
struct PodOf {
    file: String,
    /// The number of the document, from 1.
    document: usize,
    /// The kind and name of the document, such as `Job/train`.
    object: String,
    /// The JSON Pointer from the document's root to the pod.
    pointer: String,
    #[serde(flatten)]
    fact: PodFact,
    /// Requests for the fabric that have no effect, each with the change that gives it one.
    near_misses: Vec<Value>,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let by_nodes = arguments.nodes.are_given();
    let sources = PolicySources { policies: arguments.policies(), by_nodes, ..arguments.sources.clone() };
    if sources.are_empty() && !by_nodes {
        bail!(
            "no policy is named; write `policy explain NAME`, or `--values FILE` with a provider enabled\n{}",
            available()
        );
    }
    for name in &sources.policies {
        no_manifest(name, &sources.policies)?;
    }
    let loaded = sources.load_with_origins()?;
    loaded.notes.iter().for_each(|note| output.message(note));
    let sources = Sources { values: loaded.values.as_ref(), sets: &loaded.sets };
    if arguments.files.is_empty() && arguments.review.is_none() {
        ensure!(
            !arguments.nodes.are_given(),
            "`--nodes` and `--cluster` need pods\nhint: name a manifest with `-f`"
        );
        let facts: Vec<_> =
            loaded.policies.policies().iter().map(|policy| explain::policy(policy, &sources)).collect();
        match arguments.output {
            Format::Json => output.json(&json!({"version": VERSION, "policies": facts}))?,
            Format::Text => {
                let texts: Vec<String> = facts.iter().map(explain::policy_text).collect();
                output.text(&texts.join("\n"))?;
            }
        }
        return Ok(ExitStatus::Done);
    }
    let reads_stdin = arguments.files.iter().chain(&arguments.review).any(|file| file == "-");
    let objects = arguments.nodes.read(reads_stdin)?;
    for reason in objects.iter().flat_map(|objects| &objects.unread) {
        output.message(&format!("warning: names decide about claims: {reason}"));
    }
    let mut pods = Pods {
        objects: ObjectsOfInput::new(objects.as_ref(), &arguments.files, arguments.namespace.as_deref()),
        nodes: objects.map(|objects| objects.nodes),
        namespace: arguments.namespace.as_deref(),
        policies: &loaded.policies,
        explainer: Explainer { policies: &loaded.policies, sources },
        output,
        format: arguments.output,
        count: 0,
        status: ExitStatus::Done,
    };
    let ended = pods.explain(arguments);
    // The output is complete even if a later document cannot be read.
    if ended.is_ok() || pods.count > 0 {
        pods.finish()?;
    }
    ended.map(|()| pods.status)
}

/// The beginning of the pods as JSON.
fn head() -> String {
    format!("{{\n  \"version\": {VERSION},\n  \"pods\": [")
}

fn text(PodOf { file, document, object, pointer, fact, near_misses }: &PodOf) -> String {
    let location = Location { file, document: *document, object };
    let mut text = explain::pod_text(&location.of(pointer), fact);
    for miss in near_misses {
        let part = |name: &str| miss[name].as_str().unwrap_or_default();
        let line = format!("near miss: {} ({})", part("message"), part("code"));
        text.push_str(&format!("\n{}\n", escape::line(&line)));
    }
    text
}

/// Explains pods one after another, and keeps none of them.
struct Pods<'a> {
    namespace: Option<&'a str>,
    policies: &'a PolicySet,
    explainer: Explainer<'a>,
    nodes: Option<Arc<Nodes>>,
    objects: ObjectsOfInput<'a>,
    output: &'a mut Output,
    format: Format,
    /// The pods so far.
    count: usize,
    status: ExitStatus,
}

impl Pods<'_> {
    fn explain(&mut self, arguments: &Arguments) -> anyhow::Result<()> {
        for file in &arguments.files {
            self.source(file)?;
        }
        arguments.review.iter().try_for_each(|review| self.review(review))
    }

    fn source(&mut self, name: &str) -> anyhow::Result<()> {
        if name == "-" {
            return self.stream("stdin", io::stdin().lock());
        }
        for path in files_of(Path::new(name))? {
            let name = path.display().to_string();
            let file = File::open(&path).with_context(|| format!("{name} cannot be read"))?;
            self.stream(&name, BufReader::new(file))?;
        }
        Ok(())
    }

    fn stream(&mut self, file: &str, reader: impl BufRead) -> anyhow::Result<()> {
        let before = self.count;
        for (index, raw) in RawDocuments::new(reader).enumerate() {
            let raw = raw.with_context(|| format!("{file}: document {}", index + 1))?;
            self.objects.add([&raw]);
            self.document(file, index + 1, &raw)?;
        }
        if self.count == before {
            self.output.message(&format!("{file} has no pod and no pod template"));
        }
        Ok(())
    }

    /// Explains the pods of a document; those of a `List` item by item, as far as it can be split.
    fn document(&mut self, file: &str, number: usize, raw: &RawDocument) -> anyhow::Result<()> {
        let mut done = 0;
        if let Some(mut list) = List::split(raw) {
            while let Some((_, mut item)) = (done < list.count()).then(|| list.read(done)).flatten() {
                let item = item.value.as_mut().map(|alone| alone["items"][0].take());
                list.value["items"][done] = item.unwrap_or_default();
                self.pods(file, number, &list.value, &find_in_item(&list.value, done, None))?;
                list.value["items"][done] = Value::Null;
                done += 1;
            }
            if done == list.count() {
                return Ok(());
            }
        }
        let Some(value) = read(file, number, raw)?.value else { return Ok(()) };
        let is_done = |found: &Found| {
            let item = found.pointer.strip_prefix("/items/").and_then(|rest| rest.split('/').next());
            item.and_then(|item| item.parse::<usize>().ok()).is_some_and(|item| item < done)
        };
        let found: Vec<_> = find(&value, None).into_iter().filter(|found| !is_done(found)).collect();
        self.pods(file, number, &value, &found)
    }

    /// Explains the pods that were found in a document.
    fn pods(&mut self, file: &str, document: usize, value: &Value, found: &[Found]) -> anyhow::Result<()> {
        let pod_of = |found: &Found| value.pointer(&found.pointer).unwrap_or(&Value::Null);
        let mut found = found.to_vec();
        for found in &mut found {
            found.request.namespace = found.request.namespace.take().or(self.namespace.map(str::to_owned));
            found.request.nodes.clone_from(&self.nodes);
            found.request.objects.clone_from(&self.objects.known);
        }
        let explained = found.iter().map(|found| self.explainer.pod(pod_of(found), &found.request));
        let (mutations, facts): (Vec<_>, Vec<_>) = explained.unzip();
        let pods: Vec<_> = found
            .iter()
            .zip(&mutations)
            .map(|(Found { pointer, request }, mutation)| CheckedPod { pointer, context: request, mutation })
            .collect();
        let findings = advice::near_misses(self.policies, value, &pods);
        for ((found, fact), findings) in found.iter().zip(facts).zip(findings) {
            if fact.reason.as_ref().is_some_and(|reason| reason.code == "malformed_pod") {
                self.status = ExitStatus::Bad;
            }
            self.print(&PodOf {
                file: file.to_owned(),
                document,
                object: object_name(value),
                pointer: found.pointer.clone(),
                fact,
                near_misses: findings.near_misses.iter().map(near_miss).collect(),
            })?;
        }
        Ok(())
    }

    fn print(&mut self, pod: &PodOf) -> anyhow::Result<()> {
        let is_first = self.count == 0;
        self.count += 1;
        match self.format {
            Format::Json => {
                let before = if is_first { head() } else { ",".to_owned() };
                let pod = serde_json::to_string_pretty(pod)?.replace('\n', "\n    ");
                self.output.text(&format!("{before}\n    {pod}"))
            }
            Format::Text => self.output.text(&format!("{}{}", if is_first { "" } else { "\n" }, text(pod))),
        }
    }

    /// Ends the output.
    fn finish(&mut self) -> anyhow::Result<()> {
        match (self.format, self.count) {
            (Format::Text, _) => Ok(()),
            (Format::Json, 0) => self.output.text(&format!("{}]\n}}\n", head())),
            (Format::Json, _) => self.output.text("\n  ]\n}\n"),
        }
    }

    /// Explains the pod of a review. Anything else in the file is an error.
    fn review(&mut self, name: &str) -> anyhow::Result<()> {
        let (name, reader) = open(name)?;
        let documents: Result<Vec<_>, _> = RawDocuments::new(reader).collect();
        let documents = documents.with_context(|| format!("{name} cannot be read"))?;
        let before = self.count;
        for (index, raw) in documents.iter().enumerate() {
            let Some(value) = read(name, index + 1, raw)?.value else { continue };
            if value["kind"] != "AdmissionReview" {
                let kind = value["kind"].as_str().unwrap_or("object without a kind");
                bail!(
                    "{name}: document {} is of kind {kind}, not an AdmissionReview; give manifests with `-f`",
                    index + 1
                );
            }
            self.pods(name, index + 1, &value, &find(&value, None))?;
        }
        if self.count == before {
            bail!("{name}: the review creates no pod, so the webhook leaves it unchanged");
        }
        Ok(())
    }
}

fn read(file: &str, number: usize, raw: &RawDocument) -> anyhow::Result<Document> {
    Document::read(raw).map_err(|error| anyhow::anyhow!("{file}: document {number}: {error}"))
}
