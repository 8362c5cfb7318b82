//! The forms that the API server requires of strings.

/// The form of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Any string.
    Any,
    /// A string with at least one character.
    NonEmpty,
    /// A DNS label (RFC 1123): at most 63 lower-case letters, digits and hyphens.
    DnsLabel,
    /// A DNS subdomain (RFC 1123): labels joined by dots, at most 253 characters.
    DnsSubdomain,
    /// `[prefix/]name`, the key of a label or annotation.
    QualifiedName,
    /// The value of a label.
    LabelValue,
    /// The name of an environment variable.
    EnvName,
    /// The name of a resource of a container.
    ResourceName,
    /// One of these strings.
    OneOf(&'static [&'static str]),
}
