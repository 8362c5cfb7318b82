//! What certificates there are, and what is due next. Text and time in, text out.
//!
//! A new CA is trusted before a certificate of it is served, and the old one for as long after: API servers learn of a
//! changed `caBundle` one after the other, and replicas of a new certificate as well.

use std::time::{Duration, SystemTime};

use anyhow::Context;

use crate::authority::{Authority, BACKDATE, Issued};
use crate::pem::Validity;

use super::certificate::{check, still_valid};

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
        let previous = still_valid(trusted, now);
        Ok(Self { ca, issued, next: None, previous: (!previous.is_empty()).then_some((previous, now)) })
    }

    /// The CAs to trust, PEM.
    pub(super) fn bundle(&self) -> String {
        let previous = self.previous.as_ref().map(|(pem, _)| pem.as_str());
        let next = self.next.as_ref().map(|(next, _)| next.cert.as_str());
        [previous, Some(&self.ca.cert), next].into_iter().flatten().collect()
    }

    /// The next thing that is due, if any is. `trusted`, PEM, is what API servers go by at the moment.
    pub(super) fn advanced(
        &self,
        names: &[String],
        lives: Lives,
        trusted: &str,
        now: SystemTime,
    ) -> anyhow::Result<Option<(Self, Step)>> {
        let Some(ca) = self.usable_ca(now) else {
            return Ok(Some((Self::afresh(names, lives, trusted, now)?, Step::Afresh)));
        };
        let believed = names.iter().all(|name| check(&self.ca.cert, &self.issued.cert, name, now).is_ok());
        let end = Validity::of("the certificate", self.issued.cert.as_bytes()).map_or(now, renewal);
        if let Some((next, since)) = &self.next
            && trusted.contains(&next.cert)
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
        if self.next.is_none() && now >= renewal(ca) {
            let next = Some((Authority::with_life(now, lives.ca)?, now));
            return Ok(Some((Self { next, ..self.clone() }, Step::NextCa)));
        }
        if self.previous.as_ref().is_some_and(|(_, since)| has_passed(*since, lives.overlap, now)) {
            return Ok(Some((Self { previous: None, ..self.clone() }, Step::DroppedCa)));
        }
        Ok(None)
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
        let previous = still_valid(&format!("{before}{}", self.ca.cert), now);
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
