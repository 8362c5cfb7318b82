//! Facts of a cloud that are easy to get wrong and that no case in `policies/tests` can say: tables of machines, policies
//! that share one values file, and a topology file.
mod azure;
mod gcp_fabrics;
mod machines;
mod oci;
mod parts;
mod values;
