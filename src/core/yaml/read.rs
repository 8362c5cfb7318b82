//! Reads YAML text into a tree, within limits on depth and size.

use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Tag};

use super::joined::{joined, open_bracket};
use super::offsets::Offsets;
use super::scalar::{self, Scalar};
use super::source_map::{SourceMap, Style};
use super::span::Span;

/// The deepest nesting of lists and maps: the limit of the JSON parser, so that YAML and JSON are accepted alike.
const MAX_DEPTH: usize = 128;
/// The number of nodes that all aliases of a document together can add; a long text counts as several nodes.
/// Manifests in use add some tens.
const MAX_ALIASED_NODES: usize = 100_000;
/// The number of nodes that are kept for later aliases, counted in the same way.
const MAX_ANCHORED_NODES: usize = 200_000;
/// The number of bytes of text that count as one node.
const BYTES_PER_NODE: usize = 64;

/// The reason why a text cannot be read, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {}, column {}", span.line, span.column)]
pub struct Error {
    /// The reason, without the position.
    pub message: String,
    /// The position of the first character that is wrong.
    pub span: Span,
}

/// A tree that is built from the events of the parser.
pub(super) trait Tree: Clone {
    /// True if scalars with expressions in them come with their map.
    const MAPPED: bool;

    fn scalar(value: Scalar, plain: bool, span: Span, map: Option<SourceMap>) -> Self;
    fn list(items: Vec<Self>, span: Span) -> Self;
    fn map(entries: Vec<Entry<Self>>, span: Span) -> Self;
    /// The entries of a map, for the merge key `<<`. `None` if this is no map.
    fn entries(self) -> Option<Vec<Entry<Self>>>;
    /// The items of a list, for the merge key `<<`. `None` if this is no list.
    fn items(self) -> Option<Vec<Self>>;
}

/// A key of a map with its position and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry<T> {
    /// The key, converted to a string as JSON needs it.
    pub key: String,
    /// The position of the key.
    pub span: Span,
    /// True if the text of the key is no string in YAML, such as `on`, which is the boolean `true`.
    pub converted: bool,
    /// The value of the key.
    pub value: T,
}

/// The root of a document, and the first key that appears twice in one map.
pub(super) struct Document<T> {
    /// `None` for a document of blanks and comments.
    pub(super) root: Option<T>,
    pub(super) duplicate_key: Option<Error>,
}

/// Reads exactly one document; a second one is an error.
pub(super) fn read<T: Tree>(source: &str) -> Result<Document<T>, Error> {
    if let Some(at) = source.find('\0') {
        return Err(Error {
            message: "found a NUL byte, which no text may hold".to_owned(),
            span: span_at(source, at),
        });
    }
    parsed(source, source).or_else(|error| match joined(source) {
        Some(joined) => parsed(source, &joined),
        None => Err(error),
    })
}

/// Reads a text by what the parser gets in its place, which has the same characters at the same places, but for blanks.
fn parsed<T: Tree>(source: &str, joined: &str) -> Result<Document<T>, Error> {
    let (offsets, places) = (Offsets::of(source), Places::of(source));
    let mut builder = Builder::new();
    let mut documents = 0;
    for event in Parser::new_from_str(joined) {
        let (event, at) = event.map_err(|error| scan_error(&error, &places, joined))?;
        let span = places.span(at.start.index(), at.end.index());
        match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(Error { message: "found a second document".to_owned(), span });
                }
            }
            Event::Alias(id) => builder.alias(id, span)?,
            Event::Scalar(_, _, _, Some(tag))
            | Event::SequenceStart(_, Some(tag))
            | Event::MappingStart(_, Some(tag))
                if T::MAPPED && !tag.is_yaml_core_schema() =>
            {
                let message = format!("`{}{}` is a tag of YAML, and no text", tag.handle, tag.suffix);
                return Err(Error { message, span });
            }
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none();
                let text = without_added_end(&text, style, source, at.end.index());
                let value = scalar_value(text, style, tag.as_deref(), span)?;
                let map = if T::MAPPED && text.contains("${") {
                    SourceMap::of_scalar(
                        text,
                        span,
                        writing(style),
                        &source[offsets.byte(at.start.index())..],
                    )
                } else {
                    None
                };
                builder.add(value, plain, anchor, span, map)?;
            }
            Event::SequenceStart(anchor, _) => builder.open(Collection::List(Vec::new()), anchor, span)?,
            Event::MappingStart(anchor, _) => {
                builder.open(Collection::Map(MapBuilder::default()), anchor, span)?;
            }
            Event::SequenceEnd | Event::MappingEnd => builder.close()?,
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
    }
    Ok(Document { root: builder.root, duplicate_key: builder.duplicate_key })
}

fn writing(style: ScalarStyle) -> Style {
    match style {
        ScalarStyle::Plain => Style::Plain,
        ScalarStyle::SingleQuoted => Style::SingleQuoted,
        ScalarStyle::DoubleQuoted => Style::DoubleQuoted,
        ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
    }
}

/// The lines of a text, by the first character of each; the parser counts characters.
struct Places(Vec<usize>);

impl Places {
    fn of(text: &str) -> Self {
        let ends = text.chars().enumerate().filter(|(_, c)| *c == '\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(ends).collect())
    }

    /// The place of a range of characters; of a range of several lines, only its beginning.
    fn span(&self, start: usize, end: usize) -> Span {
        let line = self.0.partition_point(|first| *first <= start);
        let is_one_line = self.0.get(line).is_none_or(|next| end < *next);
        let length = if is_one_line { end.saturating_sub(start).max(1) } else { 1 };
        Span { line, column: start - self.0[line - 1] + 1, length }
    }
}

fn scan_error(error: &ScanError, places: &Places, text: &str) -> Error {
    let at = error.marker().index();
    let span = places.span(at, at);
    // For flow style, the parser has its own limit.
    if error.info().contains("recursion") {
        return Error { message: format!("nested more than {MAX_DEPTH} levels deep"), span };
    }
    let within = open_bracket(text).map_or_else(String::new, |at| {
        format!(", within the brackets that begin on line {}", places.span(at, at).line)
    });
    Error { message: format!("not valid YAML: {}{within}", error.info()), span }
}

/// The position of a byte offset.
pub(super) fn span_at(text: &str, offset: usize) -> Span {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
    Span { line, column, length: 1 }
}

/// The text of a scalar without the line end that saphyr-parser adds to a block at the end of a file without one.
pub(super) fn without_added_end<'t>(text: &'t str, style: ScalarStyle, source: &str, end: usize) -> &'t str {
    let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
    if !is_block || source.ends_with('\n') {
        return text;
    }
    let last_line = source[source.rfind('\n').map_or(0, |at| at + 1)..].trim();
    // Only the last block of the text has to know its length.
    let may_be_last = !last_line.is_empty() && text.trim_end().ends_with(last_line);
    if may_be_last && end >= source.chars().count() { text.strip_suffix('\n').unwrap_or(text) } else { text }
}

pub(super) fn scalar_value(
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
    span: Span,
) -> Result<Scalar, Error> {
    let resolved = match tag {
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix != "str" => scalar::resolve(text),
        None if style == ScalarStyle::Plain => scalar::resolve(text),
        _ => Scalar::String(text.to_owned()),
    };
    if style == ScalarStyle::Plain && tag.is_none() && scalar::is_unrepresentable(text) {
        let message = format!("`{text}` is a number that JSON cannot hold");
        return Err(Error { message, span });
    }
    Ok(resolved)
}

/// A key as a string, as JSON needs it, and true if it was none.
pub(super) fn key_text(value: Scalar) -> (String, bool) {
    match value {
        Scalar::String(text) => (text, false),
        Scalar::Null => ("null".to_owned(), true),
        Scalar::Bool(value) => (value.to_string(), true),
        Scalar::Number(number) => (number.to_string(), true),
    }
}

/// A list or map whose end has not been read yet.
enum Collection<T> {
    List(Vec<T>),
    Map(MapBuilder<T>),
}

struct PendingKey {
    text: String,
    span: Span,
    /// True if the text is no string in YAML, such as `on`, which is the boolean `true`.
    converted: bool,
    merges: bool,
}

struct MapBuilder<T> {
    entries: Vec<Entry<T>>,
    /// The key whose value has not been read yet.
    pending: Option<PendingKey>,
    merges: Vec<Entry<T>>,
}

impl<T> Default for MapBuilder<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), pending: None, merges: Vec::new() }
    }
}

struct Frame<T> {
    collection: Collection<T>,
    anchor: usize,
    span: Span,
    /// The number of nodes before this collection, to compute the size of an alias of it.
    nodes_before: usize,
}

struct Builder<T> {
    root: Option<T>,
    stack: Vec<Frame<T>>,
    anchors: HashMap<usize, (T, usize)>,
    duplicate_key: Option<Error>,
    nodes: usize,
    aliased_nodes: usize,
    anchored_nodes: usize,
}

impl<T: Tree> Builder<T> {
    fn new() -> Self {
        Self {
            root: None,
            stack: Vec::new(),
            anchors: HashMap::new(),
            duplicate_key: None,
            nodes: 0,
            aliased_nodes: 0,
            anchored_nodes: 0,
        }
    }

    fn add(
        &mut self,
        value: Scalar,
        plain: bool,
        anchor: usize,
        span: Span,
        places: Option<SourceMap>,
    ) -> Result<(), Error> {
        let size = 1 + if let Scalar::String(text) = &value { text.len() / BYTES_PER_NODE } else { 0 };
        self.nodes += size;
        if let Some(Frame { collection: Collection::Map(map), .. }) = self.stack.last_mut()
            && map.pending.is_none()
        {
            if anchor > 0 {
                self.anchors.insert(anchor, (T::scalar(value.clone(), plain, span, places), size));
            }
            let (text, converted) = key_text(value);
            let merges = plain && text == "<<";
            map.pending = Some(PendingKey { text, span, converted, merges });
            return Ok(());
        }
        let node = T::scalar(value, plain, span, places);
        self.finish(node, anchor, size, span)
    }

    fn open(&mut self, collection: Collection<T>, anchor: usize, span: Span) -> Result<(), Error> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(Error { message: format!("nested more than {MAX_DEPTH} levels deep"), span });
        }
        if let Some(Frame { collection: Collection::Map(map), .. }) = self.stack.last()
            && map.pending.is_none()
        {
            return Err(Error { message: "the key of a map has to be a string".to_owned(), span });
        }
        self.nodes += 1;
        self.stack.push(Frame { collection, anchor, span, nodes_before: self.nodes });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        let Some(frame) = self.stack.pop() else { return Ok(()) };
        let size = self.nodes - frame.nodes_before + 1;
        let node = match frame.collection {
            Collection::List(items) => T::list(items, frame.span),
            Collection::Map(map) => T::map(self.merged(map), frame.span),
        };
        self.finish(node, frame.anchor, size, frame.span)
    }

    /// The entries of a map and those that `<<` merges into it. The map's own entries take precedence.
    fn merged(&mut self, map: MapBuilder<T>) -> Vec<Entry<T>> {
        let mut entries = map.entries;
        if !map.merges.is_empty() {
            let own: HashSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
            entries.extend(map.merges.into_iter().filter(|merge| !own.contains(&merge.key)));
        }
        if self.duplicate_key.is_none() {
            self.duplicate_key = first_duplicate(&entries).map(|entry| Error {
                message: format!("the key `{}` appears twice in one map", entry.key),
                span: entry.span,
            });
        }
        entries
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(), Error> {
        let Some((node, size)) = self.anchors.get(&id) else {
            return Err(Error { message: "an alias is inside the node that it refers to".to_owned(), span });
        };
        self.aliased_nodes += size;
        self.nodes += size;
        if self.aliased_nodes > MAX_ALIASED_NODES {
            let message = format!("aliases expand to more than {MAX_ALIASED_NODES} nodes");
            return Err(Error { message, span });
        }
        let node = node.clone();
        self.finish(node, 0, 0, span)
    }

    /// Adds a complete node to the collection that encloses it.
    fn finish(&mut self, node: T, anchor: usize, size: usize, span: Span) -> Result<(), Error> {
        if anchor > 0 {
            // Each anchored node is kept as a copy, so nodes with an anchor inside an anchored node are kept twice.
            self.anchored_nodes += size;
            if self.anchored_nodes > MAX_ANCHORED_NODES {
                let message = format!("anchors hold more than {MAX_ANCHORED_NODES} nodes");
                return Err(Error { message, span });
            }
            self.anchors.insert(anchor, (node.clone(), size));
        }
        match self.stack.last_mut().map(|frame| &mut frame.collection) {
            None => self.root = Some(node),
            Some(Collection::List(items)) => items.push(node),
            Some(Collection::Map(map)) => match map.pending.take() {
                None => {
                    return Err(Error { message: "the key of a map has to be a string".to_owned(), span });
                }
                Some(key) if key.merges => merge_into(map, node, key.span)?,
                Some(PendingKey { text: key, span, converted, .. }) => {
                    map.entries.push(Entry { key, span, converted, value: node });
                }
            },
        }
        Ok(())
    }
}

fn merge_into<T: Tree>(map: &mut MapBuilder<T>, node: T, span: Span) -> Result<(), Error> {
    let sources = match node.clone().items() {
        Some(items) => items,
        None => vec![node],
    };
    for source in sources {
        let Some(entries) = source.entries() else {
            return Err(Error { message: "`<<` merges maps only".to_owned(), span });
        };
        map.merges.extend(entries);
    }
    // If several sources have a key, the first one takes precedence.
    let mut seen = HashSet::new();
    map.merges.retain(|entry| seen.insert(entry.key.clone()));
    Ok(())
}

/// The first entry whose key an earlier entry already has.
pub(super) fn first_duplicate<T>(entries: &[Entry<T>]) -> Option<&Entry<T>> {
    // Most maps of a manifest are small. A set is faster only for large ones.
    if entries.len() <= 16 {
        return entries.iter().enumerate().find_map(|(at, entry)| {
            let key = entry.key.as_bytes();
            let same = |earlier: &Entry<T>| {
                // Most keys differ in their length or their last letter, which is faster to compare.
                let other = earlier.key.as_bytes();
                other.len() == key.len() && other.last() == key.last() && other == key
            };
            entries[..at].iter().any(same).then_some(entry)
        });
    }
    let mut seen = HashSet::with_capacity(entries.len());
    entries.iter().find(|entry| !seen.insert(entry.key.as_str()))
}
