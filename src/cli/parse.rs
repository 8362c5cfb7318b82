//! The parsers of option values.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fabric_policy::objects::ObjectKind;

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an address and a port, such as `0.0.0.0:8443` or `[::]:8443`".to_owned())
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "write a duration with its unit, such as `5s`, `500ms` or `2m`".to_owned())
}

pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text) {
        Ok(duration) if duration.is_zero() => Err("must be longer than zero".to_owned()),
        other => other,
    }
}

/// A whole number in a range.
pub(super) fn number<T: TryFrom<u64>>(least: u64, most: u64) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        let number = number.and_then(|number| number.try_into().ok());
        number.ok_or_else(|| format!("write a number from {least} to {most}"))
    }
}

pub(super) fn object_kind(text: &str) -> Result<ObjectKind, String> {
    let names = || ObjectKind::all().map(|kind| kind.api().name.as_str()).collect::<Vec<_>>().join(", ");
    ObjectKind::of_watch(text).ok_or_else(|| format!("write one of {}", names()))
}

pub(super) fn ip(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "write an IP address, such as `10.0.0.1`; names go with `--dns`".to_owned())
}

pub(super) fn annotation(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.to_owned(), value.to_owned())).ok_or_else(|| "write `KEY=VALUE`".to_owned())
}

/// The text, or an error if it is not valid.
pub(super) fn valid(is_valid: bool, text: &str, otherwise: &str) -> Result<String, String> {
    if is_valid { Ok(text.to_owned()) } else { Err(otherwise.to_owned()) }
}

/// The name of an object: a DNS subdomain in lower case (RFC 1123).
pub(super) fn object_name(text: &str) -> Result<String, String> {
    let is_lower = text.bytes().all(|byte| !byte.is_ascii_uppercase());
    let is_name = text.len() <= 253 && is_lower && text.split('.').all(is_label);
    valid(is_name, text, "the name of an object has lower case letters, digits, `-` and `.`")
}

/// The name of a namespace: a DNS label in lower case (RFC 1123).
pub(super) fn namespace(text: &str) -> Result<String, String> {
    let is_name = object_name(text).is_ok() && text.len() <= 63 && !text.contains('.');
    valid(is_name, text, "the name of a namespace has at most 63 lower case letters, digits and `-`")
}

/// A name for a certificate: a DNS name, which may begin with a wildcard.
pub(super) fn dns_name(text: &str) -> Result<String, String> {
    if text.parse::<IpAddr>().is_ok() {
        return Err("this is an address; addresses go with `--ip`".to_owned());
    }
    let name = text.strip_prefix("*.").unwrap_or(text);
    // Clients parse a name whose last label is a number as an address.
    let last_is_number =
        name.rsplit('.').next().is_some_and(|label| label.bytes().all(|byte| byte.is_ascii_digit()));
    let labels_are_valid = name.split('.').all(|label| is_label(label) && label.len() <= 63);
    let otherwise =
        "write a DNS name, such as `fabric-injector.fabric-injector.svc`; addresses go with `--ip`";
    valid(name.len() <= 253 && labels_are_valid && !last_is_number, text, otherwise)
}

/// Returns whether the text has the characters of a DNS label.
fn is_label(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}
