//! The certificates as one replica sees them: those in the Secret, their CA in `caBundle`, and the certificate that it
//! serves.

use std::time::SystemTime;

use tokio::time::Duration;

use crate::authority::{BACKDATE, KeyPair};

use super::certificate::authorities;
use super::rotation::{Certificates, lifetime};

/// The time between writing a CA to `caBundle` and serving a certificate of it. API servers watch their
/// webhook configurations, so that they learn of a change within milliseconds.
const PROPAGATION: Duration = Duration::from_secs(2);
/// The age from which a CA is taken to be known to every API server, for a replica that has just started: longer than
/// the clock of the replica that made it may be behind.
const SETTLED: Duration = BACKDATE.saturating_mul(2);

/// One replica.
#[derive(Debug, Default)]
pub(super) struct Replica {
    /// The content of the Secret when it was last read or written.
    known: Option<Certificates>,
    /// The CA of that, PEM, and the time since the start of the replica since which it is in the registered `caBundle`.
    trusted: Option<(String, Duration)>,
    serving: Option<KeyPair>,
}

impl Replica {
    /// Records the content of the Secret, and the `caBundle`, PEM, that was registered `elapsed` after the start of the
    /// replica.
    pub(super) fn record(&mut self, certificates: &Certificates, bundle: &str, elapsed: Duration) {
        let ca = &certificates.ca.cert;
        let since =
            self.trusted.take().filter(|(trusted, _)| trusted == ca).map_or(elapsed, |(_, since)| since);
        if authorities(bundle).contains(&authorities(ca)) {
            self.trusted = Some((ca.clone(), since));
        }
        self.known = Some(certificates.clone());
    }

    /// The key pair to serve from now on, if it has changed. One that expires gives way to any that is registered.
    pub(super) fn serve(&mut self, now: SystemTime, elapsed: Duration) -> Option<KeyPair> {
        let known = self.known.as_ref().filter(|known| self.serving.as_ref() != Some(&known.serving))?;
        let (ca, since) = self.trusted.as_ref()?;
        let (made, _) = lifetime(ca);
        let expires = |serving: &KeyPair| lifetime(&serving.cert).1 <= now + PROPAGATION;
        let is_known = elapsed.saturating_sub(*since) >= PROPAGATION || made + SETTLED <= now;
        if !is_known && !self.serving.as_ref().is_some_and(expires) {
            return None;
        }
        self.serving = Some(known.serving.clone());
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
        let known = self.known.iter().flat_map(|known| [&known.ca.cert, &known.serving.cert]);
        let certificates = known.chain(self.serving.iter().map(|serving| &serving.cert));
        let left = certificates.map(|cert| lifetime(cert).1.duration_since(now).unwrap_or_default());
        left.min().unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rotation::Durations;
    use super::*;

    const DURATIONS: Durations =
        Durations { certificate: Duration::from_hours(1), ca: Duration::from_hours(10) };

    /// A starting replica reads a CA that another one has just made.
    fn serves_at_once(clock_ahead: Duration) -> bool {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
        let names = ["fabric-injector.gpu.svc".to_owned()];
        let certificates = Certificates::new(&names, DURATIONS, "", now).unwrap();
        let mut replica = Replica::default();
        replica.record(&certificates, &certificates.bundle(), Duration::ZERO);
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
        let certificates = Certificates::new(&names, DURATIONS, "", now).unwrap();
        let mut replica = Replica::default();
        replica.record(&certificates, &certificates.bundle(), Duration::ZERO);
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
