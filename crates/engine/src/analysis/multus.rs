//! The annotation with which Multus attaches networks to a pod.

use std::borrow::Cow;

use serde_json::Value;

/// A network by namespace and name.
#[derive(Debug, PartialEq, Eq)]
struct Network<'a> {
    namespace: Cow<'a, str>,
    name: Cow<'a, str>,
}

impl<'a> Network<'a> {
    /// Reads `[namespace/]name[@interface]`.
    fn parse(text: &'a str, pod_namespace: &'a str) -> Self {
        let text = text.trim();
        let text = text.split_once('@').map_or(text, |(network, _)| network);
        match text.split_once('/') {
            Some((namespace, name)) => Self { namespace: namespace.into(), name: name.into() },
            None => Self { namespace: pod_namespace.into(), name: text.into() },
        }
    }
}

/// The annotation is not a list of networks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotNetworks;

/// The annotation `k8s.v1.cni.cncf.io/networks` with at least the given number of attachments of each network, in the
/// form that it has: a comma list or JSON. `None` if it has them already.
pub(crate) fn with_networks(
    annotation: &str,
    networks: &[(String, usize)],
    pod_namespace: &str,
) -> Result<Option<String>, NotNetworks> {
    let annotation = annotation.trim();
    let attached = attached(annotation, pod_namespace)?;
    let mut missing: Vec<&str> = Vec::new();
    let mut wanted: Vec<(Network<'_>, usize)> = Vec::new();
    for (network, count) in networks {
        let parsed = Network::parse(network, pod_namespace);
        let present = attached.iter().filter(|known| **known == parsed).count();
        // A network can be in the list twice.
        let before = wanted.iter().filter(|(known, _)| *known == parsed).map(|(_, count)| count).sum();
        let all = count.saturating_add(before);
        missing.extend(std::iter::repeat_n(network.as_str(), all.saturating_sub(present.max(before))));
        wanted.push((parsed, *count));
    }
    if missing.is_empty() {
        return Ok(None);
    }
    let taken = interfaces(annotation);
    // Two networks cannot have one interface. Without a name, Multus chooses one.
    let missing = missing.into_iter().map(|network| match network.split_once('@') {
        Some((name, interface)) if taken.iter().any(|known| known == interface) => name,
        _ => network,
    });
    let missing: Vec<&str> = missing.collect();
    if !annotation.starts_with('[') {
        let own = Some(annotation.trim_end_matches(',')).filter(|own| !own.is_empty());
        return Ok(Some(own.into_iter().chain(missing).collect::<Vec<_>>().join(",")));
    }
    let entry = |network: &str| {
        let (network, interface) = network.split_once('@').map_or((network, None), |(n, i)| (n, Some(i)));
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
    let body = annotation.strip_suffix(']').ok_or(NotNetworks)?.trim_end();
    let added = missing.into_iter().map(entry).collect::<Vec<_>>().join(",");
    let comma = if attached.is_empty() { "" } else { "," };
    Ok(Some(format!("{body}{comma}{added}]")))
}

/// The names of interfaces that an annotation states.
fn interfaces(annotation: &str) -> Vec<String> {
    if !annotation.starts_with('[') {
        let entries = annotation.split(',').filter_map(|entry| entry.trim().split_once('@'));
        return entries.map(|(_, interface)| interface.to_owned()).collect();
    }
    let entries: Vec<Value> = serde_json::from_str(annotation).unwrap_or_default();
    entries.iter().filter_map(|entry| entry["interface"].as_str().map(str::to_owned)).collect()
}

/// The networks that an annotation attaches.
fn attached<'a>(annotation: &'a str, pod_namespace: &'a str) -> Result<Vec<Network<'a>>, NotNetworks> {
    let annotation = annotation.trim();
    if !annotation.starts_with('[') {
        let entries = annotation.split(',').filter(|entry| !entry.trim().is_empty());
        return Ok(entries.map(|entry| Network::parse(entry, pod_namespace)).collect());
    }
    let entries: Vec<Value> = serde_json::from_str(annotation).map_err(|_| NotNetworks)?;
    let network = |entry: &Value| Network {
        namespace: Cow::from(entry["namespace"].as_str().unwrap_or(pod_namespace).to_owned()),
        name: Cow::from(entry["name"].as_str().unwrap_or_default().to_owned()),
    };
    Ok(entries.iter().map(network).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(annotation: &str, network: &str, count: usize) -> Option<String> {
        with_networks(annotation, &[(network.to_owned(), count)], "team").unwrap()
    }

    fn rails(annotation: &str, networks: &[&str]) -> Option<String> {
        let networks: Vec<_> = networks.iter().map(|name| ((*name).to_owned(), 1)).collect();
        with_networks(annotation, &networks, "team").unwrap()
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
        assert_eq!(with_networks("[{", &[("net".to_owned(), 1)], "team"), Err(NotNetworks));
    }
}
