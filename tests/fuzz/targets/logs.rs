//! Logs, pods and counters, separated by NUL: the diagnosis is the same however the logs are cut.
#![no_main]

use fabric_nccl::{Diagnosis, Log, Signatures, text};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let whole = diagnosed(bytes, usize::MAX);
    assert_eq!(diagnosed(bytes, 7), whole);
});

fn diagnosed(bytes: &[u8], most: usize) -> (String, Value) {
    let mut log = Log::new(Signatures::built_in().unwrap());
    for (number, part) in bytes.split(|byte| *byte == 0).enumerate() {
        let source = format!("worker-{number}");
        match serde_json::from_slice::<Value>(part) {
            Ok(pod) => log.add_pod(&pod),
            Err(_) if part.starts_with(b"adapter ") => {
                log.add_counters(&source, &String::from_utf8_lossy(part));
            }
            Err(_) => {
                log.begin(&source);
                part.chunks(most).for_each(|piece| log.read(piece));
            }
        }
    }
    let diagnosis = Diagnosis::read(&mut log);
    (text(&diagnosis), diagnosis.object())
}
