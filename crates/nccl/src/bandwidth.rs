//! The bandwidth that nccl-tests measured.

use std::fmt::Write;

/// The length of the longest bar.
const WIDTH: usize = 40;
/// The part of the expected bandwidth that a healthy job reaches.
const HEALTHY: f64 = 0.7;

/// The bandwidth over the sizes, next to the expected one; empty without rows.
pub(super) fn text(rows: &[(u64, f64)], expected: Option<&(String, f64)>) -> String {
    let Some(largest) = rows.iter().map(|(_, busbw)| *busbw).max_by(f64::total_cmp) else {
        return String::new();
    };
    let mut text = String::new();
    let compared = expected.map(|(machine, wanted)| {
        let judged = if largest < wanted * HEALTHY { "too little" } else { "as expected" };
        format!(", and {wanted} GB/s is expected of {machine}: {judged}")
    });
    let compared = compared.unwrap_or_else(|| "; no figure for this machine is known".to_owned());
    let _ = writeln!(text, "bandwidth: {largest} GB/s at best{compared}");
    let most = expected.map_or(largest, |(_, wanted)| wanted.max(largest)).max(f64::MIN_POSITIVE);
    for (size, busbw) in rows {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and the width"
        )]
        #[expect(clippy::cast_precision_loss, reason = "the width is small")]
        let length = (busbw / most * WIDTH as f64).round().clamp(0.0, WIDTH as f64) as usize;
        let _ = writeln!(text, "{:>9} {:<WIDTH$} {busbw:.2}", binary(*size), "=".repeat(length));
    }
    text
}

/// A size with a binary unit.
fn binary(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut size, mut unit) = (bytes, 0);
    while size >= 1024 && size.is_multiple_of(1024) && unit + 1 < units.len() {
        (size, unit) = (size / 1024, unit + 1);
    }
    format!("{size} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bandwidth_is_compared_with_that_of_the_machine() {
        let rows = [(1 << 20, 20.0), (8 << 30, 240.0)];
        let machine = ("p5.48xlarge".to_owned(), 480.0);
        let wanted = format!(
            "bandwidth: 240 GB/s at best, and 480 GB/s is expected of p5.48xlarge: too little\n    1 MiB {:<40} 20.00\n    8 GiB {:<40} 240.00\n",
            "==",
            "=".repeat(20)
        );
        assert_eq!(text(&rows, Some(&machine)), wanted);
        assert!(text(&rows, None).starts_with("bandwidth: 240 GB/s at best; no figure"));
        assert!(text(&[(1, 400.0)], Some(&machine)).contains("as expected"));
        assert_eq!(text(&[], Some(&machine)), "");
        assert_eq!(binary(1536), "1536 B");
    }
}
