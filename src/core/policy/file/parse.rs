//! From the YAML of a policy file to its [`Definition`].

use std::collections::{BTreeSet, HashMap};

use crate::core::yaml::{Content, Entry, Node, Span};

use super::devices::Devices;
use super::env;
use crate::core::policy::definition::{
    At, Containers, Definition, Gpus, OnConflict, Placed, Rule, checks, files, in_volume, precedence,
    span_in, span_in_rule,
};
use crate::core::policy::interpolation::{Interpolation, Names, Phase};
use crate::core::policy::keys::{self, API_VERSION, KIND};
use crate::core::policy::matcher::Matcher;
use crate::core::policy::overlay::{Compiler, Element, Written};
use crate::core::policy::parameter::{Files, Layer, Parameter, ParameterType, Variable, machines};
use crate::core::policy::source::reader::{self, Fields};
use crate::core::policy::source::{
    CONFLICTING_RULES, Checked, DUPLICATE_NAME, Diagnostic, EXTENSION, MISSING_KEY, Problems, SourceFile,
    TOO_EARLY, closest,
};

/// The head of a policy file, and the problems in it, which do not hide those of the `spec`.
pub(crate) struct Header {
    /// Empty if it is invalid.
    pub(crate) name: String,
    /// The place of the name.
    pub(crate) name_span: Span,
    pub(crate) spec: Option<Node>,
    pub(crate) problems: Problems,
}

impl Header {
    pub(crate) fn read(root: &Node) -> Checked<Self> {
        let mut fields = Fields::of(root, &keys::POLICY)?;
        let _ = fields.required("apiVersion", |node| constant(node, "apiVersion", API_VERSION));
        let _ = fields.required("kind", |node| constant(node, "kind", KIND));
        let name = fields.required("metadata", |node| {
            let mut metadata = Fields::of(node, &keys::METADATA)?;
            let name = metadata.required("name", |node| {
                reader::dns_label(node, "the name of a policy").map(|name| (name, node.span))
            });
            metadata.finish()?;
            Ok::<_, Problems>(name?)
        });
        let spec = fields.required("spec", |node| Ok::<_, Diagnostic>(node.clone()));
        let problems = fields.finish().err().unwrap_or_default();
        let (name, name_span) = name.unwrap_or_default();
        Ok(Self { name, name_span, spec: spec.ok(), problems })
    }
}

/// Reads a `spec`, that of an extension together with its base's. With problems, the result lacks what they are about.
pub(crate) fn definition(
    node: Node,
    own: SourceFile,
    bases: Vec<SourceFile>,
    extends: Option<(String, Span)>,
    files: &Files,
) -> (Option<Definition>, Problems) {
    let mut spec = match Fields::of(&node, &keys::SPEC) {
        Ok(spec) => spec,
        Err(problems) => return (None, problems),
    };
    let provider = spec.required("provider", |node| reader::dns_label(node, "the provider"));
    let description =
        spec.required("description", |node| reader::text(node, "the description").map(str::to_owned));
    let mut names = Names::built_in();
    let parameters = spec.optional("parameters", |node| parameters(node, &mut names, files));
    let variables = spec.optional("variables", |node| variables(node, &mut names));
    if spec.misspells("parameters") || spec.misspells("variables") {
        names.add_unknown();
    }
    // Of a column whose declaration has a problem, that problem is the only one.
    let are_read = parameters.is_ok() && variables.is_ok() && !names.has_unknown();
    let mut parameters = parameters.ok().flatten().unwrap_or_default();
    let mut variables = variables.ok().flatten().unwrap_or_default();
    let _ = spec.optional("machines", |node| {
        match machines::read(node, files, &mut parameters, &mut variables) {
            Err(_) if !are_read => Ok(()),
            result => result,
        }
    });
    let mut gpus = Gpus::default();
    let _ = spec.required("gpus", |node| gpus.read(node, &names));
    let mut devices = Devices::default();
    let _ = spec.optional("devices", |node| devices.read(node, &names, &variables));
    let matcher = spec.required("match", |node| Matcher::read(node, &names));
    let checks = spec.optional("checks", |node| checks::read(node, &names));
    let mut read_rules = devices.add;
    let adds_devices = !read_rules.is_empty() || devices.has_unread;
    let _ = spec.required_unless("rules", adds_devices, |node| {
        rules(node, &names, &mut read_rules, files).result(())
    });
    let read_files = spec.optional("files", |node| files::read(node, &names));
    let problems = spec.finish().err().unwrap_or_default();
    let SourceFile { policy: name, file, text } = own;
    let (extends, extends_span) = extends.unzip();
    let mut definition = Definition {
        file,
        text,
        bases,
        extends,
        extends_span: extends_span.unwrap_or_default(),
        name,
        provider: provider.unwrap_or_default(),
        description: description.unwrap_or_default(),
        parameters,
        gpus,
        own_devices: devices.own,
        matcher: matcher.unwrap_or_default(),
        variables,
        offered: Vec::new(),
        checks: checks.ok().flatten().unwrap_or_default(),
        rules: read_rules,
        files: read_files.ok().flatten().unwrap_or_default(),
        names,
        spec: node,
    };
    definition.find_offered();
    definition.find_parameters_of_rules();
    (Some(definition), problems)
}

fn constant(node: &Node, field: &str, wanted: &str) -> Result<(), Diagnostic> {
    let seen = reader::text(node, field)?;
    if seen == wanted {
        return Ok(());
    }
    let hint = match closest(seen, [wanted]) {
        Some(_) => format!("did you mean `{field}: {wanted}`?"),
        None => format!("a policy has `{field}: {wanted}`"),
    };
    Err(Diagnostic::new(node.span, format!("`{field}` is `{seen}`")).hint(hint))
}

/// The literals, types and reserved words of the CEL specification, which an expression does not read as a name.
const CEL_WORDS: &str = "as bool break bytes const continue double else false for function if import in int let list \
                         loop map namespace null null_type package return string true type uint var void while";

/// A name that an expression can read.
fn identifier(name: &str, span: Span) -> Result<(), Diagnostic> {
    let fits = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_word = CEL_WORDS.split(' ').any(|word| word == name);
    if fits && !is_word {
        return Ok(());
    }
    let message = format!("`{name}` cannot be a name in an expression");
    let hint = if is_word {
        "it is a word of CEL: take another name"
    } else {
        "use letters, digits and `_`, a letter first"
    };
    Err(Diagnostic::new(span, message).hint(hint))
}

fn parameters(node: &Node, names: &mut Names, files: &Files) -> Checked<Vec<Parameter>> {
    let entries = reader::entries(node, "`parameters`").inspect_err(|_| names.add_unknown())?;
    let mut problems = Problems::default();
    let mut read: Vec<Parameter> = Vec::new();
    for entry in entries {
        let known = read.iter_mut().find(|known| known.name == entry.key);
        match files.extension_at(entry.span) {
            Some(file) if !matches!(entry.value.content, Content::Map(_)) => {
                problems.take(
                    known.map_or_else(|| Err(undeclared(entry).into()), |known| set(known, entry, file)),
                );
            }
            _ => read.extend(problems.take(parameter(entry, names))),
        }
    }
    for entry in entries {
        let known = read.iter().find(|known| known.name == entry.key);
        let found = known.and_then(|known| default_without_effect(known, &entry.value, files));
        problems.take(found.map_or(Ok(()), Err));
    }
    problems.result(read)
}

fn parameter(entry: &Entry<Node>, names: &mut Names) -> Checked<Parameter> {
    identifier(&entry.key, entry.span)?;
    let parameter = Parameter::read(&entry.key, &entry.value);
    let is_template = |known: &Parameter| known.kind == ParameterType::Template;
    let phase = if parameter.as_ref().is_ok_and(is_template) { Phase::Pod } else { Phase::Fixed };
    // `enabled` is a key of the provider's block in a values file.
    if entry.key == "enabled" || !names.add(&entry.key, phase) {
        return Err(taken(entry).into());
    }
    parameter
}

/// The error for a `default` that an extension gives to a parameter for which its base has a value for every pod.
fn default_without_effect(parameter: &Parameter, node: &Node, files: &Files) -> Option<Diagnostic> {
    let default = node.entry("default")?;
    let file = files.extension_at(default.span)?;
    let value = parameter.layers.iter().find(|layer| layer.value.is_some() && layer.is_of_base(file))?;
    let line = value.value.as_ref().map(|(_, span)| files.line(*span))?;
    let name = &parameter.name;
    let message = format!(
        "`default` of `{name}` has no effect: a policy that this one extends has a value for every pod"
    );
    let hint = format!("write the value itself, as in `{name}: 4`; the other is at line {line} of its file");
    Some(Diagnostic::new(default.span, message).code(EXTENSION).hint(hint))
}

/// The error for a value of a parameter that no base has.
fn undeclared(entry: &Entry<Node>) -> Diagnostic {
    Diagnostic::new(entry.span, format!("no base has a parameter `{}`", entry.key))
        .code(EXTENSION)
        .hint(format!("declare it: `{}: {{description: …, default: …}}`", entry.key))
}

/// Sets a parameter of a base to the value that an extension gives it.
fn set(parameter: &mut Parameter, entry: &Entry<Node>, file: usize) -> Checked<()> {
    let value = parameter.read_value(&entry.value)?;
    Layer::of(parameter, file).value = Some((value, entry.value.span));
    Ok(())
}

/// The variables, each after those that it reads.
fn variables(node: &Node, names: &mut Names) -> Checked<Vec<Variable>> {
    let entries = reader::entries(node, "`variables`").inspect_err(|_| names.add_unknown())?;
    let mut problems = Problems::default();
    let mut is_taken = Vec::with_capacity(entries.len());
    for entry in entries {
        problems.take(identifier(&entry.key, entry.span));
        is_taken.push(names.is_taken(&entry.key));
        names.announce(&entry.key);
    }
    let mut read = Vec::with_capacity(entries.len());
    for (entry, is_taken) in entries.iter().zip(is_taken) {
        let variable = problems.take(Variable::read(&entry.key, &entry.value, names));
        if is_taken {
            problems.add(taken(entry));
        }
        read.push(variable.filter(|_| !is_taken));
    }
    let order = order(&read);
    if order.len() < read.len() {
        problems.add(circle(entries, &read, &order));
    }
    let mut depths = HashMap::new();
    let mut variables = Vec::with_capacity(read.len());
    for at in order {
        // A variable with a problem can be read, so that its problem is the only one.
        let mut phase = Phase::Fixed;
        if let Some(mut variable) = read[at].take() {
            let span = entries[at].span;
            problems.take(variable.settle(names));
            phase = variable.phase;
            variables.extend(problems.take(of_bounded_depth(variable, &mut depths, span)));
        }
        names.add(&entries[at].key, phase);
    }
    problems.result(variables)
}

/// The positions of the variables that each of them reads.
fn reads(variables: &[Option<Variable>]) -> Vec<BTreeSet<usize>> {
    let named = variables.iter().enumerate();
    let by_name: HashMap<&str, usize> =
        named.filter_map(|(at, variable)| Some((variable.as_ref()?.name.as_str(), at))).collect();
    let of = |variable: &Variable| {
        let mut read: BTreeSet<usize> = BTreeSet::new();
        variable.value.names(&mut |name| read.extend(by_name.get(name)));
        read
    };
    variables.iter().map(|variable| variable.as_ref().map(of).unwrap_or_default()).collect()
}

/// The positions of the variables, each after those that it reads and else as in the file, without those that depend on
/// themselves.
fn order(variables: &[Option<Variable>]) -> Vec<usize> {
    let read_by_each = reads(variables);
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); variables.len()];
    for (reader, read) in read_by_each.iter().enumerate() {
        for at in read {
            readers[*at].push(reader);
        }
    }
    let mut missing: Vec<usize> = read_by_each.iter().map(BTreeSet::len).collect();
    let mut next: BTreeSet<usize> = (0..variables.len()).filter(|at| missing[*at] == 0).collect();
    let mut order = Vec::with_capacity(variables.len());
    while let Some(at) = next.pop_first() {
        order.push(at);
        for reader in &readers[at] {
            missing[*reader] -= 1;
            if missing[*reader] == 0 {
                next.insert(*reader);
            }
        }
    }
    order
}

/// The error for variables of which each reads the next one, and the last one the first.
fn circle(entries: &[Entry<Node>], variables: &[Option<Variable>], order: &[usize]) -> Diagnostic {
    let reads = reads(variables);
    let ordered: BTreeSet<&usize> = order.iter().collect();
    let (mut way, mut seen) = (Vec::new(), BTreeSet::new());
    let mut next = (0..variables.len()).find(|at| !ordered.contains(at));
    while let Some(at) = next.filter(|at| seen.insert(*at)) {
        way.push(at);
        next = reads[at].iter().copied().find(|read| !ordered.contains(read));
    }
    let start = way.iter().position(|at| Some(*at) == next).unwrap_or_default();
    let circle = &way[start..];
    let names: Vec<String> =
        circle.iter().skip(1).chain(circle.first()).map(|at| format!("`{}`", entries[*at].key)).collect();
    let Entry { key, span, .. } = &entries[circle[0]];
    let message = format!("the variable `{key}` reads {}", names.join(", which reads "));
    Diagnostic::new(*span, message).code(TOO_EARLY).hint("let one of them do without the others")
}

/// The deepest variable, with those that it reads: an expression evaluates them within its own evaluation.
const MAX_DEPTH: usize = 200;

fn of_bounded_depth(
    variable: Variable,
    depths: &mut HashMap<String, usize>,
    span: Span,
) -> Result<Variable, Diagnostic> {
    let mut depth = 0;
    variable.value.texts(&mut |text| {
        for expression in text.expressions() {
            let read = expression.names().iter().filter_map(|name| depths.get(name)).max();
            depth = depth.max(expression.depth() + read.copied().unwrap_or_default());
        }
    });
    if depth > MAX_DEPTH {
        let name = &variable.name;
        let message =
            format!("`{name}` and the variables that it reads have {depth} levels, more than {MAX_DEPTH}");
        return Err(Diagnostic::new(span, message).hint("look a value up in a table, or join expressions"));
    }
    depths.insert(variable.name.clone(), depth);
    Ok(variable)
}

fn taken(entry: &Entry<Node>) -> Diagnostic {
    Diagnostic::new(entry.span, format!("the name `{}` is taken", entry.key)).code(DUPLICATE_NAME)
}

/// Adds the rules without problems to the entries of `devices.add`, and returns the problems of the others.
fn rules(node: &Node, names: &Names, rules: &mut Vec<Rule>, files: &Files) -> Problems {
    let mut problems = Problems::default();
    let items = problems.take(reader::items(node, "`rules`")).unwrap_or_default();
    for item in items {
        let Some(rule) = problems.take(rule(item, names)) else { continue };
        if rules.iter().any(|known| known.name == rule.name) {
            let message = format!("two rules are called `{}`", rule.name);
            problems.add(Diagnostic::new(item.span, message).code(DUPLICATE_NAME));
        }
        rules.push(rule);
    }
    if problems.is_empty() && items.is_empty() {
        // The entries of `devices.add` are rules, too.
        let hint = if rules.is_empty() { "see docs/policy.md" } else { "write one, or leave `rules` out" };
        problems.add(Diagnostic::new(node.span, "a policy needs at least one rule").hint(hint));
    }
    problems.take(same_volumes(node, rules, files));
    problems.take(precedence::find(rules, files));
    for combined in [edits_and_insists, other_separators, additions_and_replacements] {
        problems.take(combined(node, rules));
    }
    problems
}

/// Two rules of a file can declare a volume of one name if it is the same volume. That of an extension replaces that of
/// its base.
fn same_volumes(node: &Node, rules: &[Rule], files: &Files) -> Result<(), Diagnostic> {
    let mut known: Vec<((&str, usize), &Element)> = Vec::new();
    for (rule, volume) in rules.iter().flat_map(|rule| rule.pod.volumes.iter().map(move |one| (rule, one))) {
        let Some(name) = volume.0.literal("name") else { continue };
        let key = (name, files.rank(rule.span));
        match known.iter().find(|(other, _)| *other == key) {
            Some((_, other)) if *other != volume => {
                let message = format!("two rules have different volumes `{name}`");
                let path = in_volume(name, &[]);
                return Err(contradiction(node, rule, &path, message, "give one of them another name"));
            }
            Some(_) => {}
            None => known.push((key, volume)),
        }
    }
    Ok(())
}

/// An error at a value of a rule.
fn contradiction(rules: &Node, rule: &Rule, path: &[At], message: String, hint: &str) -> Diagnostic {
    Diagnostic::new(span_in_rule(rules, rule, path), message).code(CONFLICTING_RULES).hint(hint)
}

/// A rule that replaces or refuses other values of a variable or annotation, and another rule that edits it, undo each
/// other.
fn edits_and_insists(node: &Node, rules: &[Rule]) -> Result<(), Diagnostic> {
    let (mut edited, mut set) = (Vec::new(), Vec::new());
    for rule in rules {
        for placed in rule.writes().filter(|placed| placed.write.is_of_strings()) {
            let Some(name) = placed.write.name() else { continue };
            if placed.write.is_edit() {
                edited.push((name, placed));
            } else if rule.on_conflict != OnConflict::Keep {
                set.push((name, &rule.name));
            }
        }
    }
    for (name, placed) in &edited {
        let gives_way = |setter: &str| placed.rule.gives_way_to(setter);
        if let Some((_, setter)) = set.iter().find(|(other, setter)| other == name && !gives_way(setter)) {
            let rule = placed.rule;
            let message = format!(
                "rule `{}` edits `{name}`, of which rule `{setter}` allows one value only",
                rule.name
            );
            return Err(contradiction(
                node,
                rule,
                &placed.path(),
                message,
                "set the whole value in one rule",
            ));
        }
    }
    Ok(())
}

/// A list in a string has one separator: by another one, an edit takes several entries for one.
fn other_separators(node: &Node, rules: &[Rule]) -> Result<(), Diagnostic> {
    let mut known: Vec<(Placed<'_>, &str)> = Vec::new();
    for placed in rules.iter().flat_map(Rule::writes) {
        let (Some(name), Some(separator)) = (placed.write.name(), placed.write.separator()) else { continue };
        let same = |other: &&(Placed<'_>, &str)| {
            (other.0.write.field(), other.0.write.name()) == (placed.write.field(), Some(name))
        };
        match known.iter().find(same) {
            Some((other, before)) if *before != separator => {
                let message = format!(
                    "rule `{}` separates the entries of `{name}` by `{separator}`, and rule `{}` by `{before}`",
                    placed.rule.name, other.rule.name
                );
                let hint = "use the same `$separator` in both";
                return Err(contradiction(node, placed.rule, &placed.path(), message, hint));
            }
            Some(_) => {}
            None => known.push((placed, separator)),
        }
    }
    Ok(())
}

/// A rule that replaces a list would remove what another rule adds to it.
fn additions_and_replacements(node: &Node, rules: &[Rule]) -> Result<(), Diagnostic> {
    let (mut added, mut replaced) = (Vec::new(), Vec::new());
    for placed in rules.iter().flat_map(Rule::writes) {
        match placed.write.value {
            Written::Replacement(_) => replaced.push(placed),
            Written::Entry(_) | Written::Computed { .. } => added.push(placed),
            _ => {}
        }
    }
    for list in &replaced {
        // Any two containers of a pod can be the same one.
        let meets = |other: &&Placed<'_>| {
            other.is_of_container() == list.is_of_container()
                && list.write.path.starts_with(&other.write.path)
        };
        if let Some(adder) = added.iter().find(meets) {
            let message = format!(
                "rule `{}` replaces `{}`, to which rule `{}` adds",
                list.rule.name,
                list.write.field(),
                adder.rule.name
            );
            let hint = "write all entries into `$replace`";
            return Err(contradiction(node, list.rule, &list.path(), message, hint));
        }
    }
    Ok(())
}

fn rule(node: &Node, names: &Names) -> Checked<Rule> {
    let mut fields = Fields::of(node, &keys::RULE)?;
    let name = fields.required("name", |node| reader::dns_label(node, "the name of a rule"));
    let when = fields.optional("when", |node| Interpolation::condition(node, "when", names, Phase::Pod));
    let containers = fields
        .optional("containers", |node| Interpolation::condition(node, "containers", names, Phase::Container));
    let on_conflict =
        fields.optional("onConflict", |node| reader::one_of(node, "onConflict", &OnConflict::WORDS));
    let compiler = Compiler { names };
    let env = fields.optional("env", |node| {
        let mut problems = Problems::default();
        let overlay = env::overlay(node, &mut problems)?;
        let variables = overlay.and_then(|overlay| problems.take(compiler.container(&overlay)));
        problems.result(variables.unwrap_or_default())
    });
    let container = fields.optional("container", |node| {
        env::refuse_list(node)?;
        compiler.container(node)
    });
    let pod = fields.optional("pod", |node| compiler.pod(node));
    fields.finish()?;
    let (env, container, pod) = (env?, container?, pod?);
    let adds_nothing = env.is_none() && container.is_none() && pod.is_none();
    let (name, containers) = (name?, containers?);
    if adds_nothing {
        return Err(Diagnostic::new(node.span, format!("the rule `{name}` adds nothing"))
            .code(MISSING_KEY)
            .hint("give it `env`, `container`, `pod` or several of them")
            .into());
    }
    let containers = match (containers, env.is_some(), container.is_some()) {
        (Some(condition), ..) => Containers::If(condition),
        (None, true, true) => {
            let message =
                format!("the rule `{name}` has `env` and `container`, and does not say for which containers");
            return Err(Diagnostic::new(node.span, message)
                .code(MISSING_KEY)
                .hint("add `containers: ranks`, or `containers: gpus > 0` to leave out the launcher of a job")
                .into());
        }
        (None, true, false) => Containers::Ranks,
        (None, false, _) => Containers::Gpus,
    };
    let rule = Rule {
        span: node.span,
        name,
        when: when?,
        containers,
        on_conflict: on_conflict?.unwrap_or_default(),
        container: env.into_iter().chain(container).flatten().collect(),
        pod: pod.unwrap_or_default(),
        device: None,
        parameters: BTreeSet::new(),
        gives_way: Vec::new(),
    };
    let replacement = rule.writes().find(|placed| matches!(placed.write.value, Written::Replacement(_)));
    if let Some(placed) = replacement.filter(|_| rule.on_conflict == OnConflict::Refuse) {
        let message = format!("the rule `{}` replaces a list, and refuses pods with another one", rule.name);
        let diagnostic = Diagnostic::new(span_in(node, &placed.path()), message).code(CONFLICTING_RULES);
        return Err(diagnostic.hint("write two rules").into());
    }
    Ok(rule)
}
