//! The README and the documents do what they show: every console block is run, and what is shown below it is
//! what comes out.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
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
    let command = command.replace("cargo run --release --quiet --", "fabric-injector");
    let path = format!("{}:/usr/bin:/bin", binary.parent().unwrap().display());
    let shell = format!("{command} 2>&1");
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
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        check(path.strip_prefix(root()).unwrap().to_str().unwrap());
    }
}

/// Every code that a report can carry is explained, and nothing else is.
#[test]
fn every_code_of_a_report_is_documented() {
    let documented = fs::read_to_string(root().join("docs/reports.md")).unwrap();
    let source = fs::read_to_string(root().join("src/engine/codes.rs")).unwrap();
    let codes: Vec<&str> = source
        .lines()
        .filter(|line| line.contains("=> \""))
        .filter_map(|line| line.split('"').nth(1))
        .filter(|code| code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
        .collect();
    assert!(codes.len() > 25, "{codes:?}");
    for code in codes {
        assert!(documented.contains(&format!("| `{code}` |")), "docs/reports.md does not explain `{code}`");
    }
    for policy in fs::read_dir(root().join("policies")).unwrap() {
        let policy = fs::read_to_string(policy.unwrap().path()).unwrap();
        for code in policy.lines().filter_map(|line| line.trim().strip_prefix("- code: ")) {
            assert!(
                documented.contains(&format!("| `{code}` |")),
                "docs/reports.md does not explain `{code}`"
            );
        }
    }
}
