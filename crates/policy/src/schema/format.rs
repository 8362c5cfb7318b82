//! The forms that the API server requires of strings.

mod names;
mod paths;

pub use names::SETTINGS_DOMAIN;

/// The form of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Any string.
    Any,
    /// A string with at least one character.
    NonEmpty,
    /// A DNS label (RFC 1123): at most 63 lower-case letters, digits and hyphens.
    DnsLabel,
    /// A DNS subdomain (RFC 1123): labels joined by dots, at most 253 characters.
    DnsSubdomain,
    /// A DNS subdomain or nothing.
    DnsSubdomainOrEmpty,
    /// The beginning of a DNS subdomain, which may end in a hyphen.
    DnsSubdomainPrefix,
    /// A DNS subdomain with at most 64 characters.
    Hostname,
    /// A search domain of a resolver.
    DnsSearch,
    /// An IP address.
    IpAddress,
    /// `[prefix/]name`, the key of a label or annotation.
    QualifiedName,
    /// The key of an annotation: a qualified name in upper or lower case.
    AnnotationKey,
    /// The key of an annotation of a pod whose value can be any string.
    PodAnnotation,
    /// The value of a label.
    LabelValue,
    /// The name of an environment variable.
    EnvName,
    /// The name of a resource of a container.
    ResourceName,
    /// The name of a port.
    PortName,
    /// The name of a container image.
    Image,
    /// A key of a ConfigMap or Secret.
    ConfigKey,
    /// The name of an HTTP header.
    HttpHeaderName,
    /// The name of a kernel parameter.
    SysctlName,
    /// The name of a CSI driver.
    CsiDriver,
    /// The name of a profile of `AppArmor`.
    AppArmorProfile,
    /// A path without `..`.
    Path,
    /// A path that starts with `/`.
    AbsolutePath,
    /// A path below a folder.
    RelativePath,
    /// The path of a file below a folder.
    FilePath,
    /// A field of the pod that an environment variable can have.
    EnvFieldPath,
    /// A field of the pod that a file can have.
    VolumeFieldPath,
    /// A limit or request of a container that an environment variable or file can have.
    ResourceFieldPath,
    /// One of these strings.
    OneOf(&'static [&'static str]),
}

impl Format {
    /// An error that says what `text` is not.
    pub fn check(self, text: &str) -> Result<(), String> {
        if self.accepts(text) { Ok(()) } else { Err(format!("`{text}` is not {}", self.description())) }
    }

    fn accepts(self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::NonEmpty => !text.is_empty(),
            Self::DnsLabel => names::dns_label(text),
            Self::DnsSubdomain => names::dns_subdomain(text),
            Self::DnsSubdomainOrEmpty => text.is_empty() || names::dns_subdomain(text),
            Self::DnsSubdomainPrefix => names::dns_subdomain_prefix(text),
            Self::Hostname => text.len() <= 64 && names::dns_subdomain(text),
            Self::DnsSearch => names::dns_search(text),
            Self::IpAddress => names::ip_address(text),
            Self::QualifiedName => names::qualified_name(text),
            Self::AnnotationKey => names::annotation_key(text),
            Self::PodAnnotation => {
                names::annotation_key(text)
                    && !names::validated_annotation(text)
                    && !names::own_annotation(text)
            }
            Self::LabelValue => names::label_value(text),
            Self::EnvName => names::env_name(text),
            Self::ResourceName => names::resource_name(text),
            Self::PortName => names::port_name(text),
            Self::Image => !text.is_empty() && text.trim() == text,
            Self::ConfigKey => names::config_key(text),
            Self::HttpHeaderName => names::http_header_name(text),
            Self::SysctlName => names::sysctl_name(text),
            Self::CsiDriver => text.len() <= 63 && names::dns_subdomain(&names::lower_case(text)),
            Self::AppArmorProfile => !text.is_empty() && text.len() <= 4095 && text.trim() == text,
            Self::Path => !text.is_empty() && paths::without_backsteps(text),
            Self::AbsolutePath => text.starts_with('/'),
            Self::RelativePath => paths::relative(text),
            Self::FilePath => !text.is_empty() && !text.starts_with("..") && paths::relative(text),
            Self::EnvFieldPath => paths::env_field(text),
            Self::VolumeFieldPath => paths::volume_field(text),
            Self::ResourceFieldPath => paths::resource_field(text),
            Self::OneOf(values) => values.contains(&text),
        }
    }

    /// The form in words, to be read after "is not".
    pub fn description(self) -> String {
        let words = match self {
            Self::Any => "a string",
            Self::NonEmpty => "a string with at least one character",
            Self::DnsLabel => {
                "a DNS label: at most 63 lower-case letters, digits and hyphens, with a letter or digit at both ends"
            }
            Self::DnsSubdomain | Self::DnsSubdomainOrEmpty | Self::DnsSubdomainPrefix => {
                "a DNS subdomain: lower-case letters, digits and hyphens, joined by dots, at most 253 characters"
            }
            Self::Hostname => "a DNS subdomain with at most 64 characters",
            Self::DnsSearch => "a search domain",
            Self::IpAddress => "an IP address, such as `10.9.8.7` or `2001:db8::ffff`",
            Self::QualifiedName | Self::AnnotationKey => {
                "a qualified name: `[prefix/]name` with a DNS subdomain as prefix, and a name of at most 63 letters, \
                 digits, `-`, `_` and `.` with a letter or digit at both ends"
            }
            Self::PodAnnotation => {
                "the key of an annotation that an overlay can set: a qualified name that Kubernetes gives no meaning \
                 in the validation of pods, and that the program does not set itself"
            }
            Self::LabelValue => {
                "the value of a label: at most 63 letters, digits, `-`, `_` and `.` with a letter or digit at both ends"
            }
            Self::EnvName => "the name of a variable: printable ASCII characters other than `=`",
            Self::ResourceName => {
                "the name of a resource: `cpu`, `memory`, `ephemeral-storage`, `hugepages-SIZE` or `DOMAIN/NAME`"
            }
            Self::PortName => {
                "the name of a port: at most 15 lower-case letters, digits and single hyphens, with at least one \
                 letter and without a hyphen at either end"
            }
            Self::Image => "the name of an image: a string without white space at either end",
            Self::ConfigKey => {
                "a key of a ConfigMap or Secret: at most 253 letters, digits, `-`, `_` and `.`, not starting with `..`"
            }
            Self::HttpHeaderName => "the name of a header: letters, digits and hyphens",
            Self::SysctlName => "the name of a kernel parameter: segments joined by `.` or `/`",
            Self::CsiDriver => "the name of a CSI driver: a DNS subdomain with at most 63 characters",
            Self::AppArmorProfile => {
                "the name of a profile: at most 4095 bytes without white space at either end"
            }
            Self::Path => "a path without `..`",
            Self::AbsolutePath => "a path that starts with `/`",
            Self::RelativePath | Self::FilePath => {
                "a path that starts neither with `/` nor with `..` and has no `..`"
            }
            Self::EnvFieldPath => {
                "a field for a variable: `metadata.name`, `metadata.namespace`, `metadata.uid`, \
                 `metadata.labels['KEY']`, `metadata.annotations['KEY']`, `spec.nodeName`, `spec.serviceAccountName`, \
                 `status.hostIP`, `status.hostIPs`, `status.podIP` or `status.podIPs`"
            }
            Self::VolumeFieldPath => {
                "a field for a file: `metadata.name`, `metadata.namespace`, `metadata.uid`, `metadata.labels`, \
                 `metadata.annotations`, `metadata.labels['KEY']` or `metadata.annotations['KEY']`"
            }
            Self::ResourceFieldPath => {
                "`limits` or `requests` with `.cpu`, `.memory`, `.ephemeral-storage` or `.hugepages-SIZE`"
            }
            Self::OneOf(values) => return one_of(values),
        };
        words.to_owned()
    }
}

fn one_of(values: &[&str]) -> String {
    let values: Vec<String> =
        values.iter().filter(|value| !value.is_empty()).map(|value| format!("`{value}`")).collect();
    format!("one of {}", values.join(", "))
}
