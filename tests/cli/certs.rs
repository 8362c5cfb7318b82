//! `certs`: what it writes.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use insta::assert_snapshot;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tempfile::TempDir;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::{Run, run_in};

pub(crate) const NAME: &str = "fabric-injector.fabric-injector.svc";
const DAY: u64 = 24 * 60 * 60;
/// How far a certificate is backdated, for clients whose clocks are behind.
const BACKDATE: u64 = 5 * 60;
const FILES: [&str; 4] = ["ca.crt", "ca.key", "tls.crt", "tls.key"];

pub(crate) fn certs(folder: &Path, args: &[&str]) -> Run {
    run_in(folder, &[&["certs"], args].concat(), "")
}

/// A folder with a pair for `NAME` in `tls`.
pub(crate) fn issued() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    certs(folder.path(), &["tls", "--dns", NAME]).exits(0);
    folder
}

fn certificate(path: impl AsRef<Path>) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).expect("a certificate in PEM")
}

/// Whether a client that knows the CA believes a server of this name with this pair.
pub(crate) fn believed(tls: &Path, name: &str) -> Result<(), rustls::Error> {
    let (ca, leaf) = (certificate(tls.join("ca.crt")), certificate(tls.join("tls.crt")));
    let key = PrivateKeyDer::from_pem_file(tls.join("tls.key")).expect("a key in PEM");
    let provider = Arc::new(ring::default_provider());
    CertifiedKey::from_der(vec![leaf.clone()], key, &provider).expect("certificate and key belong together");
    let mut roots = RootCertStore::empty();
    roots.add(ca).unwrap();
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    verifier.verify_server_cert(&leaf, &[], &name, &[], UnixTime::now()).map(|_| ())
}

/// The names of the files of a folder, and their content.
pub(crate) fn content(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries
        .map(|entry| {
            let content = fs::read(entry.path()).unwrap_or_default();
            (entry.file_name().into_string().unwrap(), content)
        })
        .collect();
    files.sort();
    files
}

#[test]
fn four_files_are_written_and_keys_are_for_their_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let run = certs(folder.path(), &["new/tls", "--dns", NAME]).exits(0);
    assert_snapshot!(run.recorded(), @"
    exit status: 0
    ----- stdout -----
    new/tls/ca.crt
    new/tls/tls.crt
    new/tls/tls.key
    ----- stderr -----
    hint: `serve --tls-dir new/tls` serves it; the `caBundle` of the webhook configuration is `base64 -w0 new/tls/ca.crt`; keep new/tls/ca.key away from the cluster
    ");
    let tls = folder.path().join("new/tls");
    let names: Vec<_> = content(&tls).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, FILES, "and nothing besides");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&tls), 0o700);
    for key in ["ca.key", "tls.key"] {
        assert_eq!(mode(&tls.join(key)), 0o600, "{key}");
        assert!(fs::read_to_string(tls.join(key)).unwrap().starts_with("-----BEGIN PRIVATE KEY-----"));
    }
}

#[test]
fn a_client_that_knows_the_ca_believes_the_names_asked_for_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let asked = ["--dns", NAME, "--dns", "*.Example.org", "--ip", "10.1.2.3", "--ip", "fd00::7"];
    certs(folder.path(), &[&["tls"][..], &asked].concat()).exits(0);
    let tls = folder.path().join("tls");
    for name in [NAME, "a.example.org", "10.1.2.3", "fd00::7"] {
        believed(&tls, name).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    for name in ["fabric-injector.other.svc", "a.b.example.org", "10.1.2.4", "::1"] {
        assert!(believed(&tls, name).is_err(), "{name}");
    }
    let der = certificate(tls.join("tls.crt"));
    let (_, leaf) = X509Certificate::from_der(&der).unwrap();
    let names = &leaf.subject_alternative_name().unwrap().unwrap().value.general_names;
    let bytes = |address: &str| match address.parse().unwrap() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let (v4, v6) = (bytes("10.1.2.3"), bytes("fd00::7"));
    assert_eq!(
        *names,
        [
            GeneralName::DNSName(NAME),
            GeneralName::DNSName("*.Example.org"),
            GeneralName::IPAddress(&v4),
            GeneralName::IPAddress(&v6),
        ]
    );
}

#[test]
fn an_address_alone_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    certs(folder.path(), &["tls", "--ip", "127.0.0.1"]).exits(0);
    believed(&folder.path().join("tls"), "127.0.0.1").unwrap();
}

#[test]
fn the_pair_can_serve_and_do_nothing_else_and_the_ca_can_sign() {
    let folder = issued();
    let (ca, leaf) =
        (certificate(folder.path().join("tls/ca.crt")), certificate(folder.path().join("tls/tls.crt")));
    let (_, ca) = X509Certificate::from_der(&ca).unwrap();
    let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
    assert!(ca.is_ca() && ca.key_usage().unwrap().unwrap().value.key_cert_sign());
    assert_eq!(ca.basic_constraints().unwrap().unwrap().value.path_len_constraint, Some(0));
    assert!(!leaf.is_ca());
    let usage = leaf.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.server_auth && !usage.client_auth && !usage.any);
    assert!(leaf.key_usage().unwrap().unwrap().value.digital_signature());
    assert_eq!(leaf.issuer(), ca.subject());
}

#[test]
fn the_certificate_is_valid_for_the_days_asked_for_and_the_ca_for_ten_years() {
    for (args, days) in [(&[][..], 365), (&["--days", "1"], 1), (&["--days", "3650"], 3650)] {
        let folder = tempfile::tempdir().unwrap();
        certs(folder.path(), &[&["tls", "--dns", NAME], args].concat()).exits(0);
        for (file, days) in [("tls.crt", days), ("ca.crt", 3650)] {
            let der = certificate(folder.path().join("tls").join(file));
            let (_, certificate) = X509Certificate::from_der(&der).unwrap();
            let validity = certificate.validity();
            let life = u64::try_from(validity.not_after.timestamp() - validity.not_before.timestamp());
            assert_eq!(life, Ok(days * DAY + BACKDATE), "{file} of {args:?}");
            assert!(validity.is_valid(), "{file} is valid at once");
        }
    }
}

#[test]
fn a_pair_that_is_there_stays_unless_it_is_to_be_renewed() {
    let folder = issued();
    let before = content(&folder.path().join("tls"));
    let again = || certs(folder.path(), &["tls", "--dns", NAME]).recorded();
    assert_snapshot!(again(), @"
    exit status: 2
    ----- stderr -----
    error: tls/tls.crt exists already
    hint: use `--renew` to replace it, or another directory
    ");
    fs::remove_file(folder.path().join("tls/tls.crt")).unwrap();
    assert_snapshot!(again(), @"
    exit status: 2
    ----- stderr -----
    error: tls/tls.key exists already
    hint: use `--renew` to replace it, or another directory
    ");
    assert_eq!(
        content(&folder.path().join("tls")),
        before[..2].iter().chain(&before[3..]).cloned().collect::<Vec<_>>()
    );
}

#[test]
fn renewing_keeps_the_ca_and_changes_the_pair() {
    let folder = issued();
    let tls = folder.path().join("tls");
    let old = tempfile::tempdir().unwrap();
    for file in FILES {
        fs::copy(tls.join(file), old.path().join(file)).unwrap();
    }
    assert_snapshot!(certs(folder.path(), &["tls", "--dns", NAME, "--renew"]).recorded(), @"
    exit status: 0
    ----- stdout -----
    tls/ca.crt
    tls/tls.crt
    tls/tls.key
    ----- stderr -----
    using the existing CA tls/ca.crt
    hint: `serve --tls-dir tls` serves it; the `caBundle` of the webhook configuration is `base64 -w0 tls/ca.crt`; keep tls/ca.key away from the cluster
    ");
    let names: Vec<_> = content(&tls).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, FILES);
    for (file, stays) in [("ca.crt", true), ("ca.key", true), ("tls.crt", false), ("tls.key", false)] {
        let same = fs::read(tls.join(file)).unwrap() == fs::read(old.path().join(file)).unwrap();
        assert_eq!(same, stays, "{file}");
    }
    believed(&tls, NAME).unwrap();
    // A server that still has the old pair is believed as well.
    believed(old.path(), NAME).unwrap();
}

#[test]
fn renewing_where_nothing_is_makes_everything() {
    let folder = tempfile::tempdir().unwrap();
    certs(folder.path(), &["tls", "--dns", NAME, "--renew"]).exits(0);
    believed(&folder.path().join("tls"), NAME).unwrap();
}
