//! The cases: every workload through every policy that it is meant for. The tests of the webhook use them too.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fabric_engine::policy_set::PolicySet;
use fabric_injector::builtin;

/// One workload and one policy.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) workload: PathBuf,
    pub(crate) policy: String,
    pub(crate) sets: Vec<String>,
}

impl Case {
    pub(crate) fn name(&self) -> String {
        let file = self.workload.file_stem().unwrap().to_string_lossy().into_owned();
        format!("{file}.{}", self.policy)
    }

    /// The policies of the case. Each is loaded once, since a policy is tried out when it is loaded.
    pub(crate) fn policies(&self) -> Arc<PolicySet> {
        static LOADED: Mutex<BTreeMap<String, Arc<PolicySet>>> = Mutex::new(BTreeMap::new());
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let policies = loaded.entry(format!("{} {:?}", self.policy, self.sets));
        Arc::clone(policies.or_insert_with(|| Arc::new(self.load())))
    }

    fn load(&self) -> PolicySet {
        let definition = builtin::find(&self.policy).unwrap().definition().unwrap();
        let mut overrides = BTreeMap::new();
        for set in &self.sets {
            let (key, text) = set.split_once('=').unwrap();
            let parameter = definition.parameters.iter().find(|parameter| parameter.name == key).unwrap();
            overrides.insert(key.to_owned(), parameter.parse(text).unwrap().into());
        }
        PolicySet::new(vec![(definition, overrides)]).unwrap()
    }
}

/// The folder of the project.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The policies for which each workload without a directive is a case.
const BROAD: [&str; 4] = ["aws-efa", "azure-infiniband", "gcp-tcpxo", "oci-sriov"];

/// Every case.
pub(crate) fn cases() -> Vec<Case> {
    let mut workloads: Vec<PathBuf> =
        fs::read_dir(root().join("tests/workloads")).unwrap().map(|entry| entry.unwrap().path()).collect();
    workloads.sort();
    let mut cases = Vec::new();
    for workload in workloads {
        let text = fs::read_to_string(&workload).unwrap();
        let directives: Vec<Vec<String>> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# golden: ").or_else(|| line.strip_prefix("# case: ")))
            .map(|words| words.split_whitespace().map(str::to_owned).collect())
            .collect();
        for policy in builtin::POLICIES {
            let own = directives.iter().find(|words| words[0] == policy.name);
            if directives.is_empty() && BROAD.contains(&policy.name) || own.is_some() {
                let sets = own.map(|words| words[1..].to_vec()).unwrap_or_default();
                cases.push(Case { workload: workload.clone(), policy: policy.name.to_owned(), sets });
            }
        }
    }
    cases
}
