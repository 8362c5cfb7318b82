//! A certificate authority of our own, for whoever runs without cert-manager: a CA, and serving pairs from it.
//!
//! ECDSA with P-256, which every client of TLS knows.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

/// Clocks differ: what is made now is valid on a machine that is behind.
const BACKDATE: Duration = Duration::from_mins(5);
/// How long a CA is valid.
const CA_LIFE: Duration = Duration::from_hours(10 * 365 * 24);

/// A CA with its key.
#[derive(Debug)]
pub struct Authority {
    /// The certificate, PEM.
    pub cert: String,
    /// The key, PEM.
    pub key: String,
}

/// A serving certificate with its key.
#[derive(Debug)]
pub struct Issued {
    /// The certificate, PEM.
    pub cert: String,
    /// The key, PEM.
    pub key: String,
}

impl Authority {
    /// A new CA, valid for ten years from now.
    pub fn new(now: SystemTime) -> anyhow::Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "fabric-injector CA");
        params.not_before = (now - BACKDATE).into();
        params.not_after = (now + CA_LIFE).into();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let cert = params.self_signed(&key)?;
        Ok(Self { cert: cert.pem(), key: key.serialize_pem() })
    }

    /// A serving pair for these names and addresses.
    pub fn issue(
        &self,
        dns: &[String],
        ips: &[IpAddr],
        now: SystemTime,
        life: Duration,
    ) -> anyhow::Result<Issued> {
        let ca_key = KeyPair::from_pem(&self.key).context("the key of the CA cannot be read")?;
        let issuer = Issuer::from_ca_cert_pem(&self.cert, ca_key).context("the CA cannot be read")?;
        let mut params = CertificateParams::default();
        // The name that people see; clients look at the alternative names only. A common name has 64 characters.
        let name = dns.first().cloned().or_else(|| ips.first().map(ToString::to_string)).unwrap_or_default();
        params.distinguished_name.push(DnType::CommonName, name.chars().take(64).collect::<String>());
        for name in dns {
            let ascii = Ia5String::try_from(name.as_str());
            params.subject_alt_names.push(SanType::DnsName(ascii.context("a DNS name has to be ASCII")?));
        }
        params.subject_alt_names.extend(ips.iter().copied().map(SanType::IpAddress));
        params.not_before = (now - BACKDATE).into();
        params.not_after = (now + life).into();
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &issuer)?;
        Ok(Issued { cert: cert.pem(), key: key.serialize_pem() })
    }
}
