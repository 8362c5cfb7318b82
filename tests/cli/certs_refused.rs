//! `certs`: what it refuses, and that nothing is left of it then.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use fabric_injector::authority::Authority;
use insta::assert_snapshot;
use tempfile::TempDir;

use super::certs::{NAME, believed, certs, content, issued};
use super::{Run, assert_file_snapshot, sections};

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
    let of = |missing: &str| {
        let folder = issued();
        fs::remove_file(folder.path().join("tls").join(missing)).unwrap();
        refused(&folder, &[]).recorded()
    };
    assert_snapshot!(of("ca.key"), @"
    exit status: 2
    ----- stderr -----
    error: tls/ca.crt exists, and tls/ca.key does not
    hint: provide both, or remove the former to get a new CA
    ");
    assert_snapshot!(of("ca.crt"), @"
    exit status: 2
    ----- stderr -----
    error: tls/ca.key exists, and tls/ca.crt does not
    hint: provide both, or remove the former to get a new CA
    ");
}

#[test]
fn a_key_of_another_ca_is_refused() {
    let folder = issued();
    let other = Authority::new(SystemTime::now()).unwrap();
    fs::write(folder.path().join("tls/ca.key"), other.key).unwrap();
    assert_snapshot!(refused(&folder, &[]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: the CA in tls cannot be used: the key of the CA does not match its certificate
    hint: provide the matching key, or remove the certificate and the key of the CA to get a new one, and put that into `caBundle`
    ");
}

#[test]
fn a_key_or_a_certificate_that_cannot_be_read_is_refused() {
    let of = |(file, text)| {
        let folder = issued();
        fs::write(folder.path().join("tls").join(file), text).unwrap();
        (format!("{file}: {text}"), refused(&folder, &[]).recorded())
    };
    let answers = [("ca.key", "secret"), ("ca.key", ""), ("ca.crt", "certificate"), ("ca.crt", "")].map(of);
    assert_file_snapshot!(sections(answers));
    let folder = issued();
    let key = folder.path().join("tls/ca.key");
    fs::remove_file(&key).unwrap();
    fs::create_dir(&key).unwrap();
    assert_snapshot!(refused(&folder, &[]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: tls/ca.key cannot be read: Is a directory (os error 21)
    ");
}

#[test]
fn the_certificate_of_a_server_is_no_ca() {
    let folder = issued();
    for (from, to) in [("tls.crt", "ca.crt"), ("tls.key", "ca.key")] {
        fs::copy(folder.path().join("tls").join(from), folder.path().join("tls").join(to)).unwrap();
    }
    assert_snapshot!(refused(&folder, &[]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: the CA in tls cannot be used: the certificate is that of a server or a client, not that of a CA
    ");
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
    let refused = |name: &&str| {
        let folder = tempfile::tempdir().unwrap();
        let run = certs(folder.path(), &["tls", &format!("--dns={name}")]);
        assert!(content(folder.path()).is_empty(), "{name}");
        run.recorded().replace(&format!("'{name}'"), "'NAME'")
    };
    let answers =
        |names: &[&str]| names.iter().map(refused).collect::<BTreeSet<_>>().into_iter().collect::<String>();
    let names = [
        "", "a b", "a..b", ".svc", "a.svc.", "-a", "a-", "a_b", "*", "a.*.svc", "ä.svc", "1", "a.1", "1.2.3",
        &long, &longer,
    ];
    assert_snapshot!(answers(&names), @"
    exit status: 2
    ----- stderr -----
    error: invalid value 'NAME' for '--dns <NAME>': write a DNS name, such as `fabric-injector.fabric-injector.svc`; addresses go with `--ip`

    For more information, try '--help'.
    ");
    assert_snapshot!(answers(&["10.0.0.1", "::1"]), @"
    exit status: 2
    ----- stderr -----
    error: invalid value 'NAME' for '--dns <NAME>': this is an address; addresses go with `--ip`

    For more information, try '--help'.
    ");
}

#[test]
fn bad_usage_is_told_before_anything_is_written() {
    let answers = [
        &["tls"][..],
        &["--dns", NAME],
        &["tls", "--dns", NAME, "--days", "0"],
        &["tls", "--dns", NAME, "--days", "3651"],
        &["tls", "--dns", NAME, "--days", "a year"],
        &["tls", "--ip", "localhost"],
        &["tls", "--ip", "10.0.0.1/8"],
    ]
    .map(|args| {
        let folder = tempfile::tempdir().unwrap();
        let run = certs(folder.path(), args);
        assert!(content(folder.path()).is_empty(), "{args:?}");
        (args.join(" "), run.recorded())
    });
    assert_file_snapshot!(sections(answers));
}

#[test]
fn a_file_where_the_folder_should_be_is_left_alone() {
    let folder = super::folder(&[("tls", "mine")]);
    assert_snapshot!(certs(folder.path(), &["tls", "--dns", NAME]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: tls is a file, not a directory
    ");
    assert_snapshot!(certs(folder.path(), &["tls/below", "--dns", NAME]).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: tls/below cannot be created: Not a directory (os error 20)
    ");
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
        assert_snapshot!(certs(folder.path(), &["/proc/self", "--dns", NAME]).recorded(), @"
        exit status: 2
        ----- stderr -----
        error: /proc/self/ca.key cannot be written: No such file or directory (os error 2)
        ");
    }
}

#[test]
fn one_file_that_cannot_be_written_keeps_all_others_as_they_were() {
    let answers = ["tls.crt", "tls.key.new", "tls.crt.new"].map(|taken| {
        let folder = tempfile::tempdir().unwrap();
        let tls = folder.path().join("tls");
        fs::create_dir_all(tls.join(taken)).unwrap();
        let run = certs(folder.path(), &["tls", "--dns", NAME, "--renew"]);
        let names: Vec<_> = content(&tls).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [taken], "no half of a CA or of a pair");
        (taken, run.recorded())
    });
    assert_snapshot!(sections(answers), @"
    ## tls.crt
    exit status: 2
    ----- stderr -----
    error: tls/tls.crt cannot be written: tls/tls.crt is a directory

    ## tls.key.new
    exit status: 2
    ----- stderr -----
    error: tls/tls.key cannot be written: tls/tls.key.new is a directory

    ## tls.crt.new
    exit status: 2
    ----- stderr -----
    error: tls/tls.crt cannot be written: tls/tls.crt.new is a directory
    ");
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
