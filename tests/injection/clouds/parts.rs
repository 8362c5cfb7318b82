//! Parts of policies.

use std::collections::HashMap;

use fabric_injector::builtin;
use fabric_yaml as yaml;

/// `policy check` looks for what a policy itself declares and nothing reads. A part may have more than one policy reads.
#[test]
fn what_a_part_declares_is_read_somewhere() {
    let mut words: HashMap<&str, usize> = HashMap::new();
    for file in builtin::POLICIES.iter().chain(builtin::PARTS) {
        let lines = file.text.lines().filter(|line| !line.trim_start().starts_with('#'));
        for word in lines.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')) {
            *words.entry(word).or_default() += 1;
        }
    }
    let mut declared = 0;
    for part in builtin::PARTS {
        let root = yaml::read_value(part.text).unwrap().root.unwrap();
        for section in ["parameters", "variables"] {
            for name in root["spec"][section].as_object().into_iter().flat_map(serde_json::Map::keys) {
                assert!(words[name.as_str()] > 1, "{}: nothing reads `{name}`", part.name);
                declared += 1;
            }
        }
    }
    assert!(declared > 20, "{declared}");
}
