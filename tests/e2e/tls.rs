//! Servers of the tests that API servers call.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

/// A TLS server on the loopback with a certificate of its own, and that certificate, PEM.
pub(crate) fn self_signed() -> (TlsAcceptor, String) {
    let key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let private = PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config =
        config.with_no_client_auth().with_single_cert(vec![key.cert.der().clone()], private).unwrap();
    (TlsAcceptor::from(Arc::new(config)), key.cert.pem())
}
