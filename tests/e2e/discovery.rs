//! All that an API server has.

use std::collections::BTreeSet;

use serde_json::Value;

use super::api::Api;

/// A kind of object, in one version of its group.
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) verbs: Vec<String>,
    /// Where objects of it are, in all namespaces.
    path: String,
}

/// Every resource, with its parts (`pods/log`).
pub(crate) async fn resources(api: &Api) -> Vec<Resource> {
    let mut versions = vec![(String::new(), "/api/v1".to_owned())];
    for group in api.get("/apis").await.ok()["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let path = format!("/apis/{}", version["groupVersion"].as_str().unwrap());
            versions.push((group["name"].as_str().unwrap().to_owned(), path));
        }
    }
    let mut resources = Vec::new();
    for (group, version) in versions {
        for resource in api.get(&version).await.ok()["resources"].as_array().unwrap() {
            let verbs = resource["verbs"].as_array().unwrap().iter().filter_map(Value::as_str);
            let name = resource["name"].as_str().unwrap();
            resources.push(Resource {
                group: group.clone(),
                name: name.to_owned(),
                verbs: verbs.map(str::to_owned).collect(),
                path: format!("{version}/{name}"),
            });
        }
    }
    resources
}

/// The path of every object there is, but for those of these namespaces and those that a control plane makes for
/// itself at any time.
pub(crate) async fn objects(api: &Api, without: &[String]) -> BTreeSet<String> {
    let mut objects = BTreeSet::new();
    for resource in resources(api).await {
        let lists = resource.verbs.iter().any(|verb| verb == "list");
        if !lists || resource.name == "events" || resource.name == "componentstatuses" {
            continue;
        }
        for object in api.list(&resource.path).await {
            let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
            let (namespace, name) = (text("namespace"), text("name"));
            let of_a_controller = resource.name == "serviceaccounts" && namespace == "kube-system";
            let namespace_itself = if resource.name == "namespaces" { &name } else { &namespace };
            if !of_a_controller && !without.contains(namespace_itself) {
                objects.insert(format!("{} {namespace}/{name}", resource.path));
            }
        }
    }
    objects
}
