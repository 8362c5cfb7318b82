use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate as yaml;

fn read(text: &str) -> Value {
    yaml::read_value(text).unwrap_or_else(|error| panic!("{error}\n{text}")).root.unwrap_or_default()
}

/// Values as kubectl reads them: it ends the last line.
#[test]
fn a_block_at_the_end_of_a_file_without_a_line_end_is_ambiguous() {
    for (text, expected, is_ambiguous) in [
        ("r: |\n  a", "a\n", true),
        ("r: >\n  a", "a\n", true),
        ("r: |2\n   a", " a\n", true),
        ("r: |+\n  a", "a\n", true),
        ("r: |+\n  a\n  ", "a\n\n", true),
        ("r: |\n  a\n      ", "a\n    \n", true),
        ("r: |2\n    a\n   ", "  a\n \n", true),
        ("- r: |\r\n    é", "é\n", true),
        ("r: |-\n  a", "a", false),
        ("r: |\n  a\n  ", "a\n", false),
        ("r: |\n  a\n ", "a\n", false),
        ("r: |-\n  a\n  ", "a", false),
        ("r: >\n  a\n  ", "a\n", false),
        ("r: |-\n  a\n   ", "a\n ", false),
        ("r: |\r\n  é\r\n  ", "é\n", false),
        ("r: |\n  a \n  ", "a \n", false),
        ("r: |\n  a\n# b", "a\n", false),
        ("r: |\n\n  ", "", false),
        ("r: a\n  ", "a", false),
        ("r: 'a\n  b'", "a b", false),
    ] {
        let read = yaml::read_value(text).unwrap();
        let expected = json!({"r": expected});
        let is_list = text.starts_with('-');
        assert_eq!(
            read.root.unwrap(),
            if is_list { json!([expected]) } else { expected.clone() },
            "{text:?}"
        );
        assert_eq!(read.ambiguity.is_some(), is_ambiguous, "{text:?}");
        if !is_ambiguous {
            let after = json!({"r": expected["r"], "m": 1});
            let edited = yaml::edit(text, &after).text;
            assert_eq!(yaml::read_value(&edited).unwrap().root, Some(after), "{text:?} became {edited:?}");
        }
    }
}

/// The shortest time that it takes.
fn time(text: &str) -> Duration {
    let once = || {
        let start = Instant::now();
        read(text);
        start.elapsed()
    };
    // Of several, because other tests use the processor, too.
    (0..6).map(|_| once()).min().unwrap().max(Duration::from_millis(1))
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
        assert!(long < short * 160, "{what}: {short:?} and {long:?}");
    }
}
