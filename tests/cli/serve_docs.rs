//! `docs/serve.md` lists all options, metrics and limits of a server, and its log lines about pods and workloads.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fabric_engine::admission::{OnError, sample_review};
use fabric_injector::builtin;
use fabric_injector::policy_sources::PolicySources;
use fabric_injector::server::{AppState, Limits, MAX_BODY};
use serde_json::{Value, json};

use super::server::Server;
use super::{POLICY, ROOT, command, file, folder, refusing, run};

/// An option of `serve`, as its help or the document tells it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServeOption {
    name: String,
    pub(crate) variable: Option<String>,
    default: String,
}

/// The options that `serve --help` tells.
pub(crate) fn options() -> Vec<ServeOption> {
    let help = run(&["serve", "--help"], "").exits(0);
    // An option begins a line; what is said of it stands further in.
    let entries = help.text().split("\n      --").skip(1);
    let told = |text: &str, key: &str| {
        let (_, rest) = text.split_once(key)?;
        Some(rest.split_once(']').unwrap().0.trim().replace('`', ""))
    };
    entries
        .map(|entry| {
            let entry = entry.split("\n  -h, --help").next().unwrap();
            let text = entry.split_whitespace().collect::<Vec<_>>().join(" ");
            ServeOption {
                name: format!("--{}", text.split(' ').next().unwrap()),
                variable: told(&text, "[env:"),
                default: told(&text, "[default:").unwrap_or_default(),
            }
        })
        .collect()
}

/// The rows of the table below this head, each with its cells.
#[track_caller]
fn table(head: &str) -> Vec<Vec<String>> {
    let text = file("docs/serve.md");
    let (_, rest) = text.split_once(&format!("\n{head}\n")).unwrap_or_else(|| panic!("no table `{head}`"));
    let rows = rest.lines().skip(1).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}

/// What a cell has between back quotes.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn state() -> AppState {
    let sources = PolicySources { policies: vec![builtin::DEFAULT.to_owned()], ..PolicySources::default() };
    AppState::new(sources.load().unwrap(), OnError::Deny, Limits::default())
}

/// The source files of a part of the program.
fn sources(path: &str) -> Vec<PathBuf> {
    let path = Path::new(ROOT).join("src").join(path);
    if path.is_file() {
        return vec![path];
    }
    let files = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.is_file()).collect()
}

#[test]
fn every_option_stands_in_the_table_with_its_variable_and_its_default() {
    let mut told: Vec<ServeOption> = table("| option | default | meaning |")
        .iter()
        .map(|row| ServeOption {
            variable: Some(variable(&quoted(&row[0])[0])),
            name: quoted(&row[0]).remove(0),
            default: row[1].replace('`', ""),
        })
        .collect();
    let mut options = options();
    assert!(options.len() > 12, "{options:?}");
    told.sort();
    options.sort();
    assert_eq!(told, options);
    assert!(
        file("docs/serve.md").contains(&format!("`{}` for `--max-in-flight`", variable("--max-in-flight")))
    );
}

/// The environment variable of an option.
fn variable(option: &str) -> String {
    format!("FABRIC_INJECTOR_{}", option.trim_start_matches('-').to_uppercase().replace('-', "_"))
}

/// Name, type and labels of each metric that a scrape shows.
fn scraped() -> BTreeSet<(String, String, Vec<String>)> {
    let text = state().metrics().encode();
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let Some((family, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        let ending = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let name = format!("{family}{ending}");
        let sample = text.lines().find(|line| line.starts_with(&format!("{name}{{")));
        let labels = sample.and_then(|sample| sample.split_once('{')).map(|(_, rest)| rest);
        let labels = labels.and_then(|rest| rest.rsplit_once('}')).map(|(labels, _)| labels);
        let labels = labels.into_iter().flat_map(|labels| labels.split(','));
        let labels = labels.map(|label| label.split('=').next().unwrap().to_owned()).collect();
        found.insert((name, kind.to_owned(), labels));
    }
    found
}

#[test]
fn every_metric_stands_in_the_table_with_its_type_and_its_labels() {
    let told: BTreeSet<_> = table("| metric | type | labels | meaning |")
        .iter()
        .map(|row| (quoted(&row[0]).remove(0), row[1].clone(), quoted(&row[2])))
        .collect();
    let (process, own): (BTreeSet<_>, BTreeSet<_>) =
        scraped().into_iter().partition(|(name, ..)| name.starts_with("process_"));
    assert_eq!(told, own);
    let text = file("docs/serve.md");
    for (name, ..) in process {
        assert!(text.contains(&format!("`{name}`")), "docs/serve.md does not name `{name}`");
    }
}

#[test]
fn documents_name_no_metric_that_is_not_there() {
    let known: BTreeSet<String> = scraped().into_iter().map(|(name, ..)| name).collect();
    for document in ["docs/serve.md", "docs/operating.md", "docs/certificates.md", "certs/README.md"] {
        let text = file(document);
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|word| word.starts_with("fabric_injector_")) {
            assert!(known.contains(word), "{document}: {word}");
        }
    }
}

/// Each constant of the server that limits something, and its place in the pages: the row of the table of limits, or none
/// for the text. The text is empty for a detail that no operator acts on.
const LIMITS: &[(&str, Option<&str>, &str)] = &[
    ("MAX_HEAD: usize = 16 << 10", Some("head of a request"), "16 KiB"),
    ("STALLED: Duration = Duration::from_millis(250)", None, "has had 250ms"),
    ("for _ in 0..2 {", None, "waits for that up to 500ms"),
    ("MAX_WARNING: usize = 256", None, "at most 256 bytes"),
    ("MAX_WARNINGS: usize = 4_096", None, "all together 4,096"),
    ("POLL: Duration = Duration::from_secs(1)", None, "and values every second"),
    ("LINGER: Duration = Duration::from_secs(1)", None, ""),
    ("SETTLE: Duration = Duration::from_millis(100)", None, "the same twice, 100ms apart"),
    ("UNREST: Duration = Duration::from_secs(5)", None, "keep changing for 5s"),
    ("READ_TIMEOUT: Duration = Duration::from_secs(10)", None, "reading them takes more than 10s"),
    ("FILE: Allowed = Allowed { what: \"certificate or key\", mebibytes: 1,", None, "and 1 MiB for PEM"),
    ("BACKOFF: Duration = Duration::from_millis(200)", None, ""),
    ("MAX_CONFLICTS: u32 = 20", None, ""),
    ("COMPARISON: Duration = Duration::from_secs(3)", None, ""),
    ("REGISTRATION: &str = \"registration\"", None, "`fabric_injector_registration_failures_total`"),
    ("EVENTS: &str = \"events\"", None, "failed reconciliations, Events that fail"),
    (
        "CONDITIONS: &str = \"conditions\"",
        None,
        "a registered condition that differs from that of the policies in use",
    ),
    ("INTERVAL: Duration = Duration::from_secs(30)", None, "reconciles every 30 seconds"),
    ("INTERVAL: Duration = Duration::from_secs(1)", None, "Reviews use changed objects within a second"),
    ("PATIENCE: Duration = Duration::from_mins(2)", None, "If it is still absent after two minutes"),
    ("KEPT: Duration = Duration::from_hours(1)", None, "or an hour after the last such pod was created"),
    ("MOST: usize = 1_000", None, "A server looks for 1,000 absent objects"),
    ("INTERVAL: Duration = Duration::from_secs(10)", None, "every ten seconds"),
    ("WAIT_FOR_NAMED: Duration = Duration::from_secs(10)", None, "Nodes wait at most ten seconds"),
    ("ALL: [Self; 5]", None, "the nodes that were known last, however long ago"),
    ("UNREACHED: &str = ", None, "has the error and the remedy"),
    ("PROPAGATION: Duration = Duration::from_secs(2)", None, "in `caBundle` for two seconds"),
    ("SETTLED: Duration = BACKDATE.saturating_mul(2)", None, ""),
    ("SHORTEST: Duration = Duration::from_millis(250)", None, ""),
    ("START_TIMEOUT: Duration = Duration::from_mins(1)", None, "waits up to a minute for the configuration"),
    ("START_INTERVAL: Duration = Duration::from_millis(250)", None, ""),
    ("RETRY: u32 = 30", None, "and every 30 seconds"),
    ("ADMIN_CONNECTIONS: usize = 64", Some("connections to the admin port"), "64"),
    ("IN_FLIGHT: usize = 512", None, "| `512` |"),
    ("BODY_BYTES: usize = 32 << 20", Some("bodies of all requests and unread responses"), "32 MiB"),
    (
        "BEFORE_EXPIRY: Duration = Duration::from_mins(1)",
        None,
        "valid for another minute, or for a tenth of its validity",
    ),
    ("MAX_BODY: usize = 7 << 20", Some("body of a request"), "7 MiB"),
    ("BODY_TIMEOUT: Duration = Duration::from_secs(10)", Some("time for a body"), "10s"),
    ("LEAST_RATE: f64 = 1_048_576.0", None, "less than 1 MiB a second"),
    ("SMALL_BODY: usize = 64 << 10", Some("bodies of all requests and unread responses"), "64 KiB"),
    ("SHARE: usize = 4", Some("reviews that wait"), "8 MiB"),
    ("RECENT: Duration = Duration::from_mins(1)", None, ""),
    ("QUIET: Duration = Duration::from_mins(10)", None, ""),
    ("SHORT: usize = 32 << 10", None, ""),
    ("SHORT_STEPS: u64 = 200_000", None, ""),
    ("EVALUATIONS: usize = 8", Some("long evaluations at a time"), "8 of up to 384 KiB"),
    ("BYTES: usize = 3 << 20", Some("long evaluations at a time"), "3 MiB together"),
    ("HANDSHAKE: Duration = Duration::from_secs(5)", Some("TLS handshake"), "5s"),
    ("HEAD: Duration = Duration::from_secs(10)", Some("time for a head, and idle time before it"), "10s"),
    ("LAST_REQUEST: Duration = Duration::from_secs(1)", None, ""),
    ("MAX_MESSAGE: usize = 512", None, "cut at 512 characters"),
    ("CLOSING: Duration = Duration::from_secs(35)", Some("age of a connection"), "closed after 35s more"),
];

#[test]
fn every_limit_of_the_server_is_told() {
    assert_eq!(MAX_BODY, 7 << 20);
    let pages = ["docs/serve.md", "docs/operating.md", "docs/certificates.md"].map(file).join(" ");
    let text = pages.split_whitespace().collect::<Vec<_>>().join(" ");
    let rows = table("| what | limit | beyond it |");
    let code: String = sources("server").iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let response = file("crates/engine/src/admission/response.rs");
    let warnings = response.lines().filter(|line| line.contains("const MAX_WARNING")).collect::<Vec<_>>();
    let code = code
        + &warnings.join("\n")
        + &file("src/pem.rs")
        + &file("src/cluster/reconciler.rs")
        + file("src/cluster/node_watch/known.rs").split("#[cfg(test)]").next().unwrap()
        + file("src/cluster/replica.rs").split("#[cfg(test)]").next().unwrap();
    for (declared, row, told) in LIMITS {
        assert!(code.contains(declared), "`{declared}` is gone; mend this list and the page");
        match row {
            None => assert!(text.contains(told), "no page tells `{declared}`"),
            Some(row) => {
                let cells = rows.iter().find(|cells| cells[0] == *row).unwrap_or_else(|| panic!("no {row}"));
                assert!(cells[1..].iter().any(|cell| cell.contains(told)), "{cells:?}");
            }
        }
    }
    for line in code.lines().filter(|line| line.contains("const ") && !line.contains("fn ")) {
        let known = LIMITS.iter().any(|(declared, ..)| line.contains(declared));
        assert!(known, "`LIMITS` does not have `{}`", line.trim());
    }
}

#[test]
fn a_server_that_was_told_nothing_answers_its_sample_with_the_fast_network() {
    for policy in ["aws-efa", "azure-infiniband", "oci-sriov"] {
        let sources = PolicySources { policies: vec![policy.to_owned()], ..PolicySources::default() };
        let set = sources.load().unwrap();
        let review = sample_review(&set.policies()[0]).to_string();
        let run = run(&["mutate", "--policy", policy, "-o", "review", "-q"], &review).exits(0);
        let response = &run.values()[0]["response"];
        assert_eq!(response["patchType"], "JSONPatch", "{response}");
        assert_eq!(response["auditAnnotations"]["warnings"], Value::Null, "{response}");
    }
}

#[test]
fn health_is_told_as_it_is_shown() {
    let folder = folder(&[("lab.yaml", POLICY)]);
    let args = ["serve", "--policy", "lab.yaml", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let server = Server::start(command(folder.path()).args(args));
    fs::write(folder.path().join("lab.yaml"), "x: [").unwrap();
    let shown = server.get_until("/readyz?verbose", "the last reload failed");
    let documented = file("docs/serve.md");
    let begin = documented.find("[+]certificate: valid until ").unwrap();
    let documented = documented[begin..].split_once("```").unwrap().0;
    let (documented, shown): (Vec<_>, Vec<_>) = (documented.lines().collect(), shown.lines().collect());
    assert!(shown[0].starts_with("[+]certificate: valid until "), "{shown:?}");
    // Where in the file the mistake is stands between.
    assert_eq!(shown[1..documented.len() - 1], documented[1..documented.len() - 1]);
    assert_eq!(shown.last(), documented.last());
    let log = server.log();
    assert!(log.iter().any(|line| line.contains("\"reload failed, the previous version stays in use\"")));
}

#[test]
fn a_log_line_has_every_key_once_and_tells_what_the_table_says() {
    let policy = refusing();
    let folder = folder(&[("lab.yaml", &policy)]);
    super::run_in(folder.path(), &["certs", "tls", "--ip", "127.0.0.1"], "").exits(0);
    let args = ["serve", "--policy", "lab.yaml", "--tls-dir", "tls", "--listen", "127.0.0.1:0"];
    let server = Server::start(command(folder.path()).args(args).args([
        "--admin-listen",
        "127.0.0.1:0",
        "--log",
        "fabric_injector=debug",
    ]));
    let set = PolicySources {
        policies: vec![folder.path().join("lab.yaml").display().to_string()],
        ..PolicySources::default()
    };
    let mut review = sample_review(&set.load().unwrap().policies()[0]);
    let ca = folder.path().join("tls/ca.crt");
    server.post(&ca, "127.0.0.1", &review);
    review["request"]["object"]["spec"]["containers"][0]["env"] =
        json!([{"name": "FABRIC", "value": "mine"}]);
    let answer = server.post(&ca, "127.0.0.1", &review);
    assert_eq!(answer["response"]["status"]["code"], 403, "{answer}");
    server.post(&ca, "127.0.0.1", &json!({}));
    let log = server.log();
    let rows = table("| level | message | fields |");
    for message in ["pod mutated", "pod refused"] {
        let line =
            log.iter().find(|line| line.contains(&format!("\"message\":\"{message}\""))).expect(message);
        let parsed: Value = serde_json::from_str(line).unwrap();
        let row = rows.iter().find(|row| row[1] == message).unwrap();
        assert_eq!(parsed["level"].as_str().unwrap().to_lowercase(), row[0]);
        for field in quoted(&row[2]) {
            assert!(parsed.get(&field).is_some(), "no `{field}` in {line}");
        }
        for key in parsed.as_object().unwrap().keys() {
            assert_eq!(line.matches(&format!("\"{key}\":")).count(), 1, "`{key}` in {line}");
        }
    }
}
