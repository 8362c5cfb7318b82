//! Conditions at random.

use serde_json::json;

use super::author::{Author, Kind, Phase};
use super::expressions::{Expr, binary, field, has, literal, name};
use super::pools::{
    ANNOTATIONS, CONTAINERS, DEVICES, GPU, INSTANCE_TYPE, INSTANCE_TYPES, LABEL_VALUES, NAMESPACES,
    OWN_VARIABLES, POOL, POOLS, VARIABLES,
};

impl Author<'_> {
    pub(crate) fn condition(&mut self, phase: Phase, depth: usize) -> Expr {
        if depth > 0 && self.dice.chance(30) {
            let left = self.condition(phase, depth - 1);
            return match self.dice.below(3) {
                0 => Expr::Not(Box::new(left)),
                1 => binary(left, "&&", self.condition(phase, depth - 1)),
                _ => binary(left, "||", self.condition(phase, depth - 1)),
            };
        }
        if self.dice.chance(20)
            && let Some(known) = self.one_of(Kind::Boolean, phase)
        {
            return known;
        }
        let choices = match phase {
            Phase::Fixed => 3,
            Phase::Pod => 9,
            Phase::Container => 12,
            Phase::Final => 10,
        };
        match self.dice.below(choices) {
            0 => binary(self.text(Phase::Fixed), "==", self.text(Phase::Fixed)),
            1 => self.on_a_node(),
            2 => {
                Expr::StartsWith(Box::new(self.label_of_node()), self.dice.pick(&["big", "s", ""]).to_owned())
            }
            3 => binary(
                name("totalGpus"),
                self.dice.pick(&[">", "<", "=="]),
                literal(self.dice.pick(&[0, 4, 8])),
            ),
            4 => name("hostNetwork"),
            5 => binary(name("podNamespace"), "==", literal(self.dice.pick(&NAMESPACES))),
            6 => binary(self.text_of_pod(phase), "==", literal(self.dice.pick(&LABEL_VALUES))),
            7 => self.exists(phase),
            8 if self.dice.chance(50) => {
                has("pod", &["metadata", "annotations"], Some(literal(self.dice.pick(&ANNOTATIONS))))
            }
            8 => self.flag_of_pod(),
            9 if phase == Phase::Final => {
                let key = literal(self.dice.pick(&DEVICES));
                binary(field("podRequests", &[], Some(key), json!(0)), ">", literal(self.dice.pick(&[0, 3])))
            }
            9 => binary(name("gpus"), self.dice.pick(&[">", "<", "=="]), literal(self.dice.pick(&[0, 2, 8]))),
            10 => self.flag_of_container(),
            _ => binary(
                field("container", &["name"], None, json!("")),
                "==",
                literal(self.dice.pick(&CONTAINERS)),
            ),
        }
    }

    /// A condition on a label of the node, its value as it is compared: in lower case.
    fn on_a_node(&mut self) -> Expr {
        let (label, value) = if self.dice.chance(60) {
            (INSTANCE_TYPE, self.dice.pick(&INSTANCE_TYPES))
        } else {
            (POOL, self.dice.pick(&POOLS))
        };
        if self.dice.chance(20) {
            return has("node", &[], Some(literal(label)));
        }
        binary(field("node", &[], Some(literal(label)), json!("")), "==", literal(value.to_lowercase()))
    }

    fn flag_of_pod(&mut self) -> Expr {
        match self.dice.below(4) {
            0 => field("pod", &["spec", "hostIPC"], None, json!(false)),
            1 => field("pod", &["spec", "securityContext", "runAsNonRoot"], None, json!(false)),
            2 => has("pod", &["metadata", "ownerReferences"], None),
            _ => binary(
                Expr::Size(Box::new(field("pod", &["spec", "containers"], None, json!([])))),
                ">",
                literal(1),
            ),
        }
    }

    fn flag_of_container(&mut self) -> Expr {
        match self.dice.below(6) {
            4 => self.has_an_amount(),
            0 => field("container", &["tty"], None, json!(false)),
            1 => has("container", &["resources", "limits"], Some(literal("memory"))),
            2 => has("container", &["workingDir"], None),
            3 => binary(
                field("container", &["securityContext", "runAsUser"], None, json!(0)),
                "==",
                literal(0),
            ),
            _ => {
                let own = self.dice.pick(&OWN_VARIABLES);
                // Now and then a variable that the policy itself may set.
                let name = if self.dice.chance(10) { self.dice.pick(&VARIABLES) } else { own };
                Expr::Exists {
                    list: Box::new(field("container", &["env"], None, json!([]))),
                    variable: "e".to_owned(),
                    body: Box::new(binary(field("e", &["name"], None, json!("")), "==", literal(name))),
                }
            }
        }
    }

    /// Whether a container has a limit or request of this name, by a key that is a name of the expression.
    fn has_an_amount(&mut self) -> Expr {
        let list = Box::new(Expr::List(vec![literal(self.dice.pick(&["memory", "cpu"]))]));
        let amounts = self.dice.pick(&["limits", "requests"]);
        let body = Box::new(has("container", &["resources", amounts], Some(name("k"))));
        Expr::Exists { list, variable: "k".to_owned(), body }
    }

    /// A comprehension over the containers of the pod.
    fn exists(&mut self, phase: Phase) -> Expr {
        let list = Box::new(field("pod", &["spec", "containers"], None, json!([])));
        let variable = "c".to_owned();
        let body = match self.dice.below(6) {
            0 => has("c", &["resources", "limits"], Some(literal(GPU))),
            1 => binary(field("c", &["image"], None, json!("")), "==", literal("train:latest")),
            2 => has("c", &["livenessProbe"], None),
            // The body reads names of the pod as well.
            3 => binary(field("c", &["name"], None, json!("")), "==", self.text(Phase::Pod)),
            4 => Expr::Exists {
                list: Box::new(field("c", &["env"], None, json!([]))),
                variable: "e".to_owned(),
                body: Box::new(binary(
                    field("e", &["name"], None, json!("")),
                    "==",
                    literal(self.dice.pick(&OWN_VARIABLES)),
                )),
            },
            _ if phase == Phase::Container => binary(
                field("c", &["name"], None, json!("")),
                "==",
                field("container", &["name"], None, json!("")),
            ),
            _ => binary(field("c", &["name"], None, json!("")), "==", literal(self.dice.pick(&CONTAINERS))),
        };
        Expr::Exists { list, variable, body: Box::new(body) }
    }
}
