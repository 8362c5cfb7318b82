//! Volumes that are made of other objects: of a ConfigMap, a Secret, the fields of the pod, or of several of these.

use super::env::{VOLUME_FIELD_SELECTOR, VOLUME_RESOURCE_SELECTOR};
use super::shapes::{ANY, MODE, NON_EMPTY, atomic, list, newer};
use super::{Default, Field, Format, Object, Shape, rules};

const DEFAULT_USER: Field = newer("defaultUser");
const USER: Field = newer("user");
const DEFAULT_MODE: Field = Field::new("defaultMode", MODE).default(Default::Integer(0o644));
const ITEMS: Field = Field::new("items", list(&ITEM));
const NAME: Field = Field::new("name", NON_EMPTY).required();
const OPTIONAL: Field = Field::new("optional", Shape::Boolean);
static ITEM: Shape = atomic(&KEY_TO_PATH);
static DOWNWARD_API_ITEM: Shape = atomic(&DOWNWARD_API_VOLUME_FILE);
const FILE: Shape = Shape::Text(Format::FilePath);

pub(super) static CONFIG_MAP_VOLUME_SOURCE: Object =
    Object::new("ConfigMapVolumeSource", &[DEFAULT_MODE, DEFAULT_USER, ITEMS, NAME, OPTIONAL]);

pub(super) static SECRET_VOLUME_SOURCE: Object = Object::new(
    "SecretVolumeSource",
    &[DEFAULT_MODE, DEFAULT_USER, ITEMS, OPTIONAL, Field::new("secretName", NON_EMPTY).required()],
);

static KEY_TO_PATH: Object = Object::new(
    "KeyToPath",
    &[
        Field::new("key", NON_EMPTY).required(),
        Field::new("mode", MODE),
        Field::new("path", FILE).required(),
        USER,
    ],
);

const FILES: Field = Field::new("items", list(&DOWNWARD_API_ITEM));

pub(super) static DOWNWARD_API_VOLUME_SOURCE: Object =
    Object::new("DownwardAPIVolumeSource", &[DEFAULT_MODE, DEFAULT_USER, FILES]);

static DOWNWARD_API_VOLUME_FILE: Object = Object::new(
    "DownwardAPIVolumeFile",
    &[
        Field::new("fieldRef", atomic(&VOLUME_FIELD_SELECTOR)),
        Field::new("mode", MODE),
        Field::new("path", FILE).required(),
        Field::new("resourceFieldRef", atomic(&VOLUME_RESOURCE_SELECTOR)),
        USER,
    ],
)
.exactly_one_of(&["fieldRef", "resourceFieldRef"]);

pub(super) static PROJECTED_VOLUME_SOURCE: Object = Object::new(
    "ProjectedVolumeSource",
    &[DEFAULT_MODE, DEFAULT_USER, Field::new("sources", list(&Shape::Atomic(&VOLUME_PROJECTION)))],
)
.rule(rules::projected_paths);

const GATED: &str = "whether the API server keeps it depends on a feature gate";

static VOLUME_PROJECTION: Object = Object::new(
    "VolumeProjection",
    &[
        Field::new("clusterTrustBundle", Shape::Opaque).refused(GATED),
        Field::new("configMap", atomic(&CONFIG_MAP_PROJECTION)),
        Field::new("downwardAPI", atomic(&DOWNWARD_API_PROJECTION)),
        Field::new("podCertificate", Shape::Opaque).refused(GATED),
        Field::new("secret", atomic(&SECRET_PROJECTION)),
        Field::new("serviceAccountToken", atomic(&SERVICE_ACCOUNT_TOKEN_PROJECTION)),
    ],
)
.at_most_one_of(&[
    "clusterTrustBundle",
    "configMap",
    "downwardAPI",
    "podCertificate",
    "secret",
    "serviceAccountToken",
]);

static CONFIG_MAP_PROJECTION: Object = Object::new("ConfigMapProjection", &[ITEMS, NAME, OPTIONAL]);

static SECRET_PROJECTION: Object = Object::new("SecretProjection", &[ITEMS, NAME, OPTIONAL]);

static DOWNWARD_API_PROJECTION: Object = Object::new("DownwardAPIProjection", &[FILES]);

static SERVICE_ACCOUNT_TOKEN_PROJECTION: Object = Object::new(
    "ServiceAccountTokenProjection",
    &[
        Field::new("audience", ANY).omitted_when_empty(),
        Field::new("expirationSeconds", Shape::Integer(600, 1 << 32)).default(Default::Integer(3600)),
        Field::new("path", FILE).required(),
        USER,
    ],
);
