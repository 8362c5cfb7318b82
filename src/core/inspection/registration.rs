//! The registration: webhook, certificate, conditions, and the policies of the API server.

use core::time::Duration;

use serde_json::Value;

use crate::core::counted;
use crate::core::policy_set::PolicySet;
use crate::core::registration::{ASKS, Condition, differing_condition, guard_conditions, webhook_conditions};

use super::release::registered;
use super::{Certificate, Facts, Line, Release, is_forbidden, items, name, names};

/// The remedy for an object that is not as the chart has it.
const APPLY: &str = "apply the chart or the output of `fabric-injector manifests` again";
/// The longest time before the expiry of a certificate that is reported.
const SOON: Duration = Duration::from_secs(7 * 24 * 60 * 60);

pub(super) fn webhook(facts: &Facts, release: &Release<'_>) -> Line {
    const CHECK: &str = "webhook";
    let all = match &facts.webhooks {
        Ok(all) => all,
        Err(error) => return Line::unread(CHECK, error),
    };
    let Some(webhook) = release.webhook else {
        let seen = format!("no MutatingWebhookConfiguration has a webhook `{}`", super::WEBHOOK);
        return Line::fail(CHECK, format!("{seen}: no pod is injected"), APPLY);
    };
    let ours: Vec<&str> = registered(all, None).map(name).collect();
    if ours.len() > 1 {
        let seen = format!("{} are registered, and the API server calls each for the same pods", names(ours));
        return Line::fail(CHECK, seen, "uninstall all but one; `--name` chooses the one to check");
    }
    let Some((service, namespace)) = release.service() else {
        return Line::fail(CHECK, format!("`{}` calls no Service", name(webhook)), APPLY);
    };
    let entry = &webhook["webhooks"][0];
    let policy = entry["failurePolicy"].as_str().unwrap_or("Fail");
    let seen =
        format!("`{}` calls the Service `{namespace}/{service}`, `failurePolicy: {policy}`", name(webhook));
    Line::ok(CHECK, seen)
}

pub(super) fn endpoints(facts: &Facts, release: &Release<'_>) -> Line {
    const CHECK: &str = "endpoints";
    let Some((service, namespace)) = release.service() else { return Line::without(CHECK, "the webhook") };
    let slices = match &facts.endpoints {
        Ok(slices) => slices,
        Err(error) => return Line::unread(CHECK, error),
    };
    let endpoints = items(slices).filter_map(|slice| slice["endpoints"].as_array()).flatten();
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false).count();
    if ready == 0 {
        let seen = format!("the Service `{namespace}/{service}` has no ready replica");
        return Line::fail(
            CHECK,
            seen,
            "start a replica, or see why none is ready: the line `release` has the command",
        );
    }
    Line::ok(CHECK, format!("the Service `{namespace}/{service}` has {}", counted(ready, "ready endpoint")))
}

pub(super) fn certificate(facts: &Facts, release: &Release<'_>) -> Line {
    const CHECK: &str = "certificate";
    let Some(webhook) = release.webhook else { return Line::without(CHECK, "the webhook") };
    let entries = webhook["webhooks"].as_array().into_iter().flatten();
    if entries.clone().any(|entry| entry["clientConfig"]["caBundle"].as_str().is_none_or(str::is_empty)) {
        let seen =
            format!("`caBundle` of `{}` is empty, so that API servers trust no replica", name(webhook));
        return Line::fail(CHECK, seen, source(release));
    }
    let Certificate { secret, accepted, expires, left, duration } = match &facts.certificate {
        Ok(certificate) => certificate,
        Err(error) if is_forbidden(error) => return Line::unread(CHECK, error),
        Err(_) if release.secret().is_none() => return Line::without(CHECK, "the Secret of the certificate"),
        Err(error) => return Line::fail(CHECK, error.as_str(), source(release)),
    };
    if let Err(error) = accepted {
        let seen = format!(
            "API servers do not accept the certificate of the Secret `{secret}` with `caBundle` of `{}`: {error}",
            name(webhook)
        );
        return Line::fail(CHECK, seen, source(release));
    }
    let seen = format!(
        "the certificate of the Secret `{secret}` is one of `caBundle`, and valid until {expires} ({} days)",
        left.as_secs() / (24 * 60 * 60)
    );
    if *left < SOON.min(*duration / 4) {
        return Line::warn(CHECK, format!("{seen}, which is soon"), source(release));
    }
    Line::ok(CHECK, seen)
}

/// What to do about a certificate, by its source.
fn source(release: &Release<'_>) -> &'static str {
    let annotations = release.webhook.map_or(&Value::Null, |webhook| &webhook["metadata"]["annotations"]);
    if release.option("--manage-webhook").is_some() {
        "the replicas renew it and write `caBundle`: see their log for `reconciliation failed`"
    } else if annotations["cert-manager.io/inject-ca-from"].is_string() {
        "cert-manager renews it and writes `caBundle`: see `kubectl describe certificate` and the log of its CA injector"
    } else {
        "renew the certificate in the Secret, and set `tls.caBundle` to the CA that signed it"
    }
}

pub(super) fn conditions(facts: &Facts, release: &Release<'_>) -> Line {
    const CHECK: &str = "conditions";
    let Some(webhook) = release.webhook else { return Line::without(CHECK, "the webhook") };
    let conditions = webhook["webhooks"][0]["matchConditions"].as_array();
    if !conditions.into_iter().flatten().any(|condition| condition["name"] == ASKS) {
        let seen =
            format!("`{}` has no condition `{ASKS}`: other pods depend on the webhook, too", name(webhook));
        return Line::fail(CHECK, seen, APPLY);
    }
    match in_step(facts, webhook, |policies| webhook_conditions(policies).to_vec()) {
        Ok(()) => Line::ok(CHECK, format!("the conditions of `{}` are those of the policies", name(webhook))),
        Err(line) => Line { check: CHECK, ..line },
    }
}

/// Compares the conditions of an object with those of the policies.
fn in_step(facts: &Facts, object: &Value, wanted: impl Fn(&PolicySet) -> Vec<Condition>) -> Result<(), Line> {
    let Ok(policies) = &facts.policies else {
        return Err(Line::warn("", "not compared with those of the policies, which cannot be loaded", ""));
    };
    let Some(differing) = differing_condition(object, &wanted(policies)) else { return Ok(()) };
    let seen = format!("the condition `{differing}` of `{}` is not that of the policies", name(object));
    Err(Line::fail("", seen, APPLY))
}

pub(super) fn guard(facts: &Facts, release: &Release<'_>) -> Line {
    const CHECK: &str = "guard";
    let (policy, binding) = match [&facts.guard[0], &facts.guard[1]] {
        [Err(error), _] | [_, Err(error)] => return Line::unread(CHECK, error),
        [Ok(policy), Ok(binding)] => (policy, binding),
    };
    let Some(release_name) = release.name() else { return Line::without(CHECK, "the installation") };
    if policy.is_null() && binding.is_null() {
        if release.is_in_audit_mode() {
            return Line::ok(CHECK, "none, because the servers are in audit mode");
        }
        let seen = format!(
            "there is no ValidatingAdmissionPolicy `{release_name}-guard`: nothing reports pods that were not injected"
        );
        let remedy = format!("if `guard.enabled` is not `false`, it was deleted: {APPLY}");
        return Line::warn(CHECK, seen, &remedy);
    }
    if let Some(line) = unbound(CHECK, policy, binding, &format!("{release_name}-guard")) {
        return line;
    }
    match in_step(facts, policy, |policies| guard_conditions(policies).to_vec()) {
        Ok(()) => {
            let actions = binding["spec"]["validationActions"].as_array().into_iter().flatten();
            let actions: Vec<&str> = actions.filter_map(Value::as_str).collect();
            Line::ok(CHECK, format!("`{}` is bound, with the actions {}", name(policy), names(actions)))
        }
        Err(line) => Line { check: CHECK, ..line },
    }
}

/// The policy that restricts the token of servers that manage their certificate.
pub(super) fn token(facts: &Facts, release: &Release<'_>) -> Option<Line> {
    const CHECK: &str = "token";
    release.option("--manage-webhook")?;
    let wanted = format!("{}-token", release.name()?);
    Some(match [&facts.token[0], &facts.token[1]] {
        [Err(error), _] | [_, Err(error)] => Line::unread(CHECK, error),
        [Ok(policy), Ok(binding)] => unbound(CHECK, policy, binding, &wanted)
            .unwrap_or_else(|| Line::ok(CHECK, format!("`{wanted}` restricts the token of the servers"))),
    })
}

/// The line for a ValidatingAdmissionPolicy that has no effect.
fn unbound(check: &'static str, policy: &Value, binding: &Value, wanted: &str) -> Option<Line> {
    let seen = match (policy.is_null(), binding.is_null()) {
        (true, _) => format!("there is no ValidatingAdmissionPolicy `{wanted}`"),
        (_, true) => format!(
            "there is no ValidatingAdmissionPolicyBinding `{wanted}`, so that the policy has no effect"
        ),
        _ if binding["spec"]["policyName"] != wanted => {
            format!(
                "the ValidatingAdmissionPolicyBinding `{wanted}` binds the policy {}",
                binding["spec"]["policyName"]
            )
        }
        _ => return None,
    };
    Some(Line::fail(check, seen, APPLY))
}
