//! The objects that pods name, wherever they stand in the input of a command.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;

use crate::cluster::ClusterObjects;
use crate::files::files_of;
use crate::stream::RawDocuments;
use fabric_policy::objects::{KnownObjects, NamedObject, ObjectKind};
use fabric_workloads::manifest::{Document, RawDocument};

/// The largest file, in bytes, that is searched before it is read document by document.
const MOST_TO_SEARCH: u64 = 16 << 20;

/// Those of the cluster, of all files, and of the documents so far.
pub(super) struct ObjectsOfInput<'n> {
    /// `None` if there is no such object, and nothing was asked about those of a cluster.
    pub(super) known: Option<Arc<KnownObjects>>,
    /// That of objects that do not name one.
    namespace: Option<&'n str>,
}

impl<'n> ObjectsOfInput<'n> {
    /// Begins with those of the cluster and of all files that can be read twice. Errors are those of the second time.
    pub(super) fn new(
        cluster: Option<&ClusterObjects>,
        files: &[String],
        namespace: Option<&'n str>,
    ) -> Self {
        let mut objects = Self { known: cluster.and_then(|cluster| cluster.objects.clone()), namespace };
        let named = files.iter().filter(|file| *file != "-");
        let paths = named.filter_map(|file| files_of(Path::new(file)).ok()).flatten();
        let regular = paths.filter(|path| path.is_file() && may_have_one(path));
        for file in regular.filter_map(|path| File::open(path).ok()) {
            objects.add(RawDocuments::new(BufReader::new(file)).map_while(Result::ok));
        }
        objects
    }

    /// Adds those of documents.
    pub(super) fn add(&mut self, documents: impl IntoIterator<Item = impl Borrow<RawDocument>>) {
        let of_documents = documents.into_iter().flat_map(|raw| of_document(raw.borrow(), self.namespace));
        let found: Vec<NamedObject> = of_documents.collect();
        if !found.is_empty() {
            Arc::make_mut(self.known.get_or_insert_default()).extend(found);
        }
    }
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
