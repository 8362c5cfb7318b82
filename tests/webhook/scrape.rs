//! The metrics as numbers: whole ones, since what is not is a time.

use std::collections::{BTreeMap, BTreeSet};

use fabric_injector::server::AppState;

/// Every series with its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scrape(BTreeMap<String, i64>);

impl Scrape {
    /// What a server tells now.
    pub(crate) fn of(state: &AppState) -> Self {
        let text = state.metrics().encode();
        assert!(text.ends_with("# EOF\n"), "OpenMetrics has an end");
        let mut series = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').expect(line);
            let _: f64 = value.parse().expect(line);
            let before = series.insert(name.to_owned(), value.parse().unwrap_or(0));
            assert!(before.is_none(), "{name} is there twice");
        }
        Self(series)
    }

    /// The value of a series that has to be there; `name` without the prefix of all of ours.
    #[track_caller]
    pub(crate) fn value(&self, name: &str) -> i64 {
        let name = format!("fabric_injector_{name}");
        *self.0.get(&name).unwrap_or_else(|| panic!("there is no {name}"))
    }

    /// Whether there is a series.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(&format!("fabric_injector_{name}"))
    }

    /// The series of one family.
    pub(crate) fn family(&self, name: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("fabric_injector_{name}{{");
        self.0.keys().filter(move |series| series.starts_with(&prefix)).map(String::as_str)
    }

    /// The names of all series.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// The pods of a namespace that did not get the fabric, by the reason, of all outcomes.
    pub(crate) fn without_fabric(&self, namespace: &str) -> BTreeMap<&str, i64> {
        let family = format!("fabric_injector_{WITHOUT_FABRIC}{{pod_namespace=\"{namespace}\",");
        let series = self.0.iter().filter(|(series, _)| series.starts_with(&family));
        let mut by_reason = BTreeMap::new();
        for (series, count) in series {
            *by_reason.entry(series.split('"').nth(5).unwrap()).or_default() += count;
        }
        by_reason
    }

    /// Fails unless these series, and no others, rose since then by so much. How long things took and the pods without the
    /// fabric aside.
    #[track_caller]
    pub(crate) fn rose(&self, since: &Self, wanted: &[(&str, i64)]) {
        let from_start = |scrape: &Self| {
            let names = scrape.names().into_iter().filter(|name| !name.contains(WITHOUT_FABRIC));
            names.map(str::to_owned).collect::<BTreeSet<_>>()
        };
        assert_eq!(from_start(self), from_start(since), "every series is there from the start");
        let timed = |name: &str| name.contains("_seconds_bucket") || name.starts_with(WITHOUT_FABRIC);
        let changed = self.0.iter().filter_map(|(name, now)| {
            let name = name.strip_prefix("fabric_injector_").filter(|name| !timed(name))?;
            let rise = now - since.value(name);
            (rise != 0).then_some((name, rise))
        });
        let changed: BTreeMap<&str, i64> = changed.collect();
        assert_eq!(changed, wanted.iter().copied().collect::<BTreeMap<_, _>>());
    }
}

/// The family of the pods without the fabric.
const WITHOUT_FABRIC: &str = "pods_without_fabric_total";

/// The series of a review's outcome.
pub(crate) fn reviews(policy: &str, outcome: &str, reason: &str) -> String {
    reviews_in("inject", policy, outcome, reason)
}

/// The same in another mode.
pub(crate) fn reviews_in(mode: &str, policy: &str, outcome: &str, reason: &str) -> String {
    format!("reviews_total{{policy=\"{policy}\",outcome=\"{outcome}\",reason=\"{reason}\",mode=\"{mode}\"}}")
}

/// The series of what was asked and is no review.
pub(crate) fn rejected(reason: &str) -> String {
    format!("rejected_requests_total{{reason=\"{reason}\"}}")
}

/// The series of requests that there was no time or room for.
pub(crate) fn shed(reason: &str) -> String {
    format!("shed_requests_total{{reason=\"{reason}\"}}")
}

/// How many reviews were answered.
pub(crate) const ANSWERED: &str = "review_duration_seconds_count";

/// How many operations all patches have.
pub(crate) const OPERATIONS: &str = "patch_operations_total";
