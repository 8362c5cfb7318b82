//! What the adapters of a pod count.

use std::collections::{BTreeMap, BTreeSet};

/// The script that prints the counters of a container twice.
pub const SCRIPT: &str = include_str!("../../../signatures/counters.sh");

/// Fewer bytes than this a second may be those of a control connection.
const LEAST: u64 = 10_000_000;

/// What the adapters of a pod move, which its processes have open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traffic {
    pub adapters: BTreeSet<String>,
    /// Bytes a second, sent and received, without those of IP over `InfiniBand`.
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
                [kind @ ("adapter" | "requests" | "ip"), name, bytes] => {
                    let reading = &mut readings[usize::from(seconds.is_some())];
                    let sum = reading.entry((kind, name)).or_insert(0_u64);
                    *sum = sum.saturating_add(bytes.parse().ok()?);
                }
                _ => {}
            }
        }
        let [before, after] = readings;
        let (mut traffic, mut rdma, mut ip) = (Self::default(), 0_u64, 0_u64);
        // A counter that was set back, or is new, says nothing.
        let rise = |kind, name| {
            let (before, after) = (before.get(&(kind, name))?, after.get(&(kind, name))?);
            after.checked_sub(*before)
        };
        for (kind, name) in after.keys() {
            let moved = rise(*kind, *name).unwrap_or_default();
            let has_requests = !after.contains_key(&("requests", *name)) || rise("requests", *name) > Some(0);
            if *kind == "ip" {
                ip = ip.saturating_add(moved);
            } else if *kind == "adapter" && moved > 0 && has_requests {
                rdma = rdma.saturating_add(moved);
                traffic.adapters.insert((*name).to_owned());
            }
        }
        traffic.rate = rdma.saturating_sub(ip) / seconds?;
        // The headers of IP count in the adapter alone.
        (is_whole && traffic.rate >= LEAST && ip < rdma / 10).then_some(traffic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_prove_the_fabric_if_they_are_not_those_of_ip() {
        let of = |before: u64, after: u64, ip: u64| {
            Traffic::read(&format!(
                "adapter mlx5_0 {before}\nadapter mlx5_1 7\nip ib0 5\nafter 4\nadapter mlx5_0 {after}\nadapter mlx5_1 7\n\
                 ip ib0 {}\nend\n",
                5 + ip
            ))
        };
        let found = of(1_000, 400_001_000, 0).unwrap();
        assert_eq!((found.rate, found.adapters), (100_000_000, BTreeSet::from(["mlx5_0".to_owned()])));
        assert_eq!(of(1_000, 400_001_000, 20_000_000).unwrap().rate, 95_000_000);
        // IP over InfiniBand, idle, set back, and the ends of numbers.
        assert_eq!(of(1_000, 400_001_000, 390_000_000), None);
        assert_eq!(of(1_000, 400_001_000, 200_000_000), None);
        assert_eq!(of(1_000, 30_000_000, 0), None);
        assert_eq!(of(400_001_000, 1_000, 0), None);
        assert!(of(0, u64::MAX, 0).is_some());
        // An adapter that counts requests has to get some.
        let with_requests = |count: u64| {
            Traffic::read(&format!(
                "adapter a:1 0\nrequests a:1 7\nafter 4\nadapter a:1 900000000\nrequests a:1 {count}\nend\n"
            ))
        };
        assert_eq!((with_requests(7), with_requests(9).is_some()), (None, true));
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
