//! The variables of a policy, in their order of evaluation.

use std::collections::{BTreeSet, HashMap};

use fabric_yaml::{Entry, Node, Span};

use super::declared_names::{identifier, taken};
use crate::interpolation::{Names, Phase, is_key};
use crate::parameter::Variable;
use crate::source::{Checked, Diagnostic, Problems, TOO_EARLY, closest, did_you_mean, reader};

/// The variables, each after those that it reads.
pub(super) fn read(node: &Node, names: &mut Names) -> Checked<Vec<Variable>> {
    let entries = reader::entries(node, "`variables`").inspect_err(|_| names.has_unknown = true)?;
    let mut problems = Problems::default();
    let mut is_taken = Vec::with_capacity(entries.len());
    for entry in entries {
        problems.take(identifier(&entry.key, entry.span));
        is_taken.push(names.is_taken(&entry.key));
        names.announce(&entry.key);
    }
    let mut read = Vec::with_capacity(entries.len());
    problems.each(entries.iter().zip(is_taken), |problems, (entry, is_taken)| {
        let variable = problems.take(Variable::read(&entry.key, &entry.value, names));
        if is_taken {
            problems.add(taken(entry));
        }
        read.push(variable.filter(|_| !is_taken));
    });
    let reads = reads(&read);
    let order = order(&reads);
    if order.len() < read.len() {
        problems.add(circle(entries, &reads, &order));
    }
    let mut depths = HashMap::new();
    let mut variables = Vec::with_capacity(read.len());
    for at in order {
        // A variable with a problem can be read, which keeps its problem the only one.
        let mut phase = Phase::Fixed;
        if let Some(mut variable) = read[at].take() {
            let span = entries[at].span;
            problems.take(variable.find_phase(names));
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
fn order(reads: &[BTreeSet<usize>]) -> Vec<usize> {
    let mut order = Vec::with_capacity(reads.len());
    let mut is_known = vec![false; reads.len()];
    let is_next =
        |at: &usize, is_known: &[bool]| !is_known[*at] && reads[*at].iter().all(|read| is_known[*read]);
    while let Some(at) = (0..reads.len()).find(|at| is_next(at, &is_known)) {
        is_known[at] = true;
        order.push(at);
    }
    order
}

/// The error for variables that read each other in a cycle.
fn circle(entries: &[Entry<Node>], reads: &[BTreeSet<usize>], order: &[usize]) -> Diagnostic {
    let ordered: BTreeSet<&usize> = order.iter().collect();
    let (mut way, mut seen) = (Vec::new(), BTreeSet::new());
    let mut next = (0..reads.len()).find(|at| !ordered.contains(at));
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
    let others = entries.iter().map(|entry| entry.key.as_str()).filter(|other| other != key);
    let written = entries[circle[0]].value.text().map_or("", |text| text.text);
    // Most often it means something else than itself.
    let hint = match closest(key, others) {
        _ if circle.len() > 1 => "let one of them do without the others".to_owned(),
        _ if is_key(written, key) => "put a key in quotes, as in `[?'example.com/pool']`".to_owned(),
        Some(near) => did_you_mean(near),
        None => "let it do without its own value".to_owned(),
    };
    Diagnostic::error(TOO_EARLY, *span, message).hint(hint)
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
            depth = depth.max(expression.depth + read.copied().unwrap_or_default());
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
