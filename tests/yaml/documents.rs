//! Generates YAML documents: of pieces of the grammar, well-formed or not, and of the manifests with changes.

use std::fs;
use std::path::Path;

use fastrand::Rng;

/// What a document can be made of, besides the pieces.
pub(crate) struct Documents {
    random: Rng,
    manifests: Vec<String>,
    /// The anchors of the current document.
    anchors: Vec<&'static str>,
}

const WORDS: &[&str] = &[
    "a",
    "b",
    "name",
    "x y",
    "on",
    "No",
    "yEs",
    "~",
    "null",
    "Null",
    "true",
    "FALSE",
    "<<",
    "=",
    "é",
    "日本",
    "a#b",
    "a: b",
    "a:b",
    "a :b",
    "-",
    "--",
    "-a",
    "- a",
    "?",
    "?a",
    "? a",
    ":",
    ":a",
    "a:",
    "a?",
    "a?b",
    ".",
    "..",
    "...",
    "---",
    "+",
    "@a",
    "`a",
    "%a",
    "!a",
    "&a b",
    "*a",
    "a,b",
    "a]b",
    "a}b",
    "[a",
    "{a",
    "\"a",
    "'a",
    "a\"",
    "a'b",
    "|",
    ">",
    "|a",
    "$(A)",
    "${a}",
    "a\\b",
    "\u{a0}",
    "a\u{a0}b",
    "\u{feff}a",
    "a\u{feff}",
    "\u{2003}a",
    "\u{3000}",
    "😀",
    "\u{7f}",
    "a\u{1}b",
    "\u{85}",
    "a\u{85}b",
    "\u{2028}",
    "a\u{2029}b",
    "\u{fffd}",
    "\u{fffe}",
    "a\tb",
    "a\rb",
    "::a",
    "a::",
    "http://a:80/b?c=d",
    "#a",
    "",
];
/// Of these, numbers and dates are made, and what looks like them.
const DIGITS: &[&str] = &[
    "0",
    "1",
    "7",
    "8",
    "9",
    "00",
    "10",
    "_",
    ".",
    "-",
    "+",
    "e",
    "E",
    "e+",
    "e-3",
    "x",
    "0x",
    "0X",
    "0o",
    "0b",
    "-0b",
    "f",
    ":",
    "inf",
    "nan",
    ".inf",
    "NaN",
    "18446744073709551615",
    "9223372036854775808",
    "123456789",
    "1e400",
    "T",
    " ",
    "2001-01-01",
    "p",
    "i",
    "0.1",
    "1e21",
    "0.000001",
    "o",
    "B",
    "O",
];
const TOKENS: &[&str] = &[
    "a", "b", "a", "1", ":", ": ", ": ", " :", ", ", ",", "- ", "-", "? ", "?", "[", "]", "{", "}", "[", "]",
    "#", " # c", "\n", "\n", "\n  ", "\n    ", "\n- ", "\n  - ", "\"", "'", "\"a\"", "'b'", "|", "|\n",
    ">-\n", "&x ", "*x ", "*x", "!", "!!str ", "!t ", "<<: ", "\t", " ", "  ", "\r\n", "\n---\n", "\n...\n",
    "%", "@", "\\", "''", "\"\"", "\n\n", " - ", "\\n", "-\n", "k: ", "\nk: ", "\n  k: ", "~", "\u{feff}",
    "\u{85}", "\r",
];
const TAGS: &[&str] = &[
    "!!str",
    "!!int",
    "!!float",
    "!!bool",
    "!!null",
    "!!binary",
    "!!timestamp",
    "!!map",
    "!!seq",
    "!!set",
    "!!merge",
    "!",
    "!a",
    "!!foo",
    "!<tag:yaml.org,2002:str>",
    "!e!a",
    "!<!>",
    "!!",
    "!a%20b",
    "!<a",
];
const HEADERS: &[&str] = &[
    "|", "|", "|-", "|+", ">", ">-", ">+", "|2", "|1-", "|-1", ">2", ">+1", "|4", "|0", "|9", "| # c",
    "|- #c", ">  ", "|#c", "|a", "|\t", "|+-",
];
const COMMENTS: &[&str] = &[" # c", "  #", " #c: d", "#c", "\t# c", " # \"", " # ]"];

impl Documents {
    pub(crate) fn new(seed: u64, root: &Path) -> Self {
        let mut manifests: Vec<_> =
            fs::read_dir(root.join("tests/manifests")).unwrap().map(|entry| entry.unwrap().path()).collect();
        manifests.sort();
        let manifests = manifests.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
        Self { random: Rng::with_seed(seed), manifests, anchors: Vec::new() }
    }

    /// The next document.
    pub(crate) fn next(&mut self) -> String {
        self.anchors.clear();
        let mut text = match self.below(100) {
            0..15 => format!("a: {}{}\n", self.scalar(false), self.rarely(COMMENTS)),
            15..22 => format!("{}: 1\n", self.scalar(false)),
            22..40 => (0..=self.below(14)).map(|_| self.pick(TOKENS)).collect(),
            40..48 => format!("a: {}\n", self.flow(0)),
            48..53 => self.blocks(),
            53..80 => {
                let head = self.rarely(&[
                    "---\n",
                    "--- # c\n",
                    "# c\n",
                    "%YAML 1.1\n---\n",
                    "\u{feff}",
                    "\n",
                    "--- ",
                    "...\n",
                ]);
                format!("{head}{}", self.block(0, 0))
            }
            80..85 => self.pick(&self.manifests.clone()),
            _ => {
                let manifest = self.manifest();
                self.changed(manifest)
            }
        };
        if self.below(8) == 0 {
            text = self.changed(text);
        }
        match self.below(40) {
            0 => text = text.replace('\n', "\r\n"),
            1 => text = text.replace('\n', "\r"),
            2 | 3 => text.truncate(text.trim_end().len()),
            4 | 5 => {
                text = format!(
                    "{}{}",
                    text.trim_end_matches('\n'),
                    self.pick(&["\n ", "\n  ", "\n    ", " ", "\n\t", "\n\n  "])
                );
            }
            6 => text.push_str(self.pick(&["...\n", "---\n", "# c", "---", "\n\n", "\r"])),
            _ => {}
        }
        // Files with a byte order mark can be joined: kubectl takes such a line for text, and refuses it after a map.
        text.replace("\n\u{feff}---", "\n---")
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.usize(0..end)
    }

    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.random.usize(0..choices.len())].clone()
    }

    /// One of them, in some cases.
    fn rarely(&mut self, choices: &[&'static str]) -> &'static str {
        if self.below(6) == 0 { self.pick(choices) } else { "" }
    }

    fn plain(&mut self) -> String {
        match self.below(10) {
            0..4 => self.pick(&["a", "bc", "d-e", "f/g", "8", "true", "h i"]).to_owned(),
            4..7 => self.pick(WORDS).to_owned(),
            7 => format!("{}{}", self.pick(WORDS), self.pick(WORDS)),
            _ => (0..=self.below(4)).map(|_| self.pick(DIGITS)).collect(),
        }
    }

    fn quoted(&mut self) -> String {
        let inner: String = (0..self.below(4))
            .map(|_| match self.below(5) {
                0 => self.pick(&[
                    "\n", "\n  ", "\n\n", " \n ", "\n\t", "\\\n", "\\\n  ", "\r\n", "\r", " ", "\t",
                    "\n    ", "\n# c\n", "\n- ", "\n---",
                ]),
                1 => self.pick(&[
                    "\\n",
                    "\\t",
                    "\\x41",
                    "\\u00e9",
                    "\\U0001F600",
                    "\\0",
                    "\\e",
                    "\\N",
                    "\\L",
                    "\\_",
                    "\\/",
                    "\\\"",
                    "\\\\",
                    "\\q",
                    "''",
                    "\\ ",
                    "\\ud83d",
                    "\\x8",
                    "\\'",
                    "\\a",
                    "\\b",
                    "\\v",
                    "\\f",
                    "\\P",
                    "\\r",
                    "\\uFEFF",
                    "\\x85",
                    "\\\t",
                ]),
                _ => self.pick(WORDS),
            })
            .collect();
        match self.below(2) {
            0 => format!("\"{}\"", inner.replace('"', "")),
            _ => format!("'{}'", inner.replace('\'', "''")),
        }
    }

    /// A scalar with its properties.
    fn scalar(&mut self, in_flow: bool) -> String {
        let mut text = String::new();
        if self.below(12) == 0 {
            text.push_str(self.pick(TAGS));
            text.push(' ');
        }
        if self.below(15) == 0 {
            let anchor = self.pick(&["x", "y", "a.b", "é", "z:"]);
            self.anchors.push(anchor);
            text.push_str(&format!("&{anchor} "));
        }
        if self.below(15) == 0 {
            let anchors = self.anchors.clone();
            return if anchors.is_empty() { text + "*x" } else { format!("{text}*{}", self.pick(&anchors)) };
        }
        text + &match self.below(10) {
            0..3 => self.quoted(),
            3 if !in_flow => format!("{}\n  {}", self.plain(), self.plain()),
            4 if in_flow => {
                format!("{}{}{}", self.plain(), self.pick(&["\n", "\n  ", "\n\n "]), self.plain())
            }
            5 => self.pick(&["QUJD", "QQ==", "QQ", "wyg=", "/w=="]).to_owned(),
            _ => self.plain(),
        }
    }

    fn space(&mut self) -> &'static str {
        if self.below(4) == 0 {
            self.pick(&["\n", " ", "\n  ", " # c\n", "\t", "  ", "\n\n", "\r\n", "#c\n"])
        } else {
            ""
        }
    }

    fn flow(&mut self, depth: usize) -> String {
        if depth > 3 || self.below(3) == 0 && depth > 0 {
            return self.scalar(true);
        }
        let is_list = self.below(2) == 0;
        let mut text = if is_list { "[" } else { "{" }.to_owned();
        for at in 0..self.below(4) {
            if at > 0 {
                text.push(',');
            }
            text.push_str(self.pick(&["", " ", "", " ", "\n  ", "\n", "? "]));
            text.push_str(self.space());
            if !is_list || self.below(6) == 0 {
                let key = if self.below(12) == 0 { self.flow(depth + 1) } else { self.scalar(true) };
                text.push_str(&key);
                text.push_str(self.space());
                text.push_str(self.pick(&[": ", ": ", ": ", ":", " : ", "", ":\n", ":\t"]));
            }
            text.push_str(&self.flow(depth + 1));
            text.push_str(self.space());
        }
        if self.below(8) == 0 {
            text.push_str(self.pick(&[",", ", ", ",,", "\n"]));
        }
        text.push(if is_list { ']' } else { '}' });
        text
    }

    /// Block scalars, one after the other.
    fn blocks(&mut self) -> String {
        let mut text = String::new();
        for at in 0..=self.below(2) {
            text.push_str(&format!("k{at}: {}", self.literal(0)));
        }
        text
    }

    fn literal(&mut self, column: usize) -> String {
        let mut text = format!("{}\n", self.pick(HEADERS));
        for _ in 0..self.below(5) {
            let indent = column + self.pick(&[1, 2, 2, 2, 2, 3, 4, 0]);
            let line = self.pick(&[
                "a", "b c", " d", "# c", "- e", "", " ", "   ", "\tf", "g ", "k: v", "\"", "h:", "é", "---",
                "\t",
            ]);
            text.push_str(&format!(
                "{}{line}{}",
                " ".repeat(indent),
                self.pick(&["\n", "\n", "\n", "\n", "\n\n", "\r\n", "\n  \n"])
            ));
        }
        text
    }

    fn block(&mut self, column: usize, depth: usize) -> String {
        let mut text = String::new();
        let is_list = self.below(3) == 0;
        for at in 0..=self.below(3) {
            let shift = usize::from(self.below(60) == 0);
            if at > 0 || column > 0 && depth > 0 {
                text.push_str(&" ".repeat(column + shift));
            }
            text.push_str(&if is_list { "-".to_owned() } else { format!("{}:", self.key()) });
            text.push_str(&self.block_value(column, depth, is_list));
            if !text.ends_with('\n') {
                text.push_str(self.rarely(COMMENTS));
                text.push('\n');
            }
            text.push_str(self.rarely(&["# c\n", "\n", "  # c\n", "    \n", "\t\n", "      # c\n"]));
        }
        text
    }

    fn key(&mut self) -> String {
        match self.below(30) {
            0 => "<<".to_owned(),
            1 => self.scalar(false),
            2 => format!("? {}\n", self.scalar(false)),
            3 => "\"<<\"".to_owned(),
            4 => self.plain(),
            _ => self.pick(&["a", "b", "c", "d", "e", "k8s.io/f", "g-h", "\"q\"", "'r'"]).to_owned(),
        }
    }

    fn block_value(&mut self, column: usize, depth: usize, in_list: bool) -> String {
        let anchor = if self.below(10) == 0 {
            let anchor = self.pick(&["x", "y"]);
            self.anchors.push(anchor);
            format!(" &{anchor}")
        } else {
            String::new()
        };
        match self.below(20) {
            0..7 if depth < 4 => {
                let step = self.pick(&[2, 2, 2, 2, 4, 1, 0]);
                let comment = self.rarely(COMMENTS);
                format!("{anchor}{comment}\n{}", self.block(column + step, depth + 1))
            }
            7 if in_list && depth < 4 => {
                let inner = self.block(column + 2, depth + 1);
                format!(" {}", inner.trim_start_matches(' '))
            }
            8..10 => format!("{anchor} {}", self.literal(column)),
            10..12 => format!("{anchor} {}", self.flow(1)),
            12 => String::new(),
            13 => format!(":\t{}", self.scalar(false)).split_off(1),
            _ => format!("{anchor} {}", self.scalar(false)),
        }
    }

    /// One document of the manifests.
    fn manifest(&mut self) -> String {
        let manifests = std::mem::take(&mut self.manifests);
        let text = self.pick(&manifests);
        self.manifests = manifests;
        let documents: Vec<&str> = text.split("\n---").collect();
        self.pick(&documents).to_owned()
    }

    /// The text with some changes.
    fn changed(&mut self, mut text: String) -> String {
        for _ in 0..=self.below(3) {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let at = self.pick(&places);
            let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
            match self.below(8) {
                0 if at < text.len() => drop(text.remove(at)),
                1 => text.insert_str(at, self.pick(TOKENS)),
                2 => text.insert_str(at, self.pick(WORDS)),
                3 => text.insert_str(
                    line,
                    self.pick(&[" ", "  ", "# c\n", "\n", "- ", "a: b\n", "\t", "&x ", "<<: *x\n"]),
                ),
                4 => text.truncate(at),
                5 => drop(text.drain(line..at)),
                6 => {
                    let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
                    text.insert_str(
                        end,
                        self.pick(&[" ", " # c", " |", "\t", ":", "\r", ",", " >-", "#c", " &x"]),
                    );
                }
                _ => {
                    let other = self.pick(&places);
                    let part = text[at.min(other)..at.max(other)].to_owned();
                    if part.len() < 200 {
                        text.insert_str(self.pick(&places), &part);
                    }
                }
            }
        }
        text
    }
}
