//! A CA, certificates of it, and a folder for the server to find them in.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use fabric_injector::authority::{Authority, KeyPair};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tempfile::TempDir;

use super::client::Client;
use super::server::Server;

/// A time that no test takes.
pub(crate) const DAY: Duration = Duration::from_hours(24);

/// A CA that began a year ago, so that it may have issued what has expired since.
pub(crate) fn authority() -> Authority {
    Authority::new(SystemTime::now() - 365 * DAY).unwrap()
}

/// A serving pair of a CA for loopback, from five minutes before `from` on.
pub(crate) fn pair(ca: &Authority, from: SystemTime, life: Duration) -> KeyPair {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    ca.issue(&["localhost".to_owned()], &[loopback], from, life).unwrap()
}

/// A client's certificate of a CA.
pub(crate) fn client_certificate(ca: &Authority) -> KeyPair {
    let issuer = Issuer::from_ca_cert_pem(&ca.cert, rcgen::KeyPair::from_pem(&ca.key).unwrap()).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "api-server");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    let cert = params.signed_by(&key, &issuer).unwrap();
    KeyPair { cert: cert.pem(), key: key.serialize_pem() }
}

/// The first certificate of a PEM, DER.
pub(crate) fn leaf(pem: &str) -> Vec<u8> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
}

/// A CA, and a folder with a pair of it.
pub(crate) struct Site {
    pub(crate) ca: Authority,
    pub(crate) folder: TempDir,
    /// The pair that the server starts with.
    pub(crate) first: KeyPair,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::with_life(DAY)
    }

    /// A site whose first certificate lives this long.
    pub(crate) fn with_life(life: Duration) -> Self {
        let (ca, folder) = (authority(), tempfile::tempdir().unwrap());
        let first = pair(&ca, SystemTime::now(), life);
        let site = Self { ca, folder, first };
        site.put(&site.first);
        site
    }

    /// Another good pair.
    pub(crate) fn another(&self) -> KeyPair {
        pair(&self.ca, SystemTime::now(), 2 * DAY)
    }

    /// Rewrites both files in place.
    pub(crate) fn put(&self, KeyPair { cert, key }: &KeyPair) {
        fs::write(self.folder.path().join("tls.key"), key).unwrap();
        fs::write(self.folder.path().join("tls.crt"), cert).unwrap();
    }

    /// The path of a file in the folder.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// A server with the pair of the folder, and these options.
    pub(crate) async fn serve(&self, options: &[&str]) -> Server {
        Server::start(&[&["--tls-dir", &self.path("")], options].concat()).await
    }

    /// The same by the policy `aws-efa`.
    pub(crate) async fn serve_aws(&self, options: &[&str]) -> Server {
        self.serve(&[&["--policy", "aws-efa"], options].concat()).await
    }

    /// A client that trusts the CA.
    pub(crate) fn client(&self, server: &Server) -> Client {
        Client::new(server.address, &self.ca.cert)
    }
}

/// Puts files into a folder as the kubelet does: into a folder of their own behind the link `..data`, which is
/// replaced by renaming another link over it; then come links for new files, and those of former ones go.
pub(crate) fn mount(folder: &Path, generation: &str, files: &[(&str, &str)]) {
    let own = folder.join(generation);
    fs::create_dir(&own).unwrap();
    for (name, text) in files {
        fs::write(own.join(name), text).unwrap();
    }
    let before = fs::read_link(folder.join("..data"));
    symlink(generation, folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    for (name, _) in files {
        if folder.join(name).symlink_metadata().is_err() {
            symlink(Path::new("..data").join(name), folder.join(name)).unwrap();
        }
    }
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.starts_with("..") && !files.iter().any(|(file, _)| *file == name) {
            fs::remove_file(folder.join(name)).unwrap();
        }
    }
    if let Ok(before) = before {
        fs::remove_dir_all(folder.join(before)).unwrap();
    }
}
