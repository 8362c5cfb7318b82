//! The annotation by which Multus attaches networks to a pod.

use serde_json::Value;

/// A network by namespace and name.
#[derive(PartialEq, Eq)]
struct Network<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Network<'a> {
    /// Reads `[namespace/]name[@interface]`.
    fn parse(text: &'a str, pod_namespace: &'a str) -> Self {
        let text = text.trim();
        let text = text.split_once('@').map_or(text, |(network, _)| network);
        match text.split_once('/') {
            Some((namespace, name)) => Self { namespace, name },
            None => Self { namespace: pod_namespace, name: text },
        }
    }
}

/// The annotation is not a list of networks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotNetworks;

/// The annotation `k8s.v1.cni.cncf.io/networks` with at least `count` attachments of `network`, in the form that it
/// has: a comma list or JSON. `None` if it has them already.
pub(super) fn with_networks(
    annotation: &str,
    network: &str,
    count: usize,
    pod_namespace: &str,
) -> Result<Option<String>, NotNetworks> {
    let wanted = Network::parse(network, pod_namespace);
    let annotation = annotation.trim();
    if annotation.is_empty() {
        return Ok((count > 0).then(|| vec![network; count].join(",")));
    }
    if !annotation.starts_with('[') {
        let present =
            annotation.split(',').filter(|entry| Network::parse(entry, pod_namespace) == wanted).count();
        return Ok((present < count).then(|| {
            let mut entries = vec![annotation.trim_end_matches(',')];
            entries.resize(1 + count - present, network);
            entries.join(",")
        }));
    }
    let entries: Vec<Value> = serde_json::from_str(annotation).map_err(|_| NotNetworks)?;
    let is_wanted = |entry: &&Value| {
        entry["name"].as_str() == Some(wanted.name)
            && entry["namespace"].as_str().unwrap_or(pod_namespace) == wanted.namespace
    };
    let present = entries.iter().filter(is_wanted).count();
    if present >= count {
        return Ok(None);
    }
    let entry = match network.split_once('/') {
        Some((namespace, name)) => serde_json::json!({"name": name, "namespace": namespace}),
        None => serde_json::json!({"name": network}),
    };
    // Appended to the user's text, which stays as it is.
    let body = annotation.strip_suffix(']').ok_or(NotNetworks)?.trim_end();
    let added = vec![entry.to_string(); count - present].join(",");
    let comma = if entries.is_empty() { "" } else { "," };
    Ok(Some(format!("{body}{comma}{added}]")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(annotation: &str, network: &str, count: usize) -> Option<String> {
        with_networks(annotation, network, count, "team").unwrap()
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
    fn attachments_that_are_there_count() {
        assert_eq!(networks("op/net,op/net", "op/net", 2), None);
        assert_eq!(networks("net@a,team/net", "net", 2), None);
        assert_eq!(networks(r#"[{"name":"net","namespace":"team"},{"name":"net"}]"#, "net", 2), None);
        assert_eq!(networks("", "net", 0), None);
    }

    #[test]
    fn what_is_not_json_is_not_touched() {
        assert_eq!(with_networks("[{", "net", 1, "team"), Err(NotNetworks));
    }
}
