//! A certificate authority for installations without cert-manager: a CA, and the serving certificates that it signs.
//!
//! Keys are ECDSA with P-256, which every TLS client supports.

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow, bail, ensure};
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyUsagePurpose,
    SanType,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::pem;
use fabric_yaml::counted;

/// How long before its creation a certificate becomes valid, for machines whose clocks are behind.
pub(crate) const BACKDATE: Duration = Duration::from_mins(5);
/// The validity of a CA of [`Authority::new`].
const CA_DURATION: Duration = Duration::from_hours(10 * 365 * 24);
/// The remedy for a CA that can no longer sign.
const REPLACE_CA: &str =
    "remove the certificate and the key of the CA to get a new one, and put that into `caBundle`";

/// A certificate, or a chain with the leaf first, and the private key of the leaf; PEM both.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The certificates, PEM.
    pub cert: String,
    /// The private key, PEM.
    pub key: String,
}

/// A CA certificate with its private key.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    /// The certificate, PEM.
    pub cert: String,
    /// The private key, PEM.
    pub key: String,
}

// Logs must not contain keys.
impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").field("cert", &self.cert).finish_non_exhaustive()
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("cert", &self.cert).finish_non_exhaustive()
    }
}

impl Authority {
    /// A new CA that is valid for ten years from `now`.
    pub fn new(now: SystemTime) -> anyhow::Result<Self> {
        Self::with_duration(now, CA_DURATION)
    }

    /// A new CA that is valid for `duration` from `now`.
    pub(crate) fn with_duration(now: SystemTime, duration: Duration) -> anyhow::Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "fabric-injector CA");
        params.not_before = (now - BACKDATE).into();
        params.not_after = (now + duration).into();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = rcgen::KeyPair::generate()?;
        let cert = params.self_signed(&key)?;
        Ok(Self { cert: cert.pem(), key: key.serialize_pem() })
    }

    /// Checks that the CA is valid at `now` and can sign.
    pub(crate) fn check_usable(&self, now: SystemTime) -> anyhow::Result<()> {
        self.check(&rcgen::KeyPair::from_pem(&self.key)?, now, now)
    }

    /// A serving certificate for these names and addresses that is valid for `duration` from `now`. An error if the CA
    /// cannot sign, or expires before the certificate would.
    pub fn issue(
        &self,
        dns: &[String],
        ips: &[IpAddr],
        now: SystemTime,
        duration: Duration,
    ) -> anyhow::Result<KeyPair> {
        let ca_key = rcgen::KeyPair::from_pem(&self.key)
            .map_err(|_| anyhow!("the key of the CA (`ca.key`) must be PEM with PKCS #8"))?;
        self.check(&ca_key, now, now + duration)?;
        let issuer = Issuer::from_ca_cert_pem(&self.cert, ca_key).context("the CA cannot be read")?;
        let mut params = CertificateParams::default();
        // Clients check the alternative names only; the common name is for people, and has at most 64 characters.
        let name = dns.first().cloned().or_else(|| ips.first().map(ToString::to_string)).unwrap_or_default();
        params.distinguished_name.push(DnType::CommonName, name.chars().take(64).collect::<String>());
        for name in dns {
            let ascii = Ia5String::try_from(name.as_str());
            params.subject_alt_names.push(SanType::DnsName(ascii.context("a DNS name must be ASCII")?));
        }
        params.subject_alt_names.extend(ips.iter().copied().map(SanType::IpAddress));
        params.not_before = (now - BACKDATE).into();
        params.not_after = (now + duration).into();
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = rcgen::KeyPair::generate()?;
        let cert = params.signed_by(&key, &issuer)?;
        Ok(KeyPair { cert: cert.pem(), key: key.serialize_pem() })
    }

    /// Checks that clients accept a certificate that this key signs at `now` until `end`.
    fn check(&self, key: &rcgen::KeyPair, now: SystemTime, end: SystemTime) -> anyhow::Result<()> {
        let der = CertificateDer::from_pem_slice(self.cert.as_bytes());
        let der = der.map_err(|_| anyhow!("the certificate of the CA (`ca.crt`) must be PEM"))?;
        let Ok((_, ca)) = X509Certificate::from_der(&der) else {
            bail!("the certificate of the CA is not X.509");
        };
        let signs = ca.key_usage()?.is_none_or(|usage| usage.value.key_cert_sign());
        ensure!(ca.is_ca() && signs, "the certificate is that of a server or a client, not that of a CA");
        ensure!(
            ca.public_key().subject_public_key.data == key.public_key_raw(),
            "the key of the CA does not match its certificate\nhint: provide the matching key, or {REPLACE_CA}"
        );
        let (begins, ends) = (pem::time(ca.validity().not_before), pem::time(ca.validity().not_after));
        let shown = humantime::format_rfc3339_seconds;
        ensure!(now >= begins, "the CA is not valid before {}", shown(begins));
        let Ok(left) = ends.duration_since(now) else {
            bail!("the CA expired at {}\nhint: {REPLACE_CA}", shown(ends));
        };
        // Certificates have only whole seconds.
        if seconds(end) > seconds(ends) {
            let days = counted(left.as_secs() / (24 * 60 * 60), "day");
            bail!(
                "the CA expires at {}, before the certificate would\nhint: use at most {days}, or {REPLACE_CA}",
                shown(ends)
            );
        }
        Ok(())
    }
}

impl KeyPair {
    /// Returns whether the private key matches the certificate.
    pub(crate) fn matches(&self) -> bool {
        let Ok(key) = rcgen::KeyPair::from_pem(&self.key) else { return false };
        let Ok(der) = CertificateDer::from_pem_slice(self.cert.as_bytes()) else { return false };
        X509Certificate::from_der(&der)
            .is_ok_and(|(_, cert)| cert.public_key().subject_public_key.data == key.public_key_raw())
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
