//! What this program says about the values of fields: their forms, and what the API server fills in.

use super::types::FieldsOf;
use super::{Default, Format, Shape};

const ANY: Shape = Shape::Text(Format::Any);
const NON_EMPTY: Shape = Shape::Text(Format::NonEmpty);
const LABEL: Shape = Shape::Text(Format::DnsLabel);
const SUBDOMAIN: Shape = Shape::Text(Format::DnsSubdomain);
const KEY: Shape = Shape::Text(Format::QualifiedName);
const LABEL_VALUE: Shape = Shape::Text(Format::LabelValue);

const INT32_MAX: i64 = i32::MAX as i64;
/// A number of seconds or of attempts, or the number of a user or of a group.
const COUNT: Shape = Shape::Integer(0, INT32_MAX);
/// The permissions of a file.
const MODE: Shape = Shape::Integer(0, 0o777);

const PORT: Shape = Shape::Integer(1, 65535);
const PULL_POLICY: Shape = one_of(&["Always", "IfNotPresent", "Never"]);

const HOST_PATHS: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

const fn one_of(values: &'static [&'static str]) -> Shape {
    Shape::Text(Format::OneOf(values))
}

/// The forms of texts and the bounds of numbers, also of those in a list or in an object with keys of the user's choice.
/// Of a field that no overlay can set, they say with what an expression can compare it.
pub(super) const SCALARS: &[FieldsOf<Shape>] = &[
    ("AppArmorProfile", "localhostProfile", Shape::Text(Format::AppArmorProfile)),
    ("AppArmorProfile SeccompProfile", "type", one_of(&["Localhost", "RuntimeDefault", "Unconfined"])),
    ("CSIVolumeSource", "driver", Shape::Text(Format::CsiDriver)),
    ("ConfigMapEnvSource SecretEnvSource", "name", Shape::Text(Format::DnsSubdomainPrefix)),
    ("ConfigMapKeySelector SecretKeySelector", "key", Shape::Text(Format::ConfigKey)),
    ("ConfigMapKeySelector LocalObjectReference@csi SecretKeySelector", "name", SUBDOMAIN),
    (
        "ConfigMapProjection ConfigMapVolumeSource PodDNSConfigOption ResourceClaim SecretProjection",
        "name",
        NON_EMPTY,
    ),
    (
        "ConfigMapVolumeSource DownwardAPIVolumeSource ProjectedVolumeSource SecretVolumeSource",
        "defaultMode",
        MODE,
    ),
    ("Container", "image", Shape::Text(Format::Image)),
    ("Container", "imagePullPolicy", PULL_POLICY),
    ("Container PodResourceClaim Volume", "name", LABEL),
    ("Container PodSpec", "restartPolicy", one_of(&["Always", "Never", "OnFailure"])),
    ("Container", "terminationMessagePolicy", one_of(&["FallbackToLogsOnError", "File"])),
    ("ContainerPort", "containerPort", PORT),
    ("ContainerPort", "name", Shape::Text(Format::PortName)),
    ("ContainerPort", "protocol", one_of(&["SCTP", "TCP", "UDP"])),
    ("DownwardAPIVolumeFile KeyToPath", "mode", MODE),
    ("DownwardAPIVolumeFile KeyToPath ServiceAccountTokenProjection", "path", Shape::Text(Format::FilePath)),
    ("EnvFromSource", "prefix", Shape::Text(Format::EnvName)),
    ("EnvVar", "name", Shape::Text(Format::EnvName)),
    ("HostPathVolumeSource", "path", Shape::Text(Format::Path)),
    ("FileKeySelector", "volumeName", LABEL),
    ("GRPCAction", "port", PORT),
    ("HTTPGetAction", "scheme", one_of(&["HTTP", "HTTPS"])),
    ("HTTPHeader", "name", Shape::Text(Format::HttpHeaderName)),
    ("HostAlias", "hostnames", SUBDOMAIN),
    ("HostAlias", "ip", Shape::Text(Format::IpAddress)),
    ("HostPathVolumeSource", "type", one_of(HOST_PATHS)),
    ("ImageVolumeSource", "pullPolicy", PULL_POLICY),
    ("ImageVolumeSource", "reference", NON_EMPTY),
    ("KeyToPath", "key", NON_EMPTY),
    ("LabelSelector", "matchLabels", LABEL_VALUE),
    ("LabelSelectorRequirement NodeSelectorRequirement Toleration", "key", KEY),
    ("LabelSelectorRequirement", "operator", one_of(&["DoesNotExist", "Exists", "In", "NotIn"])),
    ("LabelSelectorRequirement NodeSelectorRequirement", "values", LABEL_VALUE),
    ("NFSVolumeSource", "path", Shape::Text(Format::AbsolutePath)),
    ("NFSVolumeSource", "server", NON_EMPTY),
    ("NodeSelectorRequirement", "operator", one_of(&["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"])),
    ("NodeSelectorRequirement@fields", "key", one_of(&["metadata.name"])),
    ("NodeSelectorRequirement@fields", "operator", one_of(&["In", "NotIn"])),
    ("NodeSelectorRequirement@fields", "values", SUBDOMAIN),
    // `ValidatePreferredSchedulingTerms` of the API server takes values that no label has.
    ("NodeSelectorRequirement@preferred", "values", ANY),
    ("ObjectFieldSelector", "apiVersion", one_of(&["v1"])),
    ("ObjectFieldSelector", "fieldPath", Shape::Text(Format::EnvFieldPath)),
    ("ObjectFieldSelector@volume", "fieldPath", Shape::Text(Format::VolumeFieldPath)),
    ("ObjectMeta", "labels", LABEL_VALUE),
    (
        "PersistentVolumeClaimSpec",
        "accessModes",
        one_of(&["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]),
    ),
    (
        "PersistentVolumeClaimSpec",
        "storageClassName volumeAttributesClassName",
        Shape::Text(Format::DnsSubdomainOrEmpty),
    ),
    ("PersistentVolumeClaimSpec", "volumeMode", one_of(&["Block", "Filesystem"])),
    ("PersistentVolumeClaimVolumeSource", "claimName", NON_EMPTY),
    ("PodAffinityTerm", "topologyKey", KEY),
    ("PodAffinityTerm", "namespaces", LABEL),
    ("PodDNSConfig", "nameservers", Shape::Text(Format::IpAddress)),
    ("PodDNSConfig", "searches", Shape::Text(Format::DnsSearch)),
    ("PodReadinessGate", "conditionType", KEY),
    ("PodResourceClaim", "resourceClaimName resourceClaimTemplateName", SUBDOMAIN),
    ("PodSchedulingGate", "name", KEY),
    ("PodSecurityContext", "fsGroup runAsGroup runAsUser supplementalGroups", COUNT),
    ("PodSecurityContext", "fsGroupChangePolicy", one_of(&["Always", "OnRootMismatch"])),
    // `MountOption` is for clusters with the feature gate `SELinuxMount`.
    ("PodSecurityContext", "seLinuxChangePolicy", one_of(&["Recursive"])),
    ("PodSecurityContext", "supplementalGroupsPolicy", one_of(&["Merge", "Strict"])),
    ("PodSpec", "activeDeadlineSeconds", Shape::Integer(1, INT32_MAX)),
    // `None` needs a name server in `dnsConfig`.
    ("PodSpec", "dnsPolicy", one_of(&["ClusterFirst", "ClusterFirstWithHostNet", "Default"])),
    ("PodSpec", "hostname subdomain", LABEL),
    ("PodSpec", "hostnameOverride", Shape::Text(Format::Hostname)),
    ("PodSpec", "nodeName priorityClassName runtimeClassName serviceAccountName", SUBDOMAIN),
    ("PodSpec", "nodeSelector", LABEL_VALUE),
    ("PodSpec", "preemptionPolicy", one_of(&["Never", "PreemptLowerPriority"])),
    ("PreferredSchedulingTerm WeightedPodAffinityTerm", "weight", Shape::Integer(1, 100)),
    ("Probe", "failureThreshold initialDelaySeconds periodSeconds timeoutSeconds", COUNT),
    ("Probe", "successThreshold", Shape::Integer(0, 1)),
    ("Probe", "terminationGracePeriodSeconds", Shape::Integer(1, i64::MAX)),
    ("Probe@readiness", "successThreshold", COUNT),
    ("ResourceClaim", "request", LABEL),
    ("ResourceFieldSelector", "resource", Shape::Text(Format::ResourceFieldPath)),
    ("ResourceFieldSelector@volume", "containerName", NON_EMPTY),
    ("SeccompProfile", "localhostProfile", Shape::Text(Format::RelativePath)),
    ("SecretVolumeSource", "secretName", NON_EMPTY),
    ("SecurityContext", "procMount", one_of(&["Default", "Unmasked"])),
    ("SecurityContext", "runAsGroup runAsUser", COUNT),
    ("ServiceAccountTokenProjection", "expirationSeconds", Shape::Integer(600, 1 << 32)),
    ("Sysctl", "name", Shape::Text(Format::SysctlName)),
    ("Toleration", "effect", one_of(&["NoExecute", "NoSchedule", "PreferNoSchedule"])),
    ("Toleration", "operator", one_of(&["Equal", "Exists"])),
    ("Toleration", "value", LABEL_VALUE),
    ("TopologySpreadConstraint", "maxSkew minDomains", Shape::Integer(1, INT32_MAX)),
    ("TopologySpreadConstraint", "nodeAffinityPolicy nodeTaintsPolicy", one_of(&["Honor", "Ignore"])),
    ("TopologySpreadConstraint", "topologyKey", NON_EMPTY),
    ("TopologySpreadConstraint", "whenUnsatisfiable", one_of(&["DoNotSchedule", "ScheduleAnyway"])),
    ("VolumeMount", "mountPath name", NON_EMPTY),
    ("VolumeMount", "mountPropagation", one_of(&["Bidirectional", "HostToContainer", "None"])),
    ("VolumeMount", "recursiveReadOnly", one_of(&["Disabled", "Enabled", "IfPossible"])),
    ("VolumeMount", "subPath subPathExpr", Shape::Text(Format::RelativePath)),
];

/// The forms of the keys of objects with keys of the user's choice.
pub(super) const KEYS: &[FieldsOf<Format>] = &[
    ("LabelSelector", "matchLabels", Format::QualifiedName),
    ("ObjectMeta", "annotations", Format::PodAnnotation),
    ("ObjectMeta", "labels", Format::QualifiedName),
    ("ObjectMeta@template", "annotations", Format::AnnotationKey),
    ("PodSpec", "nodeSelector", Format::QualifiedName),
    ("ResourceRequirements", "limits requests", Format::ResourceName),
];

/// Fields that the API server requires, though the API does not declare it.
pub(super) const REQUIRED: &[FieldsOf<()>] = &[
    ("ConfigMapEnvSource ConfigMapKeySelector ConfigMapProjection ConfigMapVolumeSource", "name", ()),
    ("Container", "image", ()),
    ("EphemeralVolumeSource", "volumeClaimTemplate", ()),
    ("ExecAction", "command", ()),
    ("ImageVolumeSource", "reference", ()),
    ("LocalObjectReference@csi PodDNSConfigOption", "name", ()),
    ("NodeSelectorRequirement@fields", "values", ()),
    ("PersistentVolumeClaimSpec", "accessModes resources", ()),
    ("Pod", "spec", ()),
    ("ResourceFieldSelector@volume", "containerName", ()),
    ("SecretEnvSource SecretKeySelector SecretProjection", "name", ()),
    ("SecretVolumeSource", "secretName", ()),
    ("VolumeResourceRequirements", "requests", ()),
];

/// The values that the API server fills in.
pub(super) const DEFAULTS: &[FieldsOf<Default>] = &[
    (
        "ConfigMapVolumeSource DownwardAPIVolumeSource ProjectedVolumeSource SecretVolumeSource",
        "defaultMode",
        Default::Integer(0o644),
    ),
    ("Container", "imagePullPolicy", Default::Computed),
    ("Container", "resources", Default::EmptyObject),
    ("Container", "terminationMessagePath", Default::TextForEmpty("/dev/termination-log")),
    ("Container", "terminationMessagePolicy", Default::TextForEmpty("File")),
    ("ContainerPort", "hostPort", Default::Computed),
    ("ContainerPort", "protocol", Default::TextForEmpty("TCP")),
    ("FileKeySelector", "optional", Default::Boolean(false)),
    ("GRPCAction", "service", Default::Text("")),
    ("HTTPGetAction", "path", Default::TextForEmpty("/")),
    ("HTTPGetAction", "scheme", Default::TextForEmpty("HTTP")),
    ("HTTPHeader Sysctl", "value", Default::Text("")),
    ("HostPathVolumeSource", "type", Default::Text("")),
    ("ImageVolumeSource", "pullPolicy", Default::Computed),
    ("ObjectFieldSelector", "apiVersion", Default::TextForEmpty("v1")),
    ("PersistentVolumeClaimSpec", "volumeMode", Default::Text("Filesystem")),
    ("PersistentVolumeClaimTemplate Pod", "metadata", Default::EmptyObject),
    ("PodSpec", "dnsPolicy", Default::TextForEmpty("ClusterFirst")),
    ("PodSpec", "enableServiceLinks", Default::Boolean(true)),
    ("PodSpec", "restartPolicy", Default::TextForEmpty("Always")),
    ("PodSpec", "schedulerName", Default::TextForEmpty("default-scheduler")),
    ("PodSpec", "securityContext", Default::EmptyObject),
    ("PodSpec", "terminationGracePeriodSeconds", Default::Integer(30)),
    ("PreferredSchedulingTerm", "preference", Default::EmptyObject),
    ("Probe", "failureThreshold", Default::IntegerForZero(3)),
    ("Probe", "periodSeconds", Default::IntegerForZero(10)),
    ("Probe", "successThreshold timeoutSeconds", Default::IntegerForZero(1)),
    ("ResourceFieldSelector", "divisor", Default::Text("0")),
    ("ResourceRequirements", "requests", Default::Computed),
    ("ServiceAccountTokenProjection", "expirationSeconds", Default::Integer(3600)),
    ("Volume", "emptyDir", Default::EmptyObject),
];
