//! A `List`, whose items are read, injected and rendered one after another.

use fabric_allocator::held;
use fabric_policy::work::Work;
use fabric_workloads::manifest::{self, EditedDocument, InjectedDocument, List, RawDocument, Syntax, Wanted};

use super::super::ExitStatus;
use super::super::render::{Format, Rendered};
use super::super::report::Location;
use super::document::{Content, Processed, Source, is_edited, lost_comments, object_name, report_templates};
use super::exit_policy::Verdict;

/// Reads, injects and renders a `List`. `None` for a document that must be read as a whole: one that is not a `List`,
/// has an error, or whose output is not the document in its own syntax.
pub(super) fn process<'f>(source: Source<'_, 'f>, number: usize, raw: &RawDocument) -> Option<Processed<'f>> {
    let Source { arguments, policies, wanted, file } = source;
    let mut list = List::split(raw)?;
    match arguments.output {
        Some(Format::Patch | Format::Review) => return None,
        Some(Format::Json) if list.syntax != Syntax::Json => return None,
        Some(Format::Yaml) if list.syntax != Syntax::Yaml => return None,
        _ => {}
    }
    let object = object_name(&list.value);
    let location = Location { file, document: number, object: &object };
    let (mut lines, mut status, mut verdict) = (Vec::new(), ExitStatus::Done, Verdict::default());
    let mut whole = EditedDocument { bytes: list.head().into(), lost: Vec::new() };
    let (mut changed, mut refused, mut has_templates, mut has_notes) = (false, false, false, false);
    for index in 0..list.count() {
        let (alone, mut document) = list.read(index)?;
        let work = Work::of_input(alone.bytes.len()).measured_by(held);
        let checks = work.again();
        let wanted = Wanted { work: Some(&work), checks: Some(&checks), ..wanted };
        let injected = manifest::inject_item(policies, &mut list.value, index, &mut document, wanted);
        status = status.max(report_templates(arguments, location, &injected, &mut lines));
        verdict.add(Verdict::new(location, &injected));
        changed |= injected.value.is_some();
        refused |= injected.refused();
        has_templates |= !injected.templates.is_empty();
        has_notes |= !injected.notes.is_empty();
        if !refused {
            let item = match &injected.value {
                Some(value) => document.edited(&alone, value).ok()?,
                None => EditedDocument { bytes: alone.bytes, lost: Vec::new() },
            };
            let (head, tail) = (list.head().as_bytes(), list.tail().as_bytes());
            whole.bytes.extend(item.bytes.strip_prefix(head)?.strip_suffix(tail)?);
            whole.bytes.extend(list.separator(index).bytes());
            whole.lost.extend(item.lost);
        }
    }
    if has_notes && !has_templates {
        return None;
    }
    whole.bytes.extend(list.tail().bytes());
    lines.extend(lost_comments(arguments, location, &whole.lost, &InjectedDocument::default()));
    let content = match (is_edited(arguments), refused) {
        (true, _) => Content::Edited((changed && !refused).then_some(whole)),
        (false, true) => Content::Rendered(Rendered::default()),
        (false, false) => {
            Content::Rendered(Rendered::new(whole.bytes, list.syntax == Syntax::Json, whole.lost))
        }
    };
    Some(Processed { content, lines, error: None, status, verdict })
}
