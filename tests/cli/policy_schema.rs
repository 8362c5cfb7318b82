//! `fabric-injector policy schema`.

use super::run;

#[test]
fn it_prints_the_schema_of_a_kind_of_files() {
    for (args, kind) in
        [(&["policy", "schema"][..], "FabricPolicy"), (&["policy", "schema", "--cases"], "PolicyTest")]
    {
        let run = run(args, "").exits(0);
        assert_eq!(run.stderr, "");
        let schema = &run.values()[0];
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(schema["properties"]["kind"]["const"], kind);
    }
}
