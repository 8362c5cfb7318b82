//! Certificates in PEM.

use std::time::{Duration, SystemTime};

use anyhow::{anyhow, bail};
use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;

use crate::files::Allowed;

/// The limits of a file with certificates or a key.
pub(crate) const FILE: Allowed = Allowed { what: "certificate or key", mebibytes: 1, pipes: false };

/// The certificates of a text, at least one. Messages call the text `name`.
pub(crate) fn certificates(name: &str, pem: &[u8]) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => bail!("{name} has no certificate in it; it must be PEM"),
        Err(_) => bail!("{name} is not PEM, or a part of it is damaged"),
    }
}

/// The CAs of a text, as trust anchors.
pub(crate) fn roots(name: &str, pem: &[u8]) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(name, pem)? {
        roots.add(certificate).map_err(|error| anyhow!("{name} has a certificate that is no CA: {error}"))?;
    }
    Ok(roots)
}

/// Converts the time of a certificate.
pub(crate) fn time(time: ASN1Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or_default())
}

/// The `Validity` field of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    /// The first second.
    pub(crate) not_before: SystemTime,
    /// The last second.
    pub(crate) not_after: SystemTime,
}

impl Validity {
    /// The validity of the first certificate of a text.
    pub(crate) fn parse(name: &str, pem: &[u8]) -> anyhow::Result<Self> {
        let chain = certificates(name, pem)?;
        let first = chain.first().map(AsRef::as_ref).unwrap_or_default();
        let Ok((_, certificate)) = X509Certificate::from_der(first) else {
            bail!("{name} has a certificate that is not X.509");
        };
        let validity = certificate.validity();
        Ok(Self { not_before: time(validity.not_before), not_after: time(validity.not_after) })
    }

    /// The duration from the first second to the last one.
    pub(crate) fn duration(&self) -> Duration {
        self.not_after.duration_since(self.not_before).unwrap_or_default()
    }
}
