use std::collections::BTreeSet;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const DURATIONS: Durations =
    Durations { certificate: HOUR.saturating_mul(24), ca: HOUR.saturating_mul(240), overlap: HOUR };

fn names() -> Vec<String> {
    vec!["fabric-injector.gpu.svc".to_owned()]
}

fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_hours(500_000)
}

fn bootstrap() -> Rotation {
    Rotation::bootstrap(&names(), DURATIONS, "", start()).unwrap()
}

fn verifies(bundle: &str, cert: &str, now: SystemTime) -> bool {
    check(bundle, cert, &names()[0], now).is_ok()
}

/// Takes all steps that are due at that time; `caBundle` follows each step.
fn advance(rotation: &mut Rotation, durations: Durations, now: SystemTime) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some((next, step)) = rotation.next_step(&names(), durations, &rotation.bundle(), now).unwrap() {
        *rotation = next;
        steps.push(step);
        assert!(steps.len() < 5, "{steps:?}");
    }
    steps
}

#[test]
fn nothing_is_due_for_two_thirds_of_a_certificates_validity() {
    let rotation = bootstrap();
    assert_eq!(rotation.previous, None);
    for passed in [Duration::ZERO, HOUR, HOUR * 15] {
        let due = rotation.next_step(&names(), DURATIONS, &rotation.bundle(), start() + passed).unwrap();
        assert!(due.is_none(), "{passed:?}");
    }
    let due = rotation.next_step(&names(), DURATIONS, &rotation.bundle(), start() + HOUR * 16).unwrap();
    let (renewed, step) = due.unwrap();
    assert_eq!(step, Step::Renew);
    assert_eq!(renewed.ca, rotation.ca);
    assert_ne!(renewed.serving, rotation.serving);
}

/// Through two changes of the CA, in steps of ten minutes.
#[test]
fn a_replica_or_an_api_server_that_is_late_by_less_than_the_overlap_verifies() {
    let mut rotation = bootstrap();
    let mut seen = vec![rotation.clone()];
    let mut all = Vec::new();
    for passed in 1..(400 * 6) {
        let now = start() + Duration::from_mins(10) * passed;
        all.extend(advance(&mut rotation, DURATIONS, now));
        seen.push(rotation.clone());
        // The states of the last 50 minutes, with an overlap of 60.
        let late = seen.iter().rev().take(6).map(|late| (late.bundle(), &late.serving.cert));
        for (bundle, cert) in late.collect::<BTreeSet<_>>() {
            assert!(verifies(&bundle, &rotation.serving.cert, now), "a late API server, {passed}");
            assert!(verifies(&rotation.bundle(), cert, now), "a late replica, {passed}");
        }
    }
    let count = |step: Step| all.iter().filter(|one| **one == step).count();
    assert_eq!([count(Step::AddNextCa), count(Step::ChangeCa), count(Step::DropPreviousCa)], [2, 2, 1]);
    assert_eq!(count(Step::Bootstrap), 0);
    assert!(count(Step::Renew) > 15);
}

/// A certificate that a replica serves long after the change of the CA, because it does not reach the API server.
#[test]
fn a_former_ca_is_trusted_until_it_expires() {
    let mut rotation = bootstrap();
    let first = rotation.clone();
    advance(&mut rotation, DURATIONS, start() + HOUR * 160);
    advance(&mut rotation, DURATIONS, start() + HOUR * 161);
    assert_ne!(rotation.ca, first.ca);
    let (late, end) = (start() + HOUR * 239, start() + HOUR * 240);
    advance(&mut rotation, DURATIONS, late);
    assert!(contains(&rotation.bundle(), &first.ca.cert));
    advance(&mut rotation, DURATIONS, end);
    assert!(!contains(&rotation.bundle(), &first.ca.cert));
}

/// Two end-to-end scenarios in a row: the CA is made for 45 seconds with an overlap of 4, and its successor when the
/// servers have restarted with the defaults, whose overlap is an hour.
#[test]
fn an_overlap_that_becomes_longer_than_the_ca_does_not_outlast_it() {
    let second = |passed: u32| start() + SECOND * passed;
    let short = Durations { certificate: SECOND * 24, ca: SECOND * 45, overlap: SECOND * 4 };
    let defaults = Durations { certificate: HOUR * 24 * 30, ca: HOUR * 24 * 365, overlap: HOUR };
    let mut rotation = Rotation::bootstrap(&names(), short, "", start()).unwrap();
    for passed in 1..=120 {
        let durations = if passed < 31 { short } else { defaults };
        let before = rotation.clone();
        let steps = advance(&mut rotation, durations, second(passed));
        assert!(!steps.contains(&Step::Bootstrap), "{passed}: {steps:?}");
        assert!(verifies(&before.bundle(), &before.serving.cert, second(passed)), "{passed}: it has expired");
        // An API server that has not yet read the new bundle.
        assert!(verifies(&before.bundle(), &rotation.serving.cert, second(passed)), "{passed}: {steps:?}");
    }
    assert!(rotation.time_left(second(120)) > HOUR);
}

#[test]
fn a_ca_that_is_not_in_the_bundle_signs_nothing() {
    let rotation = bootstrap();
    let now = start() + HOUR * 170;
    let mut waiting = rotation.clone();
    advance(&mut waiting, DURATIONS, now);
    assert!(waiting.next.is_some());
    let later = now + HOUR * 5;
    let (still, step) = waiting
        .next_step(&names(), DURATIONS, &rotation.ca.cert, later)
        .unwrap()
        .unwrap_or((waiting.clone(), Step::Renew));
    assert_eq!((still.ca, step), (rotation.ca, Step::Renew));
}

#[test]
fn trusted_cas_stay_trusted_when_the_secret_is_lost() {
    let lost = bootstrap();
    let now = start() + HOUR;
    let trusted =
        format!("rubbish\n{}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", lost.bundle());
    let mut made = Rotation::bootstrap(&names(), DURATIONS, &trusted, now).unwrap();
    assert!(verifies(&made.bundle(), &lost.serving.cert, now));
    assert!(verifies(&made.bundle(), &made.serving.cert, now));
    assert_eq!(advance(&mut made, DURATIONS, now + HOUR), [Step::DropPreviousCa]);
    assert!(!verifies(&made.bundle(), &lost.serving.cert, now + HOUR));
    // A replica that restores an older Secret keeps what another one had added in the meantime.
    let restored = lost.clone().trusting(&made.bundle(), DURATIONS, now);
    assert!(verifies(&restored.bundle(), &made.serving.cert, now));
    assert_eq!(lost.clone().trusting(&lost.bundle(), DURATIONS, now), lost);
}

#[test]
fn damaged_certificates_are_replaced() {
    let (good, other) = (bootstrap(), bootstrap());
    let foreign_leaf = Rotation { serving: other.serving.clone(), ..good.clone() };
    let foreign_key =
        Rotation { ca: Authority { key: other.ca.key.clone(), ..good.ca.clone() }, ..good.clone() };
    let other_key = KeyPair { key: other.serving.key.clone(), ..good.serving.clone() };
    let other_key = Rotation { serving: other_key, ..good.clone() };
    let lost_next = Authority { key: String::new(), ..other.ca.clone() };
    let lost_next = Rotation { next: Some(lost_next), ..good.clone() };
    let with_next = Rotation { next: Some(other.ca.clone()), ..foreign_key.clone() };
    let rubbish = Rotation { serving: KeyPair { cert: String::new(), key: String::new() }, ..good.clone() };
    let due = |rotation: &Rotation| {
        let due = rotation.next_step(&names(), DURATIONS, &good.bundle(), start() + SECOND).unwrap();
        due.map(|(next, step)| {
            assert!(verifies(&next.bundle(), &next.serving.cert, start() + SECOND));
            assert!(verifies(&next.bundle(), &good.serving.cert, start() + SECOND));
            step
        })
    };
    assert_eq!(due(&good), None);
    assert_eq!(due(&foreign_leaf), Some(Step::Renew));
    assert_eq!(due(&other_key), Some(Step::Renew));
    assert_eq!(due(&lost_next), Some(Step::AddNextCa));
    assert_eq!(due(&rubbish), Some(Step::Renew));
    assert_eq!(due(&foreign_key), Some(Step::Bootstrap));
    assert_eq!(due(&with_next), Some(Step::ChangeCa));
}

/// Go parses no certificate that does not begin a line.
#[test]
fn text_in_one_ca_does_not_invalidate_another() {
    let (good, other) = (bootstrap(), bootstrap());
    for pem in ["rubbish".to_owned(), other.ca.cert.trim().to_owned(), format!("x{}", other.ca.cert)] {
        let previous = Some(Previous { pem, until: start() });
        let bundle = Rotation { previous, ..good.clone() }.bundle();
        assert!(bundle.ends_with(&good.ca.cert), "{bundle}");
        assert!(bundle.lines().all(|line| !line.contains("-----") || line.starts_with("-----")), "{bundle}");
    }
}

#[test]
fn certificates_of_a_clock_that_is_ahead_are_kept() {
    let made = Rotation::bootstrap(&names(), DURATIONS, "", start() + HOUR * 300).unwrap();
    let error = made.next_step(&names(), DURATIONS, &made.bundle(), start()).unwrap_err();
    assert!(error.to_string().contains("the clocks of the replicas differ"), "{error}");
}

#[test]
fn another_name_needs_another_certificate() {
    let rotation = bootstrap();
    let moved = vec!["fabric-injector.other.svc".to_owned()];
    let (next, step) = rotation.next_step(&moved, DURATIONS, &rotation.bundle(), start()).unwrap().unwrap();
    assert_eq!((step, &next.ca), (Step::Renew, &rotation.ca));
    assert!(check(&next.bundle(), &next.serving.cert, &moved[0], start()).is_ok());
}
