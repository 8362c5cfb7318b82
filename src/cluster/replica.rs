//! The certificates as one replica sees them: those in the Secret, the CAs in `caBundle`, and the certificate that it
//! serves.

use std::collections::BTreeMap;
use std::time::SystemTime;

use tokio::time::Duration;

use crate::authority::{BACKDATE, KeyPair};
use crate::cluster::schedule::{Durations, PROPAGATION, Step, may_serve};

use super::certificate::pieces;
use super::rotation::{Rotation, age, end, sentence, time_left};

/// The age from which a CA is taken to be known to every API server, for a replica that has just started: longer than
/// the clock of the replica that made it may be behind.
const SETTLED: Duration = BACKDATE.saturating_mul(2);

/// One replica.
#[derive(Debug, Default)]
pub(super) struct Replica {
    /// The content of the Secret when it was last read or written.
    known: Option<Rotation>,
    /// The CAs in `caBundle`, PEM, each with the time at which the replica first read it there.
    trusted: BTreeMap<String, Seen>,
    has_observed: bool,
    serving: Option<KeyPair>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    BeforeTheStart,
    /// The time since the start of the replica.
    At(Duration),
}

/// The content that the Secret must have.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Agreed {
    Unchanged(Rotation),
    /// The Secret must be written; with a sentence for the log.
    Changed(Rotation, &'static str),
}

impl Replica {
    /// Records the registered `caBundle`, PEM, at `elapsed` since the start of the replica.
    pub(super) fn observe(&mut self, bundle: &str, now: SystemTime, elapsed: Duration) {
        let is_first = !std::mem::replace(&mut self.has_observed, true);
        let before = std::mem::take(&mut self.trusted);
        self.trusted = pieces(bundle)
            .map(|ca| {
                let seen = match before.get(&ca) {
                    Some(seen) => *seen,
                    None if is_first && age(&ca, now) >= SETTLED => Seen::BeforeTheStart,
                    None => Seen::At(elapsed),
                };
                (ca, seen)
            })
            .collect();
    }

    /// The content that the Secret must have, given its current content, if that can be parsed. `trusted` is the
    /// registered `caBundle`, PEM.
    pub(super) fn agree(
        &self,
        stored: Option<Rotation>,
        names: &[String],
        durations: Durations,
        trusted: &str,
        now: SystemTime,
    ) -> anyhow::Result<Agreed> {
        Ok(match (stored, &self.known) {
            (Some(stored), _) => match stored.next_step(names, durations, trusted, now)? {
                Some((rotation, step)) => Agreed::Changed(rotation, sentence(step)),
                None => Agreed::Unchanged(stored),
            },
            // The Secret was deleted or damaged, and the served certificate is still good.
            (None, Some(known)) => {
                Agreed::Changed(known.clone().trusting(trusted, durations, now), "restored the Secret")
            }
            (None, None) => Agreed::Changed(
                Rotation::bootstrap(names, durations, trusted, now)?,
                sentence(Step::Bootstrap),
            ),
        })
    }

    /// Records the content of the Secret.
    pub(super) fn record(&mut self, rotation: &Rotation) {
        self.known = Some(rotation.clone());
    }

    /// The key pair to serve from now on, if it has changed.
    pub(super) fn serve(&mut self, now: SystemTime, elapsed: Duration) -> Option<KeyPair> {
        let rotation = self.known.as_ref().filter(|known| self.serving.as_ref() != Some(&known.serving))?;
        let trusted_for = match self.trusted.get(&pieces(&rotation.ca.cert).next()?)? {
            Seen::BeforeTheStart => Duration::MAX,
            Seen::At(since) => elapsed.saturating_sub(*since),
        };
        let served_until = self.serving.as_ref().map(|serving| end(&serving.cert));
        if !may_serve(
            trusted_for,
            served_until,
            now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
        ) {
            return None;
        }
        self.serving = Some(rotation.serving.clone());
        self.serving.clone()
    }

    /// The time until the next reconciliation: a fraction of the remaining validity of the certificates in use, which
    /// suits any configured duration. A certificate that is not served yet is served as soon as API servers know its CA.
    pub(super) fn interval(&self, longest: Duration, now: SystemTime) -> Duration {
        const SHORTEST: Duration = Duration::from_millis(250);
        let is_served = self.known.as_ref().map(|known| &known.serving) == self.serving.as_ref();
        let longest = if is_served { longest } else { longest.min(PROPAGATION) };
        (self.time_left(now) / 8).clamp(SHORTEST.min(longest), longest)
    }

    /// The shortest remaining validity among the certificates that the replica knows.
    pub(super) fn time_left(&self, now: SystemTime) -> Duration {
        let known = self.known.as_ref().map(|known| known.time_left(now));
        let serving = self.serving.as_ref().map(|serving| time_left(&serving.cert, now));
        known.into_iter().chain(serving).min().unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATIONS: Durations = Durations {
        certificate: Duration::from_hours(1),
        ca: Duration::from_hours(10),
        overlap: Duration::from_hours(1),
    };

    /// A starting replica reads a CA that another one has just made.
    fn serves_at_once(clock_ahead: Duration) -> bool {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
        let names = ["fabric-injector.gpu.svc".to_owned()];
        let rotation = Rotation::bootstrap(&names, DURATIONS, "", now).unwrap();
        let mut replica = Replica::default();
        replica.observe(&rotation.bundle(), now + clock_ahead, Duration::ZERO);
        replica.record(&rotation);
        let at_once = replica.serve(now + clock_ahead, Duration::ZERO).is_some();
        let later = replica.serve(now + clock_ahead, Duration::from_secs(2)).is_some();
        assert_ne!(at_once, later, "it serves the certificate once");
        at_once
    }

    /// Each reading of the Secret is an entry in the audit log.
    #[test]
    fn an_idle_replica_rarely_reads_its_objects_and_one_with_a_new_certificate_serves_it_soon() {
        const LONGEST: Duration = Duration::from_secs(30);
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
        let names = ["fabric-injector.gpu.svc".to_owned()];
        let rotation = Rotation::bootstrap(&names, DURATIONS, "", now).unwrap();
        let mut replica = Replica::default();
        replica.observe(&rotation.bundle(), now, Duration::ZERO);
        replica.record(&rotation);
        assert_eq!(replica.interval(LONGEST, now), PROPAGATION);
        assert!(replica.serve(now, PROPAGATION).is_some());
        assert_eq!(replica.interval(LONGEST, now), LONGEST);
    }

    #[test]
    fn a_clock_that_is_ahead_does_not_make_a_ca_known_to_api_servers() {
        assert!(!serves_at_once(Duration::ZERO));
        assert!(!serves_at_once(BACKDATE));
        assert!(serves_at_once(SETTLED));
    }
}
