//! What the manifests of a command say about claims, wherever they stand in the input.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;

use crate::files::files_of;
use crate::stream::RawDocuments;
use fabric_policy::claims::{ClaimObject, Claims};
use fabric_workloads::manifest::{Document, RawDocument};

/// The largest file, in bytes, that is searched before it is read document by document.
const MOST_TO_SEARCH: u64 = 16 << 20;

/// Adds the claims of all files that can be read twice. Errors are those of the second time.
pub(super) fn with_files(
    known: Option<Arc<Claims>>,
    files: &[String],
    namespace: Option<&str>,
) -> Option<Arc<Claims>> {
    let paths = files.iter().filter(|file| *file != "-").filter_map(|file| files_of(Path::new(file)).ok());
    let regular = paths.flatten().filter(|path| path.is_file());
    let opened = regular.filter(|path| may_name_claims(path)).filter_map(|path| File::open(path).ok());
    opened.fold(known, |known, file| {
        let documents = RawDocuments::new(BufReader::new(file)).map_while(Result::ok);
        let found: Vec<ClaimObject> = documents.flat_map(|raw| of_document(&raw, namespace)).collect();
        with(known, found)
    })
}

/// Adds the claims of documents.
pub(super) fn with_documents(
    known: Option<Arc<Claims>>,
    documents: &[RawDocument],
    namespace: Option<&str>,
) -> Option<Arc<Claims>> {
    with(known, documents.iter().flat_map(|raw| of_document(raw, namespace)).collect())
}

fn with(known: Option<Arc<Claims>>, found: Vec<ClaimObject>) -> Option<Arc<Claims>> {
    if found.is_empty() {
        return known;
    }
    let mut claims = known.map(Arc::unwrap_or_clone).unwrap_or_default();
    claims.extend(found);
    Some(Arc::new(claims))
}

/// Returns whether a file may name one of the kinds. A large one is not read for it.
fn may_name_claims(path: &Path) -> bool {
    let is_small = path.metadata().is_ok_and(|metadata| metadata.len() <= MOST_TO_SEARCH);
    !is_small || fs::read(path).is_ok_and(|bytes| names_claims(&bytes))
}

fn names_claims(bytes: &[u8]) -> bool {
    static KINDS: LazyLock<[Finder<'static>; 4]> = LazyLock::new(|| ClaimObject::kinds().map(Finder::new));
    KINDS.iter().any(|kind| kind.find(bytes).is_some())
}

/// The claims of a document. Most documents name none of the kinds, and are not read.
fn of_document(raw: &RawDocument, namespace: Option<&str>) -> Vec<ClaimObject> {
    if !names_claims(&raw.bytes) {
        return Vec::new();
    }
    let value = Document::read(raw).ok().and_then(|document| document.value).unwrap_or_default();
    ClaimObject::read_all(&value, namespace.unwrap_or("default"))
}
