//! The names that an author most probably means: the nearest one for a name that is not known, and whether a name that may
//! be right is almost another one.

use std::collections::BTreeSet;

/// The longest name that is compared, in bytes: the comparison of two takes the product of their lengths.
pub(crate) const LONGEST: usize = 128;

/// The known name that is nearest to a mistyped one.
pub fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .filter(|candidate| name.len().max(candidate.len()) <= LONGEST)
        .map(|candidate| (strsim::levenshtein(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| {
            *distance <= candidate.len().div_ceil(3) && *distance < candidate.len()
        })
        // A wrong letter is more likely than one too many.
        .min_by_key(|(distance, candidate)| (*distance, candidate.len().abs_diff(name.len()), *candidate))
        .map(|(_, candidate)| candidate)
}

/// A hint with the nearest known name, or with all known names.
pub fn suggest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    if let Some(closest) = closest(name, known.iter().copied()) {
        return did_you_mean(closest);
    }
    known.sort_unstable();
    known.dedup();
    let listed: Vec<String> = known.iter().take(24).map(|name| format!("`{name}`")).collect();
    if listed.is_empty() {
        return "no field is allowed here".to_owned();
    }
    format!("known here: {}{}", listed.join(", "), if known.len() > 24 { ", …" } else { "" })
}

/// A hint with the name that an author most probably means.
pub fn did_you_mean(name: &str) -> String {
    format!("did you mean `{name}`?")
}

/// Returns whether one name is probably a misspelling of the other one. Names that differ in a number, such as `net1`
/// and `net2`, or in a short word, such as `rack` and `rail`, are different names.
pub fn is_misspelling(name: &str, known: &str) -> bool {
    let separators = ['/', '.', '-', '_'];
    let joined = |text: &str| text.replace(separators, "").to_lowercase();
    if name == known || name.len().max(known.len()) > LONGEST {
        return false;
    }
    if joined(name) == joined(known) {
        return true;
    }
    let words = |text: &str| text.split(separators).map(str::to_lowercase).collect::<Vec<_>>();
    let (words, others) = (words(name), words(known));
    let mut slips = 0;
    let fits = words.len() == others.len()
        && words.iter().zip(&others).all(|(word, other)| {
            slips += usize::from(word != other);
            word == other || is_misspelt_word(word, other)
        });
    fits && slips == 1
}

fn is_misspelt_word(word: &str, other: &str) -> bool {
    let letters = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let sorted = |text: &str| text.chars().collect::<BTreeSet<_>>();
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    if letters(word) == letters(other) || digits(word) != digits(other) {
        return false;
    }
    if without_doubled_letters(word) == without_doubled_letters(other) {
        return true;
    }
    let most = match word.len().min(other.len()) {
        0..=2 => 0,
        // A letter too many or too few, or two in the wrong order.
        3..=4 => usize::from(
            word.chars().next() == other.chars().next()
                && (word.len() != other.len() || sorted(word) == sorted(other)),
        ),
        5..=7 => 1,
        _ => 2,
    };
    strsim::osa_distance(word, other) <= most
}

/// The letters of a word, those twice in a row as once.
pub(crate) fn without_doubled_letters(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.dedup();
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelling_is_a_letter_in_a_long_word_or_another_separator() {
        for (name, known) in [
            ("borealis.io/flavour", "borealis.io/flavor"),
            ("nvidia.com/gpu_product", "nvidia.com/gpu.product"),
            ("nvidia.com/hostdve", "nvidia.com/hostdev"),
            ("node.kubernetes.io/instancetype", "node.kubernetes.io/instance-type"),
            ("nvidia.com/gpus", "nvidia.com/gpu"),
            ("rdma/roccee", "rdma/roce"),
            ("UCX_TSL", "UCX_TLS"),
            ("NCCL_SOKET_IFNAME", "NCCL_SOCKET_IFNAME"),
        ] {
            assert!(is_misspelling(name, known), "{name}");
        }
        for (name, known) in [
            ("example.com/rack", "example.com/rail"),
            ("example.com/network-1", "example.com/network-2"),
            ("example.com/rdma-shared-a", "example.com/rdma-shared-b"),
            ("example.com/pool", "example.org/pool"),
            ("topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
            ("nvidia.com/pgpu", "nvidia.com/gpu"),
            ("RCCL_DEBUG", "NCCL_DEBUG"),
            ("NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS"),
        ] {
            assert!(!is_misspelling(name, known), "{name}");
        }
    }
}
