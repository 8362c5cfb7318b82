//! The layouts of plain texts, next to those from the events of the parser.

use super::super::events;
use super::*;

/// The parts of a layout on which edits depend.
fn shape(layout: &Layout<'_>, id: NodeId) -> String {
    let node = layout.node(id);
    let inner = match &node.kind {
        Kind::Scalar { value, form, empty } => {
            format!("{value:?} {form:?} {empty} {}", node.range.start)
        }
        Kind::Alias { .. } => "alias".to_owned(),
        Kind::List { form, items } => {
            let items: Vec<String> =
                items.iter().map(|item| format!("{}{}", item.dash, shape(layout, item.node))).collect();
            format!("{form:?} {items:?}")
        }
        Kind::Map { form, entries } => {
            let entry = |entry: &Entry| {
                let Entry { key, start, key_range, colon, merges, node } = entry;
                format!("{key} {start} {key_range:?} {colon:?} {merges}{}", shape(layout, *node))
            };
            format!("{form:?} {:?}", entries.iter().map(entry).collect::<Vec<_>>())
        }
    };
    format!("({inner} {})", node.range.end)
}

/// True if the text is plain. It has the same layout as from the events of the parser then.
fn agrees(text: &str) -> bool {
    let Some(layout) = read(text) else { return false };
    let parsed = events::read(text).unwrap_or_else(|| panic!("the parser refuses\n{text}"));
    assert_eq!(shape(&layout, layout.root), shape(&parsed, parsed.root), "{text}");
    true
}

#[test]
fn the_documents_of_the_repository_have_one_layout() {
    let files = [
        include_str!("../../../../../tests/workloads/deepseek-r1-lws.yaml"),
        include_str!("../../../../../tests/workloads/horovod-mpijob.yaml"),
        include_str!("../../../../../tests/workloads/raycluster.yaml"),
        include_str!("../../../../../tests/workloads/volcano-job.yaml"),
        include_str!("../../../../../tests/manifests/comments-everywhere.yaml"),
        include_str!("../../../../../tests/manifests/commented-out.yaml"),
        include_str!("../../../../../tests/manifests/dash-alone.yaml"),
        include_str!("../../../../../tests/manifests/several-documents.yaml"),
    ];
    let documents = files.iter().flat_map(|text| text.split("\n---\n"));
    let plain = documents.filter(|document| agrees(&format!("{}\n", document.trim_end()))).count();
    assert!(plain > 5, "{plain}");
}

#[test]
fn odd_texts_are_left_to_the_parser_or_read_alike() {
    for text in [
        "a: b\n  c\n",
        "a:\n b: |\n   x\n\n   y\n\n\n c: 1\n",
        "a: |\n  x\n # c\nb: 1\n",
        "- - a\n  - b: c\n    d:\n-\n- e\n",
        "a: b #c\n",
        "a: b# c\n",
        "a: 'x' # c\n",
        "a: 'x'y\n",
        "a: - b\n",
        "- a: |-\n    x\n  b: 2\n",
        "on: 0x1f\n",
        "a: b: c\n",
        "a:\n- b\nc:\n  - d\n - e\n",
        "a:\n  b: 1\n c: 2\n",
        "a: &x b\n",
        "a: [x]\n",
        "a: {}\nb: []   # c\n",
        "a: |\n\n  x\n",
        "a: |\n  x\n    y\n  z  \n",
        "- |\n a\n- |\n  b\n",
        "a: x:y\nb: -1\nc: --x\n",
        "a: b\n...\n",
        "a: b\n---\nb: c\n",
        "a:\n  # c\n\nb: 1\n",
        "a: |\n  x\n   \n  y\n",
        "? a\n: b\n",
        "a: b\na: c\n",
        "- a\nb: c\n",
        "a: |\n  - x\n  # y\nb: ''\n",
        "\"a b\": c\n'd': \"e\"\n",
        "a: @x\n",
        "a :b\n",
        "a: 1:2\n",
        "a: .inf\n",
        "a: #x\n  b\n",
        "- #x\n  b: 1\n",
        "a:\n  - |\n   x\n  - y\n",
        "a: =\nb: ~\nc: null\n",
        "# c\n--- # d\n\na: 1\n",
        "a: |\n x\n\n # c\nb: 2\n",
        "- -1\n- - -2\n",
        "- a:\n  - b\n  c: 1\n",
        "- a:\n - b\n",
        "1: 2\n",
        "a:  b  #  c\n",
        "a: x, [y] {z}\n",
        "a: $(X) # y\n",
        "a: [x, 'y', \"z\"]\n",
        "a: [ x y , -1,--z ]  # c\nb: 1\n",
        "a: {b: c, d: {}, 'e': [ ]}\n",
        "a: {b: [{c: 1}, [2]], d: -}\n",
        "- [a, b]\n- {c: d}\n",
        "- {c: d}: e\n",
        "a: [x, ]\n",
        "a: [x,, y]\n",
        "a: [,]\n",
        "a: [x\n",
        "a: [x}\n",
        "a: [x,\n  y]\n",
        "a: [x] y\n",
        "a: [x]\n  y\n",
        "a: [x: y]\n",
        "a: {x, y: 1}\n",
        "a: {x:, y: 1}\n",
        "a: {x: 1, x: 2}\n",
        "a: {\"x\":1}\n",
        "a: [x #y]\n",
        "a: [x:y, b#c]\n",
        "a: [on, ~, 0x1f, null]\n",
        "a: [.inf]\n",
        "a: [- x]\n",
        "a: \"b\\\"c\\\\\"\n",
        "a: \"b\\nc\"\n",
        "a: 'b''c' # d\n",
        "a: 'b''\n",
        "a: \"b\\\"\n",
        "\"a\\\"b\": {'c''d': e}\n",
    ] {
        agrees(text);
    }
}

#[test]
fn brackets_are_read_to_a_depth() {
    let nested = |depth| format!("a: {}{}\n", "[".repeat(depth), "]".repeat(depth));
    assert!(agrees(&nested(5)));
    assert!(read(&nested(MAX_DEPTH - 1)).is_some());
    assert!(read(&nested(MAX_DEPTH)).is_none());
    assert!(read(&nested(100_000)).is_none());
}

#[test]
fn only_a_marker_at_the_beginning_of_a_line_begins_the_document() {
    assert!(agrees("# c\n---\na: 1\n"));
    for text in [" ---\na: 1\n", "# c\n ---\na: 1\n", "\n  ---\n- {}\n"] {
        assert!(read(text).is_none(), "{text}");
    }
}

/// Takes minutes if each of its values scans the rest of the line.
#[test]
fn a_line_can_have_a_million_values() {
    for value in ["a, ", "'b', ", "{c: d}, "] {
        let text = format!("a: [{}e]\n", value.repeat(1_000_000));
        assert!(read(&text).is_some());
    }
}

mod generated {
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_500, rng_seed: proptest::test_runner::RngSeed::Fixed(2026), ..ProptestConfig::default() })]
        #[test]
        fn a_plain_text_has_the_layout_that_the_parser_finds(
            lines in prop::collection::vec(("( ){0,4}", "(- ){0,2}", "(([a-c]|'a'):( |))?", "(a|x: |\\||\\|-|\\{\\}|\\[a, b\\]|\"q\"|-|1|# c| |''|)", "( #c|)"), 1..7)
        ) {
            super::agrees(&lines.iter().flat_map(|(a, b, c, d, e)| [a, b, c, d, e, "\n"]).collect::<String>());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, rng_seed: proptest::test_runner::RngSeed::Fixed(2026), ..ProptestConfig::default() })]
        #[test]
        fn a_value_on_one_line_is_what_the_parser_reads(
            value in "[\\[{\"'](a|1|-|b: |: |:|, |,|'|\"|\\\\| |#|\\[|\\]|\\{|\\}){0,6}[\\]}\"']"
        ) {
            super::agrees(&format!("a: {value}\n"));
        }
    }
}
