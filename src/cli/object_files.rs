//! The objects that pods name, wherever they stand in the input of a command.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;

use crate::files::files_of;
use crate::stream::RawDocuments;
use fabric_policy::objects::{KnownObjects, NamedObject, ObjectKind};
use fabric_workloads::manifest::{Document, RawDocument};

/// The largest file, in bytes, that is searched before it is read document by document.
const MOST_TO_SEARCH: u64 = 16 << 20;

/// Adds those of all files that can be read twice. Errors are those of the second time.
pub(super) fn with_files(
    known: Option<Arc<KnownObjects>>,
    files: &[String],
    namespace: Option<&str>,
) -> Option<Arc<KnownObjects>> {
    let paths = files.iter().filter(|file| *file != "-").filter_map(|file| files_of(Path::new(file)).ok());
    let regular = paths.flatten().filter(|path| path.is_file());
    let opened = regular.filter(|path| may_have_one(path)).filter_map(|path| File::open(path).ok());
    opened.fold(known, |known, file| {
        let documents = RawDocuments::new(BufReader::new(file)).map_while(Result::ok);
        let found: Vec<NamedObject> = documents.flat_map(|raw| of_document(&raw, namespace)).collect();
        with(known, found)
    })
}

/// Adds those of documents.
pub(super) fn with_documents(
    known: Option<Arc<KnownObjects>>,
    documents: &[RawDocument],
    namespace: Option<&str>,
) -> Option<Arc<KnownObjects>> {
    with(known, documents.iter().flat_map(|raw| of_document(raw, namespace)).collect())
}

fn with(known: Option<Arc<KnownObjects>>, found: Vec<NamedObject>) -> Option<Arc<KnownObjects>> {
    if found.is_empty() {
        return known;
    }
    let mut objects = known.map(Arc::unwrap_or_clone).unwrap_or_default();
    objects.extend(found);
    Some(Arc::new(objects))
}

/// Returns whether a file may have such an object. A large one is not read for it.
fn may_have_one(path: &Path) -> bool {
    let is_small = path.metadata().is_ok_and(|metadata| metadata.len() <= MOST_TO_SEARCH);
    !is_small || fs::read(path).is_ok_and(|bytes| has_api(&bytes))
}

/// Returns whether a text has a version of one of the APIs.
fn has_api(bytes: &[u8]) -> bool {
    static APIS: LazyLock<Vec<Finder<'static>>> = LazyLock::new(|| {
        let groups: BTreeSet<String> =
            ObjectKind::all().map(|kind| format!("{}/v", kind.api().group)).collect();
        groups.iter().map(|group| Finder::new(group).into_owned()).collect()
    });
    APIS.iter().any(|group| group.find(bytes).is_some())
}

/// The objects of a document. Most documents name none of the APIs, and are not read.
fn of_document(raw: &RawDocument, namespace: Option<&str>) -> Vec<NamedObject> {
    if !has_api(&raw.bytes) {
        return Vec::new();
    }
    let value = Document::read(raw).ok().and_then(|document| document.value).unwrap_or_default();
    NamedObject::read_all(&value, namespace.unwrap_or("default"))
}
