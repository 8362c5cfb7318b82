//! The certificates that the replicas share, and the steps of their rotation.
//!
//! [`schedule`](super::schedule) decides which step is due; this module makes the keys and the certificates.

use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};

use crate::authority::{Authority, BACKDATE, KeyPair};
use crate::cluster::schedule::{Certificates, Durations, Lifetime, NextCa, Step, next_step};
use crate::pem::Validity;

use super::certificate::{authorities, check, contains, pieces};

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

/// The time in which every replica sees a change of the Secret and serves the certificate in it.
const CONVERGENCE: Duration = Duration::from_mins(1);

/// The certificates that the replicas share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rotation {
    /// The CA of the serving certificate.
    pub(super) ca: Authority,
    pub(super) serving: KeyPair,
    /// The CA that replaces the current one.
    pub(super) next: Option<Authority>,
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

/// The change that a step makes, for the log.
pub(super) fn sentence(step: Step) -> &'static str {
    match step {
        Step::Renew => "renewed the serving certificate",
        Step::AddNextCa => "made the next CA and added it to `caBundle`",
        Step::ChangeCa => "changed to the next CA",
        Step::DropPreviousCa => "removed expired CAs from `caBundle`",
        Step::Bootstrap => "made a new CA and a serving certificate",
    }
}

impl Rotation {
    /// A new CA with a certificate for these names. The CAs in `trusted`, PEM, stay in `caBundle` until all replicas
    /// serve the new certificate.
    pub(super) fn bootstrap(
        names: &[String],
        durations: Durations,
        trusted: &str,
        now: SystemTime,
    ) -> anyhow::Result<Self> {
        let ca = Authority::with_duration(now, durations.ca)?;
        let serving = issue(&ca, names, durations, now)?;
        Ok(Self { ca, serving, next: None, previous: None }.trusting(trusted, durations, now))
    }

    /// The same certificates, with the CAs in `trusted`, PEM, kept in `caBundle` until all replicas serve them.
    pub(super) fn trusting(self, trusted: &str, durations: Durations, now: SystemTime) -> Self {
        let bundle = self.bundle();
        let pieces = pieces(trusted).filter(|ca| !contains(&bundle, ca) && !has_expired(ca, now));
        let extra: String = pieces.collect();
        self.with_previous(&extra, now + durations.overlap.max(CONVERGENCE), now)
    }

    /// The CAs for `caBundle`, PEM.
    pub(super) fn bundle(&self) -> String {
        let previous = self.previous.as_ref().map(|previous| previous.pem.as_str());
        let next = self.next.as_ref().map(|next| next.cert.as_str());
        // Each is parsed by itself: foreign text in one does not invalidate another.
        [previous, Some(&self.ca.cert), next].into_iter().flatten().map(authorities).collect()
    }

    /// The certificates after the step that is due, if any is. `trusted`, PEM, is the registered `caBundle`.
    pub(super) fn next_step(
        &self,
        names: &[String],
        durations: Durations,
        trusted: &str,
        now: SystemTime,
    ) -> anyhow::Result<Option<(Self, Step)>> {
        self.check_clock(now)?;
        let certificates = self.certificates(names, trusted, now);
        let Some(step) = next_step(&certificates, durations, since_epoch(now)) else { return Ok(None) };
        let next = match (step, &self.next) {
            (Step::Renew, _) => Self { serving: issue(&self.ca, names, durations, now)?, ..self.clone() },
            (Step::AddNextCa, _) => {
                Self { next: Some(Authority::with_duration(now, durations.ca)?), ..self.clone() }
            }
            (Step::ChangeCa, Some(next)) => self.changed(next, names, durations, now)?,
            (Step::DropPreviousCa, _) => Self { previous: None, ..self.clone() },
            (Step::Bootstrap | Step::ChangeCa, _) => {
                let trusted = format!("{}{}", self.bundle(), authorities(trusted));
                Self::bootstrap(names, durations, &trusted, now)?
            }
        };
        Ok(Some((next, step)))
    }

    /// The shortest remaining validity of the certificates in use.
    pub(super) fn time_left(&self, now: SystemTime) -> Duration {
        time_left(&self.serving.cert, now).min(time_left(&self.ca.cert, now))
    }

    fn certificates(&self, names: &[String], trusted: &str, now: SystemTime) -> Certificates {
        let verifies = self.serving.matches()
            && names.iter().all(|name| check(&self.ca.cert, &self.serving.cert, name, now).is_ok());
        let usable = |ca: &Authority| ca.check_usable(now).is_ok().then(|| lifetime(&ca.cert)).flatten();
        Certificates {
            ca: usable(&self.ca),
            serving: verifies.then(|| lifetime(&self.serving.cert)).flatten(),
            next: match &self.next {
                None => NextCa::Absent,
                Some(next) => usable(next).map_or(NextCa::Unusable, |lifetime| NextCa::Usable {
                    lifetime,
                    trusted: contains(trusted, &next.cert),
                }),
            },
            previous_until: self.previous.as_ref().map(|previous| since_epoch(previous.until)),
        }
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

    /// The current CA stays in `caBundle` until it expires. No certificate of it is rejected, whichever replica serves
    /// it and for however long.
    fn changed(
        &self,
        next: &Authority,
        names: &[String],
        durations: Durations,
        now: SystemTime,
    ) -> anyhow::Result<Self> {
        let serving = issue(next, names, durations, now)?;
        let changed = Self { ca: next.clone(), serving, next: None, previous: self.previous.clone() };
        let until = lifetime(&self.ca.cert).map_or(now, |ca| SystemTime::UNIX_EPOCH + ca.end);
        Ok(changed.with_previous(&authorities(&self.ca.cert), until, now))
    }

    /// Adds former CAs, and drops those that have expired.
    fn with_previous(mut self, pem: &str, until: SystemTime, now: SystemTime) -> Self {
        if pem.is_empty() {
            return self;
        }
        let before = self.previous.take();
        let until = before.as_ref().map_or(until, |before| until.max(before.until));
        let before = before.map(|before| before.pem).unwrap_or_default();
        let kept: String = pieces(&before).filter(|ca| !has_expired(ca, now)).collect();
        Self { previous: Some(Previous { pem: format!("{kept}{pem}"), until }), ..self }
    }
}

/// A serving certificate that does not outlast its CA.
fn issue(ca: &Authority, names: &[String], durations: Durations, now: SystemTime) -> anyhow::Result<KeyPair> {
    let end = Validity::parse("the CA", ca.cert.as_bytes())?.not_after;
    let left = end.duration_since(now).context("the CA has expired")?;
    ca.issue(names, &[], now, durations.certificate.min(left))
}

fn lifetime(cert: &str) -> Option<Lifetime> {
    let validity = Validity::parse("the certificate", cert.as_bytes()).ok()?;
    let start = since_epoch(validity.not_before) + BACKDATE;
    Some(Lifetime { start, end: since_epoch(validity.not_after) })
}

/// The time since the certificate was made.
pub(super) fn age(cert: &str, now: SystemTime) -> Duration {
    lifetime(cert).map_or(Duration::ZERO, |lifetime| since_epoch(now).saturating_sub(lifetime.start))
}

/// The time until the certificate expires.
pub(super) fn time_left(cert: &str, now: SystemTime) -> Duration {
    end(cert).saturating_sub(since_epoch(now))
}

/// The time at which the certificate expires.
pub(super) fn end(cert: &str) -> Duration {
    lifetime(cert).map_or(Duration::ZERO, |lifetime| lifetime.end)
}

fn has_expired(cert: &str, now: SystemTime) -> bool {
    lifetime(cert).is_none_or(|lifetime| lifetime.end < since_epoch(now))
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
