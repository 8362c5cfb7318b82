//! The fields that the expressions read, and what their values are.

use crate::properties::generator::Dice;
use Kind::{Flag, List, Number, Object, Text, Texts, Words};

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Flag,
    Text,
    Number,
    Words,
    /// A map of texts.
    Texts,
    Object(Fields),
    List(Fields),
}

pub(super) type Fields = &'static [(&'static str, Kind)];

pub(super) const POD: Fields = &[("metadata", Object(METADATA)), ("spec", Object(SPEC))];
pub(super) const METADATA: Fields =
    &[("name", Text), ("namespace", Text), ("labels", Texts), ("annotations", Texts)];
/// Containers are read most.
pub(super) const SPEC: Fields = &[
    ("containers", List(CONTAINER)),
    ("containers", List(CONTAINER)),
    ("containers", List(CONTAINER)),
    ("containers", List(CONTAINER)),
    ("initContainers", List(CONTAINER)),
    ("volumes", List(VOLUME)),
    ("tolerations", List(TOLERATION)),
    ("nodeSelector", Texts),
    ("securityContext", Object(SECURITY)),
    ("hostIPC", Flag),
    ("restartPolicy", Text),
    ("terminationGracePeriodSeconds", Number),
];
pub(super) const CONTAINER: Fields = &[
    ("name", Text),
    ("image", Text),
    ("command", Words),
    ("tty", Flag),
    ("env", List(VARIABLE)),
    ("volumeMounts", List(MOUNT)),
    ("securityContext", Object(SECURITY)),
    ("livenessProbe", Object(PROBE)),
    ("resources", Object(RESOURCES)),
];
pub(super) const RESOURCES: Fields = &[("limits", Texts), ("requests", Texts)];
pub(super) const VARIABLE: Fields = &[("name", Text), ("value", Text), ("valueFrom", Object(SOURCE))];
pub(super) const SOURCE: Fields = &[("fieldRef", Object(&[("fieldPath", Text)]))];
pub(super) const MOUNT: Fields = &[("name", Text), ("mountPath", Text)];
pub(super) const SECURITY: Fields = &[("runAsUser", Number), ("runAsNonRoot", Flag)];
pub(super) const PROBE: Fields = &[("exec", Object(&[("command", Words)])), ("periodSeconds", Number)];
pub(super) const VOLUME: Fields = &[
    ("name", Text),
    ("hostPath", Object(&[("path", Text), ("type", Text)])),
    ("emptyDir", Object(&[("medium", Text)])),
];
pub(super) const TOLERATION: Fields = &[("key", Text), ("operator", Text), ("value", Text), ("effect", Text)];

/// Those that have a size are behind the first two.
pub(super) const KINDS: [Kind; 20] = [
    Flag,
    Number,
    Text,
    Words,
    Texts,
    Texts,
    Object(METADATA),
    Object(SPEC),
    Object(CONTAINER),
    Object(RESOURCES),
    Object(VARIABLE),
    Object(SOURCE),
    Object(SECURITY),
    Object(PROBE),
    Object(VOLUME),
    List(CONTAINER),
    List(VARIABLE),
    List(VOLUME),
    List(MOUNT),
    List(TOLERATION),
];
pub(super) const LISTS: [Fields; 5] = [CONTAINER, VARIABLE, VOLUME, MOUNT, TOLERATION];
pub(super) const OBJECTS: [Fields; 5] = [CONTAINER, RESOURCES, METADATA, SPEC, SECURITY];
/// Keys of the maps of the pods, and texts that are among their values.
pub(super) const KEYS: [&str; 5] = ["app", "memory", "pool", "MINE", "none"];
pub(super) const TEXTS: [&str; 6] = ["a", "train", "/data", "64Gi", "fast", "none"];

/// The value of this kind in place of one that is absent.
pub(super) fn empty(kind: Kind) -> &'static str {
    match kind {
        Flag => "false",
        Text => "''",
        Number => "0",
        Words | List(_) => "[]",
        Texts | Object(_) => "{}",
    }
}

pub(super) fn literal(dice: &mut Dice, kind: Kind) -> String {
    match kind {
        Flag => dice.pick(&["true", "false"]).to_owned(),
        Text => format!("'{}'", dice.pick(&TEXTS)),
        Number => dice.pick(&["0", "1", "2", "gpus"]).to_owned(),
        Words => "['sh', 'a']".to_owned(),
        Texts => "{'app': 'a', 'memory': '64Gi'}".to_owned(),
        Object(_) | List(_) => empty(kind).to_owned(),
    }
}
