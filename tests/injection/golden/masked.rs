//! What differs between outputs that are alike. The tests of the command line use it, too.

/// The text with `@<digest>` for the digest of each stamp, which a comment in a policy changes.
pub(crate) fn without_digests(text: &str) -> String {
    let is_digest = |text: &str| {
        let hex = text.bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).count();
        hex == 12 && !text[12..].starts_with(|next: char| next.is_ascii_alphanumeric())
    };
    let mut parts = text.split('@');
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        masked.push('@');
        masked.push_str(&if is_digest(part) { format!("<digest>{}", &part[12..]) } else { part.to_owned() });
    }
    masked
}

#[test]
fn only_the_digest_of_a_stamp_is_masked() {
    let kept = "image: a@sha256:0123456789ab\nuser@0123456789a\nuser@0123456789abc\nuser@0123456789abz\n@";
    assert_eq!(without_digests(kept), kept);
    assert_eq!(
        without_digests("by aws-efa@0123456789ab: x, lab@ba9876543210"),
        "by aws-efa@<digest>: x, lab@<digest>"
    );
}
