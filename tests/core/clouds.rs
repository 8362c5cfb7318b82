//! One test for each fault that NVIDIA's own Kyverno policies have, and for each fact of a cloud that is easy
//! to get wrong, with the built-in policies.
mod aws;
mod azure;
mod every_cloud;
mod gcp;
mod gcp_fabrics;
mod machines;
mod manifests;
mod oci;
