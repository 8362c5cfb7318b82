//! The checks of policies refuse nothing that is right, and have no warning about the policies of the repository.

use fabric_injector::builtin;
use fabric_policy::check::{errors, overlaps, warnings};
use fabric_policy::{Definition, PolicyFile, SourceError, definitions};

use super::adapter;
use super::generator::Dice;
use super::generator::policies;
use super::pairs::{number, number_of_pairs};

/// The findings in the file of the policy itself. Those in its parts are found with all policies that take them.
fn findings(definition: &Definition) -> Vec<SourceError> {
    let all = errors(definition).into_iter().chain(warnings(definition));
    all.filter(|finding| *finding.file == *definition.file).collect()
}

fn shown(found: &[SourceError]) -> String {
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_generated_policy_has_no_type_error() {
    let mut dice = Dice::new(number("FABRIC_SEED", 1));
    let (mut read, policies) = (0, number_of_pairs());
    for _ in 0..policies {
        let policy = policies::policy(&mut dice);
        let Ok(definitions) = adapter::read(&policy.files()) else { continue };
        let found = errors(&definitions[0]);
        assert!(found.is_empty(), "{}\n{}", shown(&found), policy.text());
        read += 1;
    }
    assert!(read * 2 > policies, "{read} of {policies} policies load");
}

#[test]
fn the_built_in_policies_have_no_finding() {
    let definitions: Vec<Definition> =
        builtin::POLICIES.iter().map(|policy| policy.definition().unwrap()).collect();
    for definition in &definitions {
        let found = findings(definition);
        assert!(found.is_empty(), "{}", shown(&found));
        let of_provider: Vec<&Definition> =
            definitions.iter().filter(|other| other.provider == definition.provider).collect();
        assert!(overlaps(&of_provider).is_empty(), "{}", definition.provider);
    }
}

#[test]
fn the_policies_of_the_trials_have_no_finding() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/policies/written");
    let mut read = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let file = PolicyFile::read(&path.to_string_lossy(), &text).unwrap();
        for definition in definitions(&[file], builtin::files()).unwrap() {
            let found = findings(&definition);
            assert!(found.is_empty(), "{}", shown(&found));
            read += 1;
        }
    }
    assert!(read > 5);
}
