//! Files that are not policies, such as manifests in the folder of a policy.

use fabric_yaml::{self as yaml, Node};

use crate::keys::{API_VERSION, KIND};
use crate::source::{Diagnostic, closest};

/// The kind of a file of cases for `policy test`.
const CASES: &str = "PolicyTest";

/// A file that is not intended as a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherKind {
    /// The kind of its first object; `None` if it has none.
    pub kind: Option<String>,
}

impl OtherKind {
    /// Reads the top level of the first object in a text. `None` for a policy, for a file that looks like one with a
    /// mistake in it, and for a text without a kind that is not YAML.
    pub fn detect(text: &str) -> Option<Self> {
        let value = |key: &str| {
            let line =
                text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'))?;
            let value = line.split(" #").next().unwrap_or_default().trim();
            Some(value.trim_matches(['"', '\'']).to_owned())
        };
        let (version, kind) = (value("apiVersion"), value("kind"));
        let may_be_a_policy = || match yaml::read_value(text) {
            Ok(document) => document.root.is_none_or(|root| root.is_null() || !root["spec"].is_null()),
            Err(_) => true,
        };
        let is_foreign = is_foreign(version.as_deref(), kind.as_deref());
        (is_foreign && (kind.is_some() || !may_be_a_policy())).then_some(Self { kind })
    }

    /// Returns whether it is a file of cases.
    pub fn is_cases(&self) -> bool {
        self.kind.as_deref() == Some(CASES)
    }
}

/// The error of a file with the kind and version of another object, instead of one for each of its fields.
pub(crate) fn check(root: &Node) -> Result<(), Diagnostic> {
    let text = |name: &str| root.get(name).and_then(Node::text).map(|text| text.text);
    let (Some(node), Some(kind)) = (root.get("kind"), text("kind")) else { return Ok(()) };
    if !is_foreign(text("apiVersion"), Some(kind)) {
        return Ok(());
    }
    let message = format!("`kind` is `{kind}`, so the file is not a policy");
    let hint = if kind == CASES {
        "`fabric-injector policy test` runs the cases of a file".to_owned()
    } else {
        format!("a policy has `kind: {KIND}` and `apiVersion: {API_VERSION}`")
    };
    Err(Diagnostic::new(node.span, message).hint(hint))
}

fn is_foreign(version: Option<&str>, kind: Option<&str>) -> bool {
    let group = API_VERSION.split('/').next().unwrap_or_default();
    let is_like = |text: Option<&str>, known: &str| {
        text.is_some_and(|text| closest(text.split('/').next().unwrap_or_default(), [known]).is_some())
    };
    kind == Some(CASES) || !(is_like(version, group) || is_like(kind, KIND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_with_a_mistake_is_no_other_file() {
        for policy in [
            "apiVersion: fabric-injector.io/v1alpha1\nkind: FabricPolicy\n",
            "apiVersion: fabric-injector.io/v1alpha1\nkind: Policy\n",
            "apiVersion: v1\nkind: FabrikPolicy\n",
            "kind: \"FabricPolicies\"\n",
            "spec:\n  provider: lab\n",
            "# nothing\n",
            "a: [\n",
        ] {
            assert_eq!(OtherKind::detect(policy), None, "{policy}");
        }
        for (other, kind) in [
            ("apiVersion: v1\nkind: Pod # a pod\n", Some("Pod")),
            ("---\nkind: 'Job'\n{{ .Values }}\n", Some("Job")),
            ("apiVersion: fabric-injector.io/v1alpha1\nkind: PolicyTest\n", Some("PolicyTest")),
            ("multinodeNetworking:\n  aws: {}\n", None),
        ] {
            let kind = kind.map(str::to_owned);
            assert_eq!(OtherKind::detect(other), Some(OtherKind { kind }), "{other}");
        }
    }
}
