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
