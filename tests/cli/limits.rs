//! Input that is made to exhaust a reader: an error within bounded memory, and before a run counts as hanging.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use insta::assert_snapshot;

use super::{POD, ROOT, Run, SMALL, finish, folder, mutate, run_in};

/// What is said of input. A run that does not end soon fails.
#[track_caller]
fn refused(text: &str) -> String {
    let run = mutate(&["--policy", SMALL], text).exits(2);
    assert!(run.stderr.len() < 4096, "the message has {} bytes", run.stderr.len());
    run.recorded()
}

/// Runs `mutate` with no more than 128 MiB to use.
fn within_memory(text: &str) -> Run {
    let mut command = Command::new("/bin/sh");
    command.env_clear().current_dir(ROOT);
    command.args(["-c", "ulimit -v 131072 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_fabric-injector")]);
    finish(command.args(["mutate", "--policy", SMALL, "-q"]), text.as_bytes())
}

/// A key with a value, then `levels` keys, each with nine aliases of the one before.
fn bomb(levels: u8, first: &str) -> String {
    let mut text = format!("a: &a {first}\n");
    for level in 0..levels {
        let (before, name) = (char::from(b'a' + level), char::from(b'b' + level));
        let aliases = vec![format!("*{before}"); 9].join(", ");
        writeln!(text, "{name}: &{name} [{aliases}]").unwrap();
    }
    text
}

#[test]
fn an_alias_bomb_is_refused() {
    assert_snapshot!(refused(&bomb(9, "[x, x, x, x, x, x, x, x, x]")), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 6, column 8: aliases expand to more than 100000 nodes
    ");
}

#[test]
fn an_alias_bomb_of_merge_keys_is_refused() {
    let mut text = "a: &a {x: [1, 2, 3, 4, 5, 6, 7, 8, 9]}\n".to_owned();
    for level in 0..12u8 {
        let (before, name) = (char::from(b'a' + level), char::from(b'b' + level));
        let entries: Vec<String> = (0..9).map(|at| format!("k{at}: {{<<: *{before}}}, ")).collect();
        let entries = entries.concat();
        writeln!(text, "{name}: &{name} {{{entries}}}").unwrap();
    }
    assert_snapshot!(refused(&text), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 5, column 115: aliases expand to more than 100000 nodes
    ");
}

#[test]
fn a_list_needs_memory_for_its_largest_item() {
    let item = "- apiVersion: v1\n  kind: Pod\n  spec:\n    containers:\n    - name: c\n";
    let list = format!("apiVersion: v1\nkind: List\nitems:\n{}", item.repeat(60_000));
    assert_eq!(within_memory(&list).exits(0).text(), list);
}

#[test]
fn an_alias_bomb_needs_little_memory() {
    let run = within_memory(&bomb(9, "[x, x, x, x, x, x, x, x, x]")).exits(2);
    run.writes_nothing().says(&["aliases"]);
}

#[test]
fn an_alias_bomb_of_one_long_string_is_refused() {
    let text = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(256 * 1024), ["*a"].repeat(10_000).join(","));
    assert_snapshot!(within_memory(&text).recorded(), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 2, column 77: aliases expand to more than 100000 nodes
    ");
}

#[test]
fn an_alias_of_itself_is_refused() {
    assert_snapshot!(refused("a: &a\n  b: *a\n"), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 2, column 6: an alias is inside the node that it refers to
    ");
}

#[test]
fn merging_a_large_map_does_not_take_for_ever() {
    let entries: Vec<String> = (0..45_000).map(|at| format!("  key{at}: 1\n")).collect();
    let entries = entries.concat();
    let text = format!("a: &a\n{entries}b:\n  <<: *a\n  c: 1\n");
    let run = mutate(&["--policy", SMALL], &text);
    assert!(matches!(run.status, Some(0 | 2)), "{:?} {}", run.status, run.stderr);
}

#[test]
fn ten_thousand_levels_of_yaml_are_refused() {
    let (open, close) = ("[".repeat(10_000), "]".repeat(10_000));
    assert_snapshot!(refused(&format!("kind: A\na: {open}{close}\n")), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 2, column 259: nested more than 128 levels deep
    ");
    assert_snapshot!(refused(&format!("kind: A\na: {open}")), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 2, column 259: nested more than 128 levels deep, within the brackets that begin on line 2
    ");
    assert_snapshot!(refused(&format!("{}a\n", "- ".repeat(10_000))), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 1, column 257: nested more than 128 levels deep
    ");
    assert_snapshot!(refused(&format!("a: {}1{}\n", "{a: ".repeat(10_000), "}".repeat(10_000))), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 1, column 512: nested more than 128 levels deep
    ");
    let indented: Vec<String> = (0..1_000).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    let indented = indented.concat();
    assert_snapshot!(refused(&indented), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 129, column 129: nested more than 128 levels deep
    ");
}

#[test]
fn ten_thousand_levels_of_flow_style_are_called_what_they_are() {
    assert_snapshot!(refused(&format!("a: {}", "[".repeat(10_000))), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 1, column 259: nested more than 128 levels deep, within the brackets that begin on line 1
    ");
    assert_snapshot!(refused(&format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000))), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 1, column 1276: nested more than 128 levels deep
    ");
}

#[test]
fn ten_thousand_levels_of_json_are_refused() {
    let text = format!("{}1{}\n", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    assert_snapshot!(refused(&text), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 1, column 1276: nested more than 128 levels deep
    ");
    assert_snapshot!(refused(&format!("{{\"a\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000))), @"
    exit status: 2
    ----- stderr -----
    error: stdin: document 1: line 1, column 260: nested more than 128 levels deep
    ");
}

#[test]
fn a_policy_and_a_values_file_are_read_within_the_same_bounds() {
    let deep = format!("a: {}\n", "[".repeat(10_000));
    for text in [&deep, &bomb(9, "[x, x, x, x, x, x, x, x, x]"), "a: \"\0\"\n"] {
        let folder = super::folder(&[("bad.yaml", text)]);
        for option in ["--policy", "--values"] {
            let run = run_in(folder.path(), &["mutate", option, "bad.yaml"], super::POD).exits(2);
            run.writes_nothing().says(&["bad.yaml:"]);
            assert!(run.stderr.len() < 64 * 1024, "the message has {} bytes", run.stderr.len());
        }
    }
}

#[test]
fn an_endless_line_of_blanks_or_markers_is_read_in_linear_time() {
    for text in [" ".repeat(1_000_000), "---\n".repeat(100_000), "{}\n".repeat(20_000)] {
        let run = run_in(Path::new(ROOT), &["mutate", "--policy", SMALL, "-q"], &text).exits(0);
        assert!(run.text() == text);
    }
}

/// A policy with this under `spec`, tried with a pod.
fn load(spec: &str) -> Run {
    let text = format!(
        "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: big}}\nspec:\n  provider: lab\n  \
         description: d\n  gpus: {{resources: [nvidia.com/gpu]}}\n  match: {{anyAnnotation: {{a/b: 'true'}}}}\n{spec}"
    );
    let folder = folder(&[("big.yaml", &text)]);
    run_in(folder.path(), &["mutate", "--policy", "big.yaml", "-q"], POD)
}

/// Entries that `write` writes, one for each number.
fn many(count: usize, write: impl Fn(usize) -> String) -> String {
    (0..count).map(write).collect()
}

const RULE: &str = "  rules: [{name: r, env: {A: b}}]\n";

/// `tests/injection/cost.rs` has the limit on all of loading.
#[test]
fn a_policy_that_takes_too_much_work_for_a_sample_pod_is_refused() {
    let value = "${string(size(lists.range(100).filter(x, lists.range(100).exists(y, y == x + totalGpus))))}";
    let rules = many(100, |at| format!("    - {{name: r{at}, env: {{A{at}: '{value}'}}}}\n"));
    load(&format!("  rules:\n{rules}"))
        .exits(2)
        .says(&["error: a sample pod (one container with GPUs) takes more than 200"]);
}

#[test]
fn expressions_are_bounded() {
    let in_one = format!("  variables: {{v: \"{}\"}}\n", "${gpus}".repeat(5_000));
    load(&in_one).says(&["expressions of a text: 5000 entries, more than 100"]);
    let item = "['${string(size(\"x\"))}', '${string(1)}']";
    let in_many = format!("  variables: {{v: [{}]}}\n", [item].repeat(6_000).join(", "));
    load(&in_many).says(&["expressions: 12000 entries, more than 10000"]);
    let by_alias = format!(
        "  variables: {{a: &a [{}], b: [{}]}}\n",
        ["'${string(1)}'"].repeat(2_000).join(", "),
        ["*a"].repeat(10).join(", ")
    );
    load(&by_alias).says(&["expressions: 22000 entries, more than 10000"]);
}

#[test]
fn expressions_in_keys_are_bounded_too() {
    let key = |number: usize| format!("\"{number}{}\": 1", "${'x'}".repeat(90));
    let keys: Vec<String> = (0..150).map(key).collect();
    let rule = format!("  rules: [{{name: r, annotations: {{{}}}}}]\n", keys.join(", "));
    load(&rule).says(&["expressions: 13500 entries, more than 10000"]);
}

/// At loading, steps are those of all policies.
#[test]
fn one_expression_of_a_policy_handles_no_more_than_that_of_a_pod() {
    let nested = "${lists.range(3000).map(a, lists.range(3000))}";
    load(&format!("  variables: {{v: \"{nested}\"}}\n{RULE}"))
        .says(&["it handles more than 32 MiB of values"]);
}

#[test]
fn the_values_of_policies_take_a_bounded_amount_of_memory() {
    let doubled = many(19, |at| format!("    v{}: \"${{v{} + v{}}}\"\n", at + 2, at + 1, at + 1));
    let text = format!("{RULE}  variables:\n    v1: [1, 2, 3, 4, 5, 6, 7, 8]\n{doubled}");
    load(&text).says(&["take more than 128 MiB of memory", "v17 + v17"]);
}

#[test]
fn rules_times_machines_are_bounded() {
    let rules = many(1_900, |at| format!("    - {{name: r{at}, env: {{A{at}: x}}}}\n"));
    let machines = many(2_000, |at| format!("m{at}: {{v: {at}}}, "));
    let spec = format!(
        "  machines: {{pool: {{{machines}}}}}\n  variables: {{v: 0}}\n  rules:\n{rules}    - {{name: r, env: {{A: '${{string(v)}}'}}}}\n"
    );
    load(&spec).exits(2).says(&["loading the policies in use takes more than 128 MiB of memory"]);
}

#[test]
fn a_policy_has_a_bounded_number_of_each_thing() {
    // A line of it may be long.
    let refused = |spec: &str| {
        let said = load(spec).exits(2).said();
        said.split_inclusive('\n').take(2).collect::<String>()
    };
    let mut answers = Vec::new();
    let variables =
        |count| format!("  variables:\n{}{RULE}", many(count, |at| format!("    v{at}: ${{totalGpus}}\n")));
    load(&variables(2_000)).exits(0);
    answers.push(refused(&variables(2_001)));
    let file = |at| format!("    /etc/f{at}.conf: {{variables: [A]}}\n");
    load(&format!("  files:\n{}{RULE}", many(64, file))).exits(0);
    answers.push(refused(&format!("  files:\n{}{RULE}", many(65, file))));
    let parameters = many(2_001, |at| format!("    p{at}: {{description: d, default: 1}}\n"));
    answers.push(refused(&format!("  parameters:\n{parameters}{RULE}")));
    let checks = many(2_001, |at| format!("    - {{name: c{at}, message: w}}\n"));
    answers.push(refused(&format!("  checks:\n{checks}{RULE}")));
    let values = many(2_001, |at| format!("A{at}: b, "));
    answers.push(refused(&format!("  rules: [{{name: r, env: {{{values}}}}}]\n")));
    let machines = |rows: &str| {
        format!(
            "  machines: {{pool: {{{rows}}}}}\n  variables: {{v: 0}}\n  rules: [{{name: r, env: {{A: '${{string(v)}}'}}}}]\n"
        )
    };
    load(&machines(&many(20_000, |at| format!("m{at}: {{v: 1}}, ")))).exits(0);
    answers.push(refused(&machines(&many(2_001, |at| format!("m{at}-*: {{v: 1}}, ")))));
    let ranges = many(65, |at| format!("{}: 1, ", at + 1));
    answers.push(refused(&machines(&format!("m: {{v: {{{ranges}}}}}"))));
    assert_snapshot!(answers.concat(), @"
    error: `variables`: 2001 entries, more than 2000
      --> big.yaml:10:5
    error: `files`: 65 entries, more than 64
      --> big.yaml:10:5
    error: `parameters`: 2001 entries, more than 2000
      --> big.yaml:10:5
    error: `checks`: 2001 entries, more than 2000
      --> big.yaml:10:5
    error: `env`: 2001 entries, more than 2000
     --> big.yaml:9:26
    error: values with a `*`: 2001 entries, more than 2000
     --> big.yaml:9:32921
    error: numbers of GPUs: 65 entries, more than 64
     --> big.yaml:9:28
    ");
}
