//! Parameters, variables and settings without an effect.

use std::collections::BTreeSet;

use crate::definition::{At, Definition, includes, keys};
use crate::interpolation::names_in;
use crate::known_names::NAMES;
use crate::source::{
    Diagnostic, UNKNOWN_SETTING_VARIABLE, UNUSED_PARAMETER, UNUSED_VARIABLE, closest, did_you_mean,
    is_misspelling,
};

use crate::check::writes;

pub(crate) fn findings(definition: &Definition) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut read = BTreeSet::new();
    definition.texts(&mut |text| read.extend(names_in(text)));
    let unread = |(_, _, name): &(&str, &str, &String)| !read.contains(*name);
    let parameters = definition.parameters.iter().map(|one| (UNUSED_PARAMETER, "parameter", &one.name));
    let variables = definition.variables.iter().map(|one| (UNUSED_VARIABLE, "variable", &one.name));
    let unused = parameters.chain(variables).filter(unread).take(crate::source::MOST_SHOWN + 1);
    for (code, kind, name) in unused {
        let message = format!("no expression reads the {kind} `{name}`");
        let finding = Diagnostic::warning(code, definition.place_of_name(name), message);
        let near = read.iter().find(|known| is_misspelling(name, known));
        found.push(finding.hint(match near {
            _ if definition.texts_of_files().any(|text| text.contains(&format!("${name}"))) => {
                format!("write `${{{name}}}` in place of `${name}`, which is plain text")
            }
            Some(near) => format!("did you mean `{near}`? Else use it in a rule, or remove it"),
            None => "use it in a rule, or remove it".to_owned(),
        }));
    }
    settings(definition, &mut found);
    found
}

/// Names in `settings` of variables that no rule sets. A prefix can be for rules of extensions, unless it almost
/// matches a variable that no other pattern matches.
fn settings(definition: &Definition, found: &mut Vec<Diagnostic>) {
    let Some(set) = variables(definition) else { return };
    for settings in &definition.files {
        for pattern in &settings.variables {
            if set.iter().any(|name| includes(pattern, name)) {
                continue;
            }
            let others = set.iter().copied().filter(|name| !settings.include(name));
            let closest = match pattern.strip_suffix('*') {
                Some(beginning) => closest(beginning, others.filter_map(|name| name.get(..beginning.len()))),
                None => closest(pattern, others),
            };
            // The name of a library's variable is right, and that of the rule is not.
            let closest = closest.filter(|_| !NAMES.variables.contains(pattern));
            let message = format!("no rule sets a variable `{pattern}`");
            let hint = match closest {
                Some(closest) if pattern.ends_with('*') => format!("did you mean `{closest}*`?"),
                Some(closest) => did_you_mean(closest),
                None if pattern.ends_with('*') => continue,
                None => "set it in `env` of a rule, or remove it".to_owned(),
            };
            let list = keys(["files", settings.path.as_str(), "variables"]);
            let span = definition.place(&[list, vec![At::Item("", pattern.clone())]].concat());
            found.push(Diagnostic::warning(UNKNOWN_SETTING_VARIABLE, span, message).hint(hint));
        }
    }
}

/// The variables that rules set in containers of the pod; `None` if an expression yields some of the names.
fn variables(definition: &Definition) -> Option<Vec<&str>> {
    writes(definition).filter(|write| write.path == ["env"]).map(|write| write.name()).collect()
}
