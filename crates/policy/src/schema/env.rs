//! The environment of a container: `EnvVar`, `EnvFromSource` and the references that they hold.

use super::shapes::{ANY, LABEL, NON_EMPTY, SUBDOMAIN, atomic, one_of};
use super::{Default, Field, Format, Object, Shape, rules};

pub(super) static ENV_VAR: Object = Object::new(
    "EnvVar",
    &[
        Field::new("name", Shape::Text(Format::EnvName)).required(),
        Field::new("value", ANY).omitted_when_empty(),
        Field::new("valueFrom", atomic(&ENV_VAR_SOURCE)),
    ],
)
.at_most_one_of(&["value", "valueFrom"]);

static ENV_VAR_SOURCE: Object = Object::new(
    "EnvVarSource",
    &[
        Field::new("configMapKeyRef", atomic(&CONFIG_MAP_KEY_SELECTOR)),
        Field::new("fieldRef", atomic(&ENV_FIELD_SELECTOR)),
        Field::new("fileKeyRef", atomic(&FILE_KEY_SELECTOR))
            .refused("the API server requires an emptyDir volume of that name in the pod"),
        Field::new("resourceFieldRef", atomic(&ENV_RESOURCE_SELECTOR)),
        Field::new("secretKeyRef", atomic(&SECRET_KEY_SELECTOR)),
    ],
)
.exactly_one_of(&["configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"]);

static CONFIG_MAP_KEY_SELECTOR: Object = Object::new("ConfigMapKeySelector", KEY_SELECTOR);

static SECRET_KEY_SELECTOR: Object = Object::new("SecretKeySelector", KEY_SELECTOR);

const KEY_SELECTOR: &[Field] = &[
    Field::new("key", Shape::Text(Format::ConfigKey)).required(),
    Field::new("name", SUBDOMAIN).required(),
    Field::new("optional", Shape::Boolean),
];

static FILE_KEY_SELECTOR: Object = Object::new(
    "FileKeySelector",
    &[
        Field::new("key", Shape::Text(Format::EnvName)).required(),
        Field::new("optional", Shape::Boolean).default(Default::Boolean(false)),
        Field::new("path", Shape::Text(Format::Path)).required(),
        Field::new("volumeName", LABEL).required(),
    ],
);

static ENV_FIELD_SELECTOR: Object = Object::new(
    "ObjectFieldSelector",
    &[
        Field::new("apiVersion", one_of(&["v1"])).default(Default::TextForEmpty("v1")),
        Field::new("fieldPath", Shape::Text(Format::EnvFieldPath)).required(),
    ],
);

pub(super) static VOLUME_FIELD_SELECTOR: Object = Object::new(
    "ObjectFieldSelector",
    &[
        Field::new("apiVersion", one_of(&["v1"])).default(Default::TextForEmpty("v1")),
        Field::new("fieldPath", Shape::Text(Format::VolumeFieldPath)).required(),
    ],
);

const DIVISOR: Field = Field::new("divisor", Shape::Quantity).default(Default::Text("0"));
const RESOURCE: Field = Field::new("resource", Shape::Text(Format::ResourceFieldPath)).required();

static ENV_RESOURCE_SELECTOR: Object = Object::new(
    "ResourceFieldSelector",
    &[Field::new("containerName", ANY).omitted_when_empty(), DIVISOR, RESOURCE],
)
.rule(rules::divisor);

pub(super) static VOLUME_RESOURCE_SELECTOR: Object = Object::new(
    "ResourceFieldSelector",
    &[Field::new("containerName", NON_EMPTY).required(), DIVISOR, RESOURCE],
)
.rule(rules::divisor);

pub(super) static ENV_FROM_SOURCE: Object = Object::new(
    "EnvFromSource",
    &[
        Field::new("configMapRef", atomic(&CONFIG_MAP_ENV_SOURCE)),
        Field::new("prefix", Shape::Text(Format::EnvName)).omitted_when_empty(),
        Field::new("secretRef", atomic(&SECRET_ENV_SOURCE)),
    ],
)
.exactly_one_of(&["configMapRef", "secretRef"]);

static CONFIG_MAP_ENV_SOURCE: Object = Object::new("ConfigMapEnvSource", ENV_SOURCE);

static SECRET_ENV_SOURCE: Object = Object::new("SecretEnvSource", ENV_SOURCE);

const ENV_SOURCE: &[Field] = &[
    Field::new("name", Shape::Text(Format::DnsSubdomainPrefix)).required(),
    Field::new("optional", Shape::Boolean),
];
