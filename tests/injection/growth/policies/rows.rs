//! Policies with many of one thing.

/// A part of a policy that grows: its key, and after a comma what of it, or words for what is no key.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// The names and texts of files with this number of it.
    pub(super) write: fn(usize) -> Vec<(String, String)>,
}

/// A number of pieces.
fn many(count: usize, piece: impl Fn(usize) -> String) -> String {
    (0..count).map(piece).collect()
}

/// A name of four letters and no digits.
fn letters(at: usize) -> String {
    (0..4).map(|place| char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"[(at / 26_usize.pow(place)) % 26])).collect()
}

const RULE: &str = "  rules: [{name: r, env: {Z: z}}]\n";
const GPUS: &str = "  gpus: {resources: [nvidia.com/gpu]}\n";
const MATCH: &str = "  match: {anyAnnotation: {example.com/fabric: 'true'}}\n";

fn file(head: &str, name: &str, spec: &str) -> Vec<(String, String)> {
    vec![(
        "big.yaml".to_owned(),
        format!(
            "{head}apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\nmetadata: {{name: {name}}}\nspec:\n{spec}"
        ),
    )]
}

/// A policy with these keys besides those that each has.
fn lab(spec: &str) -> Vec<(String, String)> {
    of(GPUS, MATCH, &format!("{spec}{RULE}"))
}

/// A policy with these rules.
fn rules(rules: &str) -> Vec<(String, String)> {
    of(GPUS, MATCH, &format!("  rules:\n{rules}"))
}

fn of(gpus: &str, matcher: &str, rest: &str) -> Vec<(String, String)> {
    file("", "lab", &format!("  provider: lab\n  description: For a test\n{gpus}{matcher}{rest}"))
}

/// A policy with further keys in `match`.
fn matching(keys: &str) -> Vec<(String, String)> {
    of(GPUS, &format!("  match: {{anyAnnotation: {{example.com/fabric: 'true'}}, {keys}}}\n"), RULE)
}

/// A policy with parameters, and a rule that reads the first.
fn parameters(parameters: &str, rest: &str) -> Vec<(String, String)> {
    of(
        GPUS,
        MATCH,
        &format!("  parameters:\n{parameters}{rest}  rules: [{{name: r, env: {{Z: '${{string(p0)}}'}}}}]\n"),
    )
}

/// A policy with rows of machines for one parameter.
fn machines(rows: &str) -> Vec<(String, String)> {
    parameters("    p0: {description: d, type: integer, default: 1}\n", &format!("  machines:\n{rows}"))
}

/// A policy that reads a variable.
fn variable(value: &str) -> Vec<(String, String)> {
    of(
        GPUS,
        MATCH,
        &format!(
            "  variables: {{v: {value}}}\n  rules: [{{name: r, env: {{Z: '${{string(v.size())}}'}}}}]\n"
        ),
    )
}

/// A policy whose rule has these fields.
fn rule(fields: &str) -> Vec<(String, String)> {
    rules(&format!("    - {{name: r, containers: gpus > 0, {fields}}}\n"))
}

/// A policy with a variable in its rule that has this text.
fn text(value: &str) -> Vec<(String, String)> {
    rule(&format!("env: {{A: \"{value}\"}}"))
}

/// Files, each a policy or a part with these keys, by their names.
fn files(all: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    all.map(|(name, spec)| (format!("{name}.yaml"), file("", &name, &spec).remove(0).1)).collect()
}

/// A base policy with these keys, and an extension with those.
fn extension(base: &str, own: &str) -> Vec<(String, String)> {
    let base = lab(base).remove(0).1.replace("name: lab}", "name: base}");
    let own = file("", "own", &format!("  extends: base\n{own}")).remove(0).1;
    vec![("base.yaml".to_owned(), base), ("own.yaml".to_owned(), own)]
}

macro_rules! rows {
    ($($name:literal: $write:expr,)*) => { &[$(Row { name: $name, write: $write },)*] };
}

pub(super) const ROWS: &[Row] = rows! {
    "metadata.name": |n| file("", &"a".repeat(n), &format!("  provider: lab\n  description: d\n{GPUS}{MATCH}{RULE}")),
    "spec.provider": |n| file("", "lab", &format!("  provider: {}\n  description: d\n{GPUS}{MATCH}{RULE}", "a".repeat(n))),
    "spec.description": |n| file("", "lab", &format!("  provider: lab\n  description: {}\n{GPUS}{MATCH}{RULE}", "d ".repeat(n))),
    "spec.extends": |n| files((0..n.min(2_000)).map(|at| (format!("p{at}"), format!("  variables: {{v{at}: 1}}\n")))
        .chain([("own".to_owned(), format!("  provider: lab\n  description: d\n  extends: [{}]\n{GPUS}{MATCH}{RULE}", many(n, |at| format!("p{at}, "))))])),
    "spec.extends, of one part": |n| lab(&format!("  extends: [{}]\n", "multinode, ".repeat(n))),
    "spec.extends, in a chain": |n| files((0..(n * 3 / 4).min(2_000)).map(|at| match at {
        0 => ("p0".to_owned(), format!("  provider: lab\n  description: d\n{GPUS}{MATCH}{RULE}")),
        at => (format!("p{at}"), format!("  extends: p{}\n", at - 1)),
    })),
    "spec.extends, of one by many": |n| files(std::iter::once(("base".to_owned(), format!("  provider: lab\n  description: d\n  variables: {{{}}}\n{GPUS}{MATCH}{RULE}", many(100, |at| format!("v{at}: 1, ")))))
        .chain((0..n.min(2_000)).map(|at| (format!("p{at}"), format!("  extends: base\n  match: {{labels: {{a: l{at}}}}}\n"))))),
    "spec.without": |n| extension(&format!("  checks: [{}]\n", many(n, |at| format!("{{name: c{at}, when: totalGpus > 9, message: m}}, "))), &format!("  without: [{}]\n", many(n, |at| format!("c{at}, ")))),
    "spec.without, unknown": |n| extension("", &format!("  without: [{}]\n", many(n, |at| format!("r{at}, ")))),
    "spec.without, a long unknown name": |n| extension(&format!("  checks: [{{name: {}, message: m}}]\n", "a".repeat(n)), &format!("  without: [{}]\n", "b".repeat(n))),
    "rules of an extension": |n| {
        let rules = |name: &str| many(n, |at| format!("    - {{name: {name}{at}, env: {{A{at}: x}}}}\n"));
        let mut files = extension("", &format!("  rules:\n{}", rules("b")));
        files[0].1 = files[0].1.replace(RULE, &format!("  rules:\n{}", rules("a")));
        files
    },
    "machines of an extension": |n| {
        let rows = |at: usize| format!("  machines: {{pool: {{{}}}}}\n", many(n, |row| format!("m{}: {{v: 1}}, ", at + row)));
        let part = file("", "rows", &rows(0)).remove(0).1;
        let own = lab(&format!("  extends: rows\n  variables: {{v: 0}}\n{}", rows(n / 2))).remove(0).1;
        vec![("rows.yaml".to_owned(), part), ("own.yaml".to_owned(), own.replace("Z: z", "Z: '${string(v)}'"))]
    },
    "parameters of an extension": |n| extension(
        &format!("  parameters: {{{}}}\n", many(n, |at| format!("p{at}: {{description: d, default: 1}}, "))),
        &format!("  parameters: {{{}}}\n", many(n, |at| format!("p{at}: 2, "))),
    ),
    "spec.nodes.providerIDs": |n| lab(&format!("  nodes: {{providerIDs: [{}]}}\n", many(n, |at| format!("'a{at}://*', ")))),
    "spec.nodes.labels": |n| lab(&format!("  nodes: {{labels: {{{}}}}}\n", many(n, |at| format!("a.com/l{at}: x, ")))),
    "spec.gpus.resources": |n| of(&format!("  gpus: {{resources: [{}]}}\n", many(n, |at| format!("a.com/gpu{at}, "))), MATCH, RULE),
    "spec.gpus.claims": |n| of(&format!("  gpus: {{claims: {{{}}}}}\n", many(n, |at| format!("c{at}: 1, "))), MATCH, RULE),
    "spec.gpus.claims, patterns": |n| of(&format!("  gpus: {{claims: {{{}}}}}\n", many(n, |at| format!("'c{at}*': 1, "))), MATCH, RULE),
    "spec.devices.resources": |n| lab(&format!("  devices: {{resources: [{}]}}\n", many(n, |at| format!("a.com/d{at}, ")))),
    "spec.devices.resources, patterns": |n| lab(&format!("  devices: {{resources: [{}]}}\n", many(n, |at| format!("'a.com/d{at}*', ")))),
    "spec.devices.claims": |n| lab(&format!("  devices: {{claims: {{{}}}}}\n", many(n, |at| format!("d{at}: 1, ")))),
    "spec.devices.add": |n| lab(&format!("  devices: {{resources: [a.com/nic], add: [{}]}}\n", many(n, |at| format!("{{name: d{at}, resources: {{a.com/d{at}: 1}}}}, ")))),
    "spec.devices.add.name": |n| lab(&format!("  devices: {{resources: [a.com/nic], add: [{{name: {}, resources: {{a.com/d: 1}}}}]}}\n", "a".repeat(n))),
    "spec.devices.add.when": |n| lab(&format!("  devices: {{resources: [a.com/nic], add: [{{name: d, when: \"{}\", resources: {{a.com/d: 1}}}}]}}\n", vec!["totalGpus > 1"; n].join(" || "))),
    "spec.devices.add.resources": |n| lab(&format!("  devices: {{resources: ['a.com/*'], add: [{{name: d, resources: {{{}}}}}]}}\n", many(n, |at| format!("a.com/d{at}: 1, ")))),
    "spec.devices.add.networks": |n| lab(&format!("  devices: {{resources: [a.com/nic], add: [{{name: d, resources: {{a.com/nic: 1}}, networks: [{}]}}]}}\n", many(n, |at| format!("n{at}, ")))),
    "spec.devices.add.claims": |n| lab(&format!("  devices: {{claims: {{x: 1}}, add: [{{name: d, claims: {{{}}}}}]}}\n", many(n, |at| format!("n{at}: t, ")))),
    "spec.match.anyAnnotation": |n| of(GPUS, &format!("  match: {{anyAnnotation: {{{}}}}}\n", many(n, |at| format!("a.com/f{at}: 'true', "))), RULE),
    "spec.match.exceptAnnotation": |n| matching(&format!("exceptAnnotation: {{{}}}", many(n, |at| format!("a.com/f{at}: 'true', ")))),
    "spec.match.labels": |n| matching(&format!("labels: {{{}}}", many(n, |at| format!("a.com/f{at}: x, ")))),
    "spec.match.namespaces": |n| matching(&format!("namespaces: [{}]", many(n, |at| format!("n{at}, ")))),
    "spec.match.ownerKinds": |n| matching(&format!("ownerKinds: [{}]", many(n, |at| format!("Kind{at}, ")))),
    "spec.match.when": |n| matching(&format!("when: \"{}\"", vec!["podNamespace == 'a'"; n].join(" || "))),
    "spec.parameters": |n| parameters(&many(n, |at| format!("    p{at}: {{description: d, default: 1}}\n")), ""),
    "spec.parameters, that are read": |n| of(GPUS, MATCH, &format!("  parameters:\n{}  rules: [{{name: r, env: {{{}}}}}]\n",
        many(n, |at| format!("    p{at}: {{description: d, default: 1}}\n")), many(n, |at| format!("A{at}: '${{string(p{at})}}', ")))),
    "spec.parameters, a long name": |n| lab(&format!("  parameters: {{{}: {{description: d, default: 1}}}}\n", "p".repeat(n))),
    "spec.parameters.description": |n| parameters(&format!("    p0: {{description: {}, default: 1}}\n", "d ".repeat(n)), ""),
    "spec.parameters.default": |n| parameters(&format!("    p0: {{description: d, default: [{}]}}\n", many(n, |at| format!("v{at}, "))), "").into_iter()
        .map(|(file, text)| (file, text.replace("'${string(p0)}'", "\"${p0.join(',')}\""))).collect(),
    "spec.parameters.enum": |n| parameters(&format!("    p0: {{description: d, default: v0, enum: [{}]}}\n", many(n, |at| format!("v{at}, "))), ""),
    "spec.parameters.enum, of many": |n| parameters(&many(n, |at| format!("    p{at}: {{description: d, default: a, enum: [a, b]}}\n")), ""),
    "spec.parameters.fromNodes": |n| parameters(&format!("    p0: {{description: d, default: 1, fromNodes: [{}]}}\n", many(n, |at| format!("a.com/v{at}, "))), ""),
    "spec.parameters.fromNetworks": |n| parameters(&format!("    p0: {{description: d, default: '1', fromNetworks: [{}]}}\n", many(n, |at| format!("a.com/v{at}, "))), "").into_iter()
        .map(|(file, text)| (file, text.replace("'${string(p0)}'", "'${p0}'"))).collect(),
    "spec.variables": |n| lab(&format!("  variables:\n{}", many(n, |at| format!("    v{at}: {at}\n")))),
    "spec.variables, that are read": |n| of(GPUS, MATCH, &format!("  variables:\n{}  rules: [{{name: r, env: {{{}}}}}]\n",
        many(n, |at| format!("    v{at}: '${{totalGpus + {at}}}'\n")), many(n, |at| format!("A{at}: '${{string(v{at})}}', ")))),
    "spec.variables, in reverse": |n| lab(&format!("  variables:\n{}    v{n}: 1\n", many(n, |at| format!("    v{at}: '${{v{}}}'\n", if at % 100 == 99 { n } else { at + 1 })))),
    "spec.variables, of unknown names": |n| lab(&format!("  variables:\n{}", many(n, |at| format!("    {0}{0}: '${{{0}}}'\n", letters(at))))),
    "spec.variables, a list": |n| variable(&format!("[{}]", many(n, |at| format!("a{at}, ")))),
    "spec.variables, a map": |n| variable(&format!("{{{}}}", many(n, |at| format!("a{at}: b, ")))),
    "spec.variables, lists of expressions": |n| variable(&format!("[{}]", many(n, |_| "'${string(8)}', ".to_owned()))),
    "spec.variables, deep": |n| variable(&format!("{}1{}", "[".repeat(n), "]".repeat(n))),
    "spec.machines": |n| machines(&format!("    pool: {{{}}}\n", many(n, |at| format!("m{at}: {{p0: {at}}}, ")))),
    "spec.machines, of one value": |n| machines(&format!("    pool: {{{}}}\n", many(n, |at| format!("m{at}: {{p0: 2}}, ")))),
    "spec.machines, patterns": |n| machines(&format!("    pool: {{{}}}\n", many(n, |at| format!("'m{at}-*': {{p0: {at}}}, ")))),
    "spec.machines, values of a row": |n| machines(&format!("    pool: {{\"{}\": {{p0: 2}}}}\n", many(n, |at| format!("m{at}, ")).trim_end_matches(", "))),
    "spec.machines, labels": |n| machines(&many(n, |at| format!("    l{at}: {{m: {{p0: {at}}}}}\n"))),
    "spec.machines, columns": |n| parameters(&many(n, |at| format!("    p{at}: {{description: d, default: 1}}\n")), &format!("  machines: {{pool: {{m: {{{}}}}}}}\n", many(n, |at| format!("p{at}: 2, ")))),
    "spec.machines, unknown columns": |n| parameters(&many(n.min(2_000), |at| format!("    p{at}: {{description: d, default: 1}}\n")), &format!("  machines: {{pool: {{{}}}}}\n", many(n, |at| format!("m{at}: {{{}: 2}}, ", letters(at))))),
    "spec.machines, numbers of GPUs": |n| machines(&format!("    pool: {{m: {{p0: {{{}}}}}}}\n", many(n, |at| format!("{}: {at}, ", at + 1)))),
    "spec.checks": |n| lab(&format!("  checks:\n{}", many(n, |at| format!("    - {{name: c{at}, when: totalGpus > {at}, message: m}}\n")))),
    "spec.checks.name": |n| lab(&format!("  checks: [{{name: {}, when: totalGpus > 1, message: m}}]\n", "c".repeat(n))),
    "spec.checks.when": |n| lab(&format!("  checks: [{{name: c, when: \"{}\", message: m}}]\n", vec!["totalGpus > 9"; n].join(" || "))),
    "spec.checks.containers": |n| lab(&format!("  checks: [{{name: c, containers: \"{}\", message: m}}]\n", vec!["gpus > 9"; n].join(" || "))),
    "spec.checks.env": |n| lab(&format!("  checks:\n{}", many(n, |at| format!("    - {{name: c{at}, env: A{at}, when: value == 'a', message: m}}\n")))),
    "spec.checks.env, and rules": |n| rules(&format!("    - {{name: r, env: {{{}}}}}\n  checks:\n{}", many(n, |at| format!("A{}: x, ", letters(at))), many(n, |at| format!("    - {{name: c{at}, env: {}, when: value == 'a', message: m}}\n", letters(at))))),
    "spec.checks.message": |n| lab(&format!("  checks: [{{name: c, when: totalGpus > 9, message: \"{}\"}}]\n", "m ".repeat(n))),
    "spec.files": |n| lab(&format!("  files:\n{}", many(n, |at| format!("    /etc/f{at}.conf: {{variables: [A]}}\n")))),
    "spec.files.variables": |n| lab(&format!("  files: {{/etc/f.conf: {{variables: [{}]}}}}\n", many(n, |at| format!("A{at}, ")))),
    "spec.files.when": |n| lab(&format!("  files: {{/etc/f.conf: {{variables: [Z], when: \"{}\"}}}}\n", vec!["totalGpus > 9"; n].join(" || "))),
    "spec.files.env": |n| lab(&format!("  files: {{/etc/f.conf: {{variables: [Z], env: {}}}}}\n", "A".repeat(n))),
    "spec.rules": |n| rules(&many(n, |at| format!("    - {{name: r{at}, env: {{A{at}: x}}}}\n"))),
    "spec.rules.name": |n| rules(&format!("    - {{name: {}, env: {{A: x}}}}\n", "r".repeat(n))),
    "spec.rules.when": |n| rules(&many(n, |at| format!("    - {{name: r{at}, when: totalGpus > {at}, containers: gpus > {at}, env: {{A{at}: x}}}}\n"))),
    "spec.rules.containers": |n| rules(&format!("    - {{name: r, containers: \"{}\", env: {{A: x}}}}\n", vec!["gpus > 1"; n].join(" || "))),
    "spec.rules.env": |n| rule(&format!("env: {{{}}}", many(n, |at| format!("A{at}: x, ")))),
    "spec.rules.env, letters": |n| rule(&format!("env: {{{}}}", many(n, |at| format!("{}: x, ", letters(at))))),
    "spec.rules.env, expressions": |n| rule(&format!("env: {{{}}}", many(n, |at| format!("A{at}: '${{gpus + {at}}}', ")))),
    "spec.rules.env, references": |n| rule(&format!("env: {{{}}}", many(n, |at| format!("A{at}: '$(A{})', ", at + 1)))),
    "spec.rules.env, a long name": |n| rule(&format!("env: {{{}: x}}", "A".repeat(n))),
    "spec.rules.env, unknown names": |n| of(GPUS, MATCH, &format!("  variables: {{{}}}\n  rules: [{{name: r, env: {{{}}}}}]\n",
        many(n, |at| format!("{}: 1, ", letters(at).repeat(20))), many(n, |at| format!("A{at}: '${{{}}}', ", letters(at).repeat(19))))),
    "spec.rules.container": |n| rule(&format!("container: {{resources: {{limits: {{{0}}}, requests: {{{0}}}}}}}", many(n, |at| format!("a.com/a{at}: 1, ")))),
    "spec.rules.container, mounts": |n| rule(&format!("container: {{volumeMounts: [{}]}}, pod: {{spec: {{volumes: [{}]}}}}",
        many(n, |at| format!("{{name: v{at}, mountPath: /m{at}}}, ")), many(n, |at| format!("{{name: v{at}, emptyDir: {{}}}}, ")))),
    "spec.rules.pod": |n| rule(&format!("pod: {{metadata: {{annotations: {{{}}}}}}}", many(n, |at| format!("a.com/a{at}: x, ")))),
    "spec.rules.pod, containers": |n| rule(&format!("pod: {{spec: {{initContainers: [{}]}}}}", many(n, |at| format!("{{name: c{at}, image: x, restartPolicy: Always}}, ")))),
    "capabilities that are added and dropped": |n| rule(&format!("container: {{securityContext: {{capabilities: {{add: [{}], drop: [{}]}}}}}}",
        many(n, |at| format!("{}, ", letters(at))), many(n, |at| format!("{}, ", letters(at + n))))),
    "huge pages, and amounts": |n| rule(&format!("container: {{resources: {{limits: {{{}}}}}}}, pod: {{spec: {{volumes: [{}]}}}}",
        many(n, |at| format!("a.com/a{at}: 1, ")), many(n, |at| format!("{{name: v{at}, emptyDir: {{medium: HugePages-2Mi}}}}, ")))),
    "GPUs, and amounts of a container that is added": |n| of(&format!("  gpus: {{resources: [{}]}}\n", many(n, |at| format!("a.com/gpu{at}, "))), MATCH,
        &format!("  rules: [{{name: r, pod: {{spec: {{initContainers: [{{name: c, image: x, restartPolicy: Always, resources: {{limits: {{{}}}}}}}]}}}}}}]\n", many(n, |at| format!("a.com/a{at}: 1, ")))),
    "parameters of a base, and own variables": |n| extension(
        &format!("  parameters: {{{}}}\n", many(n, |at| format!("p{at}: {{description: d, default: x}}, "))),
        &format!("  rules: [{{name: own, env: {{{}}}}}]\n", many(n, |at| format!("A{at}: x, "))),
    ).into_iter().map(|(file, text)| (file, text.replace("env: {Z: z}", &format!("env: {{{}}}", many(n, |at| format!("A{at}: '${{p{at}}}', ")))))).collect(),
    "rules with mistakes": |n| rules(&many(n, |at| format!("    - {{name: r{at}, enw: {{A: x}}}}\n"))),
    "mistakes in one line": |n| rule(&format!("env: {{{}}}", many(n, |at| format!("'{{{{{at}': '{{{{ x }}}}', ")))),
    "unknown keys of spec": |n| lab(&many(n, |at| format!("  zz{at}: 1\n"))),
    "unknown keys": |n| file(&many(n, |at| format!("zz{at}: 1\n")), "lab", "  provider: lab\n"),
    "a long unknown key": |n| lab(&format!("  {}: 1\n", "k".repeat(n.min(20_000)))),
    "a long value": |n| text(&"v".repeat(n)),
    "dollars": |n| text(&"$".repeat(n)),
    "dollars and braces": |n| text(&"$${".repeat(n)),
    "references in a text": |n| text(&"$(B".repeat(n)),
    "expressions in a text": |n| text(&"${string(gpus)}".repeat(n)),
    "a long expression": |n| text(&format!("${{string({})}}", vec!["gpus"; n].join(" + "))),
    "parentheses": |n| text(&format!("${{string({}gpus{})}}", "(".repeat(n), ")".repeat(n))),
    "braces": |n| text(&"{{ ".repeat(n)),
    "aliases of an anchor": |n| variable(&format!("[&a x, {}]", "*a, ".repeat(n))),
    "anchors": |n| variable(&format!("[{}]", many(n, |at| format!("&a{at} x, *a{at}, ")))),
    "comments": |n| file(&"# a comment\n".repeat(n), "lab", &format!("  provider: lab\n  description: d\n{GPUS}{MATCH}{RULE}")),
    "comments that ignore": |n| file(&many(n, |at| format!("# fabric-injector: ignore code{at}\n")), "lab", &format!("  provider: lab\n  description: d\n{GPUS}{MATCH}{RULE}")),
    "documents, a mistake": |n| lab(&"---\n".repeat(n)),
    "keys twice, a mistake": |n| rule(&format!("env: {{{}}}", "A: x, ".repeat(n))),
    "files": |n| files((0..n.min(2_000)).map(|at| (format!("p{at}"), format!("  provider: lab\n  description: d\n{GPUS}  match: {{labels: {{a: l{at}}}}}\n{RULE}")))),
};
