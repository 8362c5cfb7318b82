//! The TLS settings of the HTTPS port, built from a key pair and a client CA.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, anyhow, ensure};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;

use crate::authority::KeyPair;
use crate::cluster::Reconciler;
use crate::files::read_bounded;
use crate::pem::{self, Validity};

/// The source of the serving certificate.
#[derive(Debug, Clone)]
pub enum TlsSource {
    /// Files, which are reloaded when they change.
    Files {
        /// The chain, leaf first, PEM.
        cert: PathBuf,
        /// The private key of the leaf, PEM.
        key: PathBuf,
        /// The CA of client certificates, PEM; without it, clients need none.
        client_ca: Option<PathBuf>,
    },
    /// A key pair in memory.
    Memory(KeyPair),
    /// The reconciler, which pushes key pairs.
    Reconciler {
        /// The CA of client certificates, PEM; without it, clients need none.
        client_ca: Option<PathBuf>,
    },
}

/// A key pair and a client CA, with the names that messages use for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TlsMaterial {
    pub(super) key_pair: KeyPair,
    pub(super) client_ca: Option<ClientCa>,
    cert_name: String,
    key_name: String,
}

/// The CA of client certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientCa {
    pem: String,
    name: String,
}

impl TlsSource {
    /// Reads the files, or takes the key pair that the reconciler pushed last.
    pub(super) fn read(&self, reconciler: Option<&Reconciler>) -> anyhow::Result<TlsMaterial> {
        match self {
            Self::Memory(key_pair) => Ok(TlsMaterial::new(key_pair.clone())),
            Self::Files { cert, key, client_ca } => read_files(cert, key, client_ca.as_deref()),
            Self::Reconciler { client_ca } => {
                let key_pair = reconciler.and_then(|reconciler| reconciler.key_pairs().borrow().clone());
                let key_pair = key_pair.context("there is no certificate to serve")?;
                let client_ca = client_ca.as_deref().map(ClientCa::read).transpose()?;
                Ok(TlsMaterial { client_ca, ..TlsMaterial::new(KeyPair::clone(&key_pair)) })
            }
        }
    }
}

/// The kubelet replaces all files of a volume at once, by replacing the link `..data`. Both paths are resolved before
/// either file is read, so the pair is of one generation.
fn read_files(cert: &Path, key: &Path, client_ca: Option<&Path>) -> anyhow::Result<TlsMaterial> {
    let (resolved_cert, resolved_key) = (resolve(cert), resolve(key));
    let client_ca = client_ca.map(ClientCa::read).transpose();
    Ok(TlsMaterial {
        key_pair: KeyPair { cert: read_pem(cert, &resolved_cert)?, key: read_pem(key, &resolved_key)? },
        client_ca: client_ca?,
        cert_name: cert.display().to_string(),
        key_name: key.display().to_string(),
    })
}

fn resolve(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn read_pem(name: &Path, path: &Path) -> anyhow::Result<String> {
    let bytes = read_bounded(name, path, pem::FILE)?;
    // Text between the blocks may have any encoding.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl ClientCa {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        Ok(Self { pem: read_pem(path, &resolve(path))?, name: path.display().to_string() })
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
        let roots = pem::roots(&self.name, self.pem.as_bytes())?;
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| anyhow!("{} cannot be used: {error}", self.name))
    }
}

impl TlsMaterial {
    fn new(key_pair: KeyPair) -> Self {
        let (cert_name, key_name) = ("the certificate".to_owned(), "the key".to_owned());
        Self { key_pair, client_ca: None, cert_name, key_name }
    }

    /// The TLS settings, if the key matches the certificate and the certificate is valid at `now`.
    fn load(&self, now: SystemTime) -> anyhow::Result<(Arc<ServerConfig>, Validity)> {
        let Self { key_pair, client_ca, cert_name, key_name } = self;
        let validity = self.valid_at(now)?;
        let chain = pem::certificates(cert_name, key_pair.cert.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(key_pair.key.as_bytes()).map_err(|_| {
            anyhow!("{key_name} has no private key in it; it must be PEM, PKCS #8, PKCS #1 or SEC 1")
        })?;
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
        let config = match client_ca {
            None => config.with_no_client_auth(),
            Some(client_ca) => config.with_client_cert_verifier(client_ca.verifier(provider)?),
        };
        let mut config = config.with_single_cert(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => anyhow!("{key_name} is not the key of {cert_name}"),
            other => anyhow!("{cert_name} and {key_name} cannot be used: {other}"),
        })?;
        // API servers speak nothing else to webhooks.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok((Arc::new(config), validity))
    }

    fn valid_at(&self, now: SystemTime) -> anyhow::Result<Validity> {
        let name = &self.cert_name;
        let validity = Validity::parse(name, self.key_pair.cert.as_bytes())?;
        let shown = humantime::format_rfc3339_seconds;
        ensure!(now >= validity.not_before, "{name} is not valid before {}", shown(validity.not_before));
        ensure!(now <= validity.not_after, "{name} expired at {}", shown(validity.not_after));
        Ok(validity)
    }
}

/// Loads what files of these contents would give.
#[cfg(fuzzing)]
pub fn load(cert: &str, key: &str, client_ca: Option<&str>, now: SystemTime) -> anyhow::Result<()> {
    let key_pair = KeyPair { cert: cert.to_owned(), key: key.to_owned() };
    let client_ca = client_ca.map(|pem| ClientCa { pem: pem.to_owned(), name: "the client CA".to_owned() });
    TlsMaterial { client_ca, ..TlsMaterial::new(key_pair) }.load(now).map(|_| ())
}

/// The TLS settings with which new connections begin.
#[derive(Debug)]
pub(super) struct TlsSettings {
    material: Mutex<TlsMaterial>,
    config: ArcSwap<ServerConfig>,
}

impl TlsSettings {
    /// The settings, and the validity of the certificate.
    pub(super) fn new(material: TlsMaterial, now: SystemTime) -> anyhow::Result<(Self, Validity)> {
        let (config, validity) = material.load(now)?;
        Ok((Self { material: Mutex::new(material), config: ArcSwap::new(config) }, validity))
    }

    pub(super) fn current(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    /// Changes the material, unless the result cannot be used; the validity of the certificate.
    pub(super) fn change(&self, change: impl FnOnce(&mut TlsMaterial)) -> anyhow::Result<Validity> {
        let mut material = self.material.lock();
        let mut changed = material.clone();
        change(&mut changed);
        let (config, validity) = changed.load(SystemTime::now())?;
        self.config.store(config);
        *material = changed;
        Ok(validity)
    }
}
