//! The words of the sources, the manifests and the documentation are those of the Kubernetes documentation: the
//! constructs in [`RULES`] are in none of them, and no doc comment consists of a question or of a name.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The files and folders that are read, without the symbolic links in them.
const ROOTS: [&str; 13] = [
    "src",
    "docs",
    "certs",
    "deploy",
    "policies",
    "benches",
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    ".github",
    "Cargo.toml",
    "clippy.toml",
    ".ci",
];

/// The first line of manifests that are rendered from the chart: their words are those of its templates.
const RENDERED: &str = "# Rendered from the chart";

/// A construct that a reader has to read twice.
struct Rule {
    /// One element for each word: its spellings, separated by `|`.
    words: &'static [&'static str],
    /// The construct is a different one if one of these words follows.
    unless_before: &'static [&'static str],
    /// The replacement.
    instead: &'static str,
}

const fn rule(words: &'static [&'static str], instead: &'static str) -> Rule {
    Rule { words, unless_before: &[], instead }
}

const RULES: &[Rule] = &[
    Rule {
        words: &["is|are|was|were|be|been|being", "told"],
        unless_before: &["apart"],
        instead: "`is reported`, `logs` or `returns`, and the component that does it",
    },
    Rule {
        words: &["tells|telling"],
        unless_before: &["apart"],
        instead: "`reports`, `logs`, `returns`, `describes` or `shows`",
    },
    rule(&["tell", "of|about|that"], "`report`, `log` or `return`"),
    Rule {
        words: &["stand|stands|stood|standing"],
        unless_before: &["for"],
        instead: "`is in`, `is set to`, `appears` or `occurs`",
    },
    rule(&["lives"], "`is valid for` or `validity` of a certificate, `exists` or `runs` of anything else"),
    rule(&["look|looks|looked|looking", "after"], "`manages` or `reconciles`"),
    rule(&["anew|afresh"], "`again` or `from scratch`"),
    rule(&["whoever"], "the name of the component, such as `the API server`, `the replica` or `the caller`"),
    rule(&["nobody"], "the component that does not do it, or `no` with a noun"),
    rule(&["is|are", "for", "pods"], "`matches`"),
    rule(&["is|are", "for", "a|the|this|that|each|every|any|no", "pod|pods"], "`matches`"),
    rule(&["is|are", "to", "add"], "`the fields that the policy adds`"),
    rule(&["what", "there", "is", "of"], "the thing itself, such as `the fields that the policy adds`"),
    rule(&["at", "hand|work"], "`current`"),
    rule(&["beside"], "`next to` or `in addition to`"),
    rule(&["likewise"], "nothing, or the same words again"),
    Rule {
        words: &["in", "the", "end"],
        unless_before: &["to"],
        instead: "nothing, `finally` or `at the end of` what ends",
    },
    Rule { words: &["as", "well"], unless_before: &["as"], instead: "nothing, `also` or `too`" },
];

/// The words with which the first sentence of a doc comment does not begin.
const QUESTIONS: [&str; 4] = ["what", "who", "whether", "why"];
const NO_QUESTION: &str = "a noun phrase, such as `The pods that …`, or a verb, such as `Returns …`";

/// The words that say nothing in front of a name.
const ARTICLES: [&str; 7] = ["a", "an", "the", "its", "their", "this", "that"];
const NO_NAME: &str = "nothing, or something that the name does not say";

/// A file, a part of a line in it, and the reason why a construct is right in that line.
const EXCEPTIONS: [(&str, &str, &str); 0] = [];

/// A construct that was found.
struct Finding {
    line: usize,
    found: String,
    instead: &'static str,
}

/// A word in lower case.
struct Word {
    text: String,
    line: usize,
    /// Only white space and marks of comments are between this word and the one before it.
    follows: bool,
    /// Only a hyphen is between this word and the one before it.
    hyphenated: bool,
}

/// A line without its indentation and the mark of a comment, a list, a quotation or a continued string.
fn bare(line: &str) -> &str {
    let line = line.trim_start().trim_start_matches(['/', '#', '*', '|', '>', '-']);
    line.strip_prefix('!').unwrap_or(line).trim().trim_end_matches('\\').trim_end()
}

/// The words of lines that are `bare`. Parts of names, as in `snake_case` and `CamelCase`, are words.
fn words<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut follows = false;
    for (line, text) in lines {
        let mut last = ' ';
        // A blank line ends a paragraph.
        follows &= !text.is_empty();
        for char in text.chars() {
            let begins = !last.is_alphabetic() || last.is_lowercase() && char.is_uppercase();
            match words.last_mut() {
                Some(word) if char.is_alphabetic() && !begins => word.text.extend(char.to_lowercase()),
                _ if char.is_alphabetic() => {
                    words.push(Word {
                        text: char.to_lowercase().collect(),
                        line,
                        follows,
                        hyphenated: last == '-',
                    });
                    follows = true;
                }
                _ => follows &= char.is_whitespace() || char == '_',
            }
            last = char;
        }
    }
    words
}

/// The constructs of [`RULES`] in a file.
fn constructs(text: &str) -> Vec<Finding> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, bare(line)));
    let words = words(lines);
    let is = |spellings: &str, word: &Word| spellings.split('|').any(|spelling| spelling == word.text);
    let mut findings = Vec::new();
    for rule in RULES {
        let length = rule.words.len();
        for (start, window) in words.windows(length).enumerate() {
            let after = words.get(start + length).filter(|word| word.follows || word.hyphenated);
            let other = after.is_some_and(|word| rule.unless_before.contains(&word.text.as_str()));
            let matches = rule.words.iter().zip(window).all(|(spellings, word)| is(spellings, word));
            if matches && !other && window[1..].iter().all(|word| word.follows) {
                let found: Vec<&str> = window.iter().map(|word| word.text.as_str()).collect();
                findings.push(Finding {
                    line: window[0].line,
                    found: found.join(" "),
                    instead: rule.instead,
                });
            }
        }
    }
    findings
}

/// The doc comments of a Rust file that begin with a question, or consist of a name.
fn doc_comments(text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let is_doc = |line: &&str| line.starts_with("///") || line.starts_with("//!");
    for (index, line) in lines.iter().enumerate() {
        if !is_doc(line) || index > 0 && is_doc(&lines[index - 1]) && !bare(lines[index - 1]).is_empty() {
            continue;
        }
        let block = lines[index..].iter().take_while(|line| is_doc(line) && !bare(line).is_empty());
        let words = words(block.enumerate().map(|(after, line)| (index + 1 + after, bare(line))));
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let instead = match texts.as_slice() {
            [first, ..] if QUESTIONS.contains(first) => NO_QUESTION,
            [_] => NO_NAME,
            [first, _] if ARTICLES.contains(first) => NO_NAME,
            _ => continue,
        };
        let found = bare(line).chars().take(40).collect();
        findings.push(Finding { line: index + 1, found, instead });
    }
    findings
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below a path, by its path in the repository.
fn files(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_symlink() {
        return;
    }
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            files(&entry.unwrap().path(), found);
        }
    } else {
        found.push(path.strip_prefix(root()).unwrap().to_owned());
    }
}

#[test]
fn the_words_are_those_of_the_kubernetes_documentation() {
    let mut paths = Vec::new();
    for path in ROOTS {
        files(&root().join(path), &mut paths);
    }
    paths.sort();
    assert!(paths.len() > 100, "{} files were found", paths.len());
    let mut used = [false; EXCEPTIONS.len()];
    let mut report = String::new();
    let mut counts = BTreeMap::<&Path, usize>::new();
    for path in &paths {
        let text = fs::read_to_string(root().join(path)).unwrap();
        if text.starts_with(RENDERED) {
            continue;
        }
        let mut findings = constructs(&text);
        if path.extension().is_some_and(|extension| extension == "rs") {
            findings.extend(doc_comments(&text));
        }
        findings.sort_by_key(|finding| finding.line);
        for Finding { line, found, instead } in findings {
            let whole = text.lines().nth(line - 1).unwrap();
            let exception =
                EXCEPTIONS.iter().position(|(file, part, _)| path == Path::new(file) && whole.contains(part));
            if let Some(exception) = exception {
                used[exception] = true;
                continue;
            }
            *counts.entry(path).or_default() += 1;
            report += &format!("{}:{line}: `{found}`: write {instead}\n", path.display());
        }
    }
    for (path, count) in &counts {
        report += &format!("{count:5} {}\n", path.display());
    }
    assert!(report.is_empty(), "{report}{:5} in all", counts.values().sum::<usize>());
    for (used, (file, part, reason)) in used.into_iter().zip(EXCEPTIONS) {
        assert!(used, "no construct is in a line with `{part}` in {file}; the exception was: {reason}");
    }
}

#[track_caller]
fn assert_constructs(text: &str, wanted: &[&str]) {
    let found: Vec<String> = constructs(text).into_iter().map(|finding| finding.found).collect();
    assert_eq!(found, wanted, "{text}");
}

#[test]
fn constructs_are_found_wherever_they_are() {
    assert_constructs("/// The author is\n    /// told.\n", &["is told"]);
    assert_constructs("let nobody_reads = Marked::ByNobody;", &["nobody", "nobody"]);
    assert_constructs("It is loaded as well.\nIt is loaded as\n// well", &["as well", "as well"]);
    assert_constructs("\"what stands \\\n   in the file\"", &["stands"]);
    assert_constructs("# The policy is for this pod.", &["is for this pod"]);
    assert_constructs("In the end, Whoever tells", &["tells", "whoever", "in the end"]);
}

#[test]
fn other_words_are_no_constructs() {
    for text in [
        "memory as well as devices, which are told apart by what the name stands for",
        "It understands `alive`, besides, in the end-to-end tests.",
        "The result is. Told by others",
        "It is read at\n\nwork",
        "the policy is for Kubernetes",
    ] {
        assert_constructs(text, &[]);
    }
}

#[test]
fn doc_comments_begin_with_something() {
    let text = "/// What it does.\n/// Why.\n/// Its name.\npub fn a() {}\n// What\n/// Its name is unique.\n\
                /// The pod.\nfn b() {}\n//! Whether.\n///\n/// Who is it?\n";
    let lines: Vec<usize> = doc_comments(text).iter().map(|finding| finding.line).collect();
    assert_eq!(lines, [1, 9, 11]);
    for text in ["/// Why.\nfn a()", "/// Its name.\nfn a()", "    /// The pod.\n    a: A,"] {
        assert_eq!(doc_comments(text).len(), 1, "{text}");
    }
    assert!(doc_comments("/// A pod of a `Job`.\nfn a()").is_empty());
}
