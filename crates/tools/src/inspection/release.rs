//! The installation in a cluster: its Deployment, versions, and the names of its other objects.

use serde_json::Value;

use fabric_engine::registration;
use fabric_policy::Policy;
use fabric_policy::claims::DEVICE_CLASS;

use super::{Found, Read, Seen, fail, list, name, ok, text, unread, warn};

/// The name of the webhook for pods.
pub(super) const WEBHOOK: &str = "pods.fabric-injector.io";
/// The oldest supported minor version of Kubernetes 1, as in the chart.
const OLDEST: u64 = 30;

/// The first minor version that allocates devices of a class without a claim by default (KEP-5004).
const CLASSES_WITHOUT_CLAIM: u64 = 36;

/// The installation, as far as it was found.
#[derive(Debug, Clone, Copy)]
pub struct Release<'f> {
    pub webhook: Option<&'f Value>,
    pub deployment: Option<&'f Value>,
}

impl<'f> Release<'f> {
    /// Finds the installation, by the name of the release or of its objects if one is given.
    pub fn find(webhooks: &'f Read, deployments: &'f Read, wanted: Option<&str>) -> Self {
        let is_called = |object: &&Value| {
            let instance = &object["metadata"]["labels"]["app.kubernetes.io/instance"];
            wanted.is_none_or(|wanted| name(object) == wanted || instance == wanted)
        };
        let webhook = webhooks.iter().flat_map(registered).find(is_called);
        let service = webhook.and_then(registration::service);
        let is_server = |object: &&Value| arguments(object).next() == Some("serve");
        let servers =
            || deployments.iter().flat_map(|all| list(all, "items")).filter(is_called).filter(is_server);
        let deployment = servers().find(|object| service.is_none_or(|service| service == place(object)));
        // Somebody may have edited what the webhook calls.
        let of_name =
            || servers().find(|object| webhook.is_some_and(|webhook| name(webhook) == name(object)));
        Self { webhook, deployment: deployment.or_else(of_name) }
    }

    /// Name and namespace of the Deployment, which are those of the Service.
    pub(super) fn place(&self) -> Option<(&'f str, &'f str)> {
        self.deployment.map(place)
    }

    /// The name of most of its objects, and the prefix of the others'.
    pub fn name(&self) -> Option<&'f str> {
        self.webhook.or(self.deployment).map(name)
    }

    /// The namespace of the servers.
    pub fn namespace(&self) -> Option<&'f str> {
        self.place().or(self.service()).map(|(_, namespace)| namespace)
    }

    /// Name and namespace of the Service that the API server calls.
    pub fn service(&self) -> Option<(&'f str, &'f str)> {
        registration::service(self.webhook?)
    }

    /// The values of an option of the server, empty for a flag.
    pub fn option<'o>(&self, option: &'o str) -> impl Iterator<Item = &'f str> + use<'f, 'o> {
        let values = move |argument: &'f str| {
            let value = argument.strip_prefix(option)?;
            if value.is_empty() { Some(value) } else { value.strip_prefix('=') }
        };
        self.deployment.into_iter().flat_map(arguments).filter_map(values)
    }

    /// The volume from which the server has a file or a folder.
    pub fn volume(&self, path: &str) -> Option<&'f Value> {
        let pod = &self.deployment?["spec"]["template"]["spec"];
        let mount = list(&pod["containers"][0], "volumeMounts").find(|mount| {
            let rest = mount["mountPath"].as_str().and_then(|at| path.strip_prefix(at));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })?;
        list(pod, "volumes").find(|volume| volume["name"] == mount["name"])
    }

    /// The Secret with the serving certificate.
    pub fn secret(&self) -> Option<&'f str> {
        let mounted = || self.volume(self.option("--tls-dir").next()?)?["secret"]["secretName"].as_str();
        self.option("--manage-secret").next().or_else(mounted)
    }
}

/// Name and namespace of an object.
fn place(object: &Value) -> (&str, &str) {
    (name(object), text(&object["metadata"], "namespace"))
}

/// The webhook configurations of this program.
pub(super) fn registered(webhooks: &Value) -> impl Iterator<Item = &Value> {
    list(webhooks, "items").filter(|object| list(object, "webhooks").any(|entry| entry["name"] == WEBHOOK))
}

/// The arguments of the server.
fn arguments(deployment: &Value) -> impl Iterator<Item = &str> {
    list(&deployment["spec"]["template"]["spec"]["containers"][0], "args").filter_map(Value::as_str)
}

pub(super) fn kubernetes(seen: &Seen<'_>) -> Found {
    let version = seen.facts.version.as_ref().map_err(unread)?;
    let is_known = format!("the API server is {}", text(version, "gitVersion"));
    // `33+` in some clouds.
    match text(version, "minor").trim_end_matches('+').parse::<u64>() {
        Ok(minor) if minor < OLDEST => fail(is_known, format!("upgrade the cluster to 1.{OLDEST} or newer")),
        Ok(minor) if minor < CLASSES_WITHOUT_CLAIM && requests_classes(seen) => warn(
            format!("{is_known}, and a policy requests devices of a class without a claim"),
            format!(
                "attach them by claim or plugin in `values`, or upgrade to 1.{CLASSES_WITHOUT_CLAIM}: before that, the \
                 pods stay pending unless the feature gate `DRAExtendedResource` is on"
            ),
        ),
        _ => ok(is_known),
    }
}

/// Returns whether the operator gave a policy a device class.
fn requests_classes(seen: &Seen<'_>) -> bool {
    let adds =
        |policy: &Policy| policy.devices().added.resources.iter().any(|name| name.starts_with(DEVICE_CLASS));
    seen.policies().is_ok_and(|policies| policies.policies().iter().any(adds))
}

pub(super) fn servers(seen: &Seen<'_>) -> Found {
    seen.facts.deployments.as_ref().map_err(unread)?;
    let Ok(deployment) = seen.deployment() else {
        let none = "no Deployment with the label `app.kubernetes.io/component: webhook` runs `serve` of this program";
        return fail(none, "install the chart, or correct `--name`");
    };
    let (name, namespace) = (name(deployment), seen.release.namespace().unwrap_or_default());
    let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or(1);
    let [ready, updated] = ["readyReplicas", "updatedReplicas"]
        .map(|key| deployment["status"][key].as_u64().unwrap_or_default());
    let counts = format!("the Deployment `{namespace}/{name}` has {ready} of {wanted} replicas ready");
    let remedy =
        format!("see `kubectl describe deployment {name} --namespace {namespace}` and the log of its pods");
    let with_reasons = |counts: String| [&[counts][..], &waiting(seen, deployment)].concat().join("\n");
    match ready {
        _ if wanted == 0 => fail(
            format!("the Deployment `{namespace}/{name}` is scaled to 0: no server runs"),
            format!(
                "`kubectl scale deployment {name} --namespace {namespace} --replicas=2`, or upgrade the release"
            ),
        ),
        0 => fail(with_reasons(counts), remedy),
        _ if ready < wanted || updated < wanted => {
            warn(with_reasons(format!("{counts}, and {updated} updated")), remedy)
        }
        _ => ok(counts),
    }
}

/// Why servers do not run, a line for each: pods that are not created, not scheduled or not started.
fn waiting(seen: &Seen<'_>, deployment: &Value) -> Vec<String> {
    let condition = |object: &Value, kind: &str, status: &str| {
        let mut all = list(&object["status"], "conditions");
        let found = all.find(|one| one["type"] == kind && one["status"] == status)?;
        Some(text(found, "message").to_owned())
    };
    let of_pod = |pod: &Value| {
        let containers = || list(&pod["status"], "containerStatuses");
        let of_container = containers().find_map(|container| {
            let waits = &container["state"]["waiting"];
            let (reason, message) = (text(waits, "reason"), text(waits, "message"));
            // These are part of each start.
            (!["", "ContainerCreating", "PodInitializing"].contains(&reason))
                .then(|| format!("{reason}: {message}"))
        });
        let of_events = || {
            let events = seen.facts.pod_events.iter().flat_map(|all| list(all, "items"));
            let own = events.filter(|event| event["involvedObject"]["uid"] == pod["metadata"]["uid"]);
            own.last().map(|event| format!("{}: {}", text(event, "reason"), text(event, "message")))
        };
        let is_waiting =
            pod["status"]["phase"] == "Pending" && containers().all(|one| one["started"] != true);
        let unscheduled = condition(pod, "PodScheduled", "False");
        let why = of_container.or(unscheduled).or_else(|| of_events().filter(|_| is_waiting))?;
        Some(format!("`{}`: {}", super::name(pod), why.trim_end_matches(": ")))
    };
    let uncreated = condition(deployment, "ReplicaFailure", "True");
    uncreated
        .into_iter()
        .chain(seen.facts.pods.iter().flat_map(|pods| list(pods, "items")).filter_map(of_pod))
        .collect()
}

/// Compares the version of the servers, by the label of the chart, with that of this program.
pub(super) fn version(seen: &Seen<'_>) -> Found {
    let deployment = seen.deployment()?;
    let image = text(&deployment["spec"]["template"]["spec"]["containers"][0], "image");
    let installed = text(&deployment["metadata"]["labels"], "app.kubernetes.io/version");
    let versions = match installed {
        "" => format!("the Deployment names no version, and has the image `{image}`"),
        _ => format!("version {installed} is installed, with the image `{image}`"),
    };
    if installed == VERSION {
        return ok(versions);
    }
    warn(format!("{versions}, and this command is {VERSION}"), OTHER_VERSION)
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The remedy for what another version may do in another way.
pub(super) const OTHER_VERSION: &str =
    "run the `check` of that version: this one may compute other conditions and policies";

/// Returns whether the Deployment names another version than this program's.
pub(super) fn is_other_version(seen: &Seen<'_>) -> bool {
    let labels = seen.release.deployment.map(|deployment| &deployment["metadata"]["labels"]);
    labels.is_some_and(|labels| !["", VERSION].contains(&text(labels, "app.kubernetes.io/version")))
}
