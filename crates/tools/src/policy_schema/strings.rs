//! Patterns for the forms of strings.

use serde_json::{Value, json};

use fabric_policy::schema::Format;

const LABEL: &str = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?";
const NAME: &str = "[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?";
const FIELD: &str = r"metadata\.(?:name|namespace|uid|labels\['.+'\]|annotations\['.+'\])";

/// A condition, which does not begin with `${`.
pub(super) const CONDITION: &str = r"^\s*(?:[^\s$]|\$[^{])";
/// The same without white space, as in overlays.
pub(super) const WHOLE: &str = r"^\$\{[\s\S]*\}$";
/// A string with an expression in it.
pub(super) const INTERPOLATED: &str = r"\$\{";
pub(super) const QUANTITY: &str = r"^[-+]?[.0-9]+(?:[numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?$";

/// Values of these types, whose strings match a pattern. For other strings, editors show the form in words.
pub(super) fn matching(types: &Value, pattern: &str, form: &str) -> Value {
    json!({"type": types, "pattern": pattern, "patternErrorMessage": format!("write {form}")})
}

/// A string of this form.
pub(super) fn text(format: Format) -> Value {
    pattern(format).map_or_else(
        || json!({"type": "string"}),
        |pattern| matching(&json!("string"), &pattern, &format.description()),
    )
}

/// Values of these types, whose strings have this form or contain an expression.
pub(super) fn interpolated(types: &Value, format: Format) -> Value {
    match (format, pattern(format)) {
        (Format::OneOf(values), _) => {
            let expression = matching(types, INTERPOLATED, &format.description());
            json!({"anyOf": [{"enum": values}, expression]})
        }
        (_, Some(pattern)) => matching(types, &format!("{pattern}|{INTERPOLATED}"), &format.description()),
        (_, None) => json!({"type": types}),
    }
}

/// A pattern that matches every string of this form and as little else as possible. `None` if every string has the
/// form.
///
/// It has no look-ahead, which some validators do not implement, and therefore does not limit the length of a name with
/// several parts.
fn pattern(format: Format) -> Option<String> {
    let subdomain = format!(r"{LABEL}(?:\.{LABEL})*");
    let pattern = match format {
        Format::Any | Format::OneOf(_) => return None,
        Format::NonEmpty | Format::DnsSubdomainPrefix | Format::Path => r"[\s\S]",
        Format::DnsLabel => "^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$",
        Format::DnsSubdomain | Format::Hostname => return Some(format!("^{subdomain}$")),
        Format::DnsSubdomainOrEmpty => return Some(format!("^(?:{subdomain})?$")),
        Format::DnsSearch => "^[-_.a-z0-9]+$",
        Format::IpAddress => "^[.:0-9A-Fa-f]+$",
        Format::QualifiedName => return Some(format!("^(?:{subdomain}/)?{NAME}$")),
        // They are compared in lower case, also in other alphabets.
        Format::AnnotationKey | Format::PodAnnotation => r"^(?:[^/\s]+/)?[^/\s]{1,63}$",
        Format::LabelValue => return Some(format!("^(?:{NAME})?$")),
        Format::EnvName => "^[ -<>-~]+$",
        Format::ResourceName => r"^(?:cpu|memory|ephemeral-storage|hugepages-[^/\s]+|[^/\s]+/[^/\s]+)$",
        Format::PortName => "^[a-z0-9](?:[-a-z0-9]{0,13}[a-z0-9])?$",
        Format::Image | Format::AppArmorProfile => r"^\S(?:[\s\S]*\S)?$",
        Format::ConfigKey => "^[-_.A-Za-z0-9]{1,253}$",
        Format::HttpHeaderName => "^[-A-Za-z0-9]+$",
        Format::SysctlName => "^[-_./a-z0-9]+$",
        Format::CsiDriver => r"^[^/\s]+$",
        Format::AbsolutePath => "^/",
        Format::RelativePath => "^(?:[^/]|$)",
        Format::FilePath => "^[^/]",
        Format::EnvFieldPath => {
            let others = r"spec\.(?:host|nodeName|serviceAccountName)|status\.(?:hostIPs?|podIPs?)";
            return Some(format!("^(?:{FIELD}|{others})$"));
        }
        Format::VolumeFieldPath => return Some(format!(r"^(?:{FIELD}|metadata\.(?:labels|annotations))$")),
        Format::ResourceFieldPath => {
            r"^(?:limits|requests)\.(?:cpu|memory|ephemeral-storage|hugepages-[\s\S]*)$"
        }
    };
    Some(pattern.to_owned())
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;
    use fabric_yaml::quantity::Quantity;

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
    const WIDER: [Format; 19] = [
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
        Format::VolumeFieldPath,
        Format::ResourceFieldPath,
    ];

    /// Short strings, of parts of names and of characters that names do not have.
    fn texts() -> Vec<String> {
        let parts = "a A 0 9z - _ . .. / = ~ ä \u{212A} : * cpu hugepages-2Mi metadata.name metadata.labels['a/b'] \
                     metadata.labels limits. status.hostIP ::1 10.0.0.1 example.com 1e Gi k +";
        let parts: Vec<&str> = parts.split(' ').chain(["", " ", "\n"]).collect();
        let mut random = fastrand::Rng::with_seed(1);
        let mut text = || (0..random.usize(0..6)).map(|_| parts[random.usize(0..parts.len())]).collect();
        let long = ["a".repeat(63), "a".repeat(64), format!("a/{}", "b".repeat(64))];
        (0..20_000).map(|_| text()).chain(long).collect()
    }

    #[test]
    fn a_pattern_matches_every_string_of_its_form() {
        let texts = texts();
        for format in EXACT.into_iter().chain(WIDER) {
            let regex = Regex::new(&pattern(format).unwrap()).unwrap();
            let mut valid = 0;
            for text in &texts {
                let (is_valid, matches) = (format.check(text).is_ok(), regex.is_match(text));
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
        let regex = Regex::new(QUANTITY).unwrap();
        let quantities: Vec<String> =
            texts().into_iter().filter(|text| Quantity::parse(text).is_some()).collect();
        assert!(quantities.len() > 100, "{}", quantities.len());
        assert!(quantities.iter().all(|text| regex.is_match(text)));
        assert!(["", "4GB", "Gi", "1 Gi", "many"].into_iter().all(|text| !regex.is_match(text)));
    }
}
