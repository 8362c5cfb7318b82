//! The Secret with the certificates that the replicas share.

use std::collections::BTreeMap;
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::authority::{Authority, KeyPair};

use super::rotation::{Certificates, Previous};

/// The keys that every Secret with a serving certificate has, as of type `kubernetes.io/tls`.
const CERT: &str = "tls.crt";
const KEY: &str = "tls.key";
const CA_CERT: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const PREVIOUS: &str = "previous-ca.crt";
const PREVIOUS_UNTIL: &str = "previous-ca.until";
/// The keys that are removed unless they have a value. The last two are those of a CA that former versions made a while
/// before they used it.
const OPTIONAL: [&str; 4] = [PREVIOUS, PREVIOUS_UNTIL, "next-ca.crt", "next-ca.key"];

/// Parses the certificates in the `data` of a Secret; an error if one is missing or is not text.
pub(super) fn parse(data: &BTreeMap<String, ByteString>) -> anyhow::Result<Certificates> {
    let optional = |key: &str| {
        let bytes = data.get(key).map(|value| value.0.clone());
        let text = bytes.map(String::from_utf8).transpose();
        text.map_err(|_| anyhow!("`{key}` is not text"))
    };
    let required = |key: &str| optional(key)?.with_context(|| format!("`{key}` is missing"));
    let previous = match optional(PREVIOUS)? {
        Some(pem) => Some(Previous { pem, until: parse_time(&required(PREVIOUS_UNTIL)?)? }),
        None => None,
    };
    Ok(Certificates {
        ca: Authority { cert: required(CA_CERT)?, key: required(CA_KEY)? },
        serving: KeyPair { cert: required(CERT)?, key: required(KEY)? },
        previous,
    })
}

/// The `data` of a Secret after a reconciliation, `caBundle`, and the change.
#[cfg(fuzzing)]
pub fn reconciled(
    data: &Value,
    trusted: &str,
    now: SystemTime,
) -> anyhow::Result<(Value, String, Option<&'static str>)> {
    use std::time::Duration;
    let stored = serde_json::from_value(data.clone()).map(|data| parse(&data)).ok().and_then(Result::ok);
    let days = |days: u64| Duration::from_hours(days * 24);
    let durations = super::Durations { certificate: days(90), ca: days(3650) };
    let names = ["fabric-injector.fabric-system.svc".to_owned()];
    let (certificates, change) = Certificates::reconciled(stored, &names, durations, trusted, now)?;
    let mut data = merge_patch(&certificates, "1")["data"].take();
    data.as_object_mut().into_iter().for_each(|data| data.retain(|_, value| !value.is_null()));
    Ok((data, certificates.bundle(), change))
}

fn parse_time(text: &str) -> anyhow::Result<SystemTime> {
    let time = humantime::parse_rfc3339(text);
    time.with_context(|| format!("`{PREVIOUS_UNTIL}` is `{text}`, which is not a time of RFC 3339"))
}

/// A merge patch that stores these certificates and removes former ones.
pub(super) fn merge_patch(certificates: &Certificates, resource_version: &str) -> Value {
    let mut data: BTreeMap<&str, Option<ByteString>> = OPTIONAL.iter().map(|key| (*key, None)).collect();
    let mut put = |key, text: &str| data.insert(key, Some(ByteString(text.as_bytes().to_vec())));
    put(CERT, &certificates.serving.cert);
    put(KEY, &certificates.serving.key);
    put(CA_CERT, &certificates.ca.cert);
    put(CA_KEY, &certificates.ca.key);
    if let Some(previous) = &certificates.previous {
        put(PREVIOUS, &previous.pem);
        put(PREVIOUS_UNTIL, &humantime::format_rfc3339_seconds(previous.until).to_string());
    }
    json!({"metadata": {"resourceVersion": resource_version}, "data": data})
}
