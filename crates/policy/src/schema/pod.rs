//! `Pod`, `ObjectMeta` and `PodSpec`.

use super::container::{CONTAINER, RESOURCE_REQUIREMENTS};
use super::network::{HOST_ALIAS, POD_DNS_CONFIG};
use super::scheduling::{AFFINITY, TOLERATION, TOPOLOGY_SPREAD_CONSTRAINT};
use super::security::POD_SECURITY_CONTEXT;
use super::shapes::{
    ANY, FALSE, INT32_MAX, KEY, LABEL, LABEL_VALUE, NON_EMPTY, NOT_ON_WINDOWS, SUBDOMAIN, TRUE, atomic,
    keyed, list, newer, one_of, quantities, set, strings,
};
use super::volumes::VOLUME;
use super::{Default, Exclusion, Field, Format, Literal, Object, Shape};

const IDENTITY: &str = "it identifies the pod";
const BY_THE_API_SERVER: &str = "the API server sets it";
const BY_SERVICE_ACCOUNT: &str = "the ServiceAccount admission plugin reads it before webhooks run";
const BY_PRIORITY: &str = "the Priority admission plugin sets the pod's priority before webhooks run";
const BY_RUNTIME_CLASS: &str =
    "the RuntimeClass admission plugin reads the class of the pod before webhooks run";

pub(super) static POD: Object = Object::new(
    "Pod",
    &[
        Field::new("apiVersion", ANY).refused("it is the same for all pods"),
        Field::new("kind", ANY).refused("it is the same for all pods"),
        Field::new("metadata", Shape::Object(&OBJECT_META)).default(Default::EmptyObject),
        Field::new("spec", Shape::Object(&POD_SPEC)).required(),
        Field::new("status", Shape::Opaque).refused("the API server clears it when a pod is created"),
    ],
);

static OBJECT_META: Object = Object::new(
    "ObjectMeta",
    &[
        Field::new("annotations", strings(Format::PodAnnotation, &ANY)),
        Field::new("creationTimestamp", Shape::Opaque).refused(BY_THE_API_SERVER),
        Field::new("deletionGracePeriodSeconds", Shape::Integer(i64::MIN, i64::MAX))
            .refused(BY_THE_API_SERVER),
        Field::new("deletionTimestamp", Shape::Opaque).refused(BY_THE_API_SERVER),
        Field::new("finalizers", set(&KEY)).refused("the pod stays until its finalizers are removed"),
        Field::new("generateName", ANY).refused(IDENTITY),
        Field::new("generation", Shape::Integer(i64::MIN, i64::MAX)).refused(BY_THE_API_SERVER),
        Field::new("labels", strings(Format::QualifiedName, &LABEL_VALUE)),
        Field::new("managedFields", list(&Shape::Opaque)).refused(BY_THE_API_SERVER),
        Field::new("name", ANY).refused(IDENTITY),
        Field::new("namespace", ANY).refused(IDENTITY),
        Field::new("ownerReferences", keyed(&Shape::Atomic(&OWNER_REFERENCE), &["uid"]))
            .refused("the controller that creates the pod sets it"),
        Field::new("resourceVersion", ANY).refused(BY_THE_API_SERVER),
        Field::new("selfLink", ANY).refused(BY_THE_API_SERVER),
        Field::new("uid", ANY).refused(BY_THE_API_SERVER),
    ],
);

static OWNER_REFERENCE: Object = Object::new(
    "OwnerReference",
    &[
        Field::new("apiVersion", NON_EMPTY).required(),
        Field::new("blockOwnerDeletion", Shape::Boolean),
        Field::new("controller", Shape::Boolean),
        Field::new("kind", NON_EMPTY).required(),
        Field::new("name", NON_EMPTY).required(),
        Field::new("uid", NON_EMPTY).required(),
    ],
);

const HOST_USERS: &[Exclusion] = &[
    NOT_ON_WINDOWS,
    Exclusion::new(FALSE, "hostNetwork", TRUE),
    Exclusion::new(FALSE, "hostPID", TRUE),
    Exclusion::new(FALSE, "hostIPC", TRUE),
    Exclusion::new(FALSE, "containers/*/volumeDevices", None),
    Exclusion::new(FALSE, "initContainers/*/volumeDevices", None),
    Exclusion::new(TRUE, "containers/*/securityContext/procMount", Some(Literal::Text("Unmasked"))),
    Exclusion::new(TRUE, "initContainers/*/securityContext/procMount", Some(Literal::Text("Unmasked"))),
];

/// The API server turns the ports of a pod on the host network into ports of the node, which each have one user. Init
/// containers run one after the other.
const HOST_NETWORK: &[Exclusion] = &[
    Exclusion::new(TRUE, "hostUsers", FALSE),
    Exclusion::new(TRUE, "hostnameOverride", None),
    Exclusion::new(TRUE, "securityContext/sysctls", None),
    Exclusion::new(TRUE, "containers", Some(Literal::PortsOffTheNode)),
    Exclusion::new(TRUE, "initContainers/*", Some(Literal::PortsOffTheNode)),
];

/// A `sleep` hook is at most as long as the grace period.
const SLEEP_HOOKS: &[Exclusion] = &[
    Exclusion::new(None, "containers/*/lifecycle/postStart/sleep", None),
    Exclusion::new(None, "containers/*/lifecycle/preStop/sleep", None),
    Exclusion::new(None, "initContainers/*/lifecycle/postStart/sleep", None),
    Exclusion::new(None, "initContainers/*/lifecycle/preStop/sleep", None),
];

pub(super) static POD_SPEC: Object = Object::new(
    "PodSpec",
    &[
        Field::new("activeDeadlineSeconds", Shape::Integer(1, INT32_MAX)),
        Field::new("affinity", Shape::Object(&AFFINITY)),
        Field::new("automountServiceAccountToken", Shape::Boolean).refused(BY_SERVICE_ACCOUNT),
        Field::new("containers", keyed(&Shape::Object(&CONTAINER), &["name"])).required(),
        Field::new("dnsConfig", atomic(&POD_DNS_CONFIG)),
        // `None` needs a name server in `dnsConfig`.
        Field::new("dnsPolicy", one_of(&["ClusterFirst", "ClusterFirstWithHostNet", "Default"]))
            .default(Default::TextForEmpty("ClusterFirst")),
        Field::new("enableServiceLinks", Shape::Boolean).default(Default::Boolean(true)),
        Field::new("ephemeralContainers", keyed(&Shape::Opaque, &["name"]))
            .refused("the API server refuses them when a pod is created"),
        newer("evictionResponders"),
        Field::new("hostAliases", keyed(&Shape::Atomic(&HOST_ALIAS), &["ip"])),
        Field::new("hostIPC", Shape::Boolean).omitted_when_empty().unless(&[
            Exclusion::new(TRUE, "/spec/os/name", Some(Literal::Text("windows"))),
            Exclusion::new(TRUE, "hostUsers", FALSE),
            Exclusion::new(TRUE, "securityContext/sysctls", None),
        ]),
        Field::new("hostNetwork", Shape::Boolean).omitted_when_empty().unless(HOST_NETWORK),
        Field::new("hostPID", Shape::Boolean).omitted_when_empty().unless(&[
            Exclusion::new(TRUE, "/spec/os/name", Some(Literal::Text("windows"))),
            Exclusion::new(TRUE, "hostUsers", FALSE),
            Exclusion::new(TRUE, "shareProcessNamespace", TRUE),
        ]),
        Field::new("hostUsers", Shape::Boolean).unless(HOST_USERS),
        Field::new("hostname", LABEL).omitted_when_empty(),
        Field::new("hostnameOverride", Shape::Text(Format::Hostname)).unless(&[
            Exclusion::new(None, "setHostnameAsFQDN", TRUE),
            Exclusion::new(None, "hostNetwork", TRUE),
        ]),
        Field::new("imagePullSecrets", keyed(&Shape::Atomic(&LOCAL_OBJECT_REFERENCE), &["name"])),
        Field::new("initContainers", keyed(&Shape::Object(&CONTAINER), &["name"])),
        Field::new("nodeName", SUBDOMAIN).refused("the scheduler sets it"),
        Field::new("nodeSelector", strings(Format::QualifiedName, &LABEL_VALUE)),
        Field::new("os", Shape::Opaque)
            .refused("it selects the rules by which the API server validates the other fields"),
        Field::new("overhead", quantities(Format::ResourceName)).refused(BY_RUNTIME_CLASS),
        Field::new("preemptionPolicy", one_of(&["Never", "PreemptLowerPriority"])).refused(BY_PRIORITY),
        Field::new("priority", Shape::Integer(i32::MIN as i64, INT32_MAX)).refused(BY_PRIORITY),
        Field::new("priorityClassName", SUBDOMAIN).refused(BY_PRIORITY),
        Field::new("readinessGates", list(&Shape::Atomic(&POD_READINESS_GATE))),
        Field::new("resourceClaims", keyed(&Shape::Atomic(&POD_RESOURCE_CLAIM), &["name"])),
        Field::new("resources", Shape::Object(&RESOURCE_REQUIREMENTS))
            .refused("the amounts of the pod depend on those of all its containers"),
        Field::new("restartPolicy", one_of(&["Always", "Never", "OnFailure"]))
            .default(Default::TextForEmpty("Always"))
            .refused("the controller that creates the pod depends on it"),
        Field::new("runtimeClassName", SUBDOMAIN).refused(BY_RUNTIME_CLASS),
        Field::new("schedulerName", ANY).default(Default::TextForEmpty("default-scheduler")),
        Field::new("schedulingGates", keyed(&Shape::Atomic(&POD_SCHEDULING_GATE), &["name"]))
            .unless(&[Exclusion::new(None, "nodeName", None)]),
        Field::new("schedulingGroup", Shape::Opaque).refused("the controller that creates the pod sets it"),
        Field::new("securityContext", Shape::Object(&POD_SECURITY_CONTEXT)).default(Default::EmptyObject),
        Field::new("serviceAccount", ANY).refused(BY_SERVICE_ACCOUNT),
        Field::new("serviceAccountName", SUBDOMAIN).refused(BY_SERVICE_ACCOUNT),
        Field::new("setHostnameAsFQDN", Shape::Boolean).unless(&[Exclusion::new(
            TRUE,
            "hostnameOverride",
            None,
        )]),
        Field::new("shareProcessNamespace", Shape::Boolean)
            .unless(&[NOT_ON_WINDOWS, Exclusion::new(TRUE, "hostPID", TRUE)]),
        Field::new("subdomain", LABEL).omitted_when_empty(),
        Field::new("terminationGracePeriodSeconds", Shape::Integer(i64::MIN, i64::MAX))
            .default(Default::Integer(30))
            .unless(SLEEP_HOOKS),
        Field::new("tolerations", set(&Shape::Atomic(&TOLERATION))),
        Field::new(
            "topologySpreadConstraints",
            keyed(&Shape::Atomic(&TOPOLOGY_SPREAD_CONSTRAINT), &["topologyKey", "whenUnsatisfiable"]),
        ),
        Field::new("volumes", keyed(&Shape::Atomic(&VOLUME), &["name"])),
    ],
);

static LOCAL_OBJECT_REFERENCE: Object =
    Object::new("LocalObjectReference", &[Field::new("name", ANY).omitted_when_empty()]);

static POD_READINESS_GATE: Object =
    Object::new("PodReadinessGate", &[Field::new("conditionType", KEY).required()]);

static POD_SCHEDULING_GATE: Object = Object::new("PodSchedulingGate", &[Field::new("name", KEY).required()]);

static POD_RESOURCE_CLAIM: Object = Object::new(
    "PodResourceClaim",
    &[
        Field::new("name", LABEL).required(),
        Field::new("resourceClaimName", SUBDOMAIN),
        Field::new("resourceClaimTemplateName", SUBDOMAIN),
    ],
)
.exactly_one_of(&["resourceClaimName", "resourceClaimTemplateName"]);
