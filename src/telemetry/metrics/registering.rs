//! Metrics that are registered as they are created.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Metric, Registry, Unit};

use super::labels::Labels;

/// Counters by one label, whose values are known.
#[derive(Debug)]
pub(crate) struct Counters {
    label: &'static str,
    family: Family<Labels<1>, Counter>,
}

impl Counters {
    /// Counts one with this value of the label.
    pub(crate) fn count(&self, value: &'static str) {
        self.family.get_or_create(&[(self.label, value)]).inc();
    }
}

/// Where metrics are registered as they are created.
pub(super) struct Registering<'a>(pub(super) &'a mut Registry);

impl Registering<'_> {
    pub(super) fn added<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        let metric = M::default();
        self.0.register(name, help, metric.clone());
        metric
    }

    pub(super) fn in_seconds<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register_with_unit(name, help, Unit::Seconds, metric.clone());
        metric
    }

    /// Counters, each with its series from the start: a rate then includes the first event.
    pub(super) fn counters(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: &[&'static str],
    ) -> Counters {
        let counters = Counters { label, family: self.added(name, help) };
        for value in values {
            drop(counters.family.get_or_create(&[(label, value)]));
        }
        counters
    }
}
