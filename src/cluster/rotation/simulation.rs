//! Replicas with clocks and configurations of their own, which restart with other configurations while they share a
//! Secret and a `caBundle`, checked after every request to the API server.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::super::replica::Replica;
use super::*;

const NAME: &str = "fabric-injector.gpu.svc";
/// The time between two reconciliations is at most this part of the shortest time that is left or configured.
const PACE: u32 = 20;
/// The difference of a clock to that of the API server is at most this part of the shortest configured validity.
const SKEW: u32 = 40;
/// Reconciliations in a row, after which the time may advance by more than the interval of the program.
const ROUNDS: u32 = 4;
/// The interval of the program.
const INTERVAL: Duration = Duration::from_secs(30);
/// The interval of the program until it has a certificate.
const START_INTERVAL: Duration = Duration::from_millis(250);
/// How long an API server may not know of a changed `caBundle`.
const LAG: Duration = Duration::from_millis(1_900);
/// A replica has a certificate after this time.
const START: Duration = Duration::from_secs(10);

/// An object with its version.
#[derive(Debug, Clone, Default)]
struct Object<T> {
    version: u32,
    content: T,
}

impl<T: Clone> Object<T> {
    /// Writes, unless another client has since `version` was read.
    fn write(&mut self, version: u32, content: T) -> bool {
        let is_current = self.version == version;
        if is_current {
            *self = Self { version: version + 1, content };
        }
        is_current
    }
}

/// The registered `caBundle` when a replica read it, and the time since the start of the replica.
type Seen = (Object<String>, Duration);

/// The requests of one reconciliation.
#[derive(Debug, Clone)]
enum Phase {
    ReadBundle,
    ReadSecret(Seen),
    WriteSecret(Seen, u32, Certificates),
    WriteBundle(Seen, Certificates),
    Done,
}

struct Pod {
    replica: Replica,
    durations: Durations,
    /// The offset of the clock as a fraction of the largest difference, from -1 to 1.
    skew: f64,
    started: Duration,
    serving: Option<KeyPair>,
    phase: Phase,
}

impl Pod {
    fn new(durations: Durations, skew: f64, started: Duration) -> Self {
        Self { replica: Replica::default(), durations, skew, started, serving: None, phase: Phase::Done }
    }
}

struct World {
    time: Duration,
    largest_skew: Duration,
    secret: Object<Option<Certificates>>,
    bundle: Object<String>,
    /// The bundles that API servers may know, each with the time at which it was replaced.
    late_bundles: Vec<(Duration, String)>,
    pods: Vec<Pod>,
    /// Certificates that verify by a bundle, apart from the time.
    verified: HashMap<(String, String), bool>,
}

impl World {
    fn clock(&self, skew: f64) -> SystemTime {
        let earliest = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000) + self.time;
        earliest + self.largest_skew.mul_f64(1.0 + skew)
    }

    /// One request of one pod.
    fn request(&mut self, at: usize) {
        let now = self.clock(self.pods[at].skew);
        let names = [NAME.to_owned()];
        let pod = &mut self.pods[at];
        let elapsed = self.time.saturating_sub(pod.started);
        pod.phase = match std::mem::replace(&mut pod.phase, Phase::Done) {
            Phase::ReadBundle => Phase::ReadSecret((self.bundle.clone(), elapsed)),
            Phase::ReadSecret(seen) => {
                let stored = self.secret.clone();
                let (certificates, change) =
                    Certificates::reconciled(stored.content, &names, pod.durations, &seen.0.content, now)
                        .unwrap();
                match change {
                    Some(_) => Phase::WriteSecret(seen, stored.version, certificates),
                    None => Phase::WriteBundle(seen, certificates),
                }
            }
            Phase::WriteSecret(seen, version, certificates) => {
                let is_written = self.secret.write(version, Some(certificates.clone()));
                if is_written { Phase::WriteBundle(seen, certificates) } else { Phase::Done }
            }
            Phase::WriteBundle((bundle, read), certificates) => {
                pod.replica.record(&certificates, &bundle.content, read);
                let before = self.bundle.content.clone();
                let wanted = certificates.bundle();
                if wanted != bundle.content && self.bundle.write(bundle.version, wanted) {
                    self.late_bundles.push((self.time, before));
                }
                if let Some(key_pair) = pod.replica.serve(now, elapsed) {
                    pod.serving = Some(key_pair);
                }
                Phase::Done
            }
            Phase::Done => Phase::Done,
        };
    }

    /// Each served certificate is valid by the clock of the API server, and verifies by the registered bundle and by
    /// those that were registered a moment ago.
    fn check(&mut self) {
        let now = self.clock(0.0);
        self.late_bundles.retain(|(replaced, _)| self.time.saturating_sub(*replaced) < LAG);
        for pod in &self.pods {
            let Some(serving) = &pod.serving else { continue };
            let validity = Validity::parse("", serving.cert.as_bytes()).unwrap();
            let is_valid = (validity.not_before..=validity.not_after).contains(&now);
            assert!(is_valid, "at {:?} a replica serves a certificate of {validity:?}", self.time);
            let late = self.late_bundles.iter().map(|(_, bundle)| bundle);
            for bundle in late.chain([&self.bundle.content]) {
                let key = (bundle.clone(), serving.cert.clone());
                let verifies = *self.verified.entry(key).or_insert_with_key(|(bundle, cert)| {
                    check(bundle, cert, NAME, validity.not_before).is_ok()
                });
                assert!(verifies, "at {:?} a replica serves a certificate that is not trusted", self.time);
            }
        }
    }

    /// The longest time that may pass between two reconciliations.
    fn pace(&self) -> Duration {
        let left = self.pods.iter().map(|pod| pod.replica.time_left(self.clock(1.0)));
        let configured = self.pods.iter().map(|pod| pod.durations.certificate);
        let shortest = configured.chain(left).min().unwrap_or_default();
        let pace = (shortest / PACE).max(Duration::from_millis(100));
        // A replica that starts reconciles until it has a certificate.
        if self.pods.iter().all(|pod| pod.serving.is_some()) { pace } else { pace.min(START_INTERVAL) }
    }

    /// Advances the time, and has every pod reconcile a few times, in an order by `seed`.
    fn tick(&mut self, part: f64, mut seed: u64) {
        self.time += self.pace().mul_f64(part);
        for _ in 0..ROUNDS {
            self.check();
            for pod in &mut self.pods {
                pod.phase = Phase::ReadBundle;
            }
            while self.pods.iter().any(|pod| !matches!(pod.phase, Phase::Done)) {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                self.request(usize::try_from(seed >> 33).unwrap() % self.pods.len());
                self.check();
            }
            self.time += self.pace().min(INTERVAL);
        }
    }

    fn handle(&mut self, event: &Event) {
        match *event {
            Event::Tick { part, seed } => self.tick(part, seed),
            Event::Restart { pod, durations, skew } => {
                let pod = pod % self.pods.len();
                self.pods[pod] = Pod::new(durations, skew, self.time);
            }
            Event::DeleteSecret => {
                let version = self.secret.version + 1;
                self.secret = Object { version, content: None };
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Event {
    Tick { part: f64, seed: u64 },
    Restart { pod: usize, durations: Durations, skew: f64 },
    DeleteSecret,
}

/// Durations that the command line accepts, short ones as often as long ones.
fn durations() -> impl Strategy<Value = Durations> {
    let seconds =
        prop_oneof![Just(45_f64), Just(365.0 * 86_400.0), (20_f64.ln()..4e7_f64.ln()).prop_map(f64::exp)];
    (seconds, 0.05..1.0).prop_map(|(ca, certificate): (f64, f64)| Durations {
        certificate: Duration::from_secs_f64((ca * certificate).max(20.0).min(ca)),
        ca: Duration::from_secs_f64(ca),
    })
}

fn skew() -> impl Strategy<Value = f64> {
    -1.0..1.0
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        40 => (0.0..1.0, any::<u64>()).prop_map(|(part, seed)| Event::Tick { part, seed }),
        2 => (0..3_usize, durations(), skew())
            .prop_map(|(pod, durations, skew)| Event::Restart { pod, durations, skew }),
        1 => Just(Event::DeleteSecret),
    ];
    proptest::collection::vec(event, 20..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, rng_seed: RngSeed::Fixed(2026), failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_served_certificate_is_valid_and_trusted(
        first in proptest::collection::vec((durations(), skew()), 1..=3),
        events in events(),
    ) {
        let restarts = events.iter().filter_map(|event| match event {
            Event::Restart { durations, .. } => Some(*durations),
            Event::Tick { .. } | Event::DeleteSecret => None,
        });
        let all = first.iter().map(|(durations, _)| *durations).chain(restarts);
        let shortest = all.map(|durations| durations.certificate).min().unwrap_or_default();
        let pods = first.into_iter().map(|(durations, skew)| Pod::new(durations, skew, Duration::ZERO));
        let mut world = World {
            time: Duration::ZERO,
            largest_skew: (shortest / SKEW).min(BACKDATE / 2),
            secret: Object::default(),
            bundle: Object::default(),
            late_bundles: Vec::new(),
            pods: pods.collect(),
            verified: HashMap::new(),
        };
        for event in &events {
            world.handle(event);
            for pod in &world.pods {
                let waited = world.time.saturating_sub(pod.started);
                prop_assert!(
                    pod.serving.is_some() || waited < START,
                    "a replica has no certificate after {waited:?}"
                );
            }
        }
    }
}
