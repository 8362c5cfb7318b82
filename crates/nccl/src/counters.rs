//! The counters of the adapters of a pod.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// The script that prints the counters of a container twice.
pub const SCRIPT: &str = include_str!("../../../signatures/counters.sh");

/// Fewer bytes than this a second may be those of a control connection.
const LEAST: u64 = 10_000_000;
/// Fewer requests than this a second do not move the bytes, which are those of IP over `InfiniBand`.
const LEAST_REQUESTS: u64 = 10;

/// The traffic of the adapters that the processes of a pod have open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    pub adapters: BTreeSet<String>,
    /// Bytes a second, sent and received.
    #[serde(rename = "bytesPerSecond")]
    pub rate: u64,
}

impl Traffic {
    /// Reads what [`SCRIPT`] prints. `None` if it is not whole, or if too little moves to prove anything.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut readings = [BTreeMap::new(), BTreeMap::new()];
        let (mut seconds, mut is_whole) = (None, false);
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["after", after] => seconds = Some(after.parse::<u64>().ok().filter(|after| *after > 0)?),
                ["end"] => is_whole = true,
                [kind @ ("adapter" | "requests"), name, bytes] => {
                    let reading = &mut readings[usize::from(seconds.is_some())];
                    let sum = reading.entry((kind, name)).or_insert(0_u64);
                    *sum = sum.saturating_add(bytes.parse().ok()?);
                }
                _ => {}
            }
        }
        let [before, after] = readings;
        // A counter that was reset, or is new, proves nothing.
        let rise = |kind, name| {
            let (before, after) = (before.get(&(kind, name))?, after.get(&(kind, name))?);
            after.checked_sub(*before)
        };
        let seconds = seconds.filter(|_| is_whole)?;
        let mut traffic = Self::default();
        for (_, name) in after.keys().filter(|(kind, _)| *kind == "adapter") {
            let bytes = rise("adapter", *name).unwrap_or_default() / seconds;
            let counts_requests = after.contains_key(&("requests", *name));
            let requests = rise("requests", *name).unwrap_or_default() / seconds;
            if bytes > 0 && (!counts_requests || requests >= LEAST_REQUESTS) {
                traffic.rate = traffic.rate.saturating_add(bytes);
                traffic.adapters.insert((*name).to_owned());
            }
        }
        (traffic.rate >= LEAST).then_some(traffic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_prove_the_fabric_if_requests_move_them() {
        let of = |before: u64, after: u64, requests: u64| {
            Traffic::read(&format!(
                "adapter a:1 {before}\nrequests a:1 7\nadapter b:1 7\nrequests b:1 9\nafter 4\nadapter a:1 {after}\n\
                 requests a:1 {}\nadapter b:1 7\nrequests b:1 9\nend\n",
                7 + requests
            ))
        };
        let found = of(1_000, 400_001_000, 800).unwrap();
        assert_eq!((found.rate, found.adapters), (100_000_000, BTreeSet::from(["a:1".to_owned()])));
        // IP over InfiniBand, idle, reset, and the limits of numbers.
        assert_eq!(of(1_000, 400_001_000, 0), None);
        assert_eq!(of(1_000, 400_001_000, 39), None);
        assert_eq!(of(1_000, 30_000_000, 800), None);
        assert_eq!(of(400_001_000, 1_000, 800), None);
        assert!(of(0, u64::MAX, u64::MAX - 7).is_some());
        // Adapters without such a counter.
        assert!(Traffic::read("adapter a:1 0\nafter 4\nadapter a:1 900000000\nend\n").is_some());
    }

    #[test]
    fn what_is_not_whole_proves_nothing() {
        for text in [
            "",
            "adapter mlx5_0 0\n",
            "adapter mlx5_0 0\nafter 4\n",
            "after 4\nadapter mlx5_0 900000000000\n",
            "adapter mlx5_0 0\nadapter mlx5_0 900000000000\n",
            "adapter mlx5_0 0\nafter 0\nadapter mlx5_0 900000000000\n",
            "adapter mlx5_0 0\nafter 4\nadapter mlx5_0 9000000000000000000000000\nend\n",
            "adapter mlx5_0 0\nafter 4\nadapter mlx5_0 90000000000\n",
            "after 4\nadapter mlx5_0 90000000000\nend\n",
            "sh: not found",
        ] {
            assert_eq!(Traffic::read(text), None, "{text}");
        }
    }
}
