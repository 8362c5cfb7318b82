//! Logs of public threads, and logs that are generated in the forms of each release, with the verdict about each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests read files and clocks")]

mod contradictions;
mod ends;
mod generator;

use std::path::{Path, PathBuf};

use fabric_nccl::{Diagnosis, Log, Signatures, Verdict};
use generator::{Fault, Form, Network, Prefix, RELEASES};
use serde_json::{Value, json};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The verdict about logs that are read in blocks of this size.
fn diagnose(sources: &[(&str, &[u8])], block: usize) -> Value {
    let signatures = Signatures::built_in().unwrap();
    let mut log = Log::new(signatures);
    for (name, bytes) in sources {
        log.begin(name);
        bytes.chunks(block.max(1)).for_each(|block| log.read(block));
    }
    Diagnosis::read(&mut log).object()
}

fn verdict(text: &str) -> String {
    diagnose(&[("a.log", text.as_bytes())], 4096)["verdict"].as_str().unwrap().to_owned()
}

/// `signatures/cases/cases.tsv` has the verdict and the cause of each. They are excerpts, and some have no verdict.
#[test]
fn logs_of_public_threads_have_their_verdicts() {
    let folder = repository().join("signatures/cases");
    let table = std::fs::read_to_string(folder.join("cases.tsv")).unwrap();
    let (mut count, mut differences) = (0, Vec::new());
    for row in table.lines().skip(1) {
        let fields: Vec<&str> = row.split('\t').collect();
        let [file, _, _, by_hand, wanted, cause] = fields[..] else { panic!("{row}") };
        let bytes = std::fs::read(folder.join(file)).unwrap();
        for block in [7, 4096] {
            let found = diagnose(&[(file, &bytes)], block);
            let named = found["cause"]["code"].as_str().unwrap_or_default();
            if (&found["verdict"], named) != (&wanted.into(), cause) {
                differences.push(format!("{file}: {}, {named}; not {wanted}, {cause}", found["verdict"]));
            }
        }
        // `61.log` hangs on the fabric, and `51.log` uses it with fewer adapters than there are.
        let agrees = ["51.log", "61.log"].contains(&file);
        assert!(wanted != "fabric" || by_hand == "fabric" || agrees, "{file}: a false `fabric`");
        count += 1;
    }
    assert!(differences.is_empty(), "{differences:#?}");
    assert_eq!(count, std::fs::read_dir(&folder).unwrap().count() - 1);
}

#[test]
fn every_network_has_its_verdict_in_every_release_and_behind_every_prefix() {
    let (mut logs, mut unknown) = (0, 0);
    for release in RELEASES {
        for network in Network::ALL {
            for prefix in Prefix::ALL {
                let Some(form) = Form::of(release, network, prefix) else { continue };
                let text = form.job(2, 8);
                let found = verdict(&text);
                assert!(
                    found == form.verdict() || found == "unknown",
                    "{release} {network:?} {prefix:?}: {found}, not {}\n{text}",
                    form.verdict()
                );
                logs += 1;
                unknown += usize::from(found == "unknown");
            }
        }
    }
    assert!(logs > 800 && unknown * 100 <= logs * 15, "{unknown} of {logs} unknown");
}

#[test]
fn jobs_of_any_size_are_judged() {
    for (nodes, gpus) in [(1, 1), (1, 8), (2, 1), (4, 8), (128, 8)] {
        let form = Form::of("2.27.7", Network::Ib, Prefix::None).unwrap();
        let wanted = if nodes == 1 { "single-node" } else { "fabric" };
        let found = diagnose(&[("a", form.job(nodes, gpus).as_bytes())], 1 << 16);
        assert_eq!((&found["verdict"], &found["jobs"][0]["size"]), (&wanted.into(), &(nodes * gpus).into()));
        assert_eq!(found["jobs"][0]["processes"].as_array().unwrap().len(), nodes * gpus);
    }
}

#[test]
fn every_fault_is_named() {
    for release in RELEASES {
        for fault in Fault::ALL {
            let Some((text, wanted, cause)) = generator::with_fault(release, fault) else { continue };
            let found = diagnose(&[("a", text.as_bytes())], 4096);
            assert_eq!(
                (&found["verdict"], &found["cause"]["code"]),
                (&wanted.into(), &cause.into()),
                "{release} {fault:?}\n{text}"
            );
        }
    }
}

/// Logs that are cut, rotated away or of several jobs may be unknown, but are never `fabric` if the job was not.
#[test]
fn a_part_of_a_log_is_never_on_the_fabric_by_mistake() {
    let mut random = fastrand::Rng::with_seed(7);
    for release in RELEASES {
        for network in Network::ALL {
            let Some(form) = Form::of(release, network, Prefix::None) else { continue };
            let text = form.job(2, 4);
            for _ in 0..20 {
                let (from, to) = (random.usize(..text.len()), random.usize(..=text.len()));
                let part = &text.as_bytes()[from.min(to)..from.max(to)];
                let found = diagnose(&[("a", part)], 1000)["verdict"].as_str().unwrap().to_owned();
                let is_fabric = ["fabric"].contains(&form.verdict());
                assert!(
                    found != "fabric" || is_fabric,
                    "{release} {network:?}: {found}\n{}",
                    String::from_utf8_lossy(part)
                );
                // Before that line, nothing shows that NVLink takes the place of TCP.
                let text = String::from_utf8_lossy(part);
                let may_be_tcp = form.verdict() != "fabric"
                    || !text.contains("nNodes") && text.contains("Using network Socket");
                assert!(
                    found != "tcp" || may_be_tcp,
                    "{release} {network:?}: {found}\n{}",
                    String::from_utf8_lossy(part)
                );
            }
        }
    }
}

#[test]
fn jobs_in_one_stream_are_told_apart() {
    let ib = Form::of("2.27.7", Network::Ib, Prefix::None).unwrap();
    let tcp = Form::of("2.27.7", Network::Socket, Prefix::None).unwrap();
    let text = generator::interleaved(&[ib.job_named("a", 2, 4), tcp.job_named("b", 2, 4)]);
    let found = diagnose(&[("a", text.as_bytes())], 4096);
    let verdicts: Vec<&str> =
        found["jobs"].as_array().unwrap().iter().map(|job| job["verdict"].as_str().unwrap()).collect();
    assert_eq!((&found["verdict"], verdicts), (&"tcp".into(), vec!["tcp", "fabric"]));
    // Ranks of one job on both.
    let text = format!("{}{}", ib.ranks("a", 0..4, 8), tcp.ranks("a", 4..8, 8));
    assert_eq!(verdict(&text), "mixed");
}

/// `FABRIC_FUZZ=600 cargo test --release -p fabric-nccl any_bytes` does so for ten minutes.
#[test]
fn any_bytes_are_read() {
    let seconds = std::env::var("FABRIC_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let (begun, seed) = (std::time::Instant::now(), fastrand::u64(..));
    let mut random = fastrand::Rng::with_seed(seed);
    let texts: Vec<String> = RELEASES
        .iter()
        .flat_map(|release| Network::ALL.map(|network| (release, network)))
        .filter_map(|(release, network)| Some(Form::of(release, network, Prefix::Kubectl)?.job(2, 1)))
        .collect();
    while begun.elapsed().as_secs() < seconds {
        let mut bytes = texts[random.usize(..texts.len())].clone().into_bytes();
        for _ in 0..random.usize(..20) {
            let (at, length) = (random.usize(..bytes.len()), random.usize(..40));
            let end = (at + length).min(bytes.len());
            match random.u8(..4) {
                0 => drop(bytes.drain(at..end)),
                1 => bytes[at] = random.u8(..),
                2 => bytes.extend_from_within(at..end),
                _ => bytes.insert(at, b"\n\r\x1b[]:"[random.usize(..6)]),
            }
            if bytes.is_empty() {
                break;
            }
        }
        let (one, other) =
            (diagnose(&[("a", &bytes)], 1 << 16), diagnose(&[("a", &bytes)], random.usize(1..500)));
        assert_eq!(one, other, "seed {seed}: the blocks make a difference");
    }
}

#[test]
fn verdicts_have_names() {
    assert_eq!(Verdict::SingleNode.to_string(), "single-node");
}

/// The findings of `diagnose` in `docs/slow-jobs.md` are in the tables.
#[test]
fn the_causes_that_are_documented_are_there() {
    let root = repository();
    let document = std::fs::read_to_string(root.join("docs/slow-jobs.md")).unwrap();
    let tables = std::fs::read_to_string(root.join("signatures/causes.yaml")).unwrap();
    let mut count = 0;
    for found in document.split("`diagnose").skip(1) {
        let Some((_, codes)) = found.split_once("` (").filter(|(rest, _)| !rest.contains('`')) else {
            continue;
        };
        let codes = codes.split(')').next().unwrap();
        for code in codes.split('`').skip(1).step_by(2).filter(|code| !code.contains(' ')) {
            assert!(tables.contains(&format!("- code: {code}\n")), "{code}");
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

/// `.ci/facts` sees when the files change that write the lines.
#[test]
fn the_sources_of_the_tables_have_hashes() {
    let root = repository();
    let sources = std::fs::read_to_string(root.join("docs/sources.md")).unwrap();
    let mut count = 0;
    for table in ["causes", "contradictions", "network"] {
        let text = std::fs::read_to_string(root.join(format!("signatures/{table}.yaml"))).unwrap();
        let named = text.lines().filter_map(|line| line.strip_prefix("  source: "));
        for source in named.flat_map(|line| line.split("; ")) {
            // A thread, or a repository without a file, has no hash.
            let Some((repository, paths)) = source.split_once(' ').filter(|(name, _)| name.contains('/'))
            else {
                continue;
            };
            for path in paths.split(", ").filter(|path| path.contains('/') && !path.contains(' ')) {
                assert!(sources.contains(&format!("| {repository} | `{path}` | ")), "{repository} {path}");
                count += 1;
            }
        }
    }
    assert!(count > 60, "{count}");
}

/// A pod with devices or without, and a variable.
fn pod(name: &str, has_devices: bool, value: &str) -> Value {
    let limits = if has_devices { json!({"cpu": 8, "example.com/nic": 8}) } else { json!({"cpu": 8}) };
    let env = json!([{"name": "NCCL_IB_HCA", "value": value}]);
    let container = json!({"name": "main", "resources": {"limits": limits}, "env": env});
    json!({"metadata": {"name": name}, "spec": {"containers": [container]}})
}

#[test]
fn counters_prove_the_fabric_where_the_log_does_not_say_it() {
    let busy = "adapter mlx5_0 0\nafter 4\nadapter mlx5_0 4000000000\nend\n";
    let idle = "adapter mlx5_0 0\nafter 4\nadapter mlx5_0 0\nend\n";
    let tcp = Form::of("2.27.7", Network::Socket, Prefix::None).unwrap().job(2, 1);
    let judged = |printed: [&str; 2], text: &str| {
        let mut log = Log::new(Signatures::built_in().unwrap());
        for name in ["a", "b"] {
            log.add_pod(&pod(name, true, ""));
        }
        log.add_pod(&pod("launcher", false, ""));
        log.begin("a");
        log.read(text.as_bytes());
        for (name, printed) in ["a", "b"].into_iter().zip(printed) {
            log.add_counters(name, printed);
        }
        Diagnosis::read(&mut log).object()
    };
    let found = judged([busy, busy], "step 1 | loss 2.0\n");
    assert_eq!((&found["verdict"], &found["cause"]), (&json!("fabric"), &Value::Null));
    assert_eq!(found["jobs"][0]["traffic"], json!({"adapters": ["mlx5_0"], "bytesPerSecond": 2_000_000_000}));
    for printed in [[busy, idle], [idle, busy], ["", busy], [idle, idle]] {
        assert_eq!(judged(printed, "step 1 | loss 2.0\n")["verdict"], "unknown", "{printed:?}");
    }
    assert_eq!(judged([busy, busy], &tcp)["verdict"], "tcp");
    // Explicit lines of the log take precedence, also if the log is incomplete.
    for line in ["Using network Socket", "NET/IB : No device found."] {
        let text = format!("a-0:10:20 [0] NCCL INFO {line}\n");
        assert_eq!(judged([busy, busy], &text)["verdict"], "unknown", "{line}");
    }
}

#[test]
fn a_pod_that_is_not_injected_is_the_cause_where_nothing_says_more() {
    let cause = |stamp: bool, text: &str| {
        let mut log = Log::new(Signatures::built_in().unwrap());
        let mut pod = pod("a", true, "");
        pod["spec"]["containers"][0]["resources"]["limits"] = json!({"nvidia.com/gpu": 8});
        if stamp {
            pod["metadata"]["annotations"] = json!({"fabric-injector.io/injected": "lab@0"});
        }
        log.add_pod(&pod);
        log.begin("a");
        log.read(text.as_bytes());
        let found = Diagnosis::read(&mut log).object();
        assert_eq!(found["verdict"], "unknown", "{found:#}");
        found["cause"]["code"].as_str().unwrap().to_owned()
    };
    let silent = "step 1 | loss 2.0\n";
    assert_eq!(cause(false, silent), "pod_not_injected");
    assert_eq!(cause(true, silent), "no_lines");
    let unresolved = "ssh: Could not resolve hostname train-0.train: Name or service not known\n";
    assert_eq!(cause(false, unresolved), "name_not_resolved");
}

#[test]
fn a_variable_that_differs_from_the_pod_is_named() {
    let notes = |of_pod: &str| {
        let mut log = Log::new(Signatures::built_in().unwrap());
        log.add_pod(&pod("a", true, of_pod));
        log.begin("a");
        log.read(b"a:1:1 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_1.\n");
        Diagnosis::read(&mut log).object()["jobs"][0]["notes"].to_string()
    };
    assert!(notes("mlx5_0").contains("variable_changed"), "{}", notes("mlx5_0"));
    assert!(!notes("mlx5_1").contains("variable_changed"));
    assert!(!notes("$(HCA)").contains("variable_changed"));
}

#[test]
fn fewer_adapters_than_another_rank_are_a_note() {
    let text = Form::of("2.27.7", Network::Ib, Prefix::None).unwrap().job(2, 1);
    let notes = |text: &str| diagnose(&[("a.log", text.as_bytes())], 4096)["jobs"][0]["notes"].to_string();
    assert!(!notes(&text).contains("other_device_counts"), "{text}");
    let using = text.lines().find(|line| line.contains("NET/IB : Using")).unwrap();
    let with_one_more = using.replace("Using [0]", "Using [0]mlx5_9:1/IB [1]");
    let uneven = text.replacen(using, &with_one_more, 1);
    assert_ne!(uneven, text);
    assert!(notes(&uneven).contains("other_device_counts"), "{uneven}");
}
