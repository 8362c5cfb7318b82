use std::collections::BTreeSet;

use super::{CHECK, FILE, MATCH, Map, PARAMETER, RULE, SPEC};

/// The keys in the first cells of the table below a heading of the reference.
fn documented(heading: &str) -> BTreeSet<&str> {
    let page = include_str!("../../../../docs/policy.md");
    let (_, section) = page.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{heading}"));
    let rows = section.split("\n#").next().unwrap().lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2)).collect()
}

#[test]
fn the_reference_has_a_row_for_each_key() {
    let tables: [(&str, &Map); 6] = [
        ("## The keys of `spec`", &SPEC),
        ("### `match`", &MATCH),
        ("### `parameters`", &PARAMETER),
        ("### `checks`", &CHECK),
        ("### `files`", &FILE),
        ("### `rules`", &RULE),
    ];
    for (heading, map) in tables {
        assert_eq!(documented(heading), map.names().collect(), "{heading}");
    }
    assert_eq!(documented("## Extending a policy"), SPEC.names().collect());
}
