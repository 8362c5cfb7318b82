//! Manifests with edits in place, against kubectl's reader.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|stream: &str| fabric_fuzz::compare(stream));
