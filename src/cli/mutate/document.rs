//! One document of a manifest: read, injected and rendered.

use std::sync::Arc;

use serde_json::Value;

use fabric_allocator::held;
use fabric_engine::policy_set::PolicySet;
use fabric_policy::nodes::Nodes;
use fabric_workloads::manifest::{
    self, Document, DocumentError, EditedDocument, InjectedDocument, RawDocument, TriggerAnnotation, Wanted,
};
use fabric_yaml::Comment;

use super::super::ExitStatus;
use super::super::render::{self, Format, Rendered};
use super::super::report::{self, Failure, Location};
use super::Arguments;
use super::exit_policy::Verdict;

/// The output for one document.
pub(super) struct Processed<'a> {
    pub(super) content: Content,
    /// The lines of the report.
    pub(super) lines: Vec<String>,
    /// Why the document could not be processed.
    pub(super) error: Option<Failure<'a>>,
    pub(super) status: ExitStatus,
    pub(super) verdict: Verdict,
}

/// The content of a document after the injection.
pub(super) enum Content {
    /// In the format of the output.
    Rendered(Rendered),
    /// The text of the document with the edits, for a diff and for `--in-place`. `None` if it does not change.
    Edited(Option<EditedDocument>),
}

impl Content {
    /// The comments that the edits have lost.
    fn lost(&self) -> &[Comment] {
        match self {
            Content::Edited(edited) => edited.as_ref().map_or(&[], |edited| &edited.lost),
            Content::Rendered(rendered) => &rendered.lost,
        }
    }

    pub(super) fn edited(&self) -> Option<&[u8]> {
        match self {
            Content::Edited(edited) => edited.as_ref().map(|edited| edited.bytes.as_slice()),
            Content::Rendered(_) => None,
        }
    }
}

/// What the documents of a file have in common.
#[derive(Clone, Copy)]
pub(super) struct Source<'r, 'f> {
    pub(super) arguments: &'r Arguments,
    pub(super) policies: &'r PolicySet,
    pub(super) wanted: Wanted<'r>,
    pub(super) file: &'f str,
}

/// Reads, injects and renders one document, independent of the others.
pub(super) fn process<'f>(source: Source<'_, 'f>, number: usize, raw: &RawDocument) -> Processed<'f> {
    let Source { arguments, policies, wanted, file } = source;
    let bad = |error: DocumentError, hint| Processed {
        content: Content::Edited(None),
        lines: Vec::new(),
        error: Some(Failure { hint, ..Failure::new("bad_document", error.to_string()).at(file, number) }),
        status: ExitStatus::Bad,
        verdict: Verdict::default(),
    };
    let mut document = match Document::read(raw) {
        Ok(document) => document,
        Err(error) => {
            let hint = remedy(&error, raw);
            return bad(error, hint);
        }
    };
    let object = document.value.as_ref().map(object_name).unwrap_or_default();
    let is_review = arguments.output == Some(Format::Review);
    let before = if is_review { document.value.clone() } else { None };
    let injected = match manifest::inject(policies, &mut document, raw, wanted) {
        Ok(injected) => injected,
        Err(error) => return bad(error, None),
    };
    let location = Location { file, document: number, object: &object };
    let content = if is_edited(arguments) {
        let after = injected.value.as_ref().filter(|_| !injected.refused());
        after.map(|after| document.edited(raw, after)).transpose().map(Content::Edited)
    } else {
        render(arguments.output, location, raw, &document, before.as_ref(), &injected).map(Content::Rendered)
    };
    let content = match content {
        Ok(content) => content,
        Err(error) => return bad(error, None),
    };
    let mut lines = Vec::new();
    let status = report_templates(arguments, location, &injected, &mut lines);
    lines.extend(
        injected
            .notes
            .iter()
            .filter(|_| !arguments.quiet)
            .map(|note| report::note(arguments.report, location, note)),
    );
    lines.extend(lost_comments(arguments, location, content.lost(), &injected));
    let verdict = Verdict::new(location, &injected);
    Processed { content, lines, error: None, status, verdict }
}

pub(super) fn wanted<'n>(arguments: &'n Arguments, nodes: Option<&'n Arc<Nodes>>) -> Wanted<'n> {
    Wanted {
        patches: matches!(arguments.output, Some(Format::Patch | Format::Review)),
        summary: !arguments.quiet,
        findings: !arguments.quiet || arguments.exit_policy.reads_findings(),
        annotation: if arguments.assume_annotated {
            TriggerAnnotation::Assumed
        } else {
            TriggerAnnotation::Required
        },
        namespace: arguments.namespace.as_deref(),
        nodes,
        held: Some(held),
        ..Wanted::default()
    }
}

/// Returns whether the output is the text of the document with the edits.
pub(super) fn is_edited(arguments: &Arguments) -> bool {
    arguments.in_place || arguments.output == Some(Format::Diff)
}

/// Adds the report on each pod template, and returns the exit status.
pub(super) fn report_templates(
    arguments: &Arguments,
    location: Location<'_>,
    injected: &InjectedDocument,
    lines: &mut Vec<String>,
) -> ExitStatus {
    let mut status = if injected.refused() { ExitStatus::Refused } else { ExitStatus::Done };
    for template in &injected.templates {
        let is_bad = manifest::is_bad_input(&template.mutation);
        if is_bad {
            status = ExitStatus::Bad;
        }
        if is_bad || !arguments.quiet {
            lines.extend(report::template(arguments.report, location, template));
        }
    }
    status
}

/// The remedy of an error in a document, if one is known.
pub(crate) fn remedy(error: &DocumentError, raw: &RawDocument) -> Option<&'static str> {
    if raw.bytes.windows(2).any(|two| two == b"{{") {
        Some("`{{ … }}` is not YAML; render a chart first: `helm template . | fabric-injector mutate -f -`")
    } else if error.message.contains("invalid indentation") {
        Some("indent the lines of a quoted string, and those between brackets, further than their key")
    } else {
        None
    }
}

/// The warnings about comments that the edits have lost.
pub(super) fn lost_comments(
    arguments: &Arguments,
    location: Location<'_>,
    lost: &[Comment],
    injected: &InjectedDocument,
) -> Vec<String> {
    if arguments.quiet {
        return Vec::new();
    }
    let of_texts = injected.lost.iter().map(|(pointer, comment)| (format!("{pointer}: "), comment));
    let lost = lost.iter().map(|comment| (String::new(), comment)).chain(of_texts);
    let line = |(pointer, Comment { line, text }): (String, &Comment)| {
        let reason = "because the lines around it are written again";
        let message = format!("{pointer}line {line}: the comment `{text}` is not kept, {reason}");
        let lost = Failure::new("comment_lost", message).at(location.file, location.document);
        lost.warning(arguments.report)
    };
    lost.map(line).collect()
}

fn render(
    format: Option<Format>,
    location: Location<'_>,
    raw: &RawDocument,
    document: &Document,
    before: Option<&Value>,
    injected: &InjectedDocument,
) -> Result<Rendered, DocumentError> {
    let before = before.unwrap_or(&Value::Null);
    let json_lines = |content| Rendered { content, json: true, ..Rendered::default() };
    Ok(match (format, &injected.value) {
        (Some(Format::Review), _) => json_lines(render::review(before, injected)),
        _ if injected.refused() => Rendered::default(),
        (Some(Format::Patch), Some(_)) => json_lines(render::patch(location, injected)),
        (Some(Format::Patch), None) => Rendered::default(),
        (format, _) => render::document(format, raw, document, injected)?,
    })
}

/// The kind and name of a document, such as `Job/train`.
pub(crate) fn object_name(document: &Value) -> String {
    let kind = document["kind"].as_str().unwrap_or("object");
    let metadata = &document["metadata"];
    match metadata["name"].as_str().or_else(|| metadata["generateName"].as_str()) {
        Some(name) => format!("{kind}/{name}"),
        None => kind.to_owned(),
    }
}
