//! The schedule for replacing serving certificates and CAs.
//!
//! [`next_step`] is a total function of what exists, the configured durations and the time. It guarantees two things
//! for every configuration, however it changes: a CA is in `caBundle` before a certificate of it is served, and stays
//! there until it expires; and a successor is due while at least half of the remaining validity is left. Times are
//! durations since the Unix epoch.

use std::time::Duration;

/// The time between writing a CA to `caBundle` and serving a certificate of it. API servers watch their
/// webhook configurations, so that they learn of a change within milliseconds.
pub(crate) const PROPAGATION: Duration = Duration::from_secs(2);

/// The configured durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durations {
    /// The validity of a new serving certificate.
    pub certificate: Duration,
    /// The validity of a new CA.
    pub ca: Duration,
    /// How long a new CA is in `caBundle` before it signs serving certificates.
    pub overlap: Duration,
}

/// The validity of a certificate, without the part before it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lifetime {
    /// The time at which the certificate was made.
    pub(crate) start: Duration,
    /// The time at which it expires.
    pub(crate) end: Duration,
}

impl Lifetime {
    fn length(self) -> Duration {
        self.end.saturating_sub(self.start)
    }

    /// The time at which two thirds have passed: a third is left to notice and repair a failed renewal.
    fn renewal(self) -> Duration {
        self.start + self.length() / 3 * 2
    }
}

/// The CA that replaces the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextCa {
    /// There is none.
    Absent,
    /// It has expired, or cannot sign.
    Unusable,
    /// It can sign.
    Usable {
        lifetime: Lifetime,
        /// It is in the registered `caBundle`.
        trusted: bool,
    },
}

/// The certificates that the replicas share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Certificates {
    /// The present CA, if it is valid and can sign.
    pub(crate) ca: Option<Lifetime>,
    /// The serving certificate, if clients that trust the present CA accept it.
    pub(crate) serving: Option<Lifetime>,
    /// The CA that replaces the present one.
    pub(crate) next: NextCa,
    /// The time until which former CAs are in `caBundle`.
    pub(crate) previous_until: Option<Duration>,
}

/// A change to the certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The present CA signs another serving certificate.
    Renew,
    /// Another CA is made, which replaces the current one later.
    AddNextCa,
    /// The next CA becomes the current one and signs a serving certificate.
    ChangeCa,
    /// Former CAs leave `caBundle`.
    DropPreviousCa,
    /// Another CA and a serving certificate are made; no usable CA exists.
    Bootstrap,
}

/// The change that is due at `now`, if any.
pub(crate) fn next_step(certificates: &Certificates, durations: Durations, now: Duration) -> Option<Step> {
    let Some(ca) = certificates.ca else {
        return Some(match certificates.next {
            NextCa::Usable { .. } => Step::ChangeCa,
            NextCa::Absent | NextCa::Unusable => Step::Bootstrap,
        });
    };
    match certificates.next {
        NextCa::Usable { lifetime, trusted: true } if now >= change(ca, lifetime, durations.overlap) => {
            return Some(Step::ChangeCa);
        }
        NextCa::Usable { .. } | NextCa::Absent | NextCa::Unusable => {}
    }
    // A certificate that ends with its CA is replaced by one of the next CA.
    if certificates.serving.is_none_or(|serving| serving.end < ca.end && now >= serving.renewal()) {
        return Some(Step::Renew);
    }
    match certificates.next {
        NextCa::Unusable => return Some(Step::AddNextCa),
        NextCa::Absent if now >= next_ca_due(ca, durations.overlap) => return Some(Step::AddNextCa),
        NextCa::Usable { .. } | NextCa::Absent => {}
    }
    certificates.previous_until.is_some_and(|until| now >= until).then_some(Step::DropPreviousCa)
}

/// The time at which the next CA is made: early enough for the whole overlap to fit in half of the remaining time.
fn next_ca_due(ca: Lifetime, overlap: Duration) -> Duration {
    ca.renewal().min(ca.end.saturating_sub(overlap.saturating_mul(2)))
}

/// The time at which the next CA replaces the current one. The overlap may have been configured after either was made,
/// so it is bounded by half of the remaining validity of the current CA, and by a quarter of that of the next one.
fn change(ca: Lifetime, next: Lifetime, overlap: Duration) -> Duration {
    let left = ca.end.saturating_sub(next.start);
    next.start + overlap.min(left / 2).min(next.length() / 4)
}

/// Returns whether a replica starts to serve a certificate whose CA it has seen in `caBundle` for this time.
/// `served_until` is the end of the certificate that it serves now.
pub(crate) fn may_serve(trusted_for: Duration, served_until: Option<Duration>, now: Duration) -> bool {
    trusted_for >= PROPAGATION || served_until.is_some_and(|end| end <= now.saturating_add(PROPAGATION))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_hours(1);
    const DAY: Duration = Duration::from_hours(24);
    const NOW: Duration = Duration::from_hours(500_000);
    const DEFAULTS: Durations =
        Durations { certificate: DAY.saturating_mul(30), ca: DAY.saturating_mul(365), overlap: HOUR };

    fn lifetime(age: Duration, left: Duration) -> Lifetime {
        Lifetime { start: NOW.saturating_sub(age), end: NOW + left }
    }

    fn certificates(ca: Lifetime, next: NextCa) -> Certificates {
        Certificates { ca: Some(ca), serving: Some(ca), next, previous_until: None }
    }

    /// A CA of 45 seconds is 30 seconds old, its successor is in `caBundle`, and the overlap becomes an hour.
    #[test]
    fn the_overlap_is_bounded_by_what_is_left_of_the_present_ca() {
        let ca = lifetime(SECOND * 30, SECOND * 15);
        let next = |age: u32| NextCa::Usable { lifetime: lifetime(SECOND * age, SECOND * 45), trusted: true };
        assert_eq!(next_step(&certificates(ca, next(0)), DEFAULTS, NOW), None);
        let later = certificates(lifetime(SECOND * 38, SECOND * 7), next(8));
        assert_eq!(next_step(&later, DEFAULTS, NOW), Some(Step::ChangeCa));
    }

    #[test]
    fn the_next_ca_is_made_early_for_an_overlap_that_has_become_longer() {
        let young = certificates(lifetime(SECOND, SECOND * 44), NextCa::Absent);
        let short = Durations { overlap: SECOND * 4, ..DEFAULTS };
        assert_eq!(next_step(&young, short, NOW), None);
        assert_eq!(next_step(&young, DEFAULTS, NOW), Some(Step::AddNextCa));
    }

    #[test]
    fn a_next_ca_replaces_an_expired_one_at_once() {
        let next = NextCa::Usable { lifetime: lifetime(SECOND, DAY), trusted: false };
        let expired = Certificates { ca: None, serving: None, next, previous_until: None };
        assert_eq!(next_step(&expired, DEFAULTS, NOW), Some(Step::ChangeCa));
        for next in [NextCa::Absent, NextCa::Unusable] {
            assert_eq!(next_step(&Certificates { next, ..expired }, DEFAULTS, NOW), Some(Step::Bootstrap));
        }
    }

    #[test]
    fn a_certificate_that_ends_with_its_ca_is_not_renewed() {
        let ca = lifetime(DAY, HOUR);
        let serving = |end: Duration| Some(Lifetime { start: NOW.saturating_sub(DAY), end });
        let next = NextCa::Usable { lifetime: lifetime(SECOND, DAY), trusted: false };
        let state = |end| Certificates { serving: serving(end), ..certificates(ca, next) };
        assert_eq!(next_step(&state(ca.end), DEFAULTS, NOW), None);
        assert_eq!(next_step(&state(ca.end.saturating_sub(SECOND)), DEFAULTS, NOW), Some(Step::Renew));
    }

    #[test]
    fn no_duration_overflows() {
        let far = Lifetime { start: Duration::ZERO, end: Duration::from_secs(u64::MAX / 4) };
        let long = Durations { certificate: far.end, ca: far.end, overlap: Duration::MAX };
        let next = NextCa::Usable { lifetime: far, trusted: true };
        for next in [next, NextCa::Absent, NextCa::Unusable] {
            let state = Certificates { previous_until: Some(Duration::MAX), ..certificates(far, next) };
            for now in [Duration::ZERO, far.end] {
                let _ = next_step(&state, long, now);
            }
        }
    }

    #[test]
    fn a_ca_has_to_reach_api_servers_unless_the_certificate_ends_before_that() {
        assert!(may_serve(PROPAGATION, None, NOW));
        assert!(!may_serve(SECOND, None, NOW));
        assert!(!may_serve(SECOND, Some(NOW + HOUR), NOW));
        assert!(may_serve(SECOND, Some(NOW + SECOND), NOW));
        assert!(may_serve(SECOND, Some(NOW.saturating_sub(SECOND)), NOW));
    }
}
