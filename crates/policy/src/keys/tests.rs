use std::collections::BTreeSet;

use super::{CHECK, FILE, MATCH, Map, PARAMETER, RULE, SPEC};

const POLICY: &str = include_str!("../../../../docs/policy.md");
const VALUES: &str = include_str!("../../../../docs/policy-values.md");
const EXTENDING: &str = include_str!("../../../../docs/extending.md");

/// The keys in the first cells of the table below a heading of a page.
fn documented<'a>(page: &'a str, heading: &str) -> BTreeSet<&'a str> {
    let (_, section) = page.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{heading}"));
    let rows = section.split("\n#").next().unwrap().lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2)).collect()
}

#[test]
fn the_reference_has_a_row_for_each_key() {
    let tables: [(&str, &str, &Map); 6] = [
        (POLICY, "## The keys of `spec`", &SPEC),
        (POLICY, "### `match`", &MATCH),
        (VALUES, "## Parameters", &PARAMETER),
        (POLICY, "### `checks`", &CHECK),
        (POLICY, "### `files`", &FILE),
        (POLICY, "### `rules`", &RULE),
    ];
    for (page, heading, map) in tables {
        assert_eq!(documented(page, heading), map.names().collect(), "{heading}");
    }
    assert_eq!(documented(EXTENDING, "## What each key does"), SPEC.names().collect());
}
