//! The certificates that the replicas share, and the change that is due to them.
//!
//! A CA lasts for ten years, so that a new one is needed only after that, after a loss of the Secret, and on request. It
//! replaces the former one at once, because the former one stays in `caBundle` until its last certificate has expired,
//! and each [`Replica`](super::replica::Replica) waits until API servers know the new one.
//!
//! There is no Lease: of two replicas for which the same change is due, one writes the Secret, and the other one gets a
//! conflict, because the Secret is no longer the one that it read.

use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};

use crate::authority::{Authority, BACKDATE, KeyPair};
use crate::pem::Validity;

use super::certificate::{authorities, check, pieces};

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

/// The time in which every replica sees a change of the Secret and serves the certificate in it.
const CONVERGENCE: Duration = Duration::from_mins(1);

/// The configured durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durations {
    /// The validity of a new serving certificate.
    pub certificate: Duration,
    /// The validity of a new CA.
    pub ca: Duration,
}

/// The certificates that the replicas share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Certificates {
    /// The CA of the serving certificate.
    pub(super) ca: Authority,
    pub(super) serving: KeyPair,
    pub(super) previous: Option<Previous>,
}

/// Former CAs, whose certificates a replica may still serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Previous {
    /// The CA certificates, PEM.
    pub(super) pem: String,
    /// The time until which they are in `caBundle`.
    pub(super) until: SystemTime,
}

/// The change of a reconciliation, for the log.
pub(super) type Change = &'static str;

impl Certificates {
    /// A new CA with a certificate for these names. The CAs in `trusted`, PEM, stay in `caBundle` for as long as a
    /// certificate lasts.
    pub(super) fn new(
        names: &[String],
        durations: Durations,
        trusted: &str,
        now: SystemTime,
    ) -> anyhow::Result<Self> {
        let ca = Authority::with_duration(now, durations.ca)?;
        let serving = issue(&ca, names, durations, now)?;
        let mut pem = String::new();
        for piece in pieces(trusted).filter(|piece| lifetime(piece).1 >= now) {
            if !pem.contains(&piece) {
                pem.push_str(&piece);
            }
        }
        let until = now + durations.certificate.max(CONVERGENCE);
        Ok(Self { ca, serving, previous: (!pem.is_empty()).then_some(Previous { pem, until }) })
    }

    /// The CAs for `caBundle`, PEM.
    pub(super) fn bundle(&self) -> String {
        let previous = self.previous.as_ref().map(|previous| previous.pem.as_str());
        // Each is parsed by itself: foreign text in one does not invalidate another.
        [previous, Some(&self.ca.cert)].into_iter().flatten().map(authorities).collect()
    }

    /// The content that the Secret must have, given its current content, if that can be parsed. `trusted`, PEM, is the
    /// registered `caBundle`.
    pub(super) fn reconciled(
        stored: Option<Self>,
        names: &[String],
        durations: Durations,
        trusted: &str,
        now: SystemTime,
    ) -> anyhow::Result<(Self, Option<Change>)> {
        let Some(stored) = stored else {
            let new = Self::new(names, durations, trusted, now)?;
            return Ok((new, Some("made a new CA and a serving certificate")));
        };
        stored.check_clock(now)?;
        let replaced = || {
            let trusted = format!("{}{trusted}", stored.bundle());
            let new = Self::new(names, durations, &trusted, now)?;
            Ok((new, Some("replaced the CA and the serving certificate")))
        };
        if stored.ca.check_usable(now).is_err() || renewal(&stored.ca.cert) <= now {
            return replaced();
        }
        let is_right = |serving: &KeyPair| {
            let verifies = |name: &String| check(&stored.ca.cert, &serving.cert, name, now).is_ok();
            serving.matches() && names.iter().all(verifies)
        };
        if !is_right(&stored.serving) || renewal(&stored.serving.cert) <= now {
            let serving = issue(&stored.ca, names, durations, now)?;
            // What a damaged CA signs would be renewed again and again.
            if !is_right(&serving) {
                return replaced();
            }
            return Ok((Self { serving, ..stored }, Some("renewed the serving certificate")));
        }
        if stored.previous.as_ref().is_some_and(|previous| previous.until <= now) {
            return Ok((Self { previous: None, ..stored }, Some("removed former CAs from `caBundle`")));
        }
        Ok((stored, None))
    }

    /// A certificate from the future was made by a replica whose clock is ahead of this one. The other replica would
    /// undo any replacement.
    fn check_clock(&self, now: SystemTime) -> anyhow::Result<()> {
        for (what, pem) in [("the CA", &self.ca.cert), ("the certificate", &self.serving.cert)] {
            let Ok(validity) = Validity::parse(what, pem.as_bytes()) else { continue };
            let begin = humantime::format_rfc3339_seconds(validity.not_before);
            ensure!(
                now >= validity.not_before,
                "{what} in the Secret is not valid before {begin}: the clocks of the replicas differ"
            );
        }
        Ok(())
    }
}

/// A serving certificate that does not outlast its CA.
fn issue(ca: &Authority, names: &[String], durations: Durations, now: SystemTime) -> anyhow::Result<KeyPair> {
    let left = lifetime(&ca.cert).1.duration_since(now).context("the CA has expired")?;
    ca.issue(names, &[], now, durations.certificate.min(left))
}

/// The time at which two thirds of the validity have passed: a third is left to notice and repair a failed renewal.
fn renewal(cert: &str) -> SystemTime {
    let (made, end) = lifetime(cert);
    made + end.duration_since(made).unwrap_or_default() / 3 * 2
}

/// The times at which the certificate was made and at which it expires, long ago for a text that is none.
pub(super) fn lifetime(cert: &str) -> (SystemTime, SystemTime) {
    Validity::parse("the certificate", cert.as_bytes())
        .map_or((SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH), |validity| {
            (validity.not_before + BACKDATE, validity.not_after)
        })
}
