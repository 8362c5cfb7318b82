//! The Secret with the certificates that the replicas share.

use std::collections::BTreeMap;
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::authority::{Authority, KeyPair};

use super::rotation::{Previous, Rotation};

/// The keys that every Secret with a serving certificate has, as of type `kubernetes.io/tls`.
const CERT: &str = "tls.crt";
const KEY: &str = "tls.key";
const CA_CERT: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const NEXT_CERT: &str = "next-ca.crt";
const NEXT_KEY: &str = "next-ca.key";
const PREVIOUS: &str = "previous-ca.crt";
const PREVIOUS_UNTIL: &str = "previous-ca.until";
const ALL: [&str; 8] = [CERT, KEY, CA_CERT, CA_KEY, NEXT_CERT, NEXT_KEY, PREVIOUS, PREVIOUS_UNTIL];

/// The `data` of the Secret.
pub(super) type Data = BTreeMap<String, ByteString>;

/// Parses the certificates of a Secret; an error if one is missing or is not text.
pub(super) fn parse(data: &Data) -> anyhow::Result<Rotation> {
    let optional = |key: &str| {
        let bytes = data.get(key).map(|value| value.0.clone());
        let text = bytes.map(String::from_utf8).transpose();
        text.map_err(|_| anyhow!("`{key}` is not text"))
    };
    let required = |key: &str| optional(key)?.with_context(|| format!("`{key}` is missing"));
    let next = match optional(NEXT_CERT)? {
        Some(cert) => Some(Authority { cert, key: required(NEXT_KEY)? }),
        None => None,
    };
    let previous = match optional(PREVIOUS)? {
        Some(pem) => Some(Previous { pem, until: parse_time(&required(PREVIOUS_UNTIL)?)? }),
        None => None,
    };
    Ok(Rotation {
        ca: Authority { cert: required(CA_CERT)?, key: required(CA_KEY)? },
        serving: KeyPair { cert: required(CERT)?, key: required(KEY)? },
        next,
        previous,
    })
}

fn parse_time(text: &str) -> anyhow::Result<SystemTime> {
    let time = humantime::parse_rfc3339(text);
    time.with_context(|| format!("`{PREVIOUS_UNTIL}` is `{text}`, which is not a time of RFC 3339"))
}

/// A merge patch that stores these certificates and removes former ones.
pub(super) fn merge_patch(rotation: &Rotation, resource_version: &str) -> Value {
    let mut data: BTreeMap<&str, Option<ByteString>> = ALL.iter().map(|key| (*key, None)).collect();
    let mut put = |key, text: &str| data.insert(key, Some(ByteString(text.as_bytes().to_vec())));
    put(CERT, &rotation.serving.cert);
    put(KEY, &rotation.serving.key);
    put(CA_CERT, &rotation.ca.cert);
    put(CA_KEY, &rotation.ca.key);
    if let Some(next) = &rotation.next {
        put(NEXT_CERT, &next.cert);
        put(NEXT_KEY, &next.key);
    }
    if let Some(previous) = &rotation.previous {
        put(PREVIOUS, &previous.pem);
        put(PREVIOUS_UNTIL, &humantime::format_rfc3339_seconds(previous.until).to_string());
    }
    json!({"metadata": {"resourceVersion": resource_version}, "data": data})
}
