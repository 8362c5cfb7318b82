//! Paths of files and of fields, as `k8s.io/kubernetes/pkg/apis/core/validation` checks them.

use super::names::{annotation_key, qualified_name};

pub(super) fn without_backsteps(path: &str) -> bool {
    !path.split('/').any(|element| element == "..")
}

pub(super) fn relative(path: &str) -> bool {
    !path.starts_with('/') && without_backsteps(path)
}

pub(super) fn env_field(path: &str) -> bool {
    const FIELDS: [&str; 10] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        // An old name of the next.
        "spec.host",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    subscripted(path).unwrap_or_else(|| FIELDS.contains(&path))
}

pub(super) fn volume_field(path: &str) -> bool {
    const FIELDS: [&str; 5] =
        ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    subscripted(path).unwrap_or_else(|| FIELDS.contains(&path))
}

/// For a path with a key, such as `metadata.labels['app']`: true if it is that of a label or annotation.
fn subscripted(path: &str) -> Option<bool> {
    let (field, key) = path.strip_suffix("']")?.split_once("['")?;
    match field {
        "" => None,
        "metadata.annotations" => Some(annotation_key(key)),
        "metadata.labels" => Some(qualified_name(key)),
        _ => Some(false),
    }
}

pub(super) fn resource_field(path: &str) -> bool {
    let resource = path.strip_prefix("limits.").or_else(|| path.strip_prefix("requests."));
    resource.is_some_and(|name| {
        ["cpu", "ephemeral-storage", "memory"].contains(&name) || name.starts_with("hugepages-")
    })
}

#[cfg(test)]
mod tests {
    use super::super::Format;

    fn check(format: Format, valid: &[&str], invalid: &[&str]) {
        for text in valid {
            assert_eq!(format.check(text), Ok(()));
        }
        for text in invalid {
            assert!(format.check(text).is_err(), "{format:?}: {text:?}");
        }
    }

    #[test]
    fn paths_of_files() {
        check(Format::Path, &["/a", "a", "/a/..b", "/", "..."], &["", "..", "/a/../b", "a/.."]);
        check(Format::AbsolutePath, &["/", "/a/../b"], &["", "a"]);
        check(Format::RelativePath, &["", "a", "a/b", "..a", "./a"], &["/a", "..", "a/../b"]);
        check(Format::FilePath, &["a", "a/b", "a/..b", ".a"], &["", "/a", "..", "..a", "../a", "a/.."]);
    }

    #[test]
    fn paths_of_fields() {
        check(
            Format::EnvFieldPath,
            &[
                "metadata.name",
                "spec.nodeName",
                "spec.host",
                "status.podIPs",
                "metadata.labels['a.b/C']",
                "metadata.annotations['A.B/c']",
            ],
            &[
                "",
                "metadata.labels",
                "metadata.labels['A.b/c']",
                "metadata.name['a']",
                "['a']",
                "metadata.labels['']",
                "spec.restartPolicy",
                "status.phase",
            ],
        );
        check(
            Format::VolumeFieldPath,
            &["metadata.labels", "metadata.annotations['nccl']", "metadata.uid"],
            &["", "spec.nodeName", "status.podIP", "metadata.finalizers"],
        );
        check(
            Format::ResourceFieldPath,
            &["limits.cpu", "requests.ephemeral-storage", "limits.hugepages-2Mi", "requests.hugepages-"],
            &["", "cpu", "limits.nvidia.com/gpu", "limits.", "status.cpu"],
        );
    }

    #[test]
    fn other_forms() {
        check(Format::Image, &["a", "registry/a:b"], &["", " ", " a", "a\n"]);
        check(Format::CsiDriver, &["a", "EFS.csi.aws.com"], &["", "a_b", "a..b", &"a".repeat(64)]);
        check(Format::Hostname, &["a", &"a".repeat(64)], &["", "A", &"a".repeat(65)]);
        check(Format::AppArmorProfile, &["a b"], &["", " a", &"a".repeat(4096)]);
        check(Format::DnsSubdomainOrEmpty, &["", "a.b"], &["."]);
        check(Format::PodAnnotation, &["example.com/a"], &["kubernetes.io/config.mirror", "a b"]);
        check(Format::OneOf(&["", "A", "B"]), &["", "A", "B"], &["a", "C"]);
        let error = Format::OneOf(&["", "A", "B"]).check("C").unwrap_err();
        assert_eq!(error, "`C` is not one of `A`, `B`");
    }
}
