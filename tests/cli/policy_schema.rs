//! `fabric-injector policy schema`.

use super::{file, run};

#[test]
fn the_schema_is_that_of_the_repository() {
    let run = run(&["policy", "schema"], "").exits(0);
    assert_eq!(run.stderr, "");
    assert!(run.text() == file("schemas/policy.json"), "schemas/policy.json is another one");
    assert_eq!(run.values()[0]["$schema"], "https://json-schema.org/draft/2020-12/schema");
}
