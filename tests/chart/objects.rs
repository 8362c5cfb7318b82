//! Objects that were rendered.

use fabric_yaml as yaml;
use serde_json::Value;

/// Every object of a stream of YAML documents.
pub(crate) fn read_objects(text: &str) -> Objects {
    let mut objects = Vec::new();
    for document in text.split("\n---\n") {
        let document = format!("{}\n", document.trim_start_matches("---\n"));
        let manifest = yaml::read_value(&document).unwrap_or_else(|error| panic!("{error:?} in\n{document}"));
        assert!(manifest.ambiguity.is_none(), "{:?} in\n{document}", manifest.ambiguity);
        objects.extend(manifest.root);
    }
    Objects(objects)
}

#[derive(Debug)]
pub(crate) struct Objects(pub(crate) Vec<Value>);

impl Objects {
    pub(crate) fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |object| object["kind"] == kind)
    }

    /// The object of this kind that is not part of `helm test`, if there is one.
    pub(crate) fn find(&self, kind: &str) -> Option<&Value> {
        let mut found = self.of_kind(kind).filter(|object| !is_test(object));
        let first = found.next();
        assert!(found.next().is_none(), "there is more than one {kind}");
        first
    }

    pub(crate) fn the(&self, kind: &str) -> &Value {
        self.find(kind).unwrap_or_else(|| panic!("there is no {kind}"))
    }

    pub(crate) fn named(&self, kind: &str, name: &str) -> Option<&Value> {
        self.of_kind(kind).find(|object| object["metadata"]["name"] == name)
    }

    /// The object of this kind whose name ends so, if there is one.
    pub(crate) fn ending(&self, kind: &str, ending: &str) -> Option<&Value> {
        self.of_kind(kind).find(|object| object["metadata"]["name"].as_str().unwrap().ends_with(ending))
    }

    /// The template of the servers' pods.
    pub(crate) fn pod(&self) -> &Value {
        &self.the("Deployment")["spec"]["template"]
    }

    /// The container of the server.
    pub(crate) fn server(&self) -> &Value {
        &self.pod()["spec"]["containers"][0]
    }

    /// The arguments of the server.
    pub(crate) fn arguments(&self) -> Vec<&str> {
        strings(&self.server()["args"])
    }
}

pub(crate) fn is_test(object: &Value) -> bool {
    let hooks = object["metadata"]["annotations"]["helm.sh/hook"].as_str().unwrap_or_default();
    hooks.split(',').any(|hook| hook == "test")
}

/// `Kind namespace/name`.
pub(crate) fn identity(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    format!("{} {}/{}", text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
}

/// The strings of a list; nothing but strings may be in it.
pub(crate) fn strings(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap_or_else(|| panic!("{list} is no list"))
        .iter()
        .map(|item| item.as_str().unwrap())
        .collect()
}

/// Whether a selector's labels are all among those.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector.as_object().unwrap();
    !wanted.is_empty() && wanted.iter().all(|(key, value)| labels[key] == *value)
}
