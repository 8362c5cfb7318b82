//! The serving certificate: where it comes from, what makes it good, and the TLS settings that follow from it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{anyhow, bail, ensure};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;

use crate::shell::cluster::Serving;
use crate::shell::files::read_bounded;
use crate::shell::pem::{self, Validity};

/// Where certificate and key come from.
#[derive(Debug, Clone)]
pub enum TlsSource {
    /// Files, which may be replaced while serving.
    Files {
        /// The chain, leaf first, PEM.
        cert: PathBuf,
        /// The key of the leaf, PEM.
        key: PathBuf,
        /// The CA that client certificates have to come from, PEM; none are asked for without.
        client_ca: Option<PathBuf>,
    },
    /// A pair that lives as long as the process.
    Memory(Pair),
    /// What the cluster agrees about.
    Cluster {
        /// The pair, which changes from time to time.
        serving: Serving,
        /// As above.
        client_ca: Option<PathBuf>,
    },
}

/// Certificate and key as they were read.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The chain, leaf first, PEM.
    pub cert: Vec<u8>,
    /// The key of the leaf, PEM.
    pub key: Vec<u8>,
    /// The CA of the clients, PEM.
    pub client_ca: Option<Vec<u8>>,
    /// What the three are called in messages.
    names: [String; 3],
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys do not belong into logs.
        f.debug_struct("Pair").field("names", &self.names).finish_non_exhaustive()
    }
}

/// A pair that was found good.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) config: Arc<ServerConfig>,
    pub(super) validity: Validity,
}

impl TlsSource {
    /// Reads the files. The kubelet replaces all files of a volume at once by changing a link (`..data`); both are
    /// read behind the link, so that they are of one generation.
    pub fn read(&self) -> anyhow::Result<Pair> {
        match self {
            Self::Memory(pair) => Ok(pair.clone()),
            Self::Cluster { serving, client_ca } => {
                let Some(issued) = serving.load_full() else { bail!("there is no certificate yet") };
                let client_ca_read = client_ca.as_ref().map(|path| read(path, &behind_link(path)));
                let mut pair = Pair::new(issued.cert.as_str(), issued.key.as_str());
                pair.client_ca = client_ca_read.transpose()?;
                if let Some(path) = client_ca {
                    pair.names[2] = path.display().to_string();
                }
                Ok(pair)
            }
            Self::Files { cert, key, client_ca } => {
                let (cert_behind, key_behind) = (behind_link(cert), behind_link(key));
                let client_ca_read = client_ca.as_ref().map(|path| read(path, &behind_link(path)));
                Ok(Pair {
                    cert: read(cert, &cert_behind)?,
                    key: read(key, &key_behind)?,
                    client_ca: client_ca_read.transpose()?,
                    names: [Some(cert), Some(key), client_ca.as_ref()]
                        .map(|path| path.map(|path| path.display().to_string()).unwrap_or_default()),
                })
            }
        }
    }
}

/// The file that a path leads to now.
fn behind_link(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn read(name: &Path, path: &Path) -> anyhow::Result<Vec<u8>> {
    read_bounded(name, path, pem::FILE)
}

impl Pair {
    /// A pair that was made in memory.
    pub fn new(cert: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        let names = ["the certificate", "the key", "the CA of the clients"].map(str::to_owned);
        Self { cert: cert.into(), key: key.into(), client_ca: None, names }
    }

    /// The TLS settings with this pair, if it is good: it can be read, belongs together, and is valid now.
    pub(super) fn load(&self, now: SystemTime) -> anyhow::Result<Loaded> {
        let [cert_name, key_name, ca_name] = &self.names;
        let chain = pem::certificates(cert_name, &self.cert)?;
        let validity = Validity::of(cert_name, &self.cert)?;
        let (begin, end) = (
            humantime::format_rfc3339_seconds(validity.not_before),
            humantime::format_rfc3339_seconds(validity.not_after),
        );
        ensure!(now >= validity.not_before, "{cert_name} is not valid before {begin}");
        ensure!(now <= validity.not_after, "{cert_name} expired at {end}");
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| {
            anyhow!("{key_name} has no private key in it; it has to be PEM, PKCS #8, PKCS #1 or SEC 1")
        })?;
        let provider = Arc::new(ring::default_provider());
        let certified = CertifiedKey::from_der(chain, key, &provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => anyhow!("{key_name} is not the key of {cert_name}"),
            other => anyhow!("{cert_name} and {key_name} cannot be used: {other}"),
        })?;
        let resolver = Arc::new(rustls::sign::SingleCertAndKey::from(certified));
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
        let config = match &self.client_ca {
            None => config.with_no_client_auth(),
            Some(pem) => config.with_client_cert_verifier(client_verifier(ca_name, pem, provider)?),
        };
        let mut config = config.with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Loaded { config: Arc::new(config), validity })
    }
}

fn client_verifier(
    name: &str,
    certificates: &[u8],
    provider: Arc<CryptoProvider>,
) -> anyhow::Result<Arc<dyn rustls::server::danger::ClientCertVerifier>> {
    let roots = pem::roots(name, certificates)?;
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| anyhow!("{name} cannot be used: {error}"))
}
