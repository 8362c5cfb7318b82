//! The pods of workloads: [`manifest`] finds the pod templates in the documents of a file and injects them, and
//! [`advice`] tells their authors what keeps a pod from the fabric.
//!
//! What is known about kinds of workloads is data: `facts/kinds.yaml`. This crate reads no files, and knows neither a
//! server nor a cluster.

pub mod advice;
pub mod manifest;
