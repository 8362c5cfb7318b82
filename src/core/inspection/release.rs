//! The installation in a cluster: its Deployment, versions, and the names of its other objects.

use serde_json::Value;

use super::{Facts, Line, Read, items, name};

/// The name of the webhook for pods.
pub const WEBHOOK: &str = "pods.fabric-injector.io";
/// The oldest supported minor version of Kubernetes 1, as in the chart.
const OLDEST: u64 = 30;

/// The installation, as far as it was found.
#[derive(Debug, Clone, Copy)]
pub struct Release<'f> {
    pub webhook: Option<&'f Value>,
    pub deployment: Option<&'f Value>,
}

impl<'f> Release<'f> {
    /// Finds the installation, by the name of the release or of its objects if one is given.
    pub fn find(webhooks: &'f Read, deployments: &'f Read, wanted: Option<&str>) -> Self {
        let webhook = webhooks.as_ref().ok().and_then(|list| registered(list, wanted).next());
        let mut found = Self { webhook, deployment: None };
        let of_webhook = |object: &&Value| match (wanted, found.service()) {
            (None, Some((service, namespace))) => {
                name(object) == service && object["metadata"]["namespace"] == namespace
            }
            _ => true,
        };
        let mut servers = deployments.iter().flat_map(items).filter(|object| {
            is_called(object, wanted) && arguments(object).next() == Some("serve") && of_webhook(object)
        });
        found.deployment = servers.next();
        found
    }

    /// The name of most of its objects, and the beginning of the others'.
    pub fn name(&self) -> Option<&'f str> {
        self.webhook.or(self.deployment).map(name)
    }

    /// The namespace of the servers.
    pub fn namespace(&self) -> Option<&'f str> {
        let of_service = self.service().map(|(_, namespace)| namespace);
        of_service.or(self.deployment.and_then(|object| object["metadata"]["namespace"].as_str()))
    }

    /// Name and namespace of the Service that the API server calls.
    pub fn service(&self) -> Option<(&'f str, &'f str)> {
        crate::core::registration::service(self.webhook?)
    }

    /// The value of an option of the server.
    pub fn option(&self, option: &str) -> Option<&'f str> {
        self.options(option).next()
    }

    /// Returns whether the server has an option without a value.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.deployment.into_iter().flat_map(arguments).any(|argument| argument == flag)
    }

    /// The values of an option of the server that may be given several times.
    pub fn options<'o>(&self, option: &'o str) -> impl Iterator<Item = &'f str> + use<'f, 'o> {
        let arguments = self.deployment.into_iter().flat_map(arguments);
        arguments.filter_map(move |argument| argument.strip_prefix(option)?.strip_prefix('='))
    }

    /// The ConfigMap from which the server has a file or a folder.
    pub fn config_map(&self, path: &str) -> Option<&'f str> {
        self.volume(path)?["configMap"]["name"].as_str()
    }

    /// The Secret with the serving certificate.
    pub fn secret(&self) -> Option<&'f str> {
        let mounted = || self.volume(self.option("--tls-dir")?)?["secret"]["secretName"].as_str();
        self.option("--manage-secret").or_else(mounted)
    }

    fn volume(&self, path: &str) -> Option<&'f Value> {
        let pod = &self.deployment?["spec"]["template"]["spec"];
        let mut mounts = pod["containers"][0]["volumeMounts"].as_array()?.iter();
        let mount = mounts.find(|mount| {
            let rest = mount["mountPath"].as_str().and_then(|at| path.strip_prefix(at));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })?;
        pod["volumes"].as_array()?.iter().find(|volume| volume["name"] == mount["name"])
    }

    pub(super) fn is_in_audit_mode(&self) -> bool {
        self.option("--mode") == Some("audit")
    }
}

/// The webhook configurations of this program.
pub(super) fn registered<'v>(
    webhooks: &'v Value,
    wanted: Option<&str>,
) -> impl Iterator<Item = &'v Value> + use<'v> {
    let wanted = wanted.map(str::to_owned);
    items(webhooks).filter(move |object| {
        let mut entries = object["webhooks"].as_array().into_iter().flatten();
        is_called(object, wanted.as_deref()) && entries.any(|entry| entry["name"] == WEBHOOK)
    })
}

fn is_called(object: &Value, wanted: Option<&str>) -> bool {
    let labels = &object["metadata"]["labels"];
    wanted.is_none_or(|wanted| name(object) == wanted || labels["app.kubernetes.io/instance"] == wanted)
}

/// The arguments of the server.
fn arguments(deployment: &Value) -> impl Iterator<Item = &str> {
    let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array();
    arguments.into_iter().flatten().filter_map(Value::as_str)
}

pub(super) fn kubernetes(version: &Read) -> Line {
    const CHECK: &str = "kubernetes";
    let version = match version {
        Ok(version) => version,
        Err(error) => return Line::unread(CHECK, error),
    };
    let text = |key: &str| version[key].as_str().unwrap_or_default();
    let digits: String = text("minor").chars().take_while(char::is_ascii_digit).collect();
    let seen = format!("the API server is {}", text("gitVersion"));
    match digits.parse::<u64>() {
        Ok(minor) if minor < OLDEST => {
            let remedy =
                format!("upgrade the cluster to 1.{OLDEST} or newer, which has the conditions of webhooks");
            Line::fail(CHECK, seen, &remedy)
        }
        _ => Line::ok(CHECK, seen),
    }
}

pub(super) fn servers(facts: &Facts, release: &Release<'_>) -> Line {
    const CHECK: &str = "release";
    if let Err(error) = &facts.deployments {
        return Line::unread(CHECK, error);
    }
    let Some(deployment) = release.deployment else {
        let seen = "no Deployment with the label `app.kubernetes.io/component: webhook` runs `serve` of this program";
        return Line::fail(CHECK, seen, "install the chart, or correct `--name`");
    };
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    let (wanted, status) = (&deployment["spec"]["replicas"], &deployment["status"]);
    let (wanted, ready) = (wanted.as_u64().unwrap_or(1), count(&status["readyReplicas"]));
    let place = format!("{}/{}", release.namespace().unwrap_or_default(), name(deployment));
    let seen = format!("the Deployment `{place}` has {ready} of {wanted} replicas ready");
    let remedy = format!(
        "see `kubectl describe deployment {} --namespace {}` and the log of its pods",
        name(deployment),
        release.namespace().unwrap_or_default()
    );
    if ready == 0 {
        return Line::fail(CHECK, seen, &remedy);
    }
    if ready < wanted || count(&status["updatedReplicas"]) < wanted {
        return Line::warn(CHECK, format!("{seen}, or not updated yet"), &remedy);
    }
    Line::ok(CHECK, seen)
}

/// The version of the servers, by the label of the chart.
pub(super) fn version(release: &Release<'_>) -> Option<Line> {
    const CHECK: &str = "version";
    let own = env!("CARGO_PKG_VERSION");
    let deployment = release.deployment?;
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    let image = image.as_str().unwrap_or_default();
    let installed =
        deployment["metadata"]["labels"]["app.kubernetes.io/version"].as_str().unwrap_or("unknown");
    let seen = format!("version {installed} is installed, with the image `{image}`");
    Some(if installed == own {
        Line::ok(CHECK, seen)
    } else {
        let remedy = "run the `check` of that version: this one may compute other conditions and policies";
        Line::warn(CHECK, format!("{seen}, and this command is {own}"), remedy)
    })
}
