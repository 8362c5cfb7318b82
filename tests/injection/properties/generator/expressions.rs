//! Expressions of the policy language as trees: their text for the policy, and what they come to for a pod.

use serde_json::{Map, Value, json};

/// An expression.
#[derive(Debug, Clone)]
pub(crate) enum Expr {
    Literal(Value),
    /// A parameter, a variable, or a name of the engine's.
    Name(String),
    /// `root.?a.?b[?key].orValue(default)`
    Field {
        root: String,
        path: Vec<String>,
        key: Option<Box<Expr>>,
        default: Value,
    },
    /// `root.?a[?key].hasValue()`
    Has {
        root: String,
        path: Vec<String>,
        key: Option<Box<Expr>>,
    },
    Not(Box<Expr>),
    /// `a && b`, `a || b`, `a == b`, `a != b`, `a < b`, `a > b`, `a + b`, `a in b`
    Binary(Box<Expr>, &'static str, Box<Expr>),
    Choose(Box<Expr>, Box<Expr>, Box<Expr>),
    Devices(Box<Expr>, Box<Expr>),
    StartsWith(Box<Expr>, String),
    /// `list.exists(x, body)`
    Exists {
        list: Box<Expr>,
        variable: String,
        body: Box<Expr>,
    },
    /// `list.filter(x, body).map(x, item).join(',')`
    Joined {
        list: Box<Expr>,
        variable: String,
        body: Box<Expr>,
        item: Box<Expr>,
    },
    Size(Box<Expr>),
    Text(Box<Expr>),
    /// A string, joined with commas, of a list of strings.
    Join(Box<Expr>),
    Index(Box<Expr>, usize),
    Map(Vec<(String, Expr)>),
    List(Vec<Expr>),
}

/// The values of names, each scope inside of another.
pub(crate) struct Names<'a> {
    outer: Option<&'a Names<'a>>,
    values: Vec<(String, Value)>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(values: Vec<(String, Value)>) -> Self {
        Self { outer: None, values }
    }

    pub(crate) fn within(outer: &'a Names<'a>, values: Vec<(String, Value)>) -> Self {
        Self { outer: Some(outer), values }
    }

    pub(crate) fn push(&mut self, name: &str, value: Value) {
        self.values.push((name.to_owned(), value));
    }

    pub(crate) fn get(&self, name: &str) -> &Value {
        let own = self.values.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value);
        own.or_else(|| self.outer.map(|outer| outer.get(name))).unwrap_or(&Value::Null)
    }
}

pub(crate) fn name(name: &str) -> Expr {
    Expr::Name(name.to_owned())
}

pub(crate) fn literal(value: impl Into<Value>) -> Expr {
    Expr::Literal(value.into())
}

pub(crate) fn binary(left: Expr, operator: &'static str, right: Expr) -> Expr {
    Expr::Binary(Box::new(left), operator, Box::new(right))
}

pub(crate) fn field(root: &str, path: &[&str], key: Option<Expr>, default: Value) -> Expr {
    let path = path.iter().map(|name| (*name).to_owned()).collect();
    Expr::Field { root: root.to_owned(), path, key: key.map(Box::new), default }
}

pub(crate) fn has(root: &str, path: &[&str], key: Option<Expr>) -> Expr {
    let path = path.iter().map(|name| (*name).to_owned()).collect();
    Expr::Has { root: root.to_owned(), path, key: key.map(Box::new) }
}

impl Expr {
    /// The expression as CEL.
    pub(crate) fn source(&self) -> String {
        match self {
            Self::Literal(value) => literal_source(value),
            Self::Name(name) => name.clone(),
            Self::Field { root, path, key, default } => {
                format!("{}.orValue({})", path_source(root, path, key.as_deref()), literal_source(default))
            }
            Self::Has { root, path, key } => {
                format!("{}.hasValue()", path_source(root, path, key.as_deref()))
            }
            Self::Not(inner) => format!("!({})", inner.source()),
            Self::Binary(left, operator, right) => {
                format!("({} {operator} {})", left.source(), right.source())
            }
            Self::Choose(condition, then, other) => {
                format!("({} ? {} : {})", condition.source(), then.source(), other.source())
            }
            Self::Devices(gpus, ratio) => format!("devices({}, {})", gpus.source(), ratio.source()),
            Self::StartsWith(text, prefix) => {
                format!("{}.startsWith({})", text.source(), literal_source(&json!(prefix)))
            }
            Self::Exists { list, variable, body } => {
                format!("{}.exists({variable}, {})", list.source(), body.source())
            }
            Self::Joined { list, variable, body, item } => format!(
                "{}.filter({variable}, {}).map({variable}, {}).join(',')",
                list.source(),
                body.source(),
                item.source()
            ),
            Self::Size(list) => format!("size({})", list.source()),
            Self::Text(value) => format!("string({})", value.source()),
            Self::Join(list) => format!("{}.join(',')", list.source()),
            Self::Index(list, at) => format!("{}[{at}]", list.source()),
            Self::Map(entries) => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|(key, value)| format!("{}: {}", literal_source(&json!(key)), value.source()))
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            Self::List(items) => {
                format!("[{}]", items.iter().map(Self::source).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// The value. To Kubernetes, `null` and nothing are the same, and so they are here.
    pub(crate) fn value(&self, names: &Names<'_>) -> Value {
        match self {
            Self::Literal(value) => value.clone(),
            Self::Name(name) => names.get(name).clone(),
            Self::Field { root, path, key, default } => {
                found(root, path, key.as_deref(), names).unwrap_or_else(|| default.clone())
            }
            Self::Has { root, path, key } => found(root, path, key.as_deref(), names).is_some().into(),
            Self::Not(inner) => (!truth(inner, names)).into(),
            Self::Binary(left, operator, right) => operation(left, operator, right, names),
            Self::Choose(condition, then, other) => {
                if truth(condition, names) {
                    then.value(names)
                } else {
                    other.value(names)
                }
            }
            Self::Devices(gpus, ratio) => {
                let product = number(gpus, names) * number(ratio, names);
                let count = ((product * 1e9).round() / 1e9).ceil();
                serde_json::from_str(&format!("{count:.0}")).unwrap()
            }
            Self::StartsWith(text, prefix) => {
                text.value(names).as_str().is_some_and(|text| text.starts_with(prefix)).into()
            }
            Self::Exists { list, variable, body } => {
                let holds =
                    |entry: Value| truth(body, &Names::within(names, vec![(variable.clone(), entry)]));
                entries(list, names).into_iter().any(holds).into()
            }
            Self::Joined { list, variable, body, item } => {
                let texts: Vec<String> = entries(list, names)
                    .into_iter()
                    .map(|entry| Names::within(names, vec![(variable.clone(), entry)]))
                    .filter(|names| truth(body, names))
                    .map(|names| plain(&item.value(&names)))
                    .collect();
                texts.join(",").into()
            }
            Self::Size(list) => entries(list, names).len().into(),
            Self::Text(value) => plain(&value.value(names)).into(),
            Self::Join(list) => entries(list, names).iter().map(plain).collect::<Vec<_>>().join(",").into(),
            Self::Index(list, at) => entries(list, names).get(*at).cloned().unwrap_or_default(),
            Self::Map(entries) => {
                let value = |(key, value): &(String, Expr)| (key.clone(), value.value(names));
                entries.iter().map(value).collect::<Map<_, _>>().into()
            }
            Self::List(items) => items.iter().map(|item| item.value(names)).collect(),
        }
    }
}

fn path_source(root: &str, path: &[String], key: Option<&Expr>) -> String {
    let mut source = root.to_owned();
    for (at, name) in path.iter().enumerate() {
        let always = root == "pod" && at == 0;
        source.push_str(if always { "." } else { ".?" });
        source.push_str(name);
    }
    if let Some(key) = key {
        source.push_str(&format!("[?{}]", key.source()));
    }
    source
}

fn literal_source(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(literal_source).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn found(root: &str, path: &[String], key: Option<&Expr>, names: &Names<'_>) -> Option<Value> {
    let mut place = names.get(root);
    for name in path {
        place = place.get(name)?;
    }
    let key = key.map(|key| key.value(names));
    if let Some(key) = key {
        place = place.get(key.as_str()?)?;
    }
    (!place.is_null()).then(|| place.clone())
}

fn truth(expression: &Expr, names: &Names<'_>) -> bool {
    expression.value(names) == true
}

fn number(expression: &Expr, names: &Names<'_>) -> f64 {
    expression.value(names).as_f64().unwrap_or(f64::NAN)
}

fn entries(list: &Expr, names: &Names<'_>) -> Vec<Value> {
    match list.value(names) {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

fn operation(left: &Expr, operator: &str, right: &Expr, names: &Names<'_>) -> Value {
    match operator {
        "&&" => (truth(left, names) && truth(right, names)).into(),
        "||" => (truth(left, names) || truth(right, names)).into(),
        "<" => (number(left, names) < number(right, names)).into(),
        ">" => (number(left, names) > number(right, names)).into(),
        "in" => entries(right, names).contains(&left.value(names)).into(),
        "+" => (plain(&left.value(names)) + &plain(&right.value(names))).into(),
        _ => {
            let (left, right) = (left.value(names), right.value(names));
            let same = match (left.as_f64(), right.as_f64()) {
                (Some(left), Some(right)) => (left - right).abs() < f64::EPSILON,
                _ => left == right,
            };
            (same == (operator == "==")).into()
        }
    }
}

/// A value inside of a longer text.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => {
            let text = other.to_string();
            text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
        }
    }
}
