//! What this program says about types: how two objects and two lists become one, and the rules about several fields.

use super::{Rule, rules};

/// Something about fields: the types, the fields of each, and what it is. Names are separated by spaces.
///
/// `Probe@readiness` is a `Probe` in one place of a pod. What is said of `Probe` holds for it, too, unless a row says
/// something else.
pub(super) type FieldsOf<T> = (&'static str, &'static str, T);

/// Types whose fields have other rules in one place of a pod.
pub(super) const VARIANTS: &[FieldsOf<&str>] = &[
    ("CSIVolumeSource", "nodePublishSecretRef", "LocalObjectReference@csi"),
    ("Container", "readinessProbe", "Probe@readiness"),
    ("DownwardAPIVolumeFile", "fieldRef", "ObjectFieldSelector@volume"),
    ("DownwardAPIVolumeFile", "resourceFieldRef", "ResourceFieldSelector@volume"),
    ("NodeSelectorTerm NodeSelectorTerm@preferred", "matchFields", "NodeSelectorRequirement@fields"),
    ("NodeSelectorTerm@preferred", "matchExpressions", "NodeSelectorRequirement@preferred"),
    ("PersistentVolumeClaimTemplate", "metadata", "ObjectMeta@template"),
    ("PreferredSchedulingTerm", "preference", "NodeSelectorTerm@preferred"),
];

/// The types whose objects become one field by field. An object of any other type is one value.
pub(super) const MERGED: &str = "Affinity Capabilities Container Lifecycle NodeAffinity ObjectMeta PodAffinity \
    PodAntiAffinity PodSecurityContext PodSpec ResourceRequirements SecurityContext";

/// Lists that the API declares as one value, but whose order has no meaning, and whose entries do not contradict each
/// other, so the overlay's entries are added. (A node must meet one of the terms that `NodeAffinity` requires: one more
/// makes more nodes eligible.) The declarations have no keys for a list of `ObjectMeta`.
pub(super) const LIST_KEYS: &[FieldsOf<&[&str]>] = &[
    ("Capabilities", "add drop", &[]),
    ("Container", "envFrom", &[]),
    ("NodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution", &[]),
    ("ObjectMeta", "finalizers", &[]),
    ("ObjectMeta", "ownerReferences", &["uid"]),
    (
        "PodAffinity PodAntiAffinity",
        "preferredDuringSchedulingIgnoredDuringExecution requiredDuringSchedulingIgnoredDuringExecution",
        &[],
    ),
    ("PodSecurityContext", "supplementalGroups", &[]),
    ("PodSpec", "tolerations", &[]),
];

/// Fields, exactly one of which an object has, such as the source of a volume.
pub(super) const EXACTLY_ONE: &[(&str, &str)] = &[
    ("DownwardAPIVolumeFile", "fieldRef resourceFieldRef"),
    ("EnvFromSource", "configMapRef secretRef"),
    ("EnvVarSource", "configMapKeyRef fieldRef fileKeyRef resourceFieldRef secretKeyRef"),
    ("LifecycleHandler", "exec httpGet sleep tcpSocket"),
    ("PodResourceClaim", "resourceClaimName resourceClaimTemplateName"),
    ("Probe", "exec grpc httpGet tcpSocket"),
    (
        "Volume",
        "awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI emptyDir ephemeral fc \
         flexVolume flocker gcePersistentDisk gitRepo glusterfs hostPath image iscsi nfs persistentVolumeClaim \
         photonPersistentDisk portworxVolume projected quobyte rbd scaleIO secret storageos vsphereVolume",
    ),
];

/// Fields, at most one of which an object has.
pub(super) const AT_MOST_ONE: &[(&str, &str)] = &[
    ("EnvVar", "value valueFrom"),
    ("VolumeMount", "subPath subPathExpr"),
    (
        "VolumeProjection",
        "clusterTrustBundle configMap downwardAPI podCertificate secret serviceAccountToken",
    ),
];

/// The other rules about several fields of an object.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("AppArmorProfile SeccompProfile", rules::localhost_profile),
    ("EmptyDirVolumeSource", rules::empty_dir),
    ("LabelSelectorRequirement", rules::selector_requirement),
    ("NodeSelectorRequirement NodeSelectorRequirement@preferred", rules::selector_requirement),
    ("NodeSelectorRequirement@fields", rules::node_field),
    ("PersistentVolumeClaimSpec", rules::claim),
    ("PodDNSConfig", rules::dns_config),
    ("PodSecurityContext", rules::sysctls),
    ("ProjectedVolumeSource", rules::projected_paths),
    ("ResourceFieldSelector ResourceFieldSelector@volume", rules::divisor),
    ("ResourceRequirements", rules::resources),
    ("Toleration", rules::toleration),
    ("TopologySpreadConstraint", rules::topology_spread_constraint),
    ("VolumeMount", rules::volume_mount),
];
