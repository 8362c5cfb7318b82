//! `certs`: what it refuses, and that nothing is left of it then.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use fabric_injector::authority::Authority;
use tempfile::TempDir;

use super::Run;
use super::certs::{NAME, believed, certs, content, issued};

/// Renews the pair in `tls`, which has to be refused, and leave everything as it was.
#[track_caller]
fn refused(folder: &TempDir, args: &[&str]) -> Run {
    let tls = folder.path().join("tls");
    let before = content(&tls);
    let run = certs(folder.path(), &[&["tls", "--dns", NAME, "--renew"], args].concat()).exits(2);
    run.writes_nothing();
    assert_eq!(content(&tls), before, "a refusal changes nothing");
    run
}

/// Makes this CA the one of the folder.
fn put_ca(folder: &TempDir, authority: &Authority) {
    fs::write(folder.path().join("tls/ca.crt"), &authority.cert).unwrap();
    fs::write(folder.path().join("tls/ca.key"), &authority.key).unwrap();
}

#[test]
fn half_a_ca_is_refused_and_what_is_missing_is_named() {
    for (there, missing) in [("ca.crt", "ca.key"), ("ca.key", "ca.crt")] {
        let folder = issued();
        fs::remove_file(folder.path().join("tls").join(missing)).unwrap();
        let says = format!("tls/{there} exists, and tls/{missing} does not");
        refused(&folder, &[]).says(&[&says, "\nhint: provide both"]);
    }
}

#[test]
fn a_key_of_another_ca_is_refused() {
    let folder = issued();
    let other = Authority::new(SystemTime::now()).unwrap();
    fs::write(folder.path().join("tls/ca.key"), other.key).unwrap();
    refused(&folder, &[]).says(&[
        "tls/ca.crt",
        "does not match its certificate",
        "\nhint: provide the matching key",
    ]);
}

#[test]
fn a_key_or_a_certificate_that_cannot_be_read_is_refused() {
    for (file, text) in [("ca.key", "secret"), ("ca.key", ""), ("ca.crt", "certificate"), ("ca.crt", "")] {
        let folder = issued();
        fs::write(folder.path().join("tls").join(file), text).unwrap();
        let what = if file == "ca.key" { "the key of the CA" } else { "the certificate of the CA" };
        refused(&folder, &[]).says(&["tls/ca.crt cannot be used", what]);
    }
    let folder = issued();
    let key = folder.path().join("tls/ca.key");
    fs::remove_file(&key).unwrap();
    fs::create_dir(&key).unwrap();
    refused(&folder, &[]).says(&["tls/ca.key cannot be read"]);
}

#[test]
fn the_certificate_of_a_server_is_no_ca() {
    let folder = issued();
    for (from, to) in [("tls.crt", "ca.crt"), ("tls.key", "ca.key")] {
        fs::copy(folder.path().join("tls").join(from), folder.path().join("tls").join(to)).unwrap();
    }
    refused(&folder, &[]).says(&["tls/ca.crt cannot be used", "not that of a CA"]);
}

#[test]
fn a_ca_that_has_expired_or_is_not_valid_yet_issues_nothing() {
    let (now, hour) = (SystemTime::now(), Duration::from_hours(1));
    let folder = issued();
    put_ca(&folder, &Authority::new(now - Duration::from_hours(10 * 365 * 24) - hour).unwrap());
    refused(&folder, &[]).says(&[
        "the CA expired at 20",
        "\nhint: remove the certificate and the key",
        "`caBundle`",
    ]);
    put_ca(&folder, &Authority::new(now + hour).unwrap());
    refused(&folder, &[]).says(&["the CA is not valid before 20"]);
}

#[test]
fn no_certificate_outlives_its_ca() {
    let folder = issued();
    let begun = SystemTime::now() - Duration::from_hours((3650 - 30) * 24) + Duration::from_hours(1);
    put_ca(&folder, &Authority::new(begun).unwrap());
    refused(&folder, &[]).says(&["the CA expires at 20", "\nhint: use at most 30 days", "`caBundle`"]);
    refused(&folder, &["--days", "31"]);
    certs(folder.path(), &["tls", "--dns", NAME, "--renew", "--days", "30"]).exits(0);
    believed(&folder.path().join("tls"), NAME).unwrap();
}

#[test]
fn a_name_that_no_client_could_use_is_refused() {
    let long = "a".repeat(64);
    let longer = ["abcdefghi"; 26].join(".");
    for name in
        ["", "a b", "a..b", ".svc", "a.svc.", "-a", "a-", "a_b", "*", "a.*.svc", "ä.svc", "1", "a.1", "1.2.3"]
            .into_iter()
            .chain([long.as_str(), longer.as_str()])
    {
        let folder = tempfile::tempdir().unwrap();
        let run = certs(folder.path(), &["tls", &format!("--dns={name}")]).exits(2);
        run.writes_nothing().says(&["--dns", "write a DNS name, such as"]);
        assert!(content(folder.path()).is_empty(), "{name}");
    }
    for address in ["10.0.0.1", "::1"] {
        let folder = tempfile::tempdir().unwrap();
        let run = certs(folder.path(), &["tls", "--dns", address]).exits(2);
        run.says(&[address, "this is an address", "`--ip`"]);
        assert!(content(folder.path()).is_empty(), "{address}");
    }
}

#[test]
fn bad_usage_is_told_before_anything_is_written() {
    for (args, says) in [
        (&["tls"][..], "<--dns <NAME>|--ip <ADDRESS>>"),
        (&["--dns", NAME], "<DIR>"),
        (&["tls", "--dns", NAME, "--days", "0"], "1..=3650"),
        (&["tls", "--dns", NAME, "--days", "3651"], "1..=3650"),
        (&["tls", "--dns", NAME, "--days", "a year"], "--days"),
        (&["tls", "--ip", "localhost"], "--ip"),
        (&["tls", "--ip", "10.0.0.1/8"], "--ip"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        certs(folder.path(), args).exits(2).writes_nothing().says(&[says]);
        assert!(content(folder.path()).is_empty(), "{args:?}");
    }
}

#[test]
fn a_file_where_the_folder_should_be_is_left_alone() {
    let folder = super::folder(&[("tls", "mine")]);
    let run = certs(folder.path(), &["tls", "--dns", NAME]).exits(2);
    run.writes_nothing().says(&["tls is a file, not a directory"]);
    certs(folder.path(), &["tls/below", "--dns", NAME]).exits(2).says(&["tls/below cannot be created"]);
    assert_eq!(content(folder.path()), [("tls".to_owned(), b"mine".to_vec())]);
}

#[test]
fn a_folder_that_cannot_be_written_to_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let closed = folder.path().join("tls");
    fs::DirBuilder::new().mode(0o500).create(&closed).unwrap();
    // Modes do not bind root.
    if fs::write(closed.join("probe"), "").is_err() {
        certs(folder.path(), &["tls", "--dns", NAME]).exits(2).says(&["tls/ca.key cannot be written"]);
        assert!(content(&closed).is_empty());
    }
    // The file systems of the kernel take no files, whoever writes.
    if Path::new("/proc/self").exists() {
        let run = certs(folder.path(), &["/proc/self", "--dns", NAME]).exits(2);
        run.writes_nothing().says(&["/proc/self/ca.key cannot be written"]);
    }
}

#[test]
fn one_file_that_cannot_be_written_keeps_all_others_as_they_were() {
    for (taken, named) in [("tls.crt", "tls.crt"), ("tls.key.new", "tls.key"), ("tls.crt.new", "tls.crt")] {
        let folder = tempfile::tempdir().unwrap();
        let tls = folder.path().join("tls");
        fs::create_dir_all(tls.join(taken)).unwrap();
        let run = certs(folder.path(), &["tls", "--dns", NAME, "--renew"]).exits(2);
        run.writes_nothing().says(&[&format!("tls/{named} cannot be written")]);
        let names: Vec<_> = content(&tls).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [taken], "no half of a CA or of a pair");
    }
}

#[test]
fn what_an_interrupted_run_left_behind_is_no_obstacle() {
    let folder = issued();
    let tls = folder.path().join("tls");
    fs::write(tls.join("tls.key.new"), "half").unwrap();
    fs::set_permissions(tls.join("tls.key.new"), fs::Permissions::from_mode(0o644)).unwrap();
    certs(folder.path(), &["tls", "--dns", NAME, "--renew"]).exits(0);
    assert!(!tls.join("tls.key.new").exists());
    assert_eq!(fs::metadata(tls.join("tls.key")).unwrap().permissions().mode() & 0o777, 0o600);
    believed(&tls, NAME).unwrap();
}
