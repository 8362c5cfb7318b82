//! The tutorial `docs/first-policy.md` does what it shows, in the folder of a reader who follows it.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{file, folder};

/// Runs the lines of a block as a reader would, and returns what the last of them shows without the digests of policies.
fn shown(lines: &str, folder: &Path) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_fabric-injector"));
    let path = format!("{}:/usr/bin:/bin", binary.parent().unwrap().display());
    let script = format!("{{ {lines}\n}} 2>&1");
    let run =
        Command::new("sh").args(["-c", &script]).env_clear().env("PATH", path).current_dir(folder).output();
    let text = String::from_utf8(run.unwrap().stdout).unwrap();
    let without_digest = |line: &str| match line.split_once('@') {
        Some((head, _)) if ["mutated by", "injected: "].iter().any(|mark| head.contains(mark)) => {
            format!("{head}@DIGEST\n")
        }
        _ => format!("{line}\n"),
    };
    text.lines().map(without_digest).collect()
}

#[test]
fn each_step_of_the_tutorial_shows_what_happens() {
    let text = file("docs/first-policy.md");
    let folder = folder(&[]);
    let (mut output, mut steps) = (String::new(), 0);
    for (at, block) in text.split("```").enumerate().filter(|(at, _)| at % 2 == 1) {
        let (language, content) = block.split_once('\n').unwrap_or_else(|| panic!("block {at} is one line"));
        match language {
            "yaml" => {
                let (title, _) = content.split_once('\n').unwrap();
                let (name, before) = match title.strip_prefix("# add to ") {
                    Some(name) => (name, fs::read_to_string(folder.path().join(name)).unwrap()),
                    None => (title.strip_prefix("# ").unwrap(), String::new()),
                };
                let file = folder.path().join(name);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, before + content).unwrap();
            }
            "sh" => output = shown(content, folder.path()),
            "text" => {
                assert_eq!(output, content);
                steps += 1;
            }
            other => panic!("a block of `{other}`"),
        }
    }
    assert_eq!(steps, 9);
}
