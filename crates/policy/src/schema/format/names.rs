//! Names, keys and values, as `k8s.io/apimachinery/pkg/util/validation` checks them.

use core::net::IpAddr;

use fabric_yaml::quantity::Quantity;

/// The domain of the annotations with settings files.
pub const SETTINGS_DOMAIN: &str = "settings.fabric-injector.io";

/// Labels of a DNS subdomain are at most as long as the subdomain.
fn dns_part(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && has_ends(text, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Returns whether there are a first and a last byte, and both are of one kind.
fn has_ends(text: &str, is: impl Fn(u8) -> bool) -> bool {
    text.bytes().next().is_some_and(&is) && text.bytes().next_back().is_some_and(&is)
}

pub(super) fn dns_label(text: &str) -> bool {
    text.len() <= 63 && dns_part(text)
}

pub(super) fn dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(dns_part)
}

/// The API server replaces a hyphen at the end, and the character before it, by a letter.
pub(super) fn dns_subdomain_prefix(text: &str) -> bool {
    match text.strip_suffix('-') {
        Some(start) if !start.is_empty() => {
            let mut start = start.to_owned();
            start.pop();
            dns_subdomain(&(start + "a"))
        }
        _ => dns_subdomain(text),
    }
}

pub(super) fn dns_search(text: &str) -> bool {
    let domain = text.strip_suffix('.').unwrap_or(text);
    text == "." || domain.len() <= 253 && domain.split('.').all(search_part)
}

fn search_part(part: &str) -> bool {
    let part = part.strip_prefix('_').unwrap_or(part);
    part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
        && has_ends(part, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

pub(super) fn ip_address(text: &str) -> bool {
    match text.parse() {
        Ok(IpAddr::V4(_)) => true,
        Ok(IpAddr::V6(address)) => address.to_ipv4_mapped().is_none(),
        Err(_) => false,
    }
}

/// Letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn name_part(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && has_ends(text, |byte| byte.is_ascii_alphanumeric())
}

pub(super) fn qualified_name(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(dns_subdomain) && name.len() <= 63 && name_part(name)
}

/// Lower case as Go has it: one character for each.
pub(super) fn lower_case(text: &str) -> String {
    text.chars().filter_map(|character| character.to_lowercase().next()).collect()
}

pub(super) fn annotation_key(text: &str) -> bool {
    qualified_name(&lower_case(text))
}

/// Returns whether the API server validates the value of this annotation of a pod.
pub(super) fn validated_annotation(key: &str) -> bool {
    const KEYS: [&str; 4] = [
        "controller.kubernetes.io/pod-deletion-cost",
        "kubernetes.io/config.mirror",
        "scheduler.alpha.kubernetes.io/tolerations",
        "seccomp.security.alpha.kubernetes.io/pod",
    ];
    KEYS.contains(&key)
        || key.starts_with("container.apparmor.security.beta.kubernetes.io/")
        || key.starts_with("container.seccomp.security.alpha.kubernetes.io/")
}

/// Returns whether the annotation is one that this program writes or reads itself: that of an injection, of a pod that was
/// skipped, of its nodes, claims or provider, or of a settings file.
pub(super) fn own_annotation(key: &str) -> bool {
    ["injected", "skipped", "nodes", "claims", "provider", "without-fabric"]
        .iter()
        .any(|own| key.strip_prefix("fabric-injector.io/") == Some(own))
        || key.split_once('/').is_some_and(|(domain, _)| domain == SETTINGS_DOMAIN)
}

pub(super) fn label_value(text: &str) -> bool {
    text.is_empty() || text.len() <= 63 && name_part(text)
}

pub(super) fn env_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
}

/// The names of a domain other than `kubernetes.io` are also those of quotas, with `requests.` before them.
pub(super) fn resource_name(text: &str) -> bool {
    if !qualified_name(text) {
        return false;
    }
    if !text.contains('/') {
        return ["cpu", "ephemeral-storage", "memory"].contains(&text)
            || text.strip_prefix("hugepages-").is_some_and(page_size);
    }
    text.contains("kubernetes.io/")
        || !text.starts_with("requests.") && qualified_name(&format!("requests.{text}"))
}

/// The API server accepts an amount of huge pages only where their size is a whole number of bytes.
fn page_size(text: &str) -> bool {
    Quantity::parse(text).and_then(Quantity::as_count).is_some_and(|bytes| bytes > 0)
}

pub(super) fn port_name(text: &str) -> bool {
    text.len() <= 15
        && dns_part(text)
        && text.bytes().any(|byte| byte.is_ascii_lowercase())
        && !text.contains("--")
}

pub(super) fn config_key(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && text != "."
        && !text.starts_with("..")
}

pub(super) fn http_header_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

pub(super) fn sysctl_name(text: &str) -> bool {
    let segment = |segment: &str| !segment.starts_with('_') && search_part(segment);
    text.len() <= 253 && text.split(['.', '/']).all(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: fn(&str) -> bool, valid: &[&str], invalid: &[&str]) {
        for text in valid {
            assert!(format(text), "{text:?} is valid");
        }
        for text in invalid {
            assert!(!format(text), "{text:?} is not valid");
        }
    }

    #[test]
    fn dns_names() {
        let label = "a".repeat(63);
        let long_label = "a".repeat(64);
        let longest = format!("{long_label}.{long_label}.{long_label}.{}", "a".repeat(58));
        let too_long = format!("{longest}a");
        check(
            dns_label,
            &["a", "0", "a-b", "a--b", "123", &label],
            &["", "-a", "a-", "A", "a.b", "a_b", " a", "a ", "ä", &long_label, "a\n"],
        );
        check(
            dns_subdomain,
            &["a", "a.b", "0.0", "a-b.c", &long_label, &longest],
            &["", ".", "a.", ".a", "a..b", "A.b", "-a.b", "a.-b", "a-.b", "a_b", &too_long],
        );
        check(
            dns_subdomain_prefix,
            &["a", "a-", "a.b-", "ab--", "_-", "A-"],
            &["-", "", "a.", "A.b", "-a-b", "aB.c-"],
        );
        check(
            dns_search,
            &[".", "a.", "_tcp.example.com", "a_b.c", "a"],
            &["", "..", "a..", "A", "__a", "a_", "-a", "_"],
        );
    }

    #[test]
    fn addresses() {
        check(
            ip_address,
            &["10.9.8.7", "0.0.0.0", "::", "::1", "2001:db8::ffff", "FE80:0:0:0:0:0:0:0abc", "::1.2.3.4"],
            &[
                "",
                "10.9.8",
                "010.9.8.7",
                "10.9.8.256",
                "::ffff:1.2.3.4",
                "fe80::1%eth0",
                "1::2::3",
                "a",
                "1.2.3.4/8",
            ],
        );
    }

    #[test]
    fn labels_and_annotations() {
        let name = "n".repeat(63);
        let long_name = "n".repeat(64);
        check(
            qualified_name,
            &["a", "A", "a.b_c-D", "example.com/a", "1/2", &name, &format!("example.com/{name}")],
            &[
                "",
                "/",
                "/a",
                "a/",
                "Example.com/a",
                "a/b/c",
                "-a",
                "a-",
                "a b",
                &long_name,
                "example_com/a",
                "ä",
            ],
        );
        // The Kelvin sign is a capital `k`.
        check(annotation_key, &["Example.com/a", "A", "\u{212A}ey"], &["", "/a", "a/b/c", "\u{130}\u{130}ö"]);
        check(label_value, &["", "a", "A_b.c-1", &name], &["-a", "a-", "a b", "a/b", &long_name, "ä"]);
        check(
            validated_annotation,
            &[
                "kubernetes.io/config.mirror",
                "container.apparmor.security.beta.kubernetes.io/main",
                "container.seccomp.security.alpha.kubernetes.io/main",
            ],
            &["kubernetes.io/config", "k8s.v1.cni.cncf.io/networks", "devices.gke.io/container.tcpxo-daemon"],
        );
        check(
            own_annotation,
            &["fabric-injector.io/injected", "fabric-injector.io/claims", "settings.fabric-injector.io/nccl"],
            &["fabric-injector.io/nccl-topology", "example.com/injected"],
        );
    }

    #[test]
    fn variables_and_keys() {
        check(env_name, &["A", "1A", "a b", "$%&", ".", "~"], &["", "A=B", "ä", "A\t", "\u{7f}"]);
        check(
            config_key,
            &["a", "a.b", ".a", "a..b", "-", "_"],
            &["", ".", "..", "..a", "a/b", "a b", &"a".repeat(254)],
        );
        check(http_header_name, &["X-Header", "-", "1"], &["", "X_Header", "X Header", "ä"]);
        check(
            sysctl_name,
            &["kernel.shm_rmid_forced", "net/ipv4/ip", "a"],
            &["", "_a", "a_", "a..b", "A", ".a"],
        );
    }

    #[test]
    fn resources_and_ports() {
        let domain = format!("{}.{}.{}", "d".repeat(80), "d".repeat(80), "d".repeat(82));
        check(
            resource_name,
            &[
                "cpu",
                "memory",
                "ephemeral-storage",
                "hugepages-2Mi",
                "vpc.amazonaws.com/efa",
                "nvidia.com/gpu",
                "kubernetes.io/x",
                "requests.kubernetes.io/x",
                &format!("{domain}/x"),
            ],
            &[
                "",
                "gpu",
                "pods",
                "requests.cpu",
                "hugepages-",
                "hugepages-x",
                "hugepages-0",
                "hugepages-1m",
                "requests.nvidia.com/gpu",
                "Nvidia.com/gpu",
                "nvidia.com/",
                &format!("d{domain}/x"),
            ],
        );
        check(
            port_name,
            &["a", "http", "h2c", "a-b", "1a"],
            &["", "80", "-a", "a-", "a--b", "A", "a_b", "sixteen-letters-"],
        );
    }
}
