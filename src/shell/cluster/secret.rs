//! The Secret in which replicas keep what they agree about.

use std::collections::BTreeMap;
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::shell::authority::{Authority, Issued};

use super::rotation::Rotation;

/// As in any Secret with a serving certificate, so that people and programs find them.
const CERT: &str = "tls.crt";
const KEY: &str = "tls.key";
const CA_CERT: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const NEXT_CERT: &str = "next-ca.crt";
const NEXT_KEY: &str = "next-ca.key";
const NEXT_SINCE: &str = "next-ca.since";
const PREVIOUS: &str = "previous-ca.crt";
const PREVIOUS_SINCE: &str = "previous-ca.since";
const ALL: [&str; 9] =
    [CERT, KEY, CA_CERT, CA_KEY, NEXT_CERT, NEXT_KEY, NEXT_SINCE, PREVIOUS, PREVIOUS_SINCE];

/// The `data` of the Secret.
pub(super) type Data = BTreeMap<String, ByteString>;

/// What a Secret holds; an error if it holds something else, or not all of it.
pub(super) fn read(data: &Data) -> anyhow::Result<Rotation> {
    let optional = |key: &str| {
        let bytes = data.get(key).map(|value| value.0.clone());
        let text = bytes.map(String::from_utf8).transpose();
        text.map_err(|_| anyhow!("`{key}` is not text"))
    };
    let required = |key: &str| optional(key)?.with_context(|| format!("`{key}` is missing"));
    let time = |key: &str| {
        let text = required(key)?;
        let time = humantime::parse_rfc3339(&text);
        time.with_context(|| format!("`{key}` is `{text}`, which is no time of RFC 3339"))
    };
    let next = match optional(NEXT_CERT)? {
        Some(cert) => Some((Authority { cert, key: required(NEXT_KEY)? }, time(NEXT_SINCE)?)),
        None => None,
    };
    let previous = match optional(PREVIOUS)? {
        Some(pem) => Some((pem, time(PREVIOUS_SINCE)?)),
        None => None,
    };
    Ok(Rotation {
        ca: Authority { cert: required(CA_CERT)?, key: required(CA_KEY)? },
        issued: Issued { cert: required(CERT)?, key: required(KEY)? },
        next,
        previous,
    })
}

/// A merge patch that makes a Secret hold this, and nothing else of ours.
pub(super) fn merge_patch(rotation: &Rotation, resource_version: &str) -> Value {
    let mut data: BTreeMap<&str, Option<ByteString>> = ALL.iter().map(|key| (*key, None)).collect();
    let mut put = |key, text: &str| data.insert(key, Some(ByteString(text.as_bytes().to_vec())));
    put(CERT, &rotation.issued.cert);
    put(KEY, &rotation.issued.key);
    put(CA_CERT, &rotation.ca.cert);
    put(CA_KEY, &rotation.ca.key);
    if let Some((next, since)) = &rotation.next {
        put(NEXT_CERT, &next.cert);
        put(NEXT_KEY, &next.key);
        put(NEXT_SINCE, &shown(*since));
    }
    if let Some((pem, since)) = &rotation.previous {
        put(PREVIOUS, pem);
        put(PREVIOUS_SINCE, &shown(*since));
    }
    json!({"metadata": {"resourceVersion": resource_version}, "data": data})
}

fn shown(time: SystemTime) -> String {
    humantime::format_rfc3339_nanos(time).to_string()
}
