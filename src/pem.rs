//! Certificates in PEM.

use std::time::{Duration, SystemTime};

use anyhow::{anyhow, bail};
use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::time::ASN1Time;

use crate::files::Allowed;

/// A file of certificates, or of a key.
pub(crate) const FILE: Allowed = Allowed { what: "certificate or key", mebibytes: 1, pipes: false };

/// All certificates of a text, of which there has to be one. `name` is what messages call it.
pub(crate) fn certificates(name: &str, pem: &[u8]) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => bail!("{name} has no certificate in it; it has to be PEM"),
        Err(error) => bail!("{name} is not PEM: {error}"),
    }
}

/// The CAs of a text, from which others have to come.
pub(crate) fn roots(name: &str, pem: &[u8]) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(name, pem)? {
        roots.add(certificate).map_err(|error| anyhow!("{name} has a certificate that is no CA: {error}"))?;
    }
    Ok(roots)
}

/// A time as certificates have it.
pub(crate) fn time(time: ASN1Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or_default())
}
