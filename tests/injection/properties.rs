//! What holds for every policy and every pod.
//!
//! Policies and pods are generated from a seed, and every property of [`all::ALL`] is checked for each pair. A
//! property that does not hold shows the smallest policy and pod that were found, as YAML. `.ci/run` also checks ten
//! times as many pairs, optimized.
//!
//! ```console
//! $ FABRIC_PAIRS=100000 cargo test --profile bench --test injection properties
//! ```
//!
//! `FABRIC_SEED` begins with another seed. Every counterexample that was found is a test in [`counterexamples`] or
//! [`conflicts`].

mod adapter;
mod agreement;
mod all;
mod built_in;
mod calls;
mod cases;
mod checks;
mod claims;
mod conflicts;
mod contradictions;
mod counterexamples;
mod faults;
mod full_pod;
pub(crate) mod generator;
mod kept;
mod leaves;
mod lists;
mod lost;
mod model;
mod overlays;
mod pair;
mod pairs;
mod passes;
mod places;
mod precedence;
mod reports;
mod rules;
mod schema;
mod shrink;
mod validity;
mod validity_of_pods;
mod variables;
