//! The pieces of a Pod in a rule, by section: each is a [`Tree`], as its author wrote it.
//!
//! | to change | look at |
//! |---|---|
//! | a tree, and how its parts are found | `tree` |
//! | how a tree is read from a policy, or from the value of an expression | `read` |
//! | what takes the place of an expression, what `null` leaves out, which parts are checked | `evaluation` |
//! | which values fit the tables of a Pod, and the messages for the others | `check` |
//! | in which order variables stand | `references` |
//! | which fields a tree writes | [`writes`](mod@writes) |

mod check;
mod evaluation;
mod read;
mod references;
mod scalars;
mod tree;
mod without;
pub mod writes;

#[cfg(test)]
pub(crate) use evaluation::check_value;
pub use evaluation::{Evaluation, LeftOut};
pub(crate) use read::{container, pod};
pub use references::in_order_of_references;
pub(crate) use references::{in_order, references};
pub use tree::{Devices, Edit, EditKind, Entry, Tree};
pub(crate) use without::without;
pub(crate) use writes::Kind;
pub use writes::{SharedValue, Target, ValuePath, Write, writes};

use serde_json::Value;

use crate::interpolation::{Interpolation, Phase};
use crate::schema::{self, Object};
use fabric_yaml::quantity::Quantity;
use tree::{Content, Key};

/// The annotation that Multus reads.
pub const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// What a rule adds to one section of a pod.
#[derive(Debug, Clone)]
pub struct Addition {
    pub section: Section,
    /// The fields of a container without its name, or those of the pod that belong to the section.
    pub tree: Tree,
    /// The values that other additions may write, too.
    pub shared: Vec<SharedValue>,
}

/// The sections of a pod. They are merged one after the other, because an expression of one can read another.
#[derive(Debug, Clone, PartialEq)]
pub enum Section {
    /// The containers that the rule selects.
    Selected,
    /// A container that the rule names: merged into the pod's container of that name, or added.
    Named(ContainerName),
    /// Claims are there before the containers that use them.
    Claims,
    /// Volumes are added only if a container mounts them.
    Volumes,
    /// Everything else of the pod.
    Pod,
}

/// The name of a container that a rule writes out.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerName {
    /// `containers` or `initContainers`.
    pub list: &'static str,
    pub name: Tree,
}

/// Returns whether an amount is zero, and is therefore left out.
pub fn is_zero(amount: &Value) -> bool {
    count_of(amount) == Some(0)
}

/// The number of devices of an amount.
pub fn count_of(amount: &Value) -> Option<usize> {
    Quantity::from_value(amount).and_then(Quantity::as_count)?.try_into().ok()
}

impl Section {
    /// The type of the object whose fields its trees have.
    pub fn object(&self) -> &'static Object {
        match self {
            Self::Selected | Self::Named(_) => schema::container(),
            Self::Claims | Self::Volumes | Self::Pod => schema::pod(),
        }
    }

    /// The phase in which the expressions of its trees are evaluated.
    pub fn phase(&self) -> Phase {
        match self {
            Self::Selected => Phase::Container,
            Self::Named(_) | Self::Claims | Self::Volumes => Phase::Pod,
            Self::Pod => Phase::Injected,
        }
    }
}

impl Addition {
    pub(crate) fn new(section: Section, tree: Tree) -> Self {
        Self { section, tree, shared: Vec::new() }
    }

    /// The container that the rule names.
    pub fn container_name(&self) -> Option<&ContainerName> {
        if let Section::Named(name) = &self.section { Some(name) } else { None }
    }

    /// The image of a container that the rule names. Without one, the container cannot be added.
    pub fn image(&self) -> Option<&Tree> {
        self.container_name().and_then(|_| self.tree.get("image"))
    }

    /// Returns whether expressions yield names of values that other additions may write, too.
    pub fn names_places(&self) -> bool {
        self.shared.iter().any(|value| value.kind == Kind::Named)
    }

    /// Returns whether the image is its own, also one that is `null` for these parameters.
    pub fn sets_image(&self) -> bool {
        self.image().is_some() || self.shared.iter().any(|value| value.place.path == ["image"])
    }

    pub fn writes(&self) -> Vec<Write<'_>> {
        writes(&self.tree, self.section.object())
    }

    /// Calls `visit` with every text that has expressions.
    pub fn texts(&self, visit: &mut dyn FnMut(&Interpolation)) {
        self.container_name().into_iter().for_each(|container| container.name.texts(visit));
        self.tree.texts(visit);
    }
}

/// Attaches the devices of a container's overlay to the networks of the pod. `requests` yields the requests of the pod.
pub(crate) fn attach(pod: &mut [Addition], container: &Tree, requests: &Interpolation) {
    let amounts = container.at(&["resources", "limits"]).map_or(&[][..], Tree::entries);
    if amounts.is_empty() {
        return;
    }
    let resource = |entry: &Entry| match &entry.key {
        Key::Name(name) => Tree::value(entry.span, (**name).into()),
        Key::Text(text) => Tree::text(entry.span, text.clone()),
        Key::Resources(names) => Tree::value(entry.span, names.iter().cloned().collect()),
    };
    let resources: Vec<Tree> = amounts.iter().map(resource).collect();
    let metadata = pod.iter_mut().flat_map(|addition| addition.tree.entries_mut());
    let annotations = metadata.flat_map(|field| field.value.entries_mut());
    for annotation in annotations.flat_map(|field| field.value.entries_mut()) {
        if let Content::Edit(edit) = &mut annotation.value.content
            && let EditKind::Networks(devices) = &mut edit.kind
        {
            let span = annotation.span;
            let resources = Tree { span, content: Content::List(resources.clone()) };
            *devices = Some(Devices { resources, requests: Tree::text(span, requests.clone()) });
        }
    }
}
