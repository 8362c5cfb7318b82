//! Patterns for the forms that the API server requires of strings.

use crate::core::schema::Format;

const LABEL: &str = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?";
const NAME: &str = "[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?";
const FIELD: &str = r"metadata\.(?:name|namespace|uid|labels\['.+'\]|annotations\['.+'\])";

/// The form of a resource quantity.
pub(super) const QUANTITY: &str = r"^[-+]?[.0-9]+(?:[numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?$";

/// A pattern that matches every string of this form, and no more than it has to. `None` where every string has it.
///
/// It has no look-ahead, which some validators do not implement, so that it does not limit the length of a name with
/// several parts.
pub(super) fn pattern(format: Format) -> Option<String> {
    let subdomain = || format!(r"{LABEL}(?:\.{LABEL})*");
    let pattern = match format {
        Format::Any | Format::OneOf(_) => return None,
        Format::NonEmpty | Format::DnsSubdomainPrefix | Format::Path => r"[\s\S]".to_owned(),
        Format::DnsLabel => "^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$".to_owned(),
        Format::DnsSubdomain | Format::Hostname => format!("^{}$", subdomain()),
        Format::DnsSubdomainOrEmpty => format!("^(?:{})?$", subdomain()),
        Format::DnsSearch => "^[-_.a-z0-9]+$".to_owned(),
        Format::IpAddress => "^[.:0-9A-Fa-f]+$".to_owned(),
        Format::QualifiedName => format!("^(?:{}/)?{NAME}$", subdomain()),
        // They are compared in lower case, also where that is in another alphabet.
        Format::AnnotationKey | Format::PodAnnotation => r"^(?:[^/\s]+/)?[^/\s]{1,63}$".to_owned(),
        Format::LabelValue => format!("^(?:{NAME})?$"),
        Format::EnvName => "^[ -<>-~]+$".to_owned(),
        Format::ResourceName => {
            r"^(?:cpu|memory|ephemeral-storage|hugepages-[^/\s]+|[^/\s]+/[^/\s]+)$".to_owned()
        }
        Format::PortName => "^[a-z0-9](?:[-a-z0-9]{0,13}[a-z0-9])?$".to_owned(),
        Format::Image | Format::AppArmorProfile => r"^\S(?:[\s\S]*\S)?$".to_owned(),
        Format::ConfigKey => "^[-_.A-Za-z0-9]{1,253}$".to_owned(),
        Format::HttpHeaderName => "^[-A-Za-z0-9]+$".to_owned(),
        Format::SysctlName => "^[-_./a-z0-9]+$".to_owned(),
        Format::CsiDriver => r"^[^/\s]+$".to_owned(),
        Format::AbsolutePath => "^/".to_owned(),
        Format::RelativePath => "^(?:[^/]|$)".to_owned(),
        Format::FilePath => "^[^/]".to_owned(),
        Format::EnvFieldPath => {
            format!(r"^(?:{FIELD}|spec\.(?:host|nodeName|serviceAccountName)|status\.(?:hostIPs?|podIPs?))$")
        }
        Format::VolumeFieldPath => format!(r"^(?:{FIELD}|metadata\.(?:labels|annotations))$"),
        Format::ResourceFieldPath => {
            r"^(?:limits|requests)\.(?:cpu|memory|ephemeral-storage|hugepages-[\s\S]*)$".to_owned()
        }
    };
    Some(pattern)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::quantity::Quantity;

    /// The forms that a pattern describes completely.
    const EXACT: [Format; 9] = [
        Format::DnsLabel,
        Format::LabelValue,
        Format::EnvName,
        Format::HttpHeaderName,
        Format::AbsolutePath,
        Format::NonEmpty,
        Format::DnsSubdomain,
        Format::DnsSubdomainOrEmpty,
        Format::QualifiedName,
    ];
    const WIDER: [Format; 17] = [
        Format::DnsSubdomainPrefix,
        Format::Hostname,
        Format::DnsSearch,
        Format::IpAddress,
        Format::AnnotationKey,
        Format::PodAnnotation,
        Format::ResourceName,
        Format::PortName,
        Format::Image,
        Format::ConfigKey,
        Format::SysctlName,
        Format::CsiDriver,
        Format::AppArmorProfile,
        Format::Path,
        Format::RelativePath,
        Format::FilePath,
        Format::EnvFieldPath,
    ];
    const FIELDS: [Format; 2] = [Format::VolumeFieldPath, Format::ResourceFieldPath];

    /// Short strings, of parts of names and of characters that names do not have.
    fn texts() -> impl Iterator<Item = String> {
        let parts = [
            "",
            "a",
            "A",
            "0",
            "9z",
            "-",
            "_",
            ".",
            "..",
            "/",
            "=",
            "~",
            "ä",
            "\u{212A}",
            " ",
            "\n",
            ":",
            "*",
            "cpu",
            "hugepages-2Mi",
            "metadata.name",
            "metadata.labels['a/b']",
            "metadata.labels",
            "limits.",
            "status.hostIP",
            "::1",
            "10.0.0.1",
            "example.com",
            "1e",
            "Gi",
            "k",
            "+",
        ];
        let long = ["a".repeat(63), "a".repeat(64), format!("a/{}", "b".repeat(64))].into_iter();
        let mut random = fastrand::Rng::with_seed(1);
        let generated = (0..20_000)
            .map(move |_| (0..random.usize(0..6)).map(|_| parts[random.usize(0..parts.len())]).collect());
        long.chain(generated)
    }

    fn matcher(pattern: &str) -> jsonschema::Validator {
        jsonschema::draft202012::new(&json!({"pattern": pattern})).unwrap()
    }

    #[test]
    fn a_pattern_matches_every_string_of_its_form() {
        for format in EXACT.into_iter().chain(WIDER).chain(FIELDS) {
            let validator = matcher(&pattern(format).unwrap());
            let mut valid = 0;
            for text in texts() {
                let (is_valid, matches) = (format.check(&text).is_ok(), validator.is_valid(&json!(text)));
                assert!(matches || !is_valid, "the pattern of {format:?} refuses {text:?}");
                let exact = EXACT.contains(&format) && text.len() < 64;
                assert!(is_valid || !matches || !exact, "the pattern of {format:?} matches {text:?}");
                valid += usize::from(is_valid);
            }
            assert!(valid > 10, "{format:?}: {valid}");
        }
    }

    #[test]
    fn the_pattern_of_quantities_matches_every_quantity() {
        let matcher = matcher(QUANTITY);
        let quantities: Vec<String> = texts().filter(|text| Quantity::parse(text).is_some()).collect();
        assert!(quantities.len() > 100, "{}", quantities.len());
        for text in quantities {
            assert!(matcher.is_valid(&json!(text)), "{text:?}");
        }
        for text in ["", "4GB", "Gi", "1 Gi", "many"] {
            assert!(!matcher.is_valid(&json!(text)), "{text:?}");
        }
    }
}
