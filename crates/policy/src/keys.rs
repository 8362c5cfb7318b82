//! The keys of the policy language, from which the parser, the hints of its messages and the JSON Schema follow. A test
//! compares them with the reference.

mod kind;
mod misplaced;

use kind::Kind::{
    Amount, Annotations, Any, Constant, Container, Count, Either, Env, Except, Expression, Fields,
    Identifier, Like, List, Object, Parameter, Pod, Resources, Spec, Text, Variable, Word,
};
pub use kind::{Key, Kind, Map, optional, required};
pub(crate) use misplaced::{hint_for_misplaced, refuse_key};

use crate::schema::Format;

pub const API_VERSION: &str = "fabric-injector.io/v1alpha1";
pub const KIND: &str = "FabricPolicy";

/// The words of `onConflict`, `action` and `type`, to which the parser gives their meaning.
pub(crate) const ON_CONFLICT: [&str; 2] = ["keep", "replace"];
pub(crate) const ACTIONS: [&str; 4] = ["warn", "warnOfTcp", "refuse", "skip"];
pub(crate) const TYPES: [&str; 6] = ["integer", "number", "string", "boolean", "quantity", "stringList"];

pub const TEXT: Kind = Text(Format::Any);
pub const TEXTS: Kind = List(&TEXT, 0);
const LABEL: Kind = Text(Format::DnsLabel);
const KEY_OF_LABEL: Kind = Text(Format::QualifiedName);
const ANNOTATION: Kind = Text(Format::AnnotationKey);
const OFFERED: Kind = Like("/", "an extended resource, such as `example.com/nic`");
/// The names of devices, in which a `*` matches any text; an expression yields one or several.
const NAMES: Kind = Either(&[List(&Text(Format::NonEmpty), 0), INTERPOLATED]);
const CLAIMS: Kind = Kind::Map(&CLAIM, &Either(&[Count(0), INTERPOLATED]), 0);
const CLAIM: Kind = Like(r"^[^=]+$|\$\{", "the name of a claim, or `class:NAME`");
/// One expression in a text.
const INTERPOLATED: Kind = Like(r"^\s*\$\{[\s\S]*\}\s*$", "one expression: `${…}`");
const MACHINES: Kind = Kind::Map(&Except(&KEY_OF_LABEL, &["default"]), &MACHINES_OF_LABEL, 0);
const MACHINES_OF_LABEL: Kind = Kind::Map(&VALUES_OF_LABEL, &Kind::Map(&TEXT, &Any, 1), 1);
const VALUES_OF_LABEL: Kind = Like(
    r"^ *(?:[^*, ][^*,]*\*?[^*,]*|\*[^*,]*[^*, ][^*,]*)(?:, *(?:[^*, ][^*,]*\*?[^*,]*|\*[^*,]*[^*, ][^*,]*))*$",
    "values of the label, with commas between them and at most one `*` in each",
);
const LABELS_OF_NODES: Kind = Kind::Map(&KEYS_OF_NODES, &TEXT, 0);
const KEYS_OF_NODES: Kind = Like(
    r"^(?:[^/\s]+/)?(?:[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?|(?:[A-Za-z0-9][-_.A-Za-z0-9]{0,61})?\*)$",
    "a qualified name, `[prefix/]name`, or its beginning with a `*` at the end, such as `example.com/*`",
);
const OWNER_KIND: Kind =
    Like(r"^[A-Z][A-Za-z0-9]*(?:\.[-.a-z0-9]+)?$", "`Kind`, or `Kind.group` such as `Job.batch`");
const CODE: Kind = Like("^[a-z0-9_]{1,63}$", "at most 63 lower-case letters, digits and `_`");
const VARIABLES_OF_SETTINGS: Kind =
    Like(r"^[A-Za-z0-9_]+\*?$", "the name of a variable, or its beginning and `*`");
const PATH_OF_SETTINGS: Kind = Like("^/[^:,]*$", "an absolute path without `:` and `,`");
const NETWORK_ALONE: Kind = Like(
    r"^(?:[a-z0-9][-.a-z0-9]*/)?[a-z0-9][-.a-z0-9]*$|\$\{",
    "the name of a network, with or without its namespace, as in `team/rail-0`",
);
const NETWORK: Kind = Like(
    r"^(?:[a-z0-9][-.a-z0-9]*/)?[a-z0-9][-.a-z0-9]*(?:@[-_.A-Za-z0-9]{1,15})?$|\$\{",
    "the name of a network, with or without its namespace, as in `team/rail-0`",
);

pub static POLICY: Map = Map::new("a policy").keys(&[
    required("apiVersion", Constant(API_VERSION), "The version of the policy language."),
    required("kind", Constant(KIND), "The kind of the file."),
    required("metadata", Fields(&METADATA), "The name of the policy."),
    required("spec", Spec, "What the policy matches and adds, or what it extends."),
]);

pub(crate) static METADATA: Map =
    Map::new("`metadata`").keys(&[required("name", LABEL, "The name of the policy: a DNS label.")]);

pub static SPEC: Map = Map::new("`spec`").some_of(&["rules", "devices"]).extended().keys(&[
    optional("extends", Either(&[TEXT, TEXTS]), "The policy to extend, parts to take, or a list."),
    optional("without", TEXTS, "Rules, entries, checks and files of what it extends that it leaves out."),
    required("provider", LABEL, "The key of its block below `multinodeNetworking:` in a values file."),
    optional("nodes", Fields(&NODES), "The nodes of the provider, where several are in use."),
    required("description", TEXT, "One sentence for `fabric-injector policy list`."),
    required("gpus", Fields(&GPUS), "What counts as a GPU."),
    optional("devices", Fields(&DEVICES), "The devices of the fabric: a pod's own, and those to add."),
    required("match", Fields(&MATCH), "The pods that the policy matches. Every key must hold."),
    optional("parameters", PARAMETERS, "The values that an operator can set."),
    optional("variables", VARIABLES, "Expressions, constants and tables, which can read each other."),
    optional("machines", MACHINES, "Values of parameters and variables by the labels of nodes."),
    optional("checks", List(&Fields(&CHECK), 0), "Warnings for the author, refusals, and pods to skip."),
    optional("files", FILES, "Variables in files, by their paths, for other processes of a job."),
    optional("rules", List(&Fields(&RULE), 1), "The additions to a pod, in this order."),
]);

const FILES: Kind = Kind::Map(&PATH_OF_SETTINGS, &Fields(&FILE), 0);

/// `enabled` is a key of the provider's block in a values file.
const PARAMETERS: Kind = Kind::Map(&Identifier(&["enabled"]), &Parameter, 0);
const VARIABLES: Kind = Kind::Map(&Identifier(&[]), &Variable, 0);

pub(crate) static GPUS: Map = Map::new("`gpus`").some_of(&["resources", "claims"]).extended().keys(&[
    optional("resources", List(&Text(Format::ResourceName), 1), "The resources that count as GPUs."),
    optional("claims", CLAIMS, "Names of claims and of templates, with the GPUs of each."),
]);

pub(crate) static DEVICES: Map = Map::new("`devices`").keys(&[
    optional("resources", NAMES, "Names of resources that are devices of the fabric."),
    optional("claims", CLAIMS, "Names of claims and of templates: `1` for devices, `0` for none."),
    optional("add", List(&Fields(&DEVICE), 0), "The devices for pods that bring none themselves."),
]);

pub(crate) static DEVICE: Map =
    Map::new("an entry of `add`").some_of(&["resources", "networks", "claims"]).keys(&[
        required("name", LABEL, "The name for reports: a DNS label."),
        optional("when", Expression, "The condition for the pod; without it, the entry always applies."),
        optional("resources", Resources, "Amounts by resource, for each container with GPUs."),
        optional("networks", NETWORKS, "A network for each device of the pod, networks, or annotations."),
        optional("claims", CLAIMS_OF_POD, "Claims by their names in the pod, each with its template."),
    ]);

/// A network for each device has no `@`: the interfaces get their names from Multus.
const NETWORKS: Kind = Either(&[NETWORK_ALONE, List(&NETWORK, 1), Annotations]);
const CLAIMS_OF_POD: Kind = Kind::Map(&TEXT, &TEXT, 1);

pub(crate) static MATCH: Map = Map::new("`match`").some_of(&["anyAnnotation", "labels"]).extended().keys(&[
    optional("anyAnnotation", TRIGGERS, "The pod has one of these annotations with this value."),
    optional("exceptAnnotation", EXCEPTIONS, "The pod has none of these annotations; `*` is any value."),
    optional("labels", LABELS, "The pod has all of these labels."),
    optional("namespaces", List(&LABEL, 0), "The pod is in one of these namespaces."),
    optional("ownerKinds", List(&OWNER_KIND, 0), "One owner of the pod is of one of these kinds."),
    optional("when", Expression, "The expression is true."),
]);

const TRIGGERS: Kind = Kind::Map(&ANNOTATION, &Except(&TEXT, &["*"]), 0);
const EXCEPTIONS: Kind = Kind::Map(&ANNOTATION, &TEXT, 0);
const LABELS: Kind = Kind::Map(&KEY_OF_LABEL, &Text(Format::LabelValue), 0);

pub(crate) static NODES: Map = Map::new("`nodes`").some_of(&["providerIDs", "labels"]).keys(&[
    optional("providerIDs", List(&TEXT, 1), "The node has such a `spec.providerID`; `*` matches any text."),
    optional("labels", LABELS_OF_NODES, "The node has it, or the pod selects it; `*` matches any text."),
]);

pub static PARAMETER: Map = Map::new("a parameter").some_of(&TYPED).exclusive(&SOURCES).extended().keys(&[
    optional("type", TYPE, "Its type, unless `default` or `enum` determines it."),
    required("description", TEXT, "One sentence that says what the parameter is for."),
    optional("default", Any, "The value if no other source has one."),
    optional("minimum", Amount, "The least value, or the least length of a `stringList`."),
    optional("maximum", Amount, "The greatest value, or the greatest length of a `stringList`."),
    optional("enum", List(&TEXT, 1), "The values that a `string` can have."),
    optional("fromNodes", FROM_NODES, "Resources of nodes: the first that is offered gives the value."),
    optional("fromNetworks", FROM_NODES, "Resources of nodes: the networks of the first give the value."),
]);

const TYPED: [&str; 3] = ["type", "default", "enum"];
const SOURCES: [[&str; 2]; 1] = [["fromNodes", "fromNetworks"]];
const TYPE: Kind = Word(&TYPES);
const FROM_NODES: Kind = Either(&[OFFERED, List(&OFFERED, 1)]);

pub(crate) static CHECK: Map = Map::new("a check").keys(&[
    required("name", CODE, "The code in reports and metrics."),
    optional("when", Expression, "The condition for the pod; with `env`, for each container."),
    optional(
        "containers",
        Expression,
        "The containers, for a check of each; with `env`, the ranks without it.",
    ),
    optional("env", TEXT, "The variable that it is about, whose value the expressions read as `value`."),
    optional(
        "action",
        Word(&ACTIONS),
        "To warn, which is the default, also that the data uses TCP; to refuse the pod, or to add nothing to it.",
    ),
    required("message", TEXT, "A sentence for the author of the pod, with or without expressions."),
]);

pub(crate) static FILE: Map = Map::new("a file").keys(&[
    required("variables", List(&VARIABLES_OF_SETTINGS, 0), "Names of variables, or beginnings and `*`."),
    optional("when", Expression, "The condition for the pod."),
    optional("env", TEXT, "The variable that names another file: a container that sets it gets no file."),
]);

pub(crate) static RULE: Map = Map::new("a rule").some_of(&["env", "container", "pod"]).keys(&[
    required("name", LABEL, "The name for reports: a DNS label."),
    optional("when", Expression, "The condition for the pod; without it, the rule always applies."),
    optional(
        "containers",
        Expression,
        "The containers; without it, with `env` the ranks of a job, else `gpus > 0`.",
    ),
    optional("onConflict", Word(&ON_CONFLICT), "What to do if the pod has another value."),
    optional("env", Env, "The environment variables of each selected container."),
    optional("container", Container, "The other fields to add to each selected container."),
    optional("pod", Pod, "The fields to add to the pod, if a container is selected."),
]);

/// Networks in the annotation of Multus, and objects in an annotation whose key names the field that identifies them.
pub const ATTACHED: Kind = Either(&[NETWORK, List(&NETWORK, 1)]);
pub const ENTRIES: Kind = Either(&[List(&Object, 1), INTERPOLATED]);

#[cfg(test)]
mod tests;
