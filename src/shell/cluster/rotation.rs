//! What certificates there are, and what is due next. Text and time in, text out.
//!
//! A new CA is trusted before a certificate of it is served, and the old one for as long after: API servers learn of a
//! changed `caBundle` one after the other, and replicas of a new certificate as well.

use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};

use crate::shell::authority::{Authority, BACKDATE, Issued};
use crate::shell::pem::Validity;

use super::certificate::{authorities, check, contains};

/// How long things last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lives {
    /// A serving certificate; it is renewed at two thirds of this.
    pub certificate: Duration,
    /// A CA; its successor is made at two thirds of this.
    pub ca: Duration,
    /// For how long a CA is trusted before it is used, and after it was.
    pub overlap: Duration,
}

/// All that replicas have to agree about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rotation {
    /// The CA of the serving certificate.
    pub(super) ca: Authority,
    /// The serving certificate.
    pub(super) issued: Issued,
    /// The CA to come, and since when it is there.
    pub(super) next: Option<(Authority, SystemTime)>,
    /// CAs that certificates in use may still come from, PEM, and since when there is another.
    pub(super) previous: Option<(String, SystemTime)>,
}

/// What was done, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Renewed,
    NextCa,
    ChangedCa,
    DroppedCa,
    Afresh,
}

impl Step {
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::Renewed => "renewed the serving certificate",
            Self::NextCa => "made the next CA, which is trusted from now on",
            Self::ChangedCa => "changed to the next CA",
            Self::DroppedCa => "the previous CA is no longer trusted",
            Self::Afresh => "made a new CA and a serving certificate",
        }
    }
}

impl Rotation {
    /// A new CA with a certificate for these names. What is `trusted` now, PEM, stays so for a while, for replicas
    /// that go on with what they have.
    pub(super) fn afresh(
        names: &[String],
        lives: Lives,
        trusted: &str,
        now: SystemTime,
    ) -> anyhow::Result<Self> {
        let ca = Authority::with_life(now, lives.ca)?;
        let issued = issue(&ca, names, lives, now)?;
        let previous = authorities(trusted);
        Ok(Self { ca, issued, next: None, previous: (!previous.is_empty()).then_some((previous, now)) })
    }

    /// The CAs to trust, PEM.
    pub(super) fn bundle(&self) -> String {
        let previous = self.previous.as_ref().map(|(pem, _)| pem.as_str());
        let next = self.next.as_ref().map(|(next, _)| next.cert.as_str());
        // Each is read by itself: nothing that somebody wrote into one takes another with it.
        [previous, Some(&self.ca.cert), next].into_iter().flatten().map(authorities).collect()
    }

    /// The next thing that is due, if any is. `trusted`, PEM, is what API servers go by at the moment.
    pub(super) fn advanced(
        &self,
        names: &[String],
        lives: Lives,
        trusted: &str,
        now: SystemTime,
    ) -> anyhow::Result<Option<(Self, Step)>> {
        self.check_clock(now)?;
        let Some(ca) = self.usable_ca(now) else {
            return Ok(Some((Self::afresh(names, lives, trusted, now)?, Step::Afresh)));
        };
        let believed = self.issued.belongs_together()
            && names.iter().all(|name| check(&self.ca.cert, &self.issued.cert, name, now).is_ok());
        let next_is_lost = self.next.as_ref().is_some_and(|(next, _)| next.is_usable(now).is_err());
        let end = Validity::of("the certificate", self.issued.cert.as_bytes()).map_or(now, renewal);
        if let Some((next, since)) = &self.next
            && !next_is_lost
            && contains(trusted, &next.cert)
            && has_passed(*since, lives.overlap, now)
        {
            return Ok(Some((self.changed(next, names, lives, now)?, Step::ChangedCa)));
        }
        if !believed || now >= end {
            return Ok(Some((
                Self { issued: issue(&self.ca, names, lives, now)?, ..self.clone() },
                Step::Renewed,
            )));
        }
        if next_is_lost || self.next.is_none() && now >= renewal(ca) {
            let next = Some((Authority::with_life(now, lives.ca)?, now));
            return Ok(Some((Self { next, ..self.clone() }, Step::NextCa)));
        }
        if self.previous.as_ref().is_some_and(|(_, since)| has_passed(*since, lives.overlap, now)) {
            return Ok(Some((Self { previous: None, ..self.clone() }, Step::DroppedCa)));
        }
        Ok(None)
    }

    /// What begins in the future was made by a replica whose clock is ahead, or this one's is behind. Making it anew
    /// would be undone by the other.
    fn check_clock(&self, now: SystemTime) -> anyhow::Result<()> {
        for (what, pem) in [("the CA", &self.ca.cert), ("the certificate", &self.issued.cert)] {
            let Ok(validity) = Validity::of(what, pem.as_bytes()) else { continue };
            let begin = humantime::format_rfc3339_seconds(validity.not_before);
            ensure!(
                now >= validity.not_before,
                "{what} in the Secret is not valid before {begin}: the clocks of the servers differ"
            );
        }
        Ok(())
    }

    /// From when to when the CA is valid, if it is now and can sign.
    fn usable_ca(&self, now: SystemTime) -> Option<Validity> {
        let validity = Validity::of("the CA", self.ca.cert.as_bytes()).ok()?;
        self.ca.is_usable(now).is_ok().then_some(validity)
    }

    fn changed(
        &self,
        next: &Authority,
        names: &[String],
        lives: Lives,
        now: SystemTime,
    ) -> anyhow::Result<Self> {
        let before = self.previous.as_ref().map(|(pem, _)| pem.as_str()).unwrap_or_default();
        let previous = format!("{}{}", authorities(before), authorities(&self.ca.cert));
        Ok(Self {
            issued: issue(next, names, lives, now)?,
            ca: next.clone(),
            next: None,
            previous: Some((previous, now)),
        })
    }
}

/// A serving certificate that ends with its CA at the latest.
fn issue(ca: &Authority, names: &[String], lives: Lives, now: SystemTime) -> anyhow::Result<Issued> {
    let end = Validity::of("the CA", ca.cert.as_bytes())?.not_after;
    let left = end.duration_since(now).context("the CA has expired")?;
    ca.issue(names, &[], now, lives.certificate.min(left))
}

/// Two thirds of a life are over: a third is left to notice that it does not work.
fn renewal(validity: Validity) -> SystemTime {
    let made = validity.not_before + BACKDATE;
    made + validity.not_after.duration_since(made).unwrap_or_default() * 2 / 3
}

/// Whether so much time has passed since then. Other machines have other clocks: from the future, it has not.
fn has_passed(since: SystemTime, time: Duration, now: SystemTime) -> bool {
    now.duration_since(since).is_ok_and(|passed| passed >= time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_hours(1);
    const LIVES: Lives =
        Lives { certificate: HOUR.saturating_mul(24), ca: HOUR.saturating_mul(240), overlap: HOUR };

    fn names() -> Vec<String> {
        vec!["fabric-injector.gpu.svc".to_owned()]
    }

    fn start() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_hours(500_000)
    }

    fn believed(bundle: &str, cert: &str, now: SystemTime) -> bool {
        check(bundle, cert, &names()[0], now).is_ok()
    }

    /// Everything that is due at that time, one after the other; `caBundle` follows each step.
    fn advance(rotation: &mut Rotation, now: SystemTime) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some((next, step)) = rotation.advanced(&names(), LIVES, &rotation.bundle(), now).unwrap() {
            *rotation = next;
            steps.push(step);
            assert!(steps.len() < 5, "{steps:?}");
        }
        steps
    }

    #[test]
    fn nothing_is_due_for_two_thirds_of_a_certificates_life() {
        let rotation = Rotation::afresh(&names(), LIVES, "", start()).unwrap();
        assert_eq!(rotation.previous, None);
        for passed in [Duration::ZERO, HOUR, HOUR * 15] {
            let due = rotation.advanced(&names(), LIVES, &rotation.bundle(), start() + passed).unwrap();
            assert!(due.is_none(), "{passed:?}");
        }
        let due = rotation.advanced(&names(), LIVES, &rotation.bundle(), start() + HOUR * 16).unwrap();
        let (renewed, step) = due.unwrap();
        assert_eq!(step, Step::Renewed);
        assert_eq!(renewed.ca, rotation.ca);
        assert_ne!(renewed.issued, rotation.issued);
    }

    /// Through two changes of the CA, minute by minute: a replica and an API server that know the state of up to one
    /// overlap ago still believe each other.
    #[test]
    fn whoever_is_late_by_less_than_an_overlap_is_believed_and_believes() {
        let mut rotation = Rotation::afresh(&names(), LIVES, "", start()).unwrap();
        let mut seen = vec![rotation.clone()];
        let mut all = Vec::new();
        let step = Duration::from_mins(10);
        for round in 1..(400 * 6) {
            let now = start() + step * round;
            all.extend(advance(&mut rotation, now));
            seen.push(rotation.clone());
            // What was known up to 50 minutes ago, with an overlap of 60.
            for late in seen.iter().rev().take(6) {
                assert!(
                    believed(&late.bundle(), &rotation.issued.cert, now),
                    "an API server is late, {round}"
                );
                assert!(believed(&rotation.bundle(), &late.issued.cert, now), "a replica is late, {round}");
            }
        }
        let count = |step: Step| all.iter().filter(|one| **one == step).count();
        assert_eq!([count(Step::NextCa), count(Step::ChangedCa), count(Step::DroppedCa)], [2, 2, 2]);
        assert_eq!(count(Step::Afresh), 0);
        assert!(count(Step::Renewed) > 15);
    }

    #[test]
    fn a_ca_that_is_not_in_the_bundle_is_not_used_however_long_it_waits() {
        let rotation = Rotation::afresh(&names(), LIVES, "", start()).unwrap();
        let now = start() + HOUR * 170;
        let mut waiting = rotation.clone();
        advance(&mut waiting, now);
        assert!(waiting.next.is_some());
        let later = now + HOUR * 5;
        let (still, step) = waiting
            .advanced(&names(), LIVES, &rotation.ca.cert, later)
            .unwrap()
            .unwrap_or((waiting.clone(), Step::Renewed));
        assert_eq!((still.ca, step), (rotation.ca, Step::Renewed));
    }

    #[test]
    fn what_was_trusted_stays_so_when_all_is_lost() {
        let lost = Rotation::afresh(&names(), LIVES, "", start()).unwrap();
        let now = start() + HOUR;
        let trusted = format!(
            "rubbish\n{}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            lost.bundle()
        );
        let mut made = Rotation::afresh(&names(), LIVES, &trusted, now).unwrap();
        assert!(believed(&made.bundle(), &lost.issued.cert, now));
        assert!(believed(&made.bundle(), &made.issued.cert, now));
        assert_eq!(advance(&mut made, now + HOUR), [Step::DroppedCa]);
        assert!(!believed(&made.bundle(), &lost.issued.cert, now + HOUR));
    }

    #[test]
    fn what_somebody_broke_is_made_anew() {
        let good = Rotation::afresh(&names(), LIVES, "", start()).unwrap();
        let other = Rotation::afresh(&names(), LIVES, "", start()).unwrap();
        let foreign_leaf = Rotation { issued: other.issued.clone(), ..good.clone() };
        let foreign_key =
            Rotation { ca: Authority { key: other.ca.key.clone(), ..good.ca.clone() }, ..good.clone() };
        let other_key = Issued { key: other.issued.key.clone(), ..good.issued.clone() };
        let other_key = Rotation { issued: other_key, ..good.clone() };
        let lost_next = Authority { key: String::new(), ..other.ca.clone() };
        let lost_next = Rotation { next: Some((lost_next, start())), ..good.clone() };
        let rubbish = Rotation { issued: Issued { cert: String::new(), key: String::new() }, ..good.clone() };
        let due = |rotation: &Rotation| {
            let due = rotation.advanced(&names(), LIVES, &good.bundle(), start() + SECOND).unwrap();
            due.map(|(next, step)| {
                assert!(believed(&next.bundle(), &next.issued.cert, start() + SECOND));
                assert!(believed(&next.bundle(), &good.issued.cert, start() + SECOND));
                step
            })
        };
        assert_eq!(due(&good), None);
        assert_eq!(due(&foreign_leaf), Some(Step::Renewed));
        assert_eq!(due(&other_key), Some(Step::Renewed));
        assert_eq!(due(&lost_next), Some(Step::NextCa));
        assert_eq!(due(&rubbish), Some(Step::Renewed));
        assert_eq!(due(&foreign_key), Some(Step::Afresh));
    }

    /// Go reads no certificate that does not begin a line.
    #[test]
    fn what_somebody_wrote_into_the_bundle_takes_no_ca_with_it() {
        let good = Rotation::afresh(&names(), LIVES, "", start()).unwrap();
        let other = Rotation::afresh(&names(), LIVES, "", start()).unwrap();
        for previous in ["rubbish".to_owned(), other.ca.cert.trim().to_owned(), format!("x{}", other.ca.cert)]
        {
            let rotation = Rotation { previous: Some((previous, start())), ..good.clone() };
            let bundle = rotation.bundle();
            assert!(bundle.ends_with(&good.ca.cert), "{bundle}");
            assert!(
                bundle.lines().all(|line| !line.contains("-----") || line.starts_with("-----")),
                "{bundle}"
            );
        }
    }

    #[test]
    fn what_a_clock_that_is_ahead_made_is_not_made_anew() {
        let made = Rotation::afresh(&names(), LIVES, "", start() + HOUR * 300).unwrap();
        let error = made.advanced(&names(), LIVES, &made.bundle(), start()).unwrap_err();
        assert!(error.to_string().contains("the clocks of the servers differ"), "{error}");
    }

    #[test]
    fn another_name_needs_another_certificate() {
        let rotation = Rotation::afresh(&names(), LIVES, "", start()).unwrap();
        let moved = vec!["fabric-injector.other.svc".to_owned()];
        let (next, step) = rotation.advanced(&moved, LIVES, &rotation.bundle(), start()).unwrap().unwrap();
        assert_eq!((step, &next.ca), (Step::Renewed, &rotation.ca));
        assert!(check(&next.bundle(), &next.issued.cert, &moved[0], start()).is_ok());
    }
}
