//! What is shown. The order is the one in which they run: what takes the servers away comes last.

mod workloads_run;

use std::pin::Pin;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use super::cluster::Cluster;

/// A scenario, on a cluster.
pub(crate) type Scenario = for<'a> fn(&'a Cluster) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Scenarios by the names of their functions, each behind that of its module.
macro_rules! scenarios {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$((
            concat!(stringify!($module), "::", stringify!($name)),
            (|cluster| Box::pin($module::$name(cluster))) as Scenario,
        )),*]
    };
}

const SCENARIOS: &[(&str, Scenario)] = scenarios![
    workloads_run::pods_of_a_job_are_served_and_bound_to_nodes_with_efa,
];

/// All of them, as something that can be run.
pub(crate) fn all(trial: &dyn Fn(&'static str, Scenario) -> Trial) -> Vec<Trial> {
    SCENARIOS.iter().map(|(name, scenario)| trial(name, *scenario)).collect()
}

/// The values of most scenarios: the servers look after certificate and registration.
fn values() -> Value {
    json!({"multinodeNetworking": {"aws": {"enabled": true}}, "server": {"log": "debug"}})
}
