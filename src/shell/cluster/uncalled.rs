//! The causes for which a pod has no trace of the webhook.
//!
//! The API server does not report to a client which webhooks it called, nor that it ignored a failed call. The registration
//! shows what it does, as far as the client may read that.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Client;
use kube::core::{Selector, SelectorExt};
use serde_json::Value;
use tokio::time::timeout;

use super::api::{cause, client};

/// The name of the webhook in the chart.
const WEBHOOK: &str = "pods.fabric-injector.io";
/// The time within which the API server has to answer each request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The registration of the webhook, as far as the client may read it.
#[derive(Debug)]
struct Registration {
    /// The name of the configuration.
    configuration: String,
    webhook: Value,
    /// The labels of the pod's namespace.
    labels: Option<BTreeMap<String, String>>,
    /// The ready endpoints of the Service.
    replicas: Option<usize>,
}

/// Returns the known causes for a pod in a namespace, and what to do.
pub(crate) async fn uncalled(namespace: &str) -> String {
    match registration(namespace).await {
        Ok(Some(registration)) => registration.explain(namespace),
        Ok(None) => format!(
            "no webhook `{WEBHOOK}` is registered; install fabric-injector again, or see who deleted its configuration"
        ),
        Err(error) => format!(
            "the API server did not call the webhook, or ignored a failed call (`failurePolicy: Ignore`); which of them is not \
             known: the webhook configurations cannot be read: {error}"
        ),
    }
}

impl Registration {
    fn explain(&self, namespace: &str) -> String {
        let Self { configuration, webhook, labels, replicas } = self;
        if labels.as_ref().is_some_and(|labels| !selects(&webhook["namespaceSelector"], labels)) {
            return format!(
                "the API server did not call the webhook: the `namespaceSelector` of `{configuration}` excludes the \
                 namespace `{namespace}`"
            );
        }
        let conditions = format!(
            "kubectl get mutatingwebhookconfiguration {configuration} -o jsonpath='{{.webhooks[*].matchConditions}}'"
        );
        if webhook["failurePolicy"] != "Ignore" {
            return format!(
                "the pod does not meet the `matchConditions` of `{configuration}`, or no policy matches it; a failed call would \
                 have been an error (`failurePolicy: Fail`): {conditions}"
            );
        }
        let service = &webhook["clientConfig"]["service"];
        let service = format!(
            "{}/{}",
            service["namespace"].as_str().unwrap_or_default(),
            service["name"].as_str().unwrap_or_default()
        );
        let ignored = format!(
            "so that the API server ignores the failed call (`failurePolicy: Ignore` of `{configuration}`)"
        );
        if webhook["clientConfig"]["caBundle"].as_str().is_none_or(str::is_empty) {
            return format!("`caBundle` is empty, {ignored}; see the log of the replicas");
        }
        if *replicas == Some(0) {
            return format!("the Service `{service}` has no ready replica, {ignored}");
        }
        format!(
            "either the pod does not meet the `matchConditions` of `{configuration}`, or the API server ignored a failed call \
             (`failurePolicy: Ignore`), which it counts in `apiserver_admission_webhook_fail_open_count`: {conditions}"
        )
    }
}

/// Returns whether a selector selects the labels; a selector that is not valid selects all.
fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let selector: Option<LabelSelector> = serde_json::from_value(selector.clone()).ok();
    selector.and_then(|selector| Selector::try_from(selector).ok()).is_none_or(|one| one.matches(labels))
}

async fn registration(namespace: &str) -> anyhow::Result<Option<Registration>> {
    let client = client().await?;
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    let configurations = get(&client, path).await?;
    let ours = configurations["items"].as_array().into_iter().flatten().find_map(|configuration| {
        let mut webhooks = configuration["webhooks"].as_array()?.iter();
        let webhook = webhooks.find(|webhook| webhook["name"] == WEBHOOK)?;
        Some((configuration["metadata"]["name"].as_str()?.to_owned(), webhook.clone()))
    });
    let Some((configuration, webhook)) = ours else { return Ok(None) };
    let labels = get(&client, &format!("/api/v1/namespaces/{namespace}")).await.ok();
    let labels = labels.and_then(|found| serde_json::from_value(found["metadata"]["labels"].clone()).ok());
    let replicas = replicas(&client, &webhook["clientConfig"]["service"]).await;
    Ok(Some(Registration { configuration, webhook, labels, replicas }))
}

/// The number of ready endpoints of a Service, if the client may read them.
async fn replicas(client: &Client, service: &Value) -> Option<usize> {
    let (namespace, name) = (service["namespace"].as_str()?, service["name"].as_str()?);
    let path = format!(
        "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D{name}"
    );
    let slices = get(client, &path).await.ok()?;
    let endpoints = slices["items"].as_array()?.iter().filter_map(|slice| slice["endpoints"].as_array());
    Some(endpoints.flatten().filter(|endpoint| endpoint["conditions"]["ready"] != false).count())
}

async fn get(client: &Client, path: &str) -> anyhow::Result<Value> {
    let request = client.request(Request::get(path).body(Vec::new())?);
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => anyhow::bail!("{}", status.message),
        Ok(Err(error)) => anyhow::bail!("{}", cause(&error)),
        Err(_) => anyhow::bail!("the API server did not answer within 5s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn explained(failure_policy: &str, bundle: &str, team: &str, replicas: Option<usize>) -> String {
        let webhook = json!({
            "failurePolicy": failure_policy,
            "clientConfig": {"service": {"namespace": "system", "name": "fabric"}, "caBundle": bundle},
            "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["web"]}]},
        });
        let labels = Some(BTreeMap::from([("team".to_owned(), team.to_owned())]));
        Registration { configuration: "fabric".to_owned(), webhook, labels, replicas }.explain("jobs")
    }

    #[test]
    fn each_known_cause_is_reported() {
        for (explained, wanted) in [
            (
                explained("Ignore", "Y2E=", "web", Some(0)),
                "the `namespaceSelector` of `fabric` excludes the namespace `jobs`",
            ),
            (
                explained("Fail", "Y2E=", "gpu", Some(0)),
                "a failed call would have been an error (`failurePolicy: Fail`)",
            ),
            (
                explained("Ignore", "", "gpu", Some(2)),
                "`caBundle` is empty, so that the API server ignores the failed call",
            ),
            (
                explained("Ignore", "Y2E=", "gpu", Some(0)),
                "the Service `system/fabric` has no ready replica, so that",
            ),
            (
                explained("Ignore", "Y2E=", "gpu", Some(2)),
                "either the pod does not meet the `matchConditions`",
            ),
            (explained("Ignore", "Y2E=", "gpu", None), "or the API server ignored a failed call"),
        ] {
            assert!(explained.contains(wanted), "{explained}");
        }
    }

    #[test]
    fn a_selector_that_cannot_be_read_excludes_nothing() {
        let labels = BTreeMap::new();
        assert!(selects(&Value::Null, &labels) && selects(&json!({"matchExpressions": 1}), &labels));
        assert!(!selects(&json!({"matchLabels": {"fabric": "on"}}), &labels));
    }
}
