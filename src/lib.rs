//! Gives multi-node GPU pods their cloud's fast network.
//!
//! The interface of the library is [`core::policy`] (policies), [`core::policy_set`] (policies in use, and
//! [`mutate`](core::policy_set::mutate)) and [`core::engine`] (the result for a pod). All of [`core`] is pure: text and
//! values in, text and values out. The other modules are for the program and its tests, and change without notice.
//!
//! ```
//! use fabric_injector::core::engine::Outcome;
//! use fabric_injector::core::policy::PodContext;
//! use fabric_injector::core::policy_set::{PolicySet, mutate};
//! use fabric_injector::shell::builtin;
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
//! let mutation = mutate(&policies, pod, &PodContext::default());
//! let Outcome::Mutated(mutated) = mutation.outcome else { return Err("not injected".into()) };
//! assert_eq!(mutated.pod["spec"]["containers"][0]["resources"]["limits"]["vpc.amazonaws.com/efa"], "32");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod core;
#[doc(hidden)]
pub mod shell;
