//! The annotation with which Multus attaches networks to a pod.

use std::borrow::Cow;

use serde_json::Value;

/// A network by namespace and name.
#[derive(Debug, PartialEq, Eq)]
struct Network<'a> {
    namespace: Cow<'a, str>,
    name: Cow<'a, str>,
}

/// A network, and its interface if that has a name.
type Attachment<'a> = (Network<'a>, Option<Cow<'a, str>>);

/// Reads `[namespace/]name[@interface]`.
fn parse<'a>(text: &'a str, pod_namespace: &'a str) -> Attachment<'a> {
    let (text, interface) = interface_of(text.trim());
    let (namespace, name) = text.split_once('/').unwrap_or((pod_namespace, text));
    (Network { namespace: namespace.into(), name: name.into() }, interface.map(Cow::from))
}

/// A network and its interface.
fn interface_of(network: &str) -> (&str, Option<&str>) {
    network.split_once('@').map_or((network, None), |(network, interface)| (network, Some(interface)))
}

/// The annotation `k8s.v1.cni.cncf.io/networks` with at least the given number of attachments of each network, in the
/// form that it has: a comma list or JSON, which `read` reads; `None` if it has them already. Fails for an annotation that
/// is no list.
pub(crate) fn with_networks(
    annotation: &str,
    networks: &[(String, usize)],
    pod_namespace: &str,
    read: impl FnOnce(&str) -> Option<Value>,
) -> Result<Option<String>, ()> {
    let annotation = annotation.trim();
    let attached = attached(annotation, pod_namespace, read)?;
    let mut missing: Vec<&str> = Vec::new();
    let mut wanted: Vec<(Network<'_>, usize)> = Vec::new();
    for (network, count) in networks {
        let (parsed, _) = parse(network, pod_namespace);
        let present = attached.iter().filter(|(known, _)| *known == parsed).count();
        // A network can be in the list twice.
        let before = wanted.iter().filter(|(known, _)| *known == parsed).map(|(_, count)| count).sum();
        let all = count.saturating_add(before);
        missing.extend(std::iter::repeat_n(network.as_str(), all.saturating_sub(present.max(before))));
        wanted.push((parsed, *count));
    }
    if missing.is_empty() {
        return Ok(None);
    }
    // Two networks cannot have one interface. Without a name, Multus chooses one.
    let is_taken = |interface: &str| attached.iter().any(|(_, known)| known.as_deref() == Some(interface));
    let missing = missing.into_iter().map(|network| match interface_of(network) {
        (name, Some(interface)) if is_taken(interface) => name,
        _ => network,
    });
    let missing: Vec<&str> = missing.collect();
    if !annotation.starts_with('[') {
        let own = Some(annotation.trim_end_matches(',')).filter(|own| !own.is_empty());
        return Ok(Some(own.into_iter().chain(missing).collect::<Vec<_>>().join(",")));
    }
    let entry = |network: &str| {
        let (network, interface) = interface_of(network);
        let mut entry = match network.split_once('/') {
            Some((namespace, name)) => serde_json::json!({"name": name, "namespace": namespace}),
            None => serde_json::json!({"name": network}),
        };
        if let Some(interface) = interface {
            entry["interface"] = Value::from(interface);
        }
        entry.to_string()
    };
    // Appended to the user's text, which stays unchanged.
    let body = annotation.strip_suffix(']').ok_or(())?.trim_end();
    let added = missing.into_iter().map(entry).collect::<Vec<_>>().join(",");
    let comma = if attached.is_empty() { "" } else { "," };
    Ok(Some(format!("{body}{comma}{added}]")))
}

/// The networks that an annotation attaches, each by namespace and name; none for an annotation that is no list.
pub(super) fn networks_of(
    annotation: &str,
    pod_namespace: &str,
    read: impl FnOnce(&str) -> Option<Value>,
) -> Vec<(String, String)> {
    let attached = attached(annotation.trim(), pod_namespace, read).unwrap_or_default();
    let names = attached.into_iter().map(|(Network { namespace, name }, _)| (namespace, name));
    names.map(|(namespace, name)| (namespace.into_owned(), name.into_owned())).collect()
}

/// The networks that an annotation attaches, with the interfaces that it states.
fn attached<'a>(
    annotation: &'a str,
    pod_namespace: &'a str,
    read: impl FnOnce(&str) -> Option<Value>,
) -> Result<Vec<Attachment<'a>>, ()> {
    if !annotation.starts_with('[') {
        let entries = annotation.split(',').filter(|entry| !entry.trim().is_empty());
        return Ok(entries.map(|entry| parse(entry, pod_namespace)).collect());
    }
    let Some(Value::Array(entries)) = read(annotation) else { return Err(()) };
    let attachment = |entry: &Value| {
        let text = |key: &str| entry[key].as_str().map(|text| Cow::from(text.to_owned()));
        let namespace = text("namespace").unwrap_or(pod_namespace.into());
        (Network { namespace, name: text("name").unwrap_or_default() }, text("interface"))
    };
    Ok(entries.iter().map(attachment).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Value> {
        serde_json::from_str(text).ok()
    }

    fn networks(annotation: &str, network: &str, count: usize) -> Option<String> {
        with_networks(annotation, &[(network.to_owned(), count)], "team", read).unwrap()
    }

    fn rails(annotation: &str, networks: &[&str]) -> Option<String> {
        let networks: Vec<_> = networks.iter().map(|name| ((*name).to_owned(), 1)).collect();
        with_networks(annotation, &networks, "team", read).unwrap()
    }

    #[test]
    fn each_network_of_a_list_is_attached_once() {
        assert_eq!(rails("", &["rail-0", "op/rail-1"]).unwrap(), "rail-0,op/rail-1");
        assert_eq!(
            rails("storage, team/rail-0", &["rail-0", "rail-1"]).unwrap(),
            "storage, team/rail-0,rail-1"
        );
        assert_eq!(
            rails(r#"[{"name":"rail-1"}]"#, &["rail-0", "rail-1"]).unwrap(),
            r#"[{"name":"rail-1"},{"name":"rail-0"}]"#
        );
        assert_eq!(rails("rail-1,rail-0", &["rail-0", "rail-1"]), None);
        assert_eq!(rails("a", &["a", "a", "b"]).unwrap(), "a,a,b");
        assert_eq!(rails("a,a,b", &["a", "a", "b"]), None);
    }

    #[test]
    fn an_annotation_is_extended_in_the_form_that_it_is_in() {
        assert_eq!(networks("", "op/net", 2).unwrap(), "op/net,op/net");
        assert_eq!(networks("team/storage", "op/net", 2).unwrap(), "team/storage,op/net,op/net");
        assert_eq!(networks("a, op/net@net7", "op/net", 2).unwrap(), "a, op/net@net7,op/net");
        assert_eq!(
            networks(r#"[ {"name": "storage"} ]"#, "op/net", 1).unwrap(),
            r#"[ {"name": "storage"},{"name":"net","namespace":"op"}]"#
        );
        assert_eq!(networks("[]", "net", 1).unwrap(), r#"[{"name":"net"}]"#);
    }

    #[test]
    fn a_network_keeps_its_interface_unless_the_pod_has_that_already() {
        assert_eq!(rails("storage", &["a@f0", "op/b@f1"]).unwrap(), "storage,a@f0,op/b@f1");
        assert_eq!(rails("storage@f0, a@f7", &["a@f7", "b@f0", "c@f2"]).unwrap(), "storage@f0, a@f7,b,c@f2");
        assert_eq!(
            rails(r#"[{"name":"storage","interface":"f0"}]"#, &["a@f0", "op/b@f1"]).unwrap(),
            r#"[{"name":"storage","interface":"f0"},{"name":"a"},{"name":"b","namespace":"op","interface":"f1"}]"#
        );
        assert_eq!(rails("a", &["a@f0"]), None);
    }

    #[test]
    fn attachments_that_are_there_count() {
        assert_eq!(networks("op/net,op/net", "op/net", 2), None);
        assert_eq!(networks("net@a,team/net", "net", 2), None);
        assert_eq!(networks(r#"[{"name":"net","namespace":"team"},{"name":"net"}]"#, "net", 2), None);
        assert_eq!(networks("", "net", 0), None);
    }

    #[test]
    fn what_is_not_json_is_not_touched() {
        assert_eq!(with_networks("[{", &[("net".to_owned(), 1)], "team", read), Err(()));
    }
}
