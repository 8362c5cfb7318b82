//! Checks of certificates as the API server makes them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::anyhow;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls_pki_types::{ServerName, UnixTime};

use crate::pem;

/// Checks that a client that trusts these CAs, PEM, accepts the certificate for the server of that name at `now`.
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

/// The CAs of a text, PEM, each on lines of its own. Text between them is left out, because an API server ignores a CA
/// that follows text that it cannot parse.
pub(super) fn authorities(pem: &str) -> String {
    pieces(pem).collect()
}

/// The CAs of a text one by one, PEM, expired ones too.
pub(super) fn pieces(pem: &str) -> impl Iterator<Item = String> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let pieces = pem.split_inclusive(END).filter_map(|piece| piece.rfind(BEGIN).map(|at| &piece[at..]));
    let pieces = pieces.map(|piece| format!("{}\n", piece.trim()));
    pieces.filter(|piece| pem::roots("a CA", piece.as_bytes()).is_ok())
}
