//! Names that are spelled nearly like known ones: a key like the annotation of a trigger, a resource like that of GPUs.

use fabric_policy::source::is_misspelling;

/// Other programs use a shorter name of an annotation, such as `rdma`, under other prefixes.
const DISTINCTIVE: usize = 12;

/// Returns whether a key looks like a mistyped trigger: its name with another prefix, or a slip in either.
pub(super) fn of_trigger(seen: &str, trigger: &str) -> bool {
    if seen == trigger || negates(seen) != negates(trigger) {
        return false;
    }
    let (seen_name, name) = (letters(split(seen).1), letters(split(trigger).1));
    if name.len() < DISTINCTIVE {
        return trigger.len() >= DISTINCTIVE && is_misspelling(seen, trigger);
    }
    let is_part = name.contains(&seen_name) && seen_name.len() * 5 >= name.len() * 3;
    is_part || seen_name.contains(&name) || is_misspelling(&seen_name, &name)
}

/// Returns whether a resource looks like a mistyped one.
pub(super) fn of_resource(seen: &str, known: &str) -> bool {
    let (_, name) = split(known);
    let (seen_letters, name) = (letters(seen), letters(name));
    // `gpu` and `gpus`; other words for GPUs are not guessed.
    let is_name = !seen.contains('/') && (seen_letters == name || seen_letters == format!("{name}s"));
    seen != known && (is_name || is_misspelling(seen, known) || without_tld(seen, known))
}

/// Returns whether a resource lacks the top-level domain of the known one: `nvidia/gpu`.
fn without_tld(seen: &str, known: &str) -> bool {
    let (prefix, name) = split(known);
    let (seen_prefix, seen_name) = split(seen);
    prefix.split('.').next() == Some(seen_prefix) && letters(seen_name).trim_end_matches('s') == letters(name)
}

fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or(("", key))
}

/// The letters and digits of a name in lower case.
fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns whether a name turns something off.
fn negates(key: &str) -> bool {
    let name = split(key).1.to_ascii_lowercase();
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| ["disable", "disabled", "skip", "exclude", "ignore", "no", "without"].contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIGGER: &str = "nmp.nvidia.com/enable-multi-node-networking";

    #[test]
    fn slips_other_prefixes_and_suffixes_look_like_the_trigger() {
        for seen in [
            "nmp.nvidia.com/enable-multi-node-netwroking",
            "nmp.nvidia.com/enable-multinode-networking",
            "nmp.nvidia.com/enableMultiNodeNetworking",
            "nmp.nvidia.com/multi-node-networking",
            "nmp.nvidia.com/enable-multi-node-network",
            "nmp.nvidia.com/enable-multi-node-networking-efa",
            "nmp.nvidia.com/enabled-multi-node-networking",
            "nvidia.com/enable-multi-node-networking",
            "nmp.nvida.com/enable-multi-node-networking",
            "enable-multi-node-networking",
            "nmp.nvidia.com.enable-multi-node-networking",
        ] {
            assert!(of_trigger(seen, TRIGGER), "{seen}");
        }
    }

    #[test]
    fn other_annotations_do_not() {
        for seen in [
            TRIGGER,
            "nmp.nvidia.com/disable-multi-node-networking",
            "nmp.nvidia.com/profile",
            "example.com/multi-node",
            "k8s.v1.cni.cncf.io/networks",
            "disable-rdma-injection",
            "sidecar.istio.io/inject",
            "",
        ] {
            assert!(!of_trigger(seen, TRIGGER), "{seen}");
        }
        assert!(!of_trigger("example.com/rdma", "team.io/rdma"));
        assert!(of_trigger("team.example/rmda", "team.example/rdma"));
    }

    #[test]
    fn slips_in_a_resource_are_found_and_other_devices_are_not() {
        for seen in [
            "nvidia.com/gpus",
            "nvidia/gpu",
            "nvidia.com/GPU",
            "gpu",
            "gpus",
            "nvida.com/gpu",
            "nvidia.com.gpu",
        ] {
            assert!(of_resource(seen, "nvidia.com/gpu"), "{seen}");
        }
        for seen in
            ["amd.com/gpu", "cpu", "nvidia.com/mig-1g.10gb", "nvidia.com/hostdev", "memory", "rdma/ib"]
        {
            assert!(!of_resource(seen, "nvidia.com/gpu"), "{seen}");
        }
    }
}
