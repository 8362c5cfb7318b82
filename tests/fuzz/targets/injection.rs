//! A policy and a pod, three calls: the first one loses nothing, and the others change nothing.
#![no_main]

use fabric_fuzz::{Input, inject_thrice, load};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    fabric_fuzz::mutate(data, size, most, seed)
});

fuzz_target!(|bytes: &[u8]| {
    let Some(input) = Input::read(bytes) else { return };
    if let Some(policies) = load(&input.policy, &input.settings) {
        inject_thrice(&policies, &input);
    }
});
