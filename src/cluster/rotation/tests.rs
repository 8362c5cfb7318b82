use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use k8s_openapi::ByteString;

use super::super::secret;
use super::*;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const DURATIONS: Durations = Durations { certificate: HOUR.saturating_mul(24), ca: HOUR.saturating_mul(240) };

fn names() -> Vec<String> {
    vec!["fabric-injector.gpu.svc".to_owned()]
}

fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_hours(500_000)
}

fn made() -> Certificates {
    Certificates::new(&names(), DURATIONS, "", start()).unwrap()
}

fn verifies(bundle: &str, cert: &str, now: SystemTime) -> bool {
    check(bundle, cert, &names()[0], now).is_ok()
}

/// The certificates after the change that is due at that time, with the change.
fn reconciled(stored: &Certificates, trusted: &str, now: SystemTime) -> (Certificates, Option<Change>) {
    Certificates::reconciled(Some(stored.clone()), &names(), DURATIONS, trusted, now).unwrap()
}

fn change(stored: &Certificates, passed: Duration) -> Option<Change> {
    reconciled(stored, &stored.bundle(), start() + passed).1
}

#[test]
fn nothing_is_due_for_two_thirds_of_a_certificates_validity() {
    let first = made();
    assert_eq!(first.previous, None);
    for passed in [Duration::ZERO, HOUR, HOUR * 15] {
        assert_eq!(change(&first, passed), None, "{passed:?}");
    }
    let (renewed, change) = reconciled(&first, &first.bundle(), start() + HOUR * 16);
    assert_eq!(change, Some("renewed the serving certificate"));
    assert_eq!(renewed.ca, first.ca);
    assert_ne!(renewed.serving, first.serving);
}

/// Found by the fuzzer of certificates: a CA that can be read, and whose signatures nobody accepts, made the servers renew
/// their certificate each time.
#[test]
fn whichever_byte_of_the_ca_is_damaged_the_second_reconciliation_changes_nothing() {
    let first = made();
    let lines: Vec<&str> = first.ca.cert.lines().filter(|line| !line.starts_with('-')).collect();
    let der = STANDARD.decode(lines.concat()).unwrap();
    for at in (0..der.len()).step_by(4) {
        let mut damaged = der.clone();
        damaged[at] ^= 1;
        let mut stored = first.clone();
        stored.ca.cert =
            format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(damaged));
        let once =
            Certificates::reconciled(Some(stored), &names(), DURATIONS, &first.bundle(), start() + SECOND);
        // A damaged time looks like another clock's.
        let Ok((once, _)) = once else { continue };
        let (again, change) = reconciled(&once, &once.bundle(), start() + SECOND);
        assert_eq!(change, None, "byte {at}");
        assert!(verifies(&again.bundle(), &again.serving.cert, start() + SECOND), "byte {at}");
    }
}

/// Through two replacements of the CA, in steps of ten minutes.
#[test]
fn a_replica_or_an_api_server_that_is_late_verifies() {
    let mut stored = made();
    let mut seen = vec![stored.clone()];
    let mut all = Vec::new();
    for passed in 1..(400 * 6) {
        let now = start() + Duration::from_mins(10) * passed;
        let (next, change) = reconciled(&stored, &stored.bundle(), now);
        if let Some(change) = change {
            all.push(change);
            seen.push(std::mem::replace(&mut stored, next));
        }
        // A replica serves any former certificate until it expires.
        for late in &seen {
            let is_valid = lifetime(&late.serving.cert).1 >= now;
            assert_eq!(verifies(&stored.bundle(), &late.serving.cert, now), is_valid, "{passed}");
        }
        // A replica serves a certificate when its CA is in `caBundle`, and an API server knows a former `caBundle`.
        let last = seen.last().unwrap();
        assert!(stored.ca != last.ca || verifies(&last.bundle(), &stored.serving.cert, now), "{passed}");
    }
    let count = |change: Change| all.iter().filter(|one| **one == change).count();
    assert_eq!(count("replaced the CA and the serving certificate"), 2);
    assert_eq!(count("removed former CAs from `caBundle`"), 2);
    assert!(count("renewed the serving certificate") > 15);
}

#[test]
fn trusted_cas_stay_trusted_when_the_secret_is_lost() {
    let lost = made();
    let now = start() + HOUR;
    let trusted =
        format!("rubbish\n{}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", lost.bundle());
    let (made, change) = Certificates::reconciled(None, &names(), DURATIONS, &trusted, now).unwrap();
    assert_eq!(change, Some("made a new CA and a serving certificate"));
    assert!(verifies(&made.bundle(), &lost.serving.cert, now));
    assert!(verifies(&made.bundle(), &made.serving.cert, now));
    let (renewed, _) = reconciled(&made, &made.bundle(), now + HOUR * 23);
    assert_eq!(renewed.previous, made.previous);
    let (after, change) = reconciled(&renewed, &made.bundle(), now + HOUR * 24);
    assert_eq!(change, Some("removed former CAs from `caBundle`"));
    assert!(!verifies(&after.bundle(), &lost.serving.cert, now));
}

#[test]
fn damaged_certificates_are_replaced() {
    let (good, other) = (made(), made());
    let foreign_leaf = Certificates { serving: other.serving.clone(), ..good.clone() };
    let foreign_key = Authority { key: other.ca.key.clone(), ..good.ca.clone() };
    let foreign_key = Certificates { ca: foreign_key, ..good.clone() };
    let other_key = KeyPair { key: other.serving.key.clone(), ..good.serving.clone() };
    let other_key = Certificates { serving: other_key, ..good.clone() };
    let rubbish = KeyPair { cert: String::new(), key: String::new() };
    let rubbish = Certificates { serving: rubbish, ..good.clone() };
    let due = |stored: &Certificates| {
        let now = start() + SECOND;
        let (next, change) = reconciled(stored, &good.bundle(), now);
        assert!(verifies(&next.bundle(), &next.serving.cert, now));
        assert!(verifies(&next.bundle(), &good.serving.cert, now));
        change
    };
    assert_eq!(due(&good), None);
    for stored in [foreign_leaf, other_key, rubbish] {
        assert_eq!(due(&stored), Some("renewed the serving certificate"));
    }
    assert_eq!(due(&foreign_key), Some("replaced the CA and the serving certificate"));
}

/// The Secret of a version that made the next CA before it used it, and that kept the former one until it expired.
#[test]
fn a_secret_of_a_former_version_keeps_its_certificates() {
    let (good, next, former) = (made(), made(), made());
    let until = humantime::format_rfc3339_seconds(start() + HOUR).to_string();
    let stored = [
        ("tls.crt", &good.serving.cert),
        ("tls.key", &good.serving.key),
        ("ca.crt", &good.ca.cert),
        ("ca.key", &good.ca.key),
        ("next-ca.crt", &next.ca.cert),
        ("next-ca.key", &next.ca.key),
        ("previous-ca.crt", &former.ca.cert),
        ("previous-ca.until", &until),
    ];
    let bytes = |(key, text): (&str, &String)| (key.to_owned(), ByteString(text.clone().into_bytes()));
    let stored: BTreeMap<_, _> = stored.map(bytes).into();
    let parsed = secret::parse(&stored).unwrap();
    let registered = format!("{}{}{}", former.ca.cert, good.ca.cert, next.ca.cert);
    assert_eq!(reconciled(&parsed, &registered, start()), (parsed.clone(), None));
    assert_eq!(parsed.bundle(), format!("{}{}", former.ca.cert, good.ca.cert));
    // Its CA is due when it is that of the former version.
    let now = start() + HOUR * 160;
    let (replaced, change) = reconciled(&parsed, &registered, now);
    assert_eq!(change, Some("replaced the CA and the serving certificate"));
    for trusted in [&former, &good, &next] {
        assert!(pieces(&replaced.bundle()).any(|piece| piece == trusted.ca.cert));
    }
    let patch = secret::merge_patch(&replaced, "1");
    assert!(patch["data"]["next-ca.crt"].is_null() && patch["data"]["next-ca.key"].is_null(), "{patch}");
}

/// Go parses no certificate that does not begin a line.
#[test]
fn text_in_one_ca_does_not_invalidate_another() {
    let (good, other) = (made(), made());
    for pem in ["rubbish".to_owned(), other.ca.cert.trim().to_owned(), format!("x{}", other.ca.cert)] {
        let previous = Some(Previous { pem, until: start() });
        let bundle = Certificates { previous, ..good.clone() }.bundle();
        assert!(bundle.ends_with(&good.ca.cert), "{bundle}");
        assert!(bundle.lines().all(|line| !line.contains("-----") || line.starts_with("-----")), "{bundle}");
    }
}

#[test]
fn certificates_of_a_clock_that_is_ahead_are_kept() {
    let ahead = Certificates::new(&names(), DURATIONS, "", start() + HOUR * 300).unwrap();
    let error = Certificates::reconciled(Some(ahead), &names(), DURATIONS, "", start()).unwrap_err();
    assert!(error.to_string().contains("the clocks of the replicas differ"), "{error}");
}

#[test]
fn another_name_needs_another_certificate() {
    let first = made();
    let moved = vec!["fabric-injector.other.svc".to_owned()];
    let (next, change) =
        Certificates::reconciled(Some(first.clone()), &moved, DURATIONS, "", start()).unwrap();
    assert_eq!((change, &next.ca), (Some("renewed the serving certificate"), &first.ca));
    assert!(check(&next.bundle(), &next.serving.cert, &moved[0], start()).is_ok());
}
