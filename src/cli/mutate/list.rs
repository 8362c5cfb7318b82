//! A `List`, whose items are read, injected and rendered one after another.

use serde_json::json;

use fabric_engine::policy_set::PolicySet;
use fabric_policy::work::Work;
use fabric_workloads::manifest::{
    self, Document, EditedDocument, InjectedDocument, List, RawDocument, Syntax, Wanted,
};
use fabric_yaml as yaml;

use super::super::ExitStatus;
use super::super::render::{self, Format, Rendered};
use super::super::report::Location;
use super::Arguments;
use super::document::{Content, Processed, is_edited, lost_comments, object_name, report_templates};
use super::exit_policy::Verdict;

/// Reads, injects and renders a `List`. `None` for a document that must be read as a whole: one that is not a `List`,
/// has an error, or whose output is not the document.
pub(super) fn process<'a>(
    arguments: &Arguments,
    policies: &PolicySet,
    wanted: Wanted<'_>,
    file: &'a str,
    number: usize,
    raw: &RawDocument,
) -> Option<Processed<'a>> {
    if matches!(arguments.output, Some(Format::Patch | Format::Review)) {
        return None;
    }
    let mut list = List::split(raw)?;
    let object = object_name(&list.value);
    let location = Location { file, document: number, object: &object };
    let form = Form::new(&mut list, arguments)?;
    let (mut lines, mut status, mut verdict) = (Vec::new(), ExitStatus::Done, Verdict::default());
    let mut whole = EditedDocument { bytes: form.head.clone(), lost: Vec::new() };
    let (mut changed, mut refused, mut has_templates, mut has_notes) = (false, false, false, false);
    for index in 0..list.count() {
        let (alone, mut document) = list.read(index)?;
        let work = Work::of_input(alone.bytes.len());
        let checks = work.afresh();
        let wanted = Wanted { work: Some(&work), checks: Some(&checks), ..wanted };
        let injected = manifest::inject_item(policies, &mut list.value, index, &mut document, wanted);
        status = status.max(report_templates(arguments, location, &injected, &mut lines));
        verdict.add(Verdict::new(location, &injected));
        changed |= injected.value.is_some();
        refused |= injected.refused();
        has_templates |= !injected.templates.is_empty();
        has_notes |= !injected.notes.is_empty();
        if !refused {
            let item = form.item(&alone, &document, &injected)?;
            whole.bytes.extend(item.bytes.strip_prefix(&*form.head)?.strip_suffix(&*form.tail)?);
            let is_last = index + 1 == list.count();
            let separator = if form.conversion.is_some() { form.separator } else { list.separator(index) };
            whole.bytes.extend(if is_last { "" } else { separator }.bytes());
            whole.lost.extend(item.lost);
        }
    }
    if has_notes && !has_templates {
        return None;
    }
    whole.bytes.extend(&form.tail);
    lines.extend(lost_comments(arguments, location, &whole.lost, &InjectedDocument::default()));
    let content = match (is_edited(arguments), refused) {
        (true, _) => Content::Edited((changed && !refused).then_some(whole)),
        (false, true) => Content::Rendered(Rendered::default()),
        (false, false) => Content::Rendered(form.rendered(whole, raw, changed)),
    };
    Some(Processed { content, lines, error: None, status, verdict })
}

/// The form of the output, and the text around the items in it.
struct Form {
    from: Syntax,
    /// The syntax into which the document is converted.
    conversion: Option<Syntax>,
    head: Vec<u8>,
    /// The text between two items after a conversion.
    separator: &'static str,
    tail: Vec<u8>,
}

impl Form {
    fn new(list: &mut List<'_>, arguments: &Arguments) -> Option<Self> {
        let from = list.syntax;
        let to = match arguments.output {
            Some(Format::Json) => Syntax::Json,
            Some(Format::Yaml) => Syntax::Yaml,
            _ => from,
        };
        let (head, tail) = (list.head().as_bytes().to_vec(), list.tail().as_bytes().to_vec());
        let form = Self { from, conversion: None, head, separator: "", tail };
        if to == from {
            return Some(form);
        }
        // The list with one item, which is found by its place.
        let items = std::mem::replace(&mut list.value["items"], json!([0]));
        let (text, mark, separator) = match to {
            Syntax::Json => (render::indented(&list.value), "\n  \"items\": [\n    0\n  ]", ",\n    "),
            Syntax::Yaml => (format!("\n{}", yaml::write(&list.value)).into_bytes(), "\nitems:\n- 0\n", ""),
        };
        list.value["items"] = items;
        let (before, after) = if to == Syntax::Json { (mark.find('0')?, 1) } else { (mark.find('-')?, 4) };
        let at = memchr::memmem::find(&text, mark.as_bytes())? + before;
        let head = text[usize::from(to == Syntax::Yaml)..at].to_vec();
        Some(Self { conversion: Some(to), head, separator, tail: text[at + after..].to_vec(), ..form })
    }

    /// The text of a `List` with one item. `None` if it cannot be written without a change of a number.
    fn item(
        &self,
        raw: &RawDocument,
        document: &Document,
        injected: &InjectedDocument,
    ) -> Option<EditedDocument> {
        let value = injected.value.as_ref().or(document.value.as_ref())?;
        let bytes = match self.conversion {
            None if injected.value.is_some() => return document.edited(raw, value).ok(),
            None => raw.bytes.clone(),
            Some(to) => {
                document.require_exact_numbers(raw, value).ok()?;
                if to == Syntax::Json { render::indented(value) } else { yaml::write(value).into_bytes() }
            }
        };
        Some(EditedDocument { bytes, lost: Vec::new() })
    }

    fn rendered(&self, whole: EditedDocument, raw: &RawDocument, changed: bool) -> Rendered {
        let from_json = self.from == Syntax::Json;
        // JSON is YAML, if it has no escapes that YAML does not.
        let kept = from_json && self.conversion.is_some() && !changed && !render::has_escapes(&raw.bytes);
        let content = if kept { raw.bytes.clone() } else { whole.bytes };
        let to_json = self.conversion.unwrap_or(self.from) == Syntax::Json;
        Rendered::new(content, to_json || (from_json && !changed), whole.lost)
    }
}
