//! Nodes, slices, classes, claims and networks, and a pod that depends on them, three calls.
#![no_main]

use std::collections::BTreeMap;

use fabric_fuzz::{Input, every_provider, inject_thrice, named};
use fabric_tools::explain::Sources;
use fabric_tools::pools::pools;
use fabric_workloads::advice::claims_without_devices;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    fabric_fuzz::mutate(data, size, most, seed)
});

fuzz_target!(|bytes: &[u8]| {
    let Some(input) = Input::read(bytes) else { return };
    let policies = named(&input.policy).unwrap_or_else(every_provider);
    inject_thrice(policies, &input);
    let (Some(nodes), objects) = (&input.context.nodes, input.context.objects.as_ref()) else { return };
    let pools = pools(policies, Sources { values: None, sets: &BTreeMap::new() }, nodes, objects);
    assert!(pools.iter().map(|pool| pool.nodes).sum::<usize>() <= nodes.len());
    if let Some(objects) = objects {
        let _ = claims_without_devices(nodes, objects);
    }
});
