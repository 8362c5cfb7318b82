//! Each cause next to each fact that contradicts causes.

use std::collections::HashMap;

use serde_json::Value;

use super::{diagnose, repository};

/// Lines among which a cause shows: alone, after the end of a job, in one on TCP, and in one on the fabric.
const AROUND: [&str; 4] = [
    "",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n",
    "train-0:100:900 [0] NCCL INFO Using network Socket\ntrain-1:100:900 [0] NCCL INFO Using network Socket\n\
     train-0:100:900 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n\
     train-1:100:900 [0] NCCL INFO comm 0x1 rank 1 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n",
    "train-1:7:8 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n",
];

/// The samples of causes, and those of facts.
fn samples() -> [HashMap<String, String>; 2] {
    let mut all = [HashMap::new(), HashMap::new()];
    for row in include_str!("samples.tsv").lines().filter(|row| !row.starts_with('#')) {
        let (name, line) = row.split_once('\t').expect(row);
        let line = match line.split_once(' ') {
            Some(("W", rest)) => format!("train-0:100:900 [0] x.cc:1 NCCL WARN {rest}"),
            Some(("I", rest)) => format!("train-0:100:900 [0] NCCL INFO {rest}"),
            Some(("U", rest)) => format!("[1760452113.845001] [train-0:100:0]  x.c:1 UCX  ERROR {rest}"),
            _ => line.to_owned(),
        };
        let fact = name.strip_prefix("fact ");
        all[usize::from(fact.is_some())].insert(fact.unwrap_or(name).to_owned(), line);
    }
    all
}

fn table(name: &str, key: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(repository().join("signatures").join(name)).unwrap();
    let root = fabric_yaml::read_value(&text).unwrap().root.unwrap();
    root[key].as_array().unwrap().clone()
}

fn texts<'v>(entry: &'v Value, key: &str) -> Vec<&'v str> {
    entry[key].as_array().into_iter().flatten().map(|text| text.as_str().unwrap()).collect()
}

/// The report on lines, and the codes of the cause and of the notes.
fn named(text: &str) -> (Value, Vec<String>) {
    let found = diagnose(&[("a", text.as_bytes())], 4096);
    let all = found["jobs"].as_array().unwrap().iter();
    let reasons = all.flat_map(|job| {
        std::iter::once(&job["cause"]).chain(job["notes"].as_array().unwrap()).filter(|one| !one.is_null())
    });
    let codes = reasons.map(|one| one["code"].as_str().unwrap().to_owned()).collect();
    (found, codes)
}

#[test]
fn no_cause_stands_next_to_what_contradicts_it() {
    let [of_causes, of_facts] = samples();
    let (causes, facts) = (table("causes.yaml", "causes"), table("contradictions.yaml", "facts"));
    let (mut seen, mut pairs) = (std::collections::HashSet::new(), 0);
    for cause in causes.iter().filter(|cause| !texts(cause, "contains").is_empty()) {
        let code = cause["code"].as_str().unwrap();
        // The same cause in other lines.
        if !seen.insert(code) {
            continue;
        }
        let line = of_causes.get(code).unwrap_or_else(|| panic!("{code} has no sample"));
        let needs: String =
            texts(cause, "needs").iter().flat_map(|fact| [of_facts[*fact].as_str(), "\n"]).collect();
        let shown: Vec<&str> = AROUND
            .into_iter()
            .filter(|around| named(&format!("{needs}{around}{line}\n")).1.iter().any(|one| one == code))
            .collect();
        assert!(!shown.is_empty(), "{code} is not named: {line}");
        for around in &shown {
            let (found, _) = named(&format!("{needs}{around}{line}\n"));
            let evidence = found["cause"]["evidence"]["line"].as_str().unwrap_or_default();
            let is_own = texts(cause, "contains").iter().any(|text| evidence.contains(text));
            assert!(found["cause"]["code"] != code || is_own || code == "nccl_error", "{code}: {evidence}");
        }
        if !needs.is_empty() {
            let (_, without) = named(&format!("{}{line}\n", shown[0]));
            assert!(!without.iter().any(|one| one == code), "{code} without what it needs");
        }
        for fact in facts.iter().map(|fact| fact["fact"].as_str().unwrap()) {
            let contradicts = texts(cause, "contradicted_by").contains(&fact);
            for around in shown.iter().filter(|_| contradicts) {
                let (found, codes) = named(&format!("{needs}{around}{line}\n{}\n", of_facts[fact]));
                assert!(!codes.iter().any(|one| one == code), "{code} next to {fact}: {found:#}");
                pairs += 1;
            }
        }
        let unknown: Vec<&str> = [texts(cause, "contradicted_by"), texts(cause, "needs")]
            .concat()
            .into_iter()
            .filter(|name| !of_facts.contains_key(*name))
            .collect();
        assert!(unknown.is_empty(), "{code}: {unknown:?}");
    }
    assert_eq!(of_facts.len(), facts.len());
    assert!(pairs > 80, "{pairs}");
}

/// A cause that nothing contradicts stays the one at the head, whatever else the log has.
#[test]
fn other_facts_leave_a_cause_that_ends_a_job() {
    let [of_causes, of_facts] = samples();
    let mut seen = std::collections::HashSet::new();
    for cause in table("causes.yaml", "causes") {
        let code = cause["code"].as_str().unwrap();
        // The sample is that of the first entry of a code.
        let is_fatal = seen.insert(code.to_owned()) && cause["fatal"] == true;
        let Some(line) = of_causes.get(code).filter(|_| is_fatal) else { continue };
        // Any line of a rank contradicts it.
        if code == "ssh_failed" {
            continue;
        }
        let (none, contradictions) = (texts(&cause, "needs").is_empty(), texts(&cause, "contradicted_by"));
        // These facts show that the job goes on.
        let goes_on = ["communicator_ready", "nvlink_connected"];
        for (fact, said) in of_facts.iter().filter(|(fact, _)| none && !goes_on.contains(&fact.as_str())) {
            if !contradictions.contains(&fact.as_str()) {
                let (found, codes) = named(&format!("{said}\n{line}\n"));
                assert_eq!(found["verdict"], "crash", "{code} after {fact}");
                assert!(
                    codes.iter().any(|one| one == code) || fact == "nvlink_between_nodes",
                    "{code} after {fact}"
                );
            }
        }
    }
}
