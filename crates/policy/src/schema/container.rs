//! `Container` and the types of its lists.

use super::env::{ENV_FROM_SOURCE, ENV_VAR};
use super::handlers::{LIFECYCLE, LIVENESS_PROBE, READINESS_PROBE};
use super::security::SECURITY_CONTEXT;
use super::shapes::{ANY, LABEL, NON_EMPTY, TRUE, atomic, keyed, list, newer, one_of, quantities, set};
use super::{Default, Exclusion, Field, Format, Object, Shape, rules};

pub(super) const PULL_POLICY: Shape = one_of(&["Always", "IfNotPresent", "Never"]);

pub(super) static CONTAINER: Object = Object::new(
    "Container",
    &[
        Field::new("args", list(&ANY)),
        Field::new("command", list(&ANY)),
        Field::new("env", keyed(&Shape::Atomic(&ENV_VAR), &["name"])),
        Field::new("envFrom", set(&Shape::Atomic(&ENV_FROM_SOURCE))),
        Field::new("image", Shape::Text(Format::Image)).required(),
        Field::new("imagePullPolicy", PULL_POLICY).default(Default::Computed),
        Field::new("lifecycle", atomic(&LIFECYCLE)),
        Field::new("livenessProbe", atomic(&LIVENESS_PROBE)),
        Field::new("name", LABEL).required(),
        // On the host network, the API server turns them into ports of the node, which each have one user.
        Field::new("ports", keyed(&Shape::Atomic(&CONTAINER_PORT), &["containerPort", "protocol"]))
            .unless(&[Exclusion::new(None, "/spec/hostNetwork", TRUE)]),
        Field::new("readinessProbe", atomic(&READINESS_PROBE)),
        Field::new("resizePolicy", list(&Shape::Opaque))
            .refused("the values that are valid depend on the restartPolicy of the pod"),
        Field::new("resources", Shape::Object(&RESOURCE_REQUIREMENTS)).default(Default::EmptyObject),
        Field::new("restartPolicy", one_of(&["Always", "Never", "OnFailure"])),
        Field::new("restartPolicyRules", list(&Shape::Opaque))
            .refused("the rules that are valid depend on the restartPolicy of the container"),
        Field::new("securityContext", Shape::Object(&SECURITY_CONTEXT)),
        Field::new("startupProbe", atomic(&LIVENESS_PROBE)),
        Field::new("stdin", Shape::Boolean).omitted_when_empty(),
        Field::new("stdinOnce", Shape::Boolean).omitted_when_empty(),
        Field::new("terminationMessagePath", ANY).default(Default::TextForEmpty("/dev/termination-log")),
        Field::new("terminationMessagePolicy", one_of(&["FallbackToLogsOnError", "File"]))
            .default(Default::TextForEmpty("File")),
        Field::new("tty", Shape::Boolean).omitted_when_empty(),
        Field::new("volumeDevices", keyed(&Shape::Atomic(&VOLUME_DEVICE), &["devicePath"]))
            .refused("a device shares neither its volume nor its path with any other entry of the container"),
        Field::new("volumeMounts", keyed(&Shape::Atomic(&VOLUME_MOUNT), &["mountPath"])),
        Field::new("workingDir", ANY).omitted_when_empty(),
    ],
);

static CONTAINER_PORT: Object = Object::new(
    "ContainerPort",
    &[
        Field::new("containerPort", Shape::Integer(1, 65535)).required(),
        Field::new("hostIP", ANY).omitted_when_empty(),
        Field::new("hostPort", Shape::Integer(0, 65535))
            .default(Default::Computed)
            .refused("each port of a node has one user"),
        Field::new("name", Shape::Text(Format::PortName)).omitted_when_empty(),
        Field::new("protocol", one_of(&["SCTP", "TCP", "UDP"])).default(Default::TextForEmpty("TCP")),
    ],
);

pub(super) static RESOURCE_REQUIREMENTS: Object = Object::new(
    "ResourceRequirements",
    &[
        Field::new("claims", keyed(&Shape::Atomic(&RESOURCE_CLAIM), &["name"])),
        Field::new("limits", quantities(Format::ResourceName)),
        Field::new("requests", quantities(Format::ResourceName)).default(Default::Computed),
    ],
)
.rule(rules::resources);

static RESOURCE_CLAIM: Object = Object::new(
    "ResourceClaim",
    &[Field::new("name", NON_EMPTY).required(), Field::new("request", LABEL).omitted_when_empty()],
);

static VOLUME_DEVICE: Object = Object::new(
    "VolumeDevice",
    &[
        Field::new("devicePath", Shape::Text(Format::Path)).required(),
        Field::new("name", NON_EMPTY).required(),
    ],
);

static VOLUME_MOUNT: Object = Object::new(
    "VolumeMount",
    &[
        newer("bindMountOptions"),
        Field::new("mountPath", NON_EMPTY).required(),
        Field::new("mountPropagation", one_of(&["Bidirectional", "HostToContainer", "None"])),
        Field::new("name", NON_EMPTY).required(),
        Field::new("readOnly", Shape::Boolean).omitted_when_empty(),
        Field::new("recursiveReadOnly", one_of(&["Disabled", "Enabled", "IfPossible"])),
        Field::new("subPath", Shape::Text(Format::RelativePath)).omitted_when_empty(),
        Field::new("subPathExpr", Shape::Text(Format::RelativePath)).omitted_when_empty(),
    ],
)
.at_most_one_of(&["subPath", "subPathExpr"])
.rule(rules::volume_mount);
