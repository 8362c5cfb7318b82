//! Whether the API server would believe a certificate.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::anyhow;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls_pki_types::{ServerName, UnixTime};

use crate::pem;

/// Whether a client that trusts these CAs, PEM, believes at that time that this is the server of that name.
pub(super) fn check(trusted: &str, cert: &str, name: &str, now: SystemTime) -> anyhow::Result<()> {
    let roots = pem::roots("the CA", trusted.as_bytes())?;
    let chain = pem::certificates("the certificate", cert.as_bytes())?;
    let Some((leaf, between)) = chain.split_first() else { return Err(anyhow!("there is no certificate")) };
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
    let server = ServerName::try_from(name)?;
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    verifier.verify_server_cert(leaf, between, &server, &[], UnixTime::since_unix_epoch(now))?;
    Ok(())
}

/// Those of a text's certificates that are CAs and valid at that time, PEM.
pub(super) fn still_valid(pem: &str, now: SystemTime) -> String {
    pieces(pem)
        .filter(|piece| {
            let valid = pem::Validity::of("a CA", piece.as_bytes())
                .is_ok_and(|validity| validity.not_before <= now && now <= validity.not_after);
            valid && pem::roots("a CA", piece.as_bytes()).is_ok()
        })
        .collect()
}

/// Each certificate of a text as a text of its own.
fn pieces(pem: &str) -> impl Iterator<Item = String> {
    const END: &str = "-----END CERTIFICATE-----";
    pem.split_inclusive(END).filter(|piece| piece.contains(END)).map(|piece| format!("{}\n", piece.trim()))
}
