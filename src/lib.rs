//! Gives multi-node GPU pods their cloud's fast network.
//!
//! The core is pure: [`policy`] turns the text of a policy file into something that can be evaluated,
//! [`engine`] serves a pod by it, [`manifest`] finds the pods in a document, and [`registration`] says which pods an API
//! server has to ask about. [`cli`], [`server`] and [`cluster`] are shells around them.
//!
//! ```
//! use fabric_injector::engine::{Outcome, mutate};
//! use fabric_injector::policy::Request;
//! use fabric_injector::{builtin, policy_set::PolicySet};
//!
//! let policy = builtin::find("aws-efa").ok_or("no such policy")?.definition()?;
//! let policies = PolicySet::new(vec![(policy, Default::default())])?;
//! let pod = serde_json::json!({
//!     "metadata": {"annotations": {"nmp.nvidia.com/enable-multi-node-networking": "true"}},
//!     "spec": {
//!         "nodeSelector": {"node.kubernetes.io/instance-type": "p5.48xlarge"},
//!         "containers": [{"name": "nim", "resources": {"limits": {"nvidia.com/gpu": 8}}}],
//!     },
//! });
//! let mutation = mutate(&policies, pod, &Request::default());
//! let Outcome::Mutated(mutated) = mutation.outcome else { return Err("not served".into()) };
//! assert_eq!(mutated.pod["spec"]["containers"][0]["resources"]["limits"]["vpc.amazonaws.com/efa"], "32");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod admission;
pub mod authority;
pub mod builtin;
pub mod cli;
pub mod cluster;
pub mod engine;
mod files;
pub mod installation;
pub mod manifest;
mod pem;
pub mod policy;
pub mod policy_set;
pub mod quantity;
pub mod registration;
pub mod selection;
mod self_check;
pub mod server;
pub mod telemetry;
pub mod values;
pub mod yaml;
