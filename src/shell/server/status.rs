//! Whether the server is ready, and what it knows of its own condition.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;

use crate::shell::authority::BACKDATE;
use crate::shell::pem::Validity;
use crate::shell::telemetry::Reloaded;

/// The webhook configuration and what belongs to it, in `/readyz`.
pub(super) const REGISTRATION: &str = "registration";
/// Readiness ends this long before the certificate does.
const BEFORE_EXPIRY: Duration = Duration::from_mins(1);

/// The condition of a server.
#[derive(Debug, Default)]
pub struct Status {
    listening: AtomicBool,
    stopping: AtomicBool,
    validity: ArcSwapOption<Validity>,
    /// Why the last reload of something failed, for as long as it does.
    failures: Mutex<BTreeMap<&'static str, String>>,
}

/// One line of `/readyz?verbose`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// Whether it is as it should be.
    pub ok: bool,
    /// What was seen.
    pub detail: String,
}

impl Status {
    /// The webhook accepts connections.
    pub(super) fn listening(&self) {
        self.listening.store(true, Ordering::Relaxed);
    }

    /// The server will end; new requests should go elsewhere.
    pub(super) fn stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// A certificate is in use.
    pub(super) fn certificate(&self, validity: Validity) {
        self.validity.store(Some(validity.into()));
    }

    /// Something was loaded anew, or could not be.
    pub(super) fn reloaded(&self, what: Reloaded, failure: Option<String>) {
        self.failure(what.name(), failure);
    }

    /// The registration was looked after, or could not be.
    pub(super) fn registration(&self, failure: Option<String>) {
        self.failure(REGISTRATION, failure);
    }

    fn failure(&self, what: &'static str, failure: Option<String>) {
        let mut failures = self.failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match failure {
            Some(failure) => failures.insert(what, failure),
            None => failures.remove(what),
        };
    }

    /// What there is to be ready for. By the wall clock: a machine that slept must not serve an expired
    /// certificate.
    pub fn checks(&self, now: SystemTime, policies: usize) -> Vec<Check> {
        let stopping = self.stopping.load(Ordering::Relaxed);
        let listening = self.listening.load(Ordering::Relaxed);
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

    /// Why the last reload failed, by what could not be loaded. No reason to be unready: what was good before
    /// is still in use.
    pub fn failures(&self) -> BTreeMap<&'static str, String> {
        self.failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
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
    // What is made here begins in the past, which is no part of the time that it is used for. What lives for less than
    // that was not made here.
    let life = validity.life();
    let life = life.checked_sub(BACKDATE).filter(|used| !used.is_zero()).unwrap_or(life);
    if left <= BEFORE_EXPIRY.min(life / 10) {
        return check(false, format!("about to expire, at {end}"));
    }
    check(true, format!("valid until {end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(life: u64, age: u64) -> Check {
        let not_before = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let validity = Validity { not_before, not_after: not_before + Duration::from_secs(life) };
        certificate(Some(&validity), not_before + Duration::from_secs(age))
    }

    #[test]
    fn readiness_ends_a_minute_before_the_certificate_or_a_tenth_of_its_life() {
        assert!(check(86_400, 86_400 - 61).ok);
        assert!(!check(86_400, 86_400 - 60).ok);
        assert!(check(100, 89).ok);
        assert!(!check(100, 90).ok);
        assert!(!check(100, 101).ok);
        // Five minutes of this are in the past when it is made.
        assert!(check(330, 326).ok);
        assert!(!check(330, 327).ok);
        assert_eq!(check(86_400, 90_000).detail, "expired at 1970-01-13T13:46:40Z");
        assert!(!certificate(None, SystemTime::UNIX_EPOCH).ok);
    }
}
