//! Where a pod runs: `Affinity`, `Toleration` and `TopologySpreadConstraint`.

use super::shapes::{ANY, INT32_MAX, KEY, LABEL, LABEL_VALUE, NON_EMPTY, atomic, list, one_of, set, strings};
use super::{Default, Field, Format, Object, Shape, rules};

pub(super) static AFFINITY: Object = Object::new(
    "Affinity",
    &[
        Field::new("nodeAffinity", Shape::Object(&NODE_AFFINITY)),
        Field::new("podAffinity", Shape::Object(&POD_AFFINITY)),
        Field::new("podAntiAffinity", Shape::Object(&POD_ANTI_AFFINITY)),
    ],
);

const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

static NODE_AFFINITY: Object = Object::new(
    "NodeAffinity",
    &[
        Field::new(PREFERRED, set(&Shape::Atomic(&PREFERRED_SCHEDULING_TERM))),
        // A node must meet one of the terms: one more term makes more nodes eligible.
        Field::new(REQUIRED, atomic(&NODE_SELECTOR)),
    ],
);

static POD_AFFINITY: Object = Object::new("PodAffinity", &POD_AFFINITY_FIELDS);

static POD_ANTI_AFFINITY: Object = Object::new("PodAntiAffinity", &POD_AFFINITY_FIELDS);

static POD_AFFINITY_FIELDS: [Field; 2] = [
    Field::new(PREFERRED, set(&Shape::Atomic(&WEIGHTED_POD_AFFINITY_TERM))),
    Field::new(REQUIRED, set(&Shape::Atomic(&POD_AFFINITY_TERM))),
];

const WEIGHT: Field = Field::new("weight", Shape::Integer(1, 100)).required();

static PREFERRED_SCHEDULING_TERM: Object = Object::new(
    "PreferredSchedulingTerm",
    &[Field::new("preference", atomic(&PREFERRED_NODE_SELECTOR_TERM)).default(Default::EmptyObject), WEIGHT],
);

static NODE_SELECTOR: Object = Object::new(
    "NodeSelector",
    &[Field::new("nodeSelectorTerms", list(&Shape::Atomic(&REQUIRED_NODE_SELECTOR_TERM))).required()],
);

static NODE_FIELD: Shape = atomic(&NODE_FIELD_REQUIREMENT);
const MATCH_FIELDS: Field = Field::new("matchFields", list(&NODE_FIELD));

static REQUIRED_NODE_SELECTOR_TERM: Object = Object::new(
    "NodeSelectorTerm",
    &[Field::new("matchExpressions", list(&Shape::Atomic(&REQUIRED_NODE_REQUIREMENT))), MATCH_FIELDS],
);

static PREFERRED_NODE_SELECTOR_TERM: Object = Object::new(
    "NodeSelectorTerm",
    &[Field::new("matchExpressions", list(&Shape::Atomic(&PREFERRED_NODE_REQUIREMENT))), MATCH_FIELDS],
);

const NODE_OPERATOR: Field =
    Field::new("operator", one_of(&["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"])).required();

static REQUIRED_NODE_REQUIREMENT: Object = Object::new(
    "NodeSelectorRequirement",
    &[Field::new("key", KEY).required(), NODE_OPERATOR, Field::new("values", list(&LABEL_VALUE))],
)
.rule(rules::selector_requirement);

/// The API server takes values that no label has where a requirement is only preferred.
static PREFERRED_NODE_REQUIREMENT: Object = Object::new(
    "NodeSelectorRequirement",
    &[Field::new("key", KEY).required(), NODE_OPERATOR, Field::new("values", list(&ANY))],
)
.rule(rules::selector_requirement);

static NODE_FIELD_REQUIREMENT: Object = Object::new(
    "NodeSelectorRequirement",
    &[
        Field::new("key", one_of(&["metadata.name"])).required(),
        Field::new("operator", one_of(&["In", "NotIn"])).required(),
        Field::new("values", list(&Shape::Text(Format::DnsSubdomain))).required().at_most(1),
    ],
);

static WEIGHTED_POD_AFFINITY_TERM: Object = Object::new(
    "WeightedPodAffinityTerm",
    &[Field::new("podAffinityTerm", atomic(&POD_AFFINITY_TERM)).required(), WEIGHT],
);

/// The API server adds the values of these labels to `labelSelector`, and an overlay would no longer find its own term.
const COMPLETED: &str = "the API server rewrites labelSelector for it; write the labels into labelSelector";

static POD_AFFINITY_TERM: Object = Object::new(
    "PodAffinityTerm",
    &[
        Field::new("labelSelector", atomic(&LABEL_SELECTOR)),
        Field::new("matchLabelKeys", list(&KEY)).refused(COMPLETED),
        Field::new("mismatchLabelKeys", list(&KEY)).refused(COMPLETED),
        Field::new("namespaceSelector", atomic(&LABEL_SELECTOR)),
        Field::new("namespaces", list(&LABEL)),
        Field::new("topologyKey", KEY).required(),
    ],
);

pub(super) static LABEL_SELECTOR: Object = Object::new(
    "LabelSelector",
    &[
        Field::new("matchExpressions", list(&Shape::Atomic(&LABEL_SELECTOR_REQUIREMENT))),
        Field::new("matchLabels", strings(Format::QualifiedName, &LABEL_VALUE)),
    ],
);

static LABEL_SELECTOR_REQUIREMENT: Object = Object::new(
    "LabelSelectorRequirement",
    &[
        Field::new("key", KEY).required(),
        Field::new("operator", one_of(&["DoesNotExist", "Exists", "In", "NotIn"])).required(),
        Field::new("values", list(&LABEL_VALUE)),
    ],
)
.rule(rules::selector_requirement);

pub(super) static TOLERATION: Object = Object::new(
    "Toleration",
    &[
        Field::new("effect", one_of(&["NoExecute", "NoSchedule", "PreferNoSchedule"])).omitted_when_empty(),
        Field::new("key", KEY).omitted_when_empty(),
        Field::new("operator", one_of(&["Equal", "Exists"])).omitted_when_empty(),
        Field::new("tolerationSeconds", Shape::Integer(i64::MIN, i64::MAX)),
        Field::new("value", LABEL_VALUE).omitted_when_empty(),
    ],
)
.rule(rules::toleration);

const NODE_POLICY: Shape = one_of(&["Honor", "Ignore"]);

pub(super) static TOPOLOGY_SPREAD_CONSTRAINT: Object = Object::new(
    "TopologySpreadConstraint",
    &[
        Field::new("labelSelector", atomic(&LABEL_SELECTOR)),
        Field::new("matchLabelKeys", list(&KEY)).refused(COMPLETED),
        Field::new("maxSkew", Shape::Integer(1, INT32_MAX)).required(),
        Field::new("minDomains", Shape::Integer(1, INT32_MAX)),
        Field::new("nodeAffinityPolicy", NODE_POLICY),
        Field::new("nodeTaintsPolicy", NODE_POLICY),
        Field::new("topologyKey", NON_EMPTY).required(),
        Field::new("whenUnsatisfiable", one_of(&["DoNotSchedule", "ScheduleAnyway"])).required(),
    ],
)
.rule(rules::topology_spread_constraint);
