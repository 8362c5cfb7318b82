//! The checks behind `/readyz`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use crate::authority::BACKDATE;
use crate::pem::Validity;
use crate::telemetry::Reloaded;

/// The name of the reconciliation in `/readyz`.
pub(super) const REGISTRATION: &str = "registration";
/// The name of the Events in `/readyz`.
pub(super) const EVENTS: &str = "events";
/// The name of the registered conditions in `/readyz`.
pub(super) const CONDITIONS: &str = "conditions";
/// Readiness ends this long before the certificate expires.
const BEFORE_EXPIRY: Duration = Duration::from_mins(1);

/// The state of a server that its readiness depends on.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    listening: AtomicBool,
    stopping: AtomicBool,
    validity: ArcSwapOption<Validity>,
    /// The errors of reloads, of the reconciliation and of Events, until they succeed.
    failures: Mutex<BTreeMap<&'static str, String>>,
    /// The starts of the current reloads.
    loading: Mutex<BTreeMap<&'static str, SystemTime>>,
}

/// One line of `/readyz?verbose`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) ok: bool,
    /// The observed state, for people.
    pub(super) detail: String,
}

impl Readiness {
    /// Records that the HTTPS port accepts connections.
    pub(super) fn listening(&self) {
        self.listening.store(true, Ordering::Relaxed);
    }

    /// Records that the server shuts down: new requests should go to other replicas.
    pub(super) fn stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Records the certificate in use.
    pub(super) fn certificate(&self, validity: Validity) {
        self.validity.store(Some(validity.into()));
    }

    /// Records the start of the current reload, or that none is running.
    pub(super) fn loading(&self, what: Reloaded, since: Option<SystemTime>) {
        let mut loading = self.loading.lock();
        match since {
            Some(since) => loading.insert(what, since),
            None => loading.remove(what),
        };
    }

    /// The current reloads, each with its start.
    pub(super) fn reloads(&self) -> BTreeMap<&'static str, SystemTime> {
        self.loading.lock().clone()
    }

    /// Records the registered condition that differs from that of the policies in use. Returns whether this is new.
    pub(super) fn conditions(&self, differing: Option<&str>) -> bool {
        let failure = differing.map(|name| {
            format!(
                "`{name}` of the webhook configuration; if policies have just changed, wait for all replicas to reload \
                 them, else apply the chart or the output of `fabric-injector manifests` again"
            )
        });
        let before = self.failure(CONDITIONS, failure.clone());
        before != failure
    }

    /// Records the failure of a reload, a reconciliation or an Event, or that there is none, and returns the one before.
    pub(super) fn failure(&self, what: &'static str, failure: Option<String>) -> Option<String> {
        let mut failures = self.failures.lock();
        match failure {
            Some(failure) => failures.insert(what, failure),
            None => failures.remove(what),
        }
    }

    /// The checks, all of which must pass. The wall clock decides about the certificate, because a monotonic clock
    /// stops while the machine is suspended.
    pub(super) fn checks(&self, now: SystemTime, policies: usize) -> Vec<Check> {
        let [listening, stopping] = [&self.listening, &self.stopping].map(|is| is.load(Ordering::Relaxed));
        vec![
            certificate(self.validity.load().as_deref(), now),
            Check { name: "policies", ok: policies > 0, detail: format!("{policies} in use") },
            Check {
                name: "listener",
                ok: listening && !stopping,
                detail: match (listening, stopping) {
                    (_, true) => "shutting down",
                    (true, false) => "accepting",
                    (false, false) => "not accepting yet",
                }
                .to_owned(),
            },
        ]
    }

    /// The errors of reloads, of the reconciliation and of Events. They do not affect readiness, because the previous version is
    /// still in use.
    pub(super) fn failures(&self) -> BTreeMap<&'static str, String> {
        self.failures.lock().clone()
    }
}

fn certificate(validity: Option<&Validity>, now: SystemTime) -> Check {
    let check = |ok, detail| Check { name: "certificate", ok, detail };
    let Some(validity) = validity else { return check(false, "none".to_owned()) };
    let end = humantime::format_rfc3339_seconds(validity.not_after);
    let Ok(left) = validity.not_after.duration_since(now) else {
        return check(false, format!("expired at {end}"));
    };
    if now < validity.not_before {
        let begin = humantime::format_rfc3339_seconds(validity.not_before);
        return check(false, format!("not valid before {begin}"));
    }
    // A certificate of this program is backdated; one that is valid for less than that comes from another issuer.
    let duration = validity.duration();
    let duration = duration.checked_sub(BACKDATE).filter(|used| !used.is_zero()).unwrap_or(duration);
    if left <= BEFORE_EXPIRY.min(duration / 10) {
        return check(false, format!("about to expire, at {end}"));
    }
    check(true, format!("valid until {end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(duration: u64, age: u64) -> Check {
        let not_before = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let validity = Validity { not_before, not_after: not_before + Duration::from_secs(duration) };
        certificate(Some(&validity), not_before + Duration::from_secs(age))
    }

    #[test]
    fn readiness_ends_a_minute_or_a_tenth_of_the_validity_before_expiry() {
        assert!(check(86_400, 86_400 - 61).ok);
        assert!(!check(86_400, 86_400 - 60).ok);
        assert!(check(100, 89).ok);
        assert!(!check(100, 90).ok);
        assert!(!check(100, 101).ok);
        // Backdated by five minutes.
        assert!(check(330, 326).ok);
        assert!(!check(330, 327).ok);
        assert_eq!(check(86_400, 90_000).detail, "expired at 1970-01-13T13:46:40Z");
        assert!(!certificate(None, SystemTime::UNIX_EPOCH).ok);
    }
}
