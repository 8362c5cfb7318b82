//! A certificate authority of our own, for whoever runs without cert-manager: a CA, and serving pairs from it.
//!
//! ECDSA with P-256, which every client of TLS knows.

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow, bail, ensure};
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::shell::pem;

/// Clocks differ: what is made now is valid on a machine that is behind.
pub(crate) const BACKDATE: Duration = Duration::from_mins(5);
/// How long a CA is valid.
const CA_LIFE: Duration = Duration::from_hours(10 * 365 * 24);
/// What is left to do about a CA that is of no more use.
const NEW_CA: &str =
    "remove certificate and key of the CA to get a new one, which has to go into `caBundle` then";

/// A CA with its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    /// The certificate, PEM.
    pub cert: String,
    /// The key, PEM.
    pub key: String,
}

/// A serving certificate with its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// The certificate, PEM.
    pub cert: String,
    /// The key, PEM.
    pub key: String,
}

// Keys do not belong into logs.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("cert", &self.cert).finish_non_exhaustive()
    }
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("cert", &self.cert).finish_non_exhaustive()
    }
}

impl Authority {
    /// A new CA, valid for ten years from now.
    pub fn new(now: SystemTime) -> anyhow::Result<Self> {
        Self::with_life(now, CA_LIFE)
    }

    /// A new CA, valid for so long from now.
    pub fn with_life(now: SystemTime, life: Duration) -> anyhow::Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "fabric-injector CA");
        params.not_before = (now - BACKDATE).into();
        params.not_after = (now + life).into();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let cert = params.self_signed(&key)?;
        Ok(Self { cert: cert.pem(), key: key.serialize_pem() })
    }

    /// Whether it can issue anything that clients believe.
    pub(crate) fn is_usable(&self, now: SystemTime) -> anyhow::Result<()> {
        self.check(&KeyPair::from_pem(&self.key)?, now, now)
    }

    /// A serving pair for these names and addresses. Refused where no client would believe it, or not for as long
    /// as it is asked for.
    pub fn issue(
        &self,
        dns: &[String],
        ips: &[IpAddr],
        now: SystemTime,
        life: Duration,
    ) -> anyhow::Result<Issued> {
        let ca_key = KeyPair::from_pem(&self.key)
            .context("the key of the CA cannot be read, it has to be PEM with PKCS #8")?;
        self.check(&ca_key, now, now + life)?;
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

    /// Whether clients believe, until then, what is signed with this key.
    fn check(&self, key: &KeyPair, now: SystemTime, end: SystemTime) -> anyhow::Result<()> {
        let der = CertificateDer::from_pem_slice(self.cert.as_bytes());
        let der = der.map_err(|error| anyhow!("the certificate of the CA is not PEM: {error}"))?;
        let Ok((_, ca)) = X509Certificate::from_der(&der) else {
            bail!("the certificate of the CA is not X.509");
        };
        let signs = ca.key_usage()?.is_none_or(|usage| usage.value.key_cert_sign());
        ensure!(ca.is_ca() && signs, "it is the certificate of a server or a client, not of a CA");
        ensure!(
            ca.public_key().subject_public_key.data == key.public_key_raw(),
            "the key of the CA is not the one of its certificate\nhint: bring the one that is, or {NEW_CA}"
        );
        let (begins, ends) = (pem::time(ca.validity().not_before), pem::time(ca.validity().not_after));
        let shown = humantime::format_rfc3339_seconds;
        ensure!(now >= begins, "the CA is not valid before {}", shown(begins));
        let Ok(left) = ends.duration_since(now) else {
            bail!("the CA expired at {}\nhint: {NEW_CA}", shown(ends));
        };
        // Certificates know whole seconds only.
        if seconds(end) > seconds(ends) {
            let days = left.as_secs() / (24 * 60 * 60);
            bail!(
                "the CA ends at {}, before the certificate would\nhint: ask for {days} days at most, or {NEW_CA}",
                shown(ends)
            );
        }
        Ok(())
    }
}

impl Issued {
    /// Whether the key is that of the certificate.
    pub(crate) fn belongs_together(&self) -> bool {
        let Ok(key) = KeyPair::from_pem(&self.key) else { return false };
        let Ok(der) = CertificateDer::from_pem_slice(self.cert.as_bytes()) else { return false };
        X509Certificate::from_der(&der)
            .is_ok_and(|(_, cert)| cert.public_key().subject_public_key.data == key.public_key_raw())
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
