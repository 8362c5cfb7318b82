//! Facts of the built-in policies that no case in `policies/tests` can say: that a pod has no other variables than these,
//! and that all that a part declares is read.
mod oci;
mod parts;
