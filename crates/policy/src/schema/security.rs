//! `SecurityContext`, `PodSecurityContext` and the profiles that they name.

use super::shapes::{ANY, FALSE, ID, NOT_ON_WINDOWS, TRUE, atomic, list, one_of, set};
use super::{Default, Exclusion, Field, Format, Literal, Object, Shape, rules};

const FOR_LINUX: &[Exclusion] = &[NOT_ON_WINDOWS];
const FOR_WINDOWS: &str = "it applies to pods on Windows only";

/// The profile of a container and the deprecated annotation for it must agree.
const SECCOMP_ANNOTATION: Exclusion =
    Exclusion::new(None, "/metadata/annotations/container.seccomp.security.alpha.kubernetes.io~1*", None);
const POD_SECCOMP_ANNOTATION: Exclusion =
    Exclusion::new(None, "/metadata/annotations/seccomp.security.alpha.kubernetes.io~1pod", None);
const APP_ARMOR_ANNOTATION: Exclusion =
    Exclusion::new(None, "/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1*", None);

const APP_ARMOR_PROFILE: Field = Field::new("appArmorProfile", atomic(&APP_ARMOR_PROFILE_TYPE))
    .unless(&[NOT_ON_WINDOWS, APP_ARMOR_ANNOTATION]);
const RUN_AS_GROUP: Field = Field::new("runAsGroup", ID).unless(FOR_LINUX);
const RUN_AS_NON_ROOT: Field = Field::new("runAsNonRoot", Shape::Boolean);
const RUN_AS_USER: Field = Field::new("runAsUser", ID).unless(FOR_LINUX);
const SE_LINUX_OPTIONS: Field =
    Field::new("seLinuxOptions", atomic(&SE_LINUX_OPTIONS_TYPE)).unless(FOR_LINUX);
const SECCOMP_PROFILE: Field = Field::new("seccompProfile", atomic(&SECCOMP_PROFILE_TYPE));
const WINDOWS_OPTIONS: Field = Field::new("windowsOptions", Shape::Opaque).refused(FOR_WINDOWS);

pub(super) static SECURITY_CONTEXT: Object = Object::new(
    "SecurityContext",
    &[
        Field::new("allowPrivilegeEscalation", Shape::Boolean).unless(&[
            NOT_ON_WINDOWS,
            Exclusion::new(FALSE, "privileged", TRUE),
            Exclusion::new(FALSE, "capabilities/add/*", Some(Literal::Text("CAP_SYS_ADMIN"))),
        ]),
        APP_ARMOR_PROFILE,
        Field::new("capabilities", Shape::Object(&CAPABILITIES)).unless(FOR_LINUX),
        Field::new("privileged", Shape::Boolean)
            .unless(&[NOT_ON_WINDOWS, Exclusion::new(TRUE, "allowPrivilegeEscalation", FALSE)]),
        Field::new("procMount", one_of(&["Default", "Unmasked"]))
            .refused("`Unmasked` requires user namespaces for the pod, and `Default` is the default"),
        Field::new("readOnlyRootFilesystem", Shape::Boolean).unless(FOR_LINUX),
        RUN_AS_GROUP,
        RUN_AS_NON_ROOT,
        RUN_AS_USER,
        SE_LINUX_OPTIONS,
        SECCOMP_PROFILE.unless(&[NOT_ON_WINDOWS, SECCOMP_ANNOTATION]),
        WINDOWS_OPTIONS,
    ],
);

static CAPABILITIES: Object =
    Object::new("Capabilities", &[Field::new("add", set(&ANY)), Field::new("drop", set(&ANY))]);

pub(super) static POD_SECURITY_CONTEXT: Object = Object::new(
    "PodSecurityContext",
    &[
        APP_ARMOR_PROFILE,
        Field::new("fsGroup", ID).unless(FOR_LINUX),
        Field::new("fsGroupChangePolicy", one_of(&["Always", "OnRootMismatch"])).unless(FOR_LINUX),
        RUN_AS_GROUP,
        RUN_AS_NON_ROOT,
        RUN_AS_USER,
        // `MountOption` is for clusters with the feature gate `SELinuxMount`.
        Field::new("seLinuxChangePolicy", one_of(&["Recursive"])).unless(FOR_LINUX),
        SE_LINUX_OPTIONS,
        SECCOMP_PROFILE.unless(&[NOT_ON_WINDOWS, POD_SECCOMP_ANNOTATION]),
        Field::new("supplementalGroups", set(&ID)).unless(FOR_LINUX),
        Field::new("supplementalGroupsPolicy", one_of(&["Merge", "Strict"])).unless(FOR_LINUX),
        Field::new("sysctls", list(&Shape::Atomic(&SYSCTL))).unless(&[
            NOT_ON_WINDOWS,
            Exclusion::new(None, "/spec/hostNetwork", TRUE),
            Exclusion::new(None, "/spec/hostIPC", TRUE),
        ]),
        WINDOWS_OPTIONS,
    ],
)
.rule(rules::sysctls);

static SYSCTL: Object = Object::new(
    "Sysctl",
    &[
        Field::new("name", Shape::Text(Format::SysctlName)).required(),
        Field::new("value", ANY).default(Default::Text("")),
    ],
);

static SE_LINUX_OPTIONS_TYPE: Object = Object::new(
    "SELinuxOptions",
    &[
        Field::new("level", ANY).omitted_when_empty(),
        Field::new("role", ANY).omitted_when_empty(),
        Field::new("type", ANY).omitted_when_empty(),
        Field::new("user", ANY).omitted_when_empty(),
    ],
);

const PROFILE_TYPE: Field =
    Field::new("type", one_of(&["Localhost", "RuntimeDefault", "Unconfined"])).required();

static SECCOMP_PROFILE_TYPE: Object = Object::new(
    "SeccompProfile",
    &[Field::new("localhostProfile", Shape::Text(Format::RelativePath)), PROFILE_TYPE],
)
.rule(rules::localhost_profile);

static APP_ARMOR_PROFILE_TYPE: Object = Object::new(
    "AppArmorProfile",
    &[Field::new("localhostProfile", Shape::Text(Format::AppArmorProfile)), PROFILE_TYPE],
)
.rule(rules::localhost_profile);
