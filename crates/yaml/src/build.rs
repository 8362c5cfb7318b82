//! Builds a tree of the events of the parser, within limits on depth and size.

use std::collections::{HashMap, HashSet};

use super::error::Error;
use super::scalar::{self, Scalar};
use super::source_map::SourceMap;
use super::span::Span;

/// The deepest nesting of lists and maps: the limit of the JSON parser, so YAML and JSON are accepted alike.
pub(super) const MAX_DEPTH: usize = 128;
/// The number of nodes that all aliases of a document together can add; a long string counts as several nodes. Real
/// manifests add some tens.
const MAX_ALIASED_NODES: usize = 100_000;
/// The number of nodes that are kept for later aliases, counted in the same way.
const MAX_ANCHORED_NODES: usize = 200_000;
/// The number of bytes of text that count as one node.
const BYTES_PER_NODE: usize = 64;

/// A tree that is built from the events of the parser.
pub(super) trait Tree: Clone {
    /// True if scalars with expressions in them come with their map.
    const MAPPED: bool;

    fn scalar(value: Scalar, plain: bool, span: Span, map: Option<SourceMap>) -> Self;
    fn list(items: Vec<Self>, span: Span) -> Self;
    fn map(entries: Vec<Entry<Self>>, span: Span) -> Self;
    /// The entries of a map, for the merge key `<<`. `None` if this is not a map.
    fn entries(self) -> Option<Vec<Entry<Self>>>;
    /// The items of a list, for the merge key `<<`, or else the node.
    fn items(self) -> Result<Vec<Self>, Self>;
}

/// A key of a map with its position and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry<T> {
    /// The key, converted to a string as JSON needs it.
    pub key: String,
    /// The position of the key.
    pub span: Span,
    /// True if the text of the key is not a string in YAML, such as `on`, which is the boolean `true`.
    pub converted: bool,
    /// The value of the key.
    pub value: T,
}

impl<T> Entry<T> {
    /// The error that an earlier entry has the same key.
    pub(super) fn repeated(&self) -> Error {
        Error::new(format!("the key `{}` appears twice in one map", self.key), self.span)
    }
}

/// A list or map whose end has not been read yet.
pub(super) enum Collection<T> {
    List(Vec<T>),
    Map(MapBuilder<T>),
}

struct PendingKey {
    text: String,
    span: Span,
    /// True if the text is not a string in YAML, such as `on`, which is the boolean `true`.
    converted: bool,
    merges: bool,
}

pub(super) struct MapBuilder<T> {
    entries: Vec<Entry<T>>,
    /// The key whose value has not been read yet.
    pending: Option<PendingKey>,
    merges: Vec<Entry<T>>,
    /// With a merge key: the keys of what was merged and of so many entries.
    keys: HashSet<String>,
    known: usize,
}

impl<T> Default for MapBuilder<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), pending: None, merges: Vec::new(), keys: HashSet::new(), known: 0 }
    }
}

struct Frame<T> {
    collection: Collection<T>,
    anchor: usize,
    span: Span,
    /// The position of its bracket.
    brackets: Option<usize>,
    /// The number of nodes before this collection, to compute the size of an alias of it.
    nodes_before: usize,
}

pub(super) struct Builder<T> {
    pub(super) root: Option<T>,
    stack: Vec<Frame<T>>,
    anchors: HashMap<usize, (T, usize)>,
    pub(super) duplicate_key: Option<Error>,
    nodes: usize,
    aliased_nodes: usize,
    anchored_nodes: usize,
}

impl<T: Tree> Builder<T> {
    pub(super) fn new() -> Self {
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

    pub(super) fn is_empty(&self) -> bool {
        self.stack.is_empty()
    }

    /// The outermost brackets that are open, and their position.
    pub(super) fn brackets(&self) -> Option<(Span, usize)> {
        self.stack.iter().find_map(|frame| Some((frame.span, frame.brackets?)))
    }

    /// Returns true if the next node is a key.
    pub(super) fn expects_key(&self) -> bool {
        let map = self.stack.last().map(|frame| &frame.collection);
        matches!(map, Some(Collection::Map(MapBuilder { pending: None, .. })))
    }

    pub(super) fn add(
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
            let (text, converted) = scalar::key(value).map_err(|message| Error::new(message, span))?;
            let merges = plain && text == "<<";
            map.pending = Some(PendingKey { text, span, converted, merges });
            return Ok(());
        }
        let node = T::scalar(value, plain, span, places);
        self.finish(node, anchor, size, span)
    }

    pub(super) fn open(
        &mut self,
        collection: Collection<T>,
        brackets: Option<usize>,
        anchor: usize,
        span: Span,
    ) -> Result<(), Error> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(Error::new(format!("nested more than {MAX_DEPTH} levels deep"), span));
        }
        if self.expects_key() {
            return Err(Error::new("the key of a map must be a string", span));
        }
        self.nodes += 1;
        self.stack.push(Frame { collection, anchor, span, brackets, nodes_before: self.nodes });
        Ok(())
    }

    pub(super) fn close(&mut self) -> Result<(), Error> {
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
            self.duplicate_key = first_duplicate(&entries).map(Entry::repeated);
        }
        entries
    }

    pub(super) fn alias(&mut self, id: usize, span: Span) -> Result<(), Error> {
        let Some((node, size)) = self.anchors.get(&id) else {
            return Err(Error::new("an alias is inside the node that it refers to", span));
        };
        self.aliased_nodes += size;
        self.nodes += size;
        if self.aliased_nodes > MAX_ALIASED_NODES {
            return Err(Error::new(format!("aliases expand to more than {MAX_ALIASED_NODES} nodes"), span));
        }
        let node = node.clone();
        let merges = match self.stack.last().map(|frame| &frame.collection) {
            Some(Collection::Map(map)) => map.pending.as_ref().is_some_and(|key| key.merges),
            _ => false,
        };
        if merges && node.clone().entries().is_none() {
            return Err(Error::new("`<<` merges a map, or a list of maps that is written in place", span));
        }
        self.finish(node, 0, 0, span)
    }

    /// Adds a complete node to the collection that encloses it.
    fn finish(&mut self, node: T, anchor: usize, size: usize, span: Span) -> Result<(), Error> {
        if anchor > 0 {
            // Each anchored node is kept as a copy, so nodes with an anchor inside an anchored node are kept twice.
            self.anchored_nodes += size;
            if self.anchored_nodes > MAX_ANCHORED_NODES {
                return Err(Error::new(format!("anchors hold more than {MAX_ANCHORED_NODES} nodes"), span));
            }
            self.anchors.insert(anchor, (node.clone(), size));
        }
        match self.stack.last_mut().map(|frame| &mut frame.collection) {
            None => self.root = Some(node),
            Some(Collection::List(items)) => items.push(node),
            Some(Collection::Map(map)) => match map.pending.take() {
                None => return Err(Error::new("the key of a map must be a string", span)),
                Some(key) if key.merges => map.merge(node, key.span)?,
                Some(PendingKey { text: key, span, converted, .. }) => {
                    map.entries.push(Entry { key, span, converted, value: node });
                }
            },
        }
        Ok(())
    }
}

impl<T: Tree> MapBuilder<T> {
    /// Merges a map, or each map of a list, where the first one takes precedence.
    ///
    /// For kubectl, a key before the `<<` has the value of the `<<`; by the rules of YAML, it has its own.
    fn merge(&mut self, node: T, span: Span) -> Result<(), Error> {
        let sources = match node.items() {
            Ok(items) => items,
            Err(node) => vec![node],
        };
        self.keys.extend(self.entries[self.known..].iter().map(|entry| entry.key.clone()));
        self.known = self.entries.len();
        let mut merged = HashSet::new();
        for source in sources {
            let Some(entries) = source.entries() else {
                return Err(Error::new("`<<` merges maps only", span));
            };
            for entry in entries {
                if self.keys.contains(&entry.key) {
                    let key = &entry.key;
                    let message = format!(
                        "this `<<` has the key `{key}`, which is also before it, and kubectl takes a different one \
                         of the two values than other YAML readers; write `{key}` after the last `<<`"
                    );
                    return Err(Error::new(message, span));
                }
                if merged.insert(entry.key.clone()) {
                    self.merges.push(entry);
                }
            }
        }
        self.keys.extend(merged);
        Ok(())
    }
}

/// The first entry whose key an earlier entry already has.
fn first_duplicate<T>(entries: &[Entry<T>]) -> Option<&Entry<T>> {
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
