//! The values of NVIDIA's chart, as its documentation writes them.

use std::collections::BTreeMap;

use fabric_engine::policy_set::{LoadError, PolicySet};
use fabric_injector::builtin;
use fabric_policy::PodContext;
use fabric_tools::helm_values::Values;

use crate::helpers::{Served, serve_as, worker};

/// The block of the values file keeps working as NVIDIA's documentation writes it.
#[test]
fn the_values_of_the_chart_work_unchanged() {
    for (policy, block, resource, devices) in [
        ("aws-efa", "aws: {enabled: true, efaDevicesPerGPU: 4}", "vpc.amazonaws.com/efa", 32),
        (
            "azure-infiniband",
            "azure: {enabled: true, rdmaDevicesPerGPU: 1, rdmaDeviceName: hca_shared_devices_b}",
            "rdma/hca_shared_devices_b",
            8,
        ),
        ("gcp-tcpxo", "gcp: {enabled: true}", "nvidia.com/gpu", 8),
        ("oci-sriov", "oci: {enabled: true, rdmaDevicesPerGPU: 8}", "nvidia.com/mlnxnics", 64),
    ] {
        let definition = builtin::find(policy).unwrap().definition().unwrap();
        let text = format!("global: {{}}\nmultinodeNetworking:\n  {block}\n");
        let values = Values::read("values.yaml", &text).unwrap();
        assert_eq!(values.enabled().unwrap(), Some(definition.provider.as_str()));
        let overrides = values.overrides(&definition).unwrap();
        let policies = PolicySet::new(vec![(definition, overrides)]).unwrap();
        let served = Served::of(serve_as(&policies, worker(8), &PodContext::default()));
        assert_eq!(served.devices("worker", resource), devices, "{policy}");
    }
}

/// Two providers at once stay an error, and it names both.
#[test]
fn two_providers_at_once_are_an_error_that_names_both() {
    let both = "multinodeNetworking: {aws: {enabled: true}, oci: {enabled: true}}";
    let error = Values::read("values.yaml", both).unwrap().enabled().unwrap_err().to_string();
    assert!(error.contains("`aws` and `oci` are both enabled"), "{error}");
    let definitions = ["aws-efa", "oci-sriov"]
        .map(|name| (builtin::find(name).unwrap().definition().unwrap(), BTreeMap::new()));
    let error = PolicySet::new(definitions.into()).unwrap_err();
    assert!(matches!(error, LoadError::SeveralProviders { .. }));
    assert!(error.to_string().contains("`aws-efa`") && error.to_string().contains("`oci-sriov`"), "{error}");
}
