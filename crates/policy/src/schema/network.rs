//! Name resolution: `PodDNSConfig` and `HostAlias`.

use super::shapes::{ANY, NON_EMPTY, SUBDOMAIN, list};
use super::{Field, Format, Object, Shape, rules};

pub(super) static POD_DNS_CONFIG: Object = Object::new(
    "PodDNSConfig",
    &[
        Field::new("nameservers", list(&Shape::Text(Format::IpAddress))).at_most(3),
        Field::new("options", list(&Shape::Atomic(&POD_DNS_CONFIG_OPTION))),
        Field::new("searches", list(&Shape::Text(Format::DnsSearch))).at_most(32),
    ],
)
.rule(rules::dns_config);

static POD_DNS_CONFIG_OPTION: Object =
    Object::new("PodDNSConfigOption", &[Field::new("name", NON_EMPTY).required(), Field::new("value", ANY)]);

pub(super) static HOST_ALIAS: Object = Object::new(
    "HostAlias",
    &[Field::new("hostnames", list(&SUBDOMAIN)), Field::new("ip", Shape::Text(Format::IpAddress)).required()],
);
