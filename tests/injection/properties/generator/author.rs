//! Expressions at random, by the type that they have to give.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Dice;
use super::expressions::{Expr, binary, field, has, literal, name};
use super::pools::{ANNOTATIONS, GPU, INSTANCE_TYPE, LABELS, POOL, WRITTEN_ANNOTATIONS, WRITTEN_LABELS};

/// When a value is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Fixed,
    Pod,
    Container,
    Final,
}

impl Phase {
    /// Whether an expression of this phase may read a name of another.
    pub(crate) fn reads(self, other: Self) -> bool {
        match other {
            Self::Fixed => true,
            Self::Pod => self != Self::Fixed,
            other => self == other,
        }
    }
}

/// What an expression gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean,
    Integer,
    Ratio,
    Text,
    /// A text, or `null`.
    Perhaps,
    Quantity,
    Texts,
}

/// A parameter or variable.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) phase: Phase,
}

/// Writes expressions, and keeps each by its text.
pub(crate) struct Author<'d> {
    pub(crate) dice: &'d mut Dice,
    pub(crate) known: Vec<Known>,
    pub(crate) expressions: BTreeMap<String, Expr>,
    /// How often, of a hundred times, an overlay has any field of the API's.
    pub(crate) wild: u32,
}

impl Author<'_> {
    /// The text of an expression in a policy.
    pub(crate) fn write(&mut self, expression: Expr) -> String {
        let source = expression.source();
        let text = format!("${{{source}}}");
        self.expressions.insert(source, expression);
        text
    }

    pub(crate) fn one_of(&mut self, kind: Kind, phase: Phase) -> Option<Expr> {
        let fits = |known: &&Known| known.kind == kind && phase.reads(known.phase);
        let fitting: Vec<String> = self.known.iter().filter(fits).map(|known| known.name.clone()).collect();
        (!fitting.is_empty()).then(|| name(&self.dice.pick(&fitting)))
    }

    pub(crate) fn expression(&mut self, kind: Kind, phase: Phase) -> Expr {
        match kind {
            Kind::Boolean => self.condition(phase, 2),
            Kind::Integer => self.integer(phase),
            Kind::Ratio => self.ratio(phase),
            Kind::Text | Kind::Quantity => self.text(phase),
            Kind::Perhaps => self.perhaps(phase),
            Kind::Texts => Expr::List(vec![self.text(phase), literal("fixed")]),
        }
    }

    /// A text, or `null`.
    pub(crate) fn perhaps(&mut self, phase: Phase) -> Expr {
        if self.dice.chance(40)
            && let Some(known) = self.one_of(Kind::Perhaps, phase)
        {
            return known;
        }
        let (condition, text) = (self.condition(phase, 1), self.text(phase));
        let choices =
            if self.dice.chance(50) { (literal(Value::Null), text) } else { (text, literal(Value::Null)) };
        Expr::Choose(Box::new(condition), Box::new(choices.0), Box::new(choices.1))
    }

    /// A label, annotation or selector of the pod, its key a constant or computed.
    pub(crate) fn text_of_pod(&mut self, phase: Phase) -> Expr {
        let default = json!(self.dice.pick(&["", "no", "none"]));
        // Now and then what the policy itself may write, which it must not depend on.
        if self.dice.chance(4) {
            let (list, key) = if self.dice.chance(50) {
                ("labels", self.dice.pick(&WRITTEN_LABELS))
            } else {
                ("annotations", self.dice.pick(&WRITTEN_ANNOTATIONS))
            };
            return field("pod", &["metadata", list], Some(literal(key)), default);
        }
        match self.dice.below(5) {
            0 => field("pod", &["metadata", "labels", "role"], None, default),
            1 => field(
                "pod",
                &["metadata", "annotations"],
                Some(literal(self.dice.pick(&ANNOTATIONS))),
                default,
            ),
            2 => field("pod", &["spec", "restartPolicy"], None, default),
            _ => {
                let key = match self.dice.below(5) {
                    0 => name("podNamespace"),
                    1 => self.label_of_node(),
                    2 => self.text(if phase == Phase::Container { Phase::Pod } else { Phase::Fixed }),
                    3 => {
                        let inner = literal(self.dice.pick(&ANNOTATIONS));
                        field("pod", &["metadata", "annotations"], Some(inner), json!("role"))
                    }
                    _ => literal(self.dice.pick(&LABELS)),
                };
                field("pod", &["metadata", "labels"], Some(key), default)
            }
        }
    }

    pub(crate) fn integer(&mut self, phase: Phase) -> Expr {
        if self.dice.chance(30)
            && let Some(known) = self.one_of(Kind::Integer, phase)
        {
            return known;
        }
        match (phase, self.dice.below(4)) {
            (Phase::Fixed, _) | (_, 0) => literal(self.dice.pick(&[0, 1, 2, 4])),
            (Phase::Container, 1 | 2) => name("gpus"),
            (Phase::Final, 1) => {
                let key = literal(self.dice.pick(&super::pools::DEVICES));
                field("podRequests", &[], Some(key), json!(0))
            }
            _ => name("totalGpus"),
        }
    }

    /// Devices for the GPUs of a container, or of the pod.
    pub(crate) fn devices(&mut self, phase: Phase) -> Expr {
        let gpus = match phase {
            Phase::Container => name("gpus"),
            Phase::Fixed => literal(2),
            _ => name("totalGpus"),
        };
        Expr::Devices(Box::new(gpus), Box::new(self.ratio(phase)))
    }

    fn ratio(&mut self, phase: Phase) -> Expr {
        match self.one_of(Kind::Ratio, phase) {
            Some(known) if self.dice.chance(70) => known,
            _ => literal(self.dice.pick(&[json!(0.5), json!(1), json!(2), json!(4.0), json!(0)])),
        }
    }

    pub(crate) fn text(&mut self, phase: Phase) -> Expr {
        if self.dice.chance(35)
            && let Some(known) = self.one_of(Kind::Text, phase)
        {
            return known;
        }
        let choices = match phase {
            Phase::Fixed => 4,
            _ => 8,
        };
        match self.dice.below(choices) {
            0 => literal(self.dice.pick(&["no", "x", "launcher", "eth0", "a'b\\c", ""])),
            1 => match self.one_of(Kind::Texts, phase) {
                Some(list) if self.dice.chance(50) => Expr::Join(Box::new(list)),
                Some(list) => Expr::Index(Box::new(list), 0),
                None => literal("one,two"),
            },
            2 => binary(literal("v-"), "+", self.label_of_node()),
            3 => literal(self.dice.pick(&LABELS)),
            4 => name("podNamespace"),
            5 => Expr::Text(Box::new(self.integer(phase))),
            6 => Self::joined(),
            _ => self.text_of_pod(phase),
        }
    }

    /// A label of the node, its key a constant or computed.
    pub(crate) fn label_of_node(&mut self) -> Expr {
        let key = match self.dice.below(6) {
            0 => literal(POOL),
            1 => self.one_of(Kind::Text, Phase::Fixed).unwrap_or(literal(POOL)),
            _ => literal(INSTANCE_TYPE),
        };
        field("node", &[], Some(key), json!(""))
    }

    /// Names of containers, joined.
    fn joined() -> Expr {
        Expr::Joined {
            list: Box::new(field("pod", &["spec", "containers"], None, json!([]))),
            variable: "c".to_owned(),
            body: Box::new(has("c", &["resources", "limits"], Some(literal(GPU)))),
            item: Box::new(field("c", &["name"], None, json!(""))),
        }
    }

    /// A text for a field: a constant, an expression, or both in one.
    pub(crate) fn text_field(&mut self, phase: Phase) -> Value {
        match self.dice.below(10) {
            0..5 => json!(self.dice.pick(&["1", "0", "mlx5", "x", "eth0,eth1", "$${literal}"])),
            5 | 6 => {
                let expression = self.text(phase);
                self.write(expression).into()
            }
            7 => {
                let expression = self.text(phase);
                format!("pre-{}:{}", self.write(expression), "post").into()
            }
            _ => {
                let expression = self.perhaps(phase);
                self.write(expression).into()
            }
        }
    }
}
