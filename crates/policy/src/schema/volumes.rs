//! `Volume`, its sources, and the claim that a volume can make.

use super::container::PULL_POLICY;
use super::projections::{
    CONFIG_MAP_VOLUME_SOURCE, DOWNWARD_API_VOLUME_SOURCE, PROJECTED_VOLUME_SOURCE, SECRET_VOLUME_SOURCE,
};
use super::scheduling::LABEL_SELECTOR;
use super::shapes::{
    ANY, LABEL, LABEL_VALUE, NON_EMPTY, SUBDOMAIN, atomic, list, newer, one_of, quantities, strings,
};
use super::{Default, Field, Format, Object, Shape, rules};

/// A source that this program does not describe.
const fn other(name: &'static str) -> Field {
    Field::new(name, Shape::Opaque)
        .refused("a pod that needs such a volume claims it: write persistentVolumeClaim, ephemeral or csi")
}

pub(super) static VOLUME: Object = Object::new(
    "Volume",
    &[
        other("awsElasticBlockStore"),
        other("azureDisk"),
        other("azureFile"),
        other("cephfs"),
        other("cinder"),
        Field::new("configMap", atomic(&CONFIG_MAP_VOLUME_SOURCE)),
        Field::new("csi", atomic(&CSI_VOLUME_SOURCE)),
        Field::new("downwardAPI", atomic(&DOWNWARD_API_VOLUME_SOURCE)),
        Field::new("emptyDir", atomic(&EMPTY_DIR_VOLUME_SOURCE)).default(Default::EmptyObject),
        Field::new("ephemeral", atomic(&EPHEMERAL_VOLUME_SOURCE)),
        other("fc"),
        other("flexVolume"),
        other("flocker"),
        other("gcePersistentDisk"),
        other("gitRepo"),
        other("glusterfs"),
        Field::new("hostPath", atomic(&HOST_PATH_VOLUME_SOURCE)),
        Field::new("image", atomic(&IMAGE_VOLUME_SOURCE)),
        other("iscsi"),
        Field::new("name", LABEL).required(),
        Field::new("nfs", atomic(&NFS_VOLUME_SOURCE)),
        Field::new("persistentVolumeClaim", atomic(&PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE)),
        other("photonPersistentDisk"),
        other("portworxVolume"),
        Field::new("projected", atomic(&PROJECTED_VOLUME_SOURCE)),
        other("quobyte"),
        other("rbd"),
        other("scaleIO"),
        Field::new("secret", atomic(&SECRET_VOLUME_SOURCE)),
        other("storageos"),
        other("vsphereVolume"),
    ],
)
.exactly_one_of(&[
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "persistentVolumeClaim",
    "photonPersistentDisk",
    "portworxVolume",
    "projected",
    "quobyte",
    "rbd",
    "scaleIO",
    "secret",
    "storageos",
    "vsphereVolume",
]);

static CSI_VOLUME_SOURCE: Object = Object::new(
    "CSIVolumeSource",
    &[
        Field::new("driver", Shape::Text(Format::CsiDriver)).required(),
        Field::new("fsType", ANY),
        Field::new("nodePublishSecretRef", atomic(&SECRET_REFERENCE)),
        Field::new("readOnly", Shape::Boolean),
        Field::new("volumeAttributes", strings(Format::Any, &ANY)),
    ],
);

static SECRET_REFERENCE: Object =
    Object::new("LocalObjectReference", &[Field::new("name", SUBDOMAIN).required()]);

static EMPTY_DIR_VOLUME_SOURCE: Object = Object::new(
    "EmptyDirVolumeSource",
    &[
        Field::new("medium", ANY).omitted_when_empty(),
        newer("mode"),
        Field::new("sizeLimit", Shape::Quantity),
    ],
)
.rule(rules::empty_dir);

static HOST_PATH_VOLUME_SOURCE: Object = Object::new(
    "HostPathVolumeSource",
    &[
        Field::new("path", Shape::Text(Format::Path)).required(),
        Field::new(
            "type",
            one_of(&[
                "",
                "BlockDevice",
                "CharDevice",
                "Directory",
                "DirectoryOrCreate",
                "File",
                "FileOrCreate",
                "Socket",
            ]),
        )
        .default(Default::Text("")),
    ],
);

static IMAGE_VOLUME_SOURCE: Object = Object::new(
    "ImageVolumeSource",
    &[
        Field::new("pullPolicy", PULL_POLICY).default(Default::Computed),
        Field::new("reference", NON_EMPTY).required(),
    ],
);

static NFS_VOLUME_SOURCE: Object = Object::new(
    "NFSVolumeSource",
    &[
        Field::new("path", Shape::Text(Format::AbsolutePath)).required(),
        Field::new("readOnly", Shape::Boolean).omitted_when_empty(),
        Field::new("server", NON_EMPTY).required(),
    ],
);

static PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: Object = Object::new(
    "PersistentVolumeClaimVolumeSource",
    &[
        Field::new("claimName", NON_EMPTY).required(),
        Field::new("readOnly", Shape::Boolean).omitted_when_empty(),
    ],
);

static EPHEMERAL_VOLUME_SOURCE: Object = Object::new(
    "EphemeralVolumeSource",
    &[Field::new("volumeClaimTemplate", atomic(&PERSISTENT_VOLUME_CLAIM_TEMPLATE)).required()],
);

static PERSISTENT_VOLUME_CLAIM_TEMPLATE: Object = Object::new(
    "PersistentVolumeClaimTemplate",
    &[
        Field::new("metadata", atomic(&TEMPLATE_META)).default(Default::EmptyObject),
        Field::new("spec", atomic(&PERSISTENT_VOLUME_CLAIM_SPEC)).required(),
    ],
);

/// A field of the metadata that the API server refuses in the template of a claim.
const fn not_in_template(name: &'static str) -> Field {
    Field::new(name, Shape::Opaque).refused("the template of a claim has labels and annotations only")
}

static TEMPLATE_META: Object = Object::new(
    "ObjectMeta",
    &[
        Field::new("annotations", strings(Format::AnnotationKey, &ANY)),
        not_in_template("creationTimestamp"),
        not_in_template("deletionGracePeriodSeconds"),
        not_in_template("deletionTimestamp"),
        not_in_template("finalizers"),
        not_in_template("generateName"),
        not_in_template("generation"),
        Field::new("labels", strings(Format::QualifiedName, &LABEL_VALUE)),
        not_in_template("managedFields"),
        not_in_template("name"),
        not_in_template("namespace"),
        not_in_template("ownerReferences"),
        not_in_template("resourceVersion"),
        not_in_template("selfLink"),
        not_in_template("uid"),
    ],
);

const DATA_SOURCE: &str = "an overlay adds volumes that start empty";
const CLASS: Shape = Shape::Text(Format::DnsSubdomainOrEmpty);

static PERSISTENT_VOLUME_CLAIM_SPEC: Object = Object::new(
    "PersistentVolumeClaimSpec",
    &[
        Field::new(
            "accessModes",
            list(&one_of(&["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"])),
        )
        .required(),
        Field::new("dataSource", Shape::Opaque).refused(DATA_SOURCE),
        Field::new("dataSourceRef", Shape::Opaque).refused(DATA_SOURCE),
        Field::new("resources", atomic(&VOLUME_RESOURCE_REQUIREMENTS)).required(),
        Field::new("selector", atomic(&LABEL_SELECTOR)),
        Field::new("storageClassName", CLASS),
        Field::new("volumeAttributesClassName", CLASS),
        Field::new("volumeMode", one_of(&["Block", "Filesystem"])).default(Default::Text("Filesystem")),
        Field::new("volumeName", ANY).omitted_when_empty(),
    ],
)
.rule(rules::claim);

static VOLUME_RESOURCE_REQUIREMENTS: Object = Object::new(
    "VolumeResourceRequirements",
    &[
        Field::new("limits", quantities(Format::Any)),
        Field::new("requests", quantities(Format::Any)).required(),
    ],
);
