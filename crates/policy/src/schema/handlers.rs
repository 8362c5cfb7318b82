//! `Probe`, `Lifecycle` and their handlers.

use super::shapes::{ANY, COUNT, atomic, list, newer, one_of};
use super::{Default, Field, Format, Object, Shape};

const EXEC: Field = Field::new("exec", atomic(&EXEC_ACTION));
const HTTP_GET: Field = Field::new("httpGet", atomic(&HTTP_GET_ACTION));
const TCP_SOCKET: Field = Field::new("tcpSocket", atomic(&TCP_SOCKET_ACTION));

const FAILURE_THRESHOLD: Field = Field::new("failureThreshold", COUNT).default(Default::IntegerForZero(3));
const GRPC: Field = Field::new("grpc", atomic(&GRPC_ACTION));
const INITIAL_DELAY: Field = Field::new("initialDelaySeconds", COUNT).omitted_when_empty();
const PERIOD: Field = Field::new("periodSeconds", COUNT).default(Default::IntegerForZero(10));
const TIMEOUT: Field = Field::new("timeoutSeconds", COUNT).default(Default::IntegerForZero(1));
const GRACE_PERIOD: Field = Field::new("terminationGracePeriodSeconds", Shape::Integer(1, i64::MAX));

const fn success_threshold(shape: Shape) -> Field {
    Field::new("successThreshold", shape).default(Default::IntegerForZero(1))
}

const PROBE_HANDLERS: &[&str] = &["exec", "grpc", "httpGet", "tcpSocket"];

/// The probe of a liveness or startup check.
pub(super) static LIVENESS_PROBE: Object = Object::new(
    "Probe",
    &[
        EXEC,
        FAILURE_THRESHOLD,
        GRPC,
        HTTP_GET,
        INITIAL_DELAY,
        PERIOD,
        success_threshold(Shape::Integer(0, 1)),
        TCP_SOCKET,
        GRACE_PERIOD,
        TIMEOUT,
    ],
)
.exactly_one_of(PROBE_HANDLERS);

pub(super) static READINESS_PROBE: Object = Object::new(
    "Probe",
    &[
        EXEC,
        FAILURE_THRESHOLD,
        GRPC,
        HTTP_GET,
        INITIAL_DELAY,
        PERIOD,
        success_threshold(COUNT),
        TCP_SOCKET,
        GRACE_PERIOD.refused("a failed readiness probe does not end the container"),
        TIMEOUT,
    ],
)
.exactly_one_of(PROBE_HANDLERS);

pub(super) static LIFECYCLE: Object = Object::new(
    "Lifecycle",
    &[
        Field::new("postStart", atomic(&LIFECYCLE_HANDLER)),
        Field::new("preStop", atomic(&LIFECYCLE_HANDLER)),
        Field::new("stopSignal", ANY).refused("the API server refuses it in a pod without `spec.os.name`"),
    ],
);

static LIFECYCLE_HANDLER: Object = Object::new(
    "LifecycleHandler",
    &[
        EXEC,
        HTTP_GET,
        Field::new("sleep", Shape::Opaque).refused("it must not exceed the grace period of the pod"),
        TCP_SOCKET,
    ],
)
.exactly_one_of(&["exec", "httpGet", "sleep", "tcpSocket"]);

static EXEC_ACTION: Object = Object::new("ExecAction", &[Field::new("command", list(&ANY)).required()]);

static GRPC_ACTION: Object = Object::new(
    "GRPCAction",
    &[
        newer("mode"),
        Field::new("port", Shape::Integer(1, 65535)).required(),
        Field::new("service", ANY).default(Default::Text("")),
    ],
);

static TCP_SOCKET_ACTION: Object = Object::new(
    "TCPSocketAction",
    &[Field::new("host", ANY).omitted_when_empty(), Field::new("port", Shape::PortNumberOrName).required()],
);

static HTTP_GET_ACTION: Object = Object::new(
    "HTTPGetAction",
    &[
        Field::new("host", ANY).omitted_when_empty(),
        Field::new("httpHeaders", list(&Shape::Atomic(&HTTP_HEADER))),
        Field::new("path", ANY).default(Default::TextForEmpty("/")),
        Field::new("port", Shape::PortNumberOrName).required(),
        newer("protocol"),
        Field::new("scheme", one_of(&["HTTP", "HTTPS"])).default(Default::TextForEmpty("HTTP")),
    ],
);

static HTTP_HEADER: Object = Object::new(
    "HTTPHeader",
    &[
        Field::new("name", Shape::Text(Format::HttpHeaderName)).required(),
        Field::new("value", ANY).default(Default::Text("")),
    ],
);
