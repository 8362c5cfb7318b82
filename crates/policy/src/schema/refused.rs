//! What an overlay cannot set, and why.

use super::types::FieldsOf;

const BY_THE_API_SERVER: &str = "the API server sets it";
const BY_THE_CONTROLLER: &str = "the controller that creates the pod sets it";
const BY_SERVICE_ACCOUNT: &str = "the ServiceAccount admission plugin reads it before webhooks run";
const BY_PRIORITY: &str = "the Priority admission plugin sets the pod's priority before webhooks run";
const BY_RUNTIME_CLASS: &str =
    "the RuntimeClass admission plugin reads the class of the pod before webhooks run";
/// The API server adds the values of these labels to `labelSelector`, and an overlay would no longer find its own term.
const COMPLETED: &str = "the API server rewrites labelSelector for it; write the labels into labelSelector";
const NEWER: &str = "API servers before Kubernetes 1.37 drop it";
const OF_A_RESTART: &str = "the rules that are valid depend on the restartPolicy of the container";

/// Fields that no overlay can set, for this reason, which follows "an overlay cannot set `x`: ".
pub(super) const REFUSED: &[FieldsOf<&str>] = &[
    (
        "Container",
        "volumeDevices",
        "a device shares neither its volume nor its path with any other entry of the container",
    ),
    ("ContainerPort", "hostPort", "each port of a node has one user"),
    ("EnvVarSource", "fileKeyRef", "the API server requires an emptyDir volume of that name in the pod"),
    ("Lifecycle", "stopSignal", "the API server refuses it in a pod without `spec.os.name`"),
    ("ObjectMeta", "deletionGracePeriodSeconds generation resourceVersion selfLink uid", BY_THE_API_SERVER),
    ("ObjectMeta", "finalizers", "the pod stays until its finalizers are removed"),
    ("ObjectMeta", "generateName name namespace", "it identifies the pod"),
    ("ObjectMeta", "ownerReferences", BY_THE_CONTROLLER),
    ("Pod", "apiVersion kind", "it is the same for all pods"),
    ("PodAffinityTerm TopologySpreadConstraint", "matchLabelKeys mismatchLabelKeys", COMPLETED),
    ("PodSpec", "automountServiceAccountToken serviceAccount serviceAccountName", BY_SERVICE_ACCOUNT),
    ("PodSpec", "nodeName", "the scheduler sets it"),
    ("PodSpec", "overhead runtimeClassName", BY_RUNTIME_CLASS),
    ("PodSpec", "preemptionPolicy priority priorityClassName", BY_PRIORITY),
    ("PodSpec", "resources", "the amounts of the pod depend on those of all its containers"),
    ("PodSpec", "restartPolicy", "the controller that creates the pod depends on it"),
    (
        "Probe@readiness",
        "terminationGracePeriodSeconds",
        "a failed readiness probe does not end the container",
    ),
    (
        "SecurityContext",
        "procMount",
        "`Unmasked` requires user namespaces for the pod, and `Default` is the default",
    ),
];

/// Further ones, whose values this program does not look into.
pub(super) const UNDESCRIBED: &[FieldsOf<&str>] = &[
    (
        "ConfigMapVolumeSource DownwardAPIVolumeSource ProjectedVolumeSource SecretVolumeSource",
        "defaultUser",
        NEWER,
    ),
    ("Container", "resizePolicy", "the values that are valid depend on the restartPolicy of the pod"),
    ("Container", "restartPolicyRules", OF_A_RESTART),
    ("DownwardAPIVolumeFile KeyToPath ServiceAccountTokenProjection", "user", NEWER),
    ("EmptyDirVolumeSource GRPCAction", "mode", NEWER),
    ("HTTPGetAction", "protocol", NEWER),
    ("LifecycleHandler", "sleep", "it must not exceed the grace period of the pod"),
    ("ObjectMeta", "creationTimestamp deletionTimestamp managedFields", BY_THE_API_SERVER),
    (
        "ObjectMeta@template",
        "creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation \
         managedFields name namespace ownerReferences resourceVersion selfLink uid",
        "the template of a claim has labels and annotations only",
    ),
    ("PersistentVolumeClaimSpec", "dataSource dataSourceRef", "an overlay adds volumes that start empty"),
    ("Pod", "status", "the API server clears it when a pod is created"),
    ("PodSecurityContext SecurityContext", "windowsOptions", "it applies to pods on Windows only"),
    ("PodSpec", "ephemeralContainers", "the API server refuses them when a pod is created"),
    ("PodSpec", "evictionResponders", NEWER),
    ("PodSpec", "os", "it selects the rules by which the API server validates the other fields"),
    ("PodSpec", "schedulingGroup", BY_THE_CONTROLLER),
    (
        "Volume",
        "awsElasticBlockStore azureDisk azureFile cephfs cinder fc flexVolume flocker gcePersistentDisk gitRepo \
         glusterfs iscsi photonPersistentDisk portworxVolume quobyte rbd scaleIO storageos vsphereVolume",
        "a pod that needs such a volume claims it: write persistentVolumeClaim, ephemeral or csi",
    ),
    ("VolumeMount", "bindMountOptions", NEWER),
    (
        "VolumeProjection",
        "clusterTrustBundle podCertificate",
        "whether the API server keeps it depends on a feature gate",
    ),
];
