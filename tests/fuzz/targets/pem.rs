//! Certificates and Secrets: reconciling ends, with a certificate that can be served.
#![no_main]

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fabric_fuzz::NOW;
use fabric_injector::authority::Authority;
use fabric_injector::{cluster, server};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use serde_json::Value;

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    fabric_fuzz::mutate(data, size, most, seed)
});

fuzz_target!(|bytes: &[u8]| {
    let Ok(input) = serde_json::from_slice::<Value>(bytes) else { return };
    let now = SystemTime::UNIX_EPOCH + NOW;
    let text = |key: &str| input["data"][key].as_str().unwrap_or_default().to_owned();
    let mut trusted = input["trusted"].as_str().unwrap_or_default().to_owned();
    let _ = server::load(&text("tls.crt"), &text("tls.key"), Some(&trusted), now);
    let ca = Authority { cert: text("ca.crt"), key: text("ca.key") };
    let _ = ca.issue(&["a".to_owned()], &[], now, Duration::from_secs(60 * 60));
    let mut data = input["data"].clone();
    for value in data.as_object_mut().into_iter().flat_map(|data| data.values_mut()) {
        if let Value::String(text) = value {
            *text = STANDARD.encode(&*text);
        }
    }
    for _ in 0..4 {
        let Ok((after, bundle, change)) = cluster::reconciled_secret(&data, &trusted, now) else { return };
        (data, trusted) = (after, bundle);
        if change.is_none() {
            let text =
                |key: &str| String::from_utf8(STANDARD.decode(data[key].as_str().unwrap()).unwrap()).unwrap();
            server::load(&text("tls.crt"), &text("tls.key"), Some(&trusted), now).unwrap();
            return;
        }
    }
    panic!("it changes again and again: {data}");
});
