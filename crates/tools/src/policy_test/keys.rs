//! The keys of a file of cases.

use fabric_policy::keys::{API_VERSION, Kind, Map, TEXT, TEXTS, optional, required};

pub(super) const OUTCOMES: [&str; 4] = ["mutated", "unchanged", "skipped", "refused"];

pub const KIND: &str = "PolicyTest";

pub(crate) static CASE_FILE: Map = Map::new("a file of cases").keys(&[
    required("apiVersion", Kind::Constant(API_VERSION), "The version of the policy language."),
    required("kind", Kind::Constant(KIND), "The kind of the file."),
    optional("policy", POLICIES, "The policy of all cases."),
    optional("pod", Kind::PartOfPod(0), "The pod of the cases that have none of their own."),
    required("cases", Kind::List(&Kind::Fields(&CASE), 1), "The cases."),
]);

/// The name of a built-in policy, the path of a file, or a list of them.
const POLICIES: Kind = Kind::Either(&[TEXT, TEXTS]);

pub(crate) static CASE: Map =
    Map::new("a case").exclusive(&[["workload", "pod"], ["workload", "with"]]).keys(&[
        required("name", TEXT, "A sentence. No two cases of a file have the same."),
        optional("policy", POLICIES, "The policy of this case."),
        optional("values", Kind::Any, "The content of a `multinodeNetworking` block, as in a values file."),
        optional("parameters", Kind::Object, "Values of parameters, which have precedence over `values`."),
        optional("context", Kind::Fields(&CONTEXT), "The facts about the pod that the pod does not contain."),
        optional("pod", Kind::PartOfPod(0), "The pod."),
        optional("with", Kind::PartOfPod(0), "A strategic merge patch of the pod; `null` removes a field."),
        optional("workload", WORKLOAD, "An object with pod templates, or the path of a file of them."),
        required("expect", EXPECTATIONS, "The expected result; for a workload, it can be a list."),
    ]);

const WORKLOAD: Kind = Kind::Either(&[Kind::Object, TEXT]);
const EXPECTATIONS: Kind =
    Kind::Either(&[Kind::Fields(&EXPECTATION), Kind::List(&Kind::Fields(&EXPECTATION), 1)]);

pub(crate) static CONTEXT: Map = Map::new("`context`").keys(&[
    optional("namespace", TEXT, "The namespace of the pod."),
    optional("owner", TEXT, "The kind of the owner of the pod: `Kind.group`."),
    optional("nodes", Kind::List(&Kind::Fields(&NODE), 0), "The nodes of the cluster, all of them Ready."),
    optional(
        "claims",
        Kind::List(&Kind::Object, 0),
        "Its objects that say what claims bring, such as ResourceClaimTemplates.",
    ),
    optional(
        "networks",
        NETWORKS,
        "Its networks of Multus, `NAME` or `NAMESPACE/NAME`, each with its resource.",
    ),
]);

const NETWORKS: Kind = Kind::Map(&TEXT, &TEXT, 0);

pub(crate) static NODE: Map = Map::new("a node").keys(&[
    optional("labels", Kind::Object, "The labels of the node."),
    optional("capacity", Kind::Object, "Its extended resources."),
    optional("taints", Kind::List(&Kind::Object, 0), "Its taints."),
    optional("providerID", TEXT, "Its `spec.providerID`."),
]);

pub(crate) static EXPECTATION: Map = Map::new("`expect`")
    .some_of(&["outcome", "reason", "warnings", "has", "lacks", "object", "patch"])
    .keys(&[
        optional("outcome", Kind::Word(&OUTCOMES), "The outcome."),
        optional("reason", TEXT, "The code of the reason."),
        optional("warnings", TEXTS, "The codes of the warnings, and no others."),
        optional("has", Kind::PartOfPod(1), "Fields that the pod has; entries of lists are found by name."),
        optional("lacks", Kind::List(&TEXT, 1), "Paths at which the pod has nothing."),
        optional("object", Kind::Object, "The whole pod."),
        optional("patch", Kind::List(&Kind::Any, 0), "The operations of the JSON Patch."),
        optional("template", TEXT, "The JSON Pointer to the pod template that the expectation is about."),
        optional("document", Kind::Count(1), "The number of the document with the pod template."),
    ]);
