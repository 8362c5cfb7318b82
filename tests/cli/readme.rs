//! The README and the documents do what they show: every console block is run, and what is shown below it is
//! what comes out.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fabric_engine::FINDINGS;
use fabric_workloads::advice::NO_POD_TEMPLATE;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The documents in `docs` and in its folders.
fn documents() -> Vec<PathBuf> {
    let mut folders = vec![root().join("docs")];
    let mut documents = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { folders.push(path) } else { documents.push(path) }
        }
    }
    documents
}

/// A fenced block of a document: its language and its lines.
struct Block {
    language: String,
    lines: Vec<String>,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => open = Some(Block { language: language.to_owned(), lines: Vec::new() }),
            (None, Some(block)) => block.lines.push(line.to_owned()),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// Runs a command as a reader would, with the binary of this build in place of the one that cargo would build.
fn run(command: &str) -> String {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_fabric-injector"));
    let command = command.replace("cargo run --", "fabric-injector");
    let path = format!("{}:/usr/bin:/bin", binary.parent().unwrap().display());
    let shell = format!("{{ {command}; }} 2>&1");
    let output =
        Command::new("sh").args(["-c", &shell]).env_clear().env("PATH", path).current_dir(root()).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

/// Commands (`$ …`) of a console block, each with the lines shown below it.
fn commands(block: &Block) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in &block.lines {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), Vec::new())),
            (None, Some((_, shown))) => shown.push(line.clone()),
            (None, None) => panic!("a console block begins with `$ `: {line}"),
        }
    }
    commands
}

fn check(document: &str) -> usize {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let mut last = String::new();
    let mut checked = 0;
    for block in blocks(&text) {
        match block.language.as_str() {
            "console" => {
                for (command, shown) in commands(&block) {
                    if command == "cargo test" {
                        continue;
                    }
                    last = run(&command);
                    if !shown.is_empty() {
                        assert_eq!(last.trim_end(), shown.join("\n"), "{document}: {command}");
                    }
                    checked += 1;
                }
            }
            // A part of what the command before it prints.
            "diff" => {
                assert!(last.contains(&block.lines.join("\n")), "{document}: not in\n{last}");
                checked += 1;
            }
            _ => {}
        }
    }
    checked
}

#[test]
fn the_readme_shows_what_happens() {
    assert!(check("README.md") >= 2);
}

#[test]
fn the_documents_show_what_happens() {
    for path in documents() {
        check(path.strip_prefix(root()).unwrap().to_str().unwrap());
    }
    check("certs/README.md");
}

/// `.ci/run` calls it so, and runs the command that the page has.
#[test]
fn the_checks_run_the_command_that_passes_the_tests() {
    let file = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let readme = file("README.md");
    let commands: Vec<&str> = readme.lines().filter(|line| line.starts_with("cargo test")).collect();
    let checks = file(".ci/run");
    let (_, section) = checks.split_once("section \"tests (the command of the README)\"\n").unwrap();
    let run = section.lines().next().unwrap().split(" 2>&1").next().unwrap();
    assert_eq!(commands, [run]);
}

/// The documents outside of `docs`.
const PAGES: [&str; 4] = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "certs/README.md"];

/// What a document leads to is there: the file, and the heading in it.
#[test]
fn every_link_within_the_repository_leads_somewhere() {
    let mut links = 0;
    for document in documents().into_iter().chain(PAGES.map(|name| root().join(name))) {
        let text = fs::read_to_string(&document).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            if link.contains("://") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if path.is_empty() { document.clone() } else { document.parent().unwrap().join(path) };
            assert!(target.exists(), "{}: {link}", document.display());
            if !heading.is_empty() {
                let text = fs::read_to_string(&target).unwrap();
                let found = text.lines().any(|line| anchor(line).is_some_and(|anchor| anchor == heading));
                assert!(found, "{}: {link}", document.display());
            }
            links += 1;
        }
    }
    assert!(links > 15, "{links} links were found");
}

/// A statement of the threat model is shown by a test that is there.
#[test]
fn every_test_that_the_threat_model_names_is_there() {
    let text = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let named: Vec<(&str, &str)> = text.split('`').filter_map(|name| name.split_once("::")).collect();
    assert!(named.len() > 15, "{named:?}");
    for (file, test) in named {
        let source = fs::read_to_string(root().join(format!("tests/{file}.rs"))).unwrap_or_default();
        assert!(source.contains(&format!("fn {test}(")), "SECURITY.md: there is no `{file}::{test}`");
    }
}

/// By what a heading is linked to.
fn anchor(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    Some(kept.map(|c| if c == ' ' { '-' } else { c }).collect())
}

/// Every code that a report can carry is explained, and nothing else is.
#[test]
fn every_code_of_a_report_is_documented() {
    let documented = fs::read_to_string(root().join("docs/reports.md")).unwrap();
    let source = fs::read_to_string(root().join("crates/engine/src/record/codes.rs")).unwrap();
    let mut codes: Vec<&str> = source
        .lines()
        .filter(|line| line.contains("=> \""))
        .filter_map(|line| line.split('"').nth(1))
        .filter(|code| code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
        .collect();
    assert!(codes.len() > 25, "{codes:?}");
    codes.extend(FINDINGS);
    codes.push(NO_POD_TEMPLATE);
    // The codes in the first cells.
    let rows = documented.lines().filter(|line| line.starts_with("| `"));
    let explained: BTreeSet<&str> =
        rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2)).collect();
    for code in codes {
        assert!(explained.contains(code), "docs/reports.md does not explain `{code}`");
    }
    let entries = fs::read_dir(root().join("policies")).unwrap().map(|entry| entry.unwrap().path());
    for policy in entries.filter(|path| path.is_file()) {
        let policy = fs::read_to_string(policy).unwrap();
        let policy = fabric_yaml::read_value(&policy).unwrap().root.unwrap();
        for check in policy["spec"]["checks"].as_array().into_iter().flatten() {
            let code = check["name"].as_str().unwrap();
            assert!(explained.contains(code), "docs/reports.md does not explain `{code}`");
        }
    }
}
