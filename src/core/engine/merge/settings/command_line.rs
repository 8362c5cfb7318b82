//! Options in the command line of a container, which may be a shell script.

use std::collections::BTreeSet;

use serde_json::Value;

/// The values of an option, if the container runs one of the commands with it. A value such as `NAME=VALUE` counts as
/// `NAME`. `None` also where a variable of the shell stands for the values, which only the shell knows.
pub(super) fn options(container: &Value, commands: &[String], option: &str) -> Option<BTreeSet<String>> {
    let lists = ["command", "args"].into_iter().filter_map(|list| container[list].as_array());
    let words = lists.flatten().filter_map(Value::as_str).flat_map(words);
    let mut values = BTreeSet::new();
    let (mut runs, mut is_value) = (false, false);
    for word in words {
        let is_command = |command: &String| word.rsplit('/').next() == Some(command);
        if commands.iter().any(is_command) {
            runs = true;
        } else if std::mem::take(&mut is_value) {
            if word.starts_with('$') {
                return None;
            }
            values.insert(word.split('=').next().unwrap_or_default().to_owned());
        } else if runs {
            is_value = word == option;
        }
    }
    (!values.is_empty()).then_some(values)
}

/// The words of a text, without quotes and line continuations.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\' | ';' | '(' | ')' | '&' | '|'))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(command: &Value, args: &Value) -> Option<Vec<String>> {
        let container = json!({"command": command, "args": args});
        options(&container, &["mpirun".to_owned()], "-x").map(|found| found.into_iter().collect())
    }

    #[test]
    fn options_are_found_in_lists_and_in_scripts() {
        let expected = Some(vec!["A".to_owned(), "B".to_owned()]);
        assert_eq!(
            of(&json!(["mpirun", "-np", "2", "-x", "A", "-x", "B=1", "train"]), &json!(null)),
            expected
        );
        let script = "set -e\n/usr/bin/mpirun --allow-run-as-root \\\n  -x A \\\n  -x \"B=1\" python x.py";
        assert_eq!(of(&json!(["sh", "-c"]), &json!([script])), expected);
    }

    #[test]
    fn what_only_the_shell_knows_is_not_guessed() {
        assert_eq!(of(&json!(["sh", "-c", "mpirun -x $NAMES -x A train"]), &json!(null)), None);
        assert_eq!(of(&json!(["sh", "-c", "set -x; python train.py"]), &json!(null)), None);
        assert_eq!(of(&json!(["mpirun", "-np", "2", "train"]), &json!(null)), None);
    }
}
