use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate as yaml;

fn read(text: &str) -> Value {
    yaml::read_value(text).unwrap_or_else(|error| panic!("{error}\n{text}")).root.unwrap_or_default()
}

/// Values as sigs.k8s.io/yaml reads them from a file.
#[test]
fn a_block_at_the_end_has_the_line_ends_of_the_file() {
    for (text, expected) in [
        ("r: |\n  a", "a"),
        ("r: |+\n  a", "a"),
        ("r: |\n  a\n  ", "a\n"),
        ("r: |\n  a\n ", "a\n"),
        ("r: |+\n  a\n  ", "a\n"),
        ("r: |-\n  a\n  ", "a"),
        ("r: >\n  a\n  ", "a\n"),
        ("r: |\n  a\n      ", "a\n    "),
        ("r: |+\n  a\n   ", "a\n "),
        ("r: |-\n  a\n   ", "a\n "),
        ("r: >\n  a\n   ", "a\n "),
        ("r: |2\n    a\n   ", "  a\n "),
        ("r: |\r\n  é\r\n  ", "é\n"),
        ("r: |\n  a \n  ", "a \n"),
        ("r: |\n  a\n# b", "a\n"),
        ("r: |\n\n  ", ""),
        ("r: a\n  ", "a"),
    ] {
        assert_eq!(read(text), json!({"r": expected}), "{text:?}");
        let after = json!({"r": expected, "m": 1});
        let edited = yaml::edit(text, &after).text;
        assert_eq!(read(&edited), after, "{text:?} became {edited:?}");
    }
    assert_eq!(yaml::edit("r: |+\n  a\n  ", &json!({"r": "a\n", "m": 1})).text, "r: |+\n  a\nm: 1\n  ");
}

/// The shortest time that it takes.
fn time(text: &str) -> Duration {
    let once = || {
        let start = Instant::now();
        read(text);
        start.elapsed()
    };
    once().min(once()).max(Duration::from_millis(1))
}

#[test]
fn time_grows_in_proportion_to_the_text() {
    type Line = fn(usize) -> String;
    let texts: [(&str, Line); 6] = [
        ("merge keys", |at| format!("<<: {{k{at}: 1}}\n")),
        ("merge keys between others", |at| format!("k{at}: 1\n<<: {{m{at}: 1}}\n")),
        ("blocks", |at| format!("k{at}: |\n  a\n")),
        ("brackets", |at| format!("k{at}: [\n\"a\"\n]\n")),
        ("quotes", |at| format!("k{at}: \"a\nb\"\n")),
        ("anchors and tabs", |at| format!("k{at}:\t&a{at} !!str b\nl{at}: *a{at}\n")),
    ];
    for (what, line) in texts {
        let text = |lines: usize| (0..lines).map(line).collect::<String>() + "é: |\n  a";
        let (short, long) = (time(&text(500)), time(&text(8_000)));
        // A sixteenth of the text; the square would be 256.
        assert!(long < short * 100, "{what}: {short:?} and {long:?}");
    }
}
