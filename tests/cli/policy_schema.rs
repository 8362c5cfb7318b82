//! `fabric-injector policy schema`.

use super::{file, run};

#[test]
fn the_schemas_are_those_of_the_repository() {
    for (args, copy) in [
        (&["policy", "schema"][..], "schemas/policy.json"),
        (&["policy", "schema", "--cases"], "schemas/cases.json"),
    ] {
        let run = run(args, "").exits(0);
        assert_eq!(run.stderr, "");
        assert!(run.text() == file(copy), "{copy} is another one");
        assert_eq!(run.values()[0]["$schema"], "https://json-schema.org/draft/2020-12/schema");
    }
}
