//! What an overlay cannot set next to another value of the pod.

use super::types::FieldsOf;
use super::{Exclusion, Literal};

pub(super) const TRUE: Option<Literal> = Some(Literal::Boolean(true));
pub(super) const FALSE: Option<Literal> = Some(Literal::Boolean(false));
const WINDOWS: Option<Literal> = Some(Literal::Text("windows"));

/// Fields that the API server refuses in a pod for Windows.
pub(super) const NOT_ON_WINDOWS: Exclusion = Exclusion::new(None, "/spec/os/name", WINDOWS);

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
pub(super) const HOST_NETWORK: &[Exclusion] = &[
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

/// The profile of a container and the deprecated annotation for it must agree.
const SECCOMP_ANNOTATION: Exclusion =
    Exclusion::new(None, "/metadata/annotations/container.seccomp.security.alpha.kubernetes.io~1*", None);
const POD_SECCOMP_ANNOTATION: Exclusion =
    Exclusion::new(None, "/metadata/annotations/seccomp.security.alpha.kubernetes.io~1pod", None);
const APP_ARMOR_ANNOTATION: Exclusion =
    Exclusion::new(None, "/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1*", None);

/// Fields that an overlay cannot set where the pod has one of these values in another field.
pub(super) const EXCLUDED: &[FieldsOf<&[Exclusion]>] = &[
    // On the host network, `defaultHostNetworkPorts` makes them ports of the node, which each have one user.
    ("Container", "ports", &[Exclusion::new(None, "/spec/hostNetwork", TRUE)]),
    (
        "PodSecurityContext SecurityContext",
        "capabilities fsGroup fsGroupChangePolicy readOnlyRootFilesystem runAsGroup runAsUser seLinuxChangePolicy \
         seLinuxOptions supplementalGroups supplementalGroupsPolicy",
        &[NOT_ON_WINDOWS],
    ),
    ("PodSecurityContext SecurityContext", "appArmorProfile", &[NOT_ON_WINDOWS, APP_ARMOR_ANNOTATION]),
    ("PodSecurityContext", "seccompProfile", &[NOT_ON_WINDOWS, POD_SECCOMP_ANNOTATION]),
    (
        "PodSecurityContext",
        "sysctls",
        &[
            NOT_ON_WINDOWS,
            Exclusion::new(None, "/spec/hostNetwork", TRUE),
            Exclusion::new(None, "/spec/hostIPC", TRUE),
        ],
    ),
    (
        "PodSpec",
        "hostIPC",
        &[
            Exclusion::new(TRUE, "/spec/os/name", WINDOWS),
            Exclusion::new(TRUE, "hostUsers", FALSE),
            Exclusion::new(TRUE, "securityContext/sysctls", None),
        ],
    ),
    ("PodSpec", "hostNetwork", HOST_NETWORK),
    (
        "PodSpec",
        "hostPID",
        &[
            Exclusion::new(TRUE, "/spec/os/name", WINDOWS),
            Exclusion::new(TRUE, "hostUsers", FALSE),
            Exclusion::new(TRUE, "shareProcessNamespace", TRUE),
        ],
    ),
    ("PodSpec", "hostUsers", HOST_USERS),
    (
        "PodSpec",
        "hostnameOverride",
        &[Exclusion::new(None, "setHostnameAsFQDN", TRUE), Exclusion::new(None, "hostNetwork", TRUE)],
    ),
    ("PodSpec", "schedulingGates", &[Exclusion::new(None, "nodeName", None)]),
    ("PodSpec", "setHostnameAsFQDN", &[Exclusion::new(TRUE, "hostnameOverride", None)]),
    ("PodSpec", "shareProcessNamespace", &[NOT_ON_WINDOWS, Exclusion::new(TRUE, "hostPID", TRUE)]),
    ("PodSpec", "terminationGracePeriodSeconds", SLEEP_HOOKS),
    (
        "SecurityContext",
        "allowPrivilegeEscalation",
        &[
            NOT_ON_WINDOWS,
            Exclusion::new(FALSE, "privileged", TRUE),
            Exclusion::new(FALSE, "capabilities/add/*", Some(Literal::Text("CAP_SYS_ADMIN"))),
        ],
    ),
    (
        "SecurityContext",
        "privileged",
        &[NOT_ON_WINDOWS, Exclusion::new(TRUE, "allowPrivilegeEscalation", FALSE)],
    ),
    ("SecurityContext", "seccompProfile", &[NOT_ON_WINDOWS, SECCOMP_ANNOTATION]),
];
